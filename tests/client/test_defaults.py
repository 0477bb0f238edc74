"""What the client fills in where the application says nothing."""

from typing import Any

import pytest

import bendybus.client
from bendybus.client import ServiceBusMessage, aio, arguments
from bendybus.client.core import sender as core_sender
from bendybus.client.core.send_queue import Unit
from tests.client.fake_front_end import FakeFrontEnd


@pytest.mark.requirement("R31")
def test_an_operation_has_60_seconds_unless_the_application_says_otherwise() -> None:
    assert arguments.timeout(None) == 60.0
    assert arguments.timeout(15) == 15.0
    assert arguments.TIMEOUT_S_DEFAULT == 60.0


@pytest.mark.requirement("R26")
async def test_the_bus_gets_a_message_id_for_every_message_that_has_none(
    sender: Any, fake: FakeFrontEnd
) -> None:
    await sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b", message_id="own")])
    await sender.send_messages(ServiceBusMessage("c"))

    ids = [text for *_, texts in fake.frames for text in texts]
    assert ids[1] == "own"
    assert all(ids)
    assert len(set(ids)) == 3


@pytest.mark.requirement("R31")
async def test_a_send_of_either_surface_has_60_seconds_by_default(
    sender: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    def unit(path: str, columns: Any, waiter: Any, timeout_s: float, **options: Any) -> Unit:
        given.append(timeout_s)
        return Unit(path, columns, waiter, timeout_s, **options)

    monkeypatch.setattr(core_sender, "Unit", unit)

    await sender.send_messages(ServiceBusMessage("a"))
    await sender.send_messages(ServiceBusMessage("b"), timeout=5)

    assert given == [60.0, 5.0]


@pytest.mark.requirement("R31")
@pytest.mark.parametrize("surface", [bendybus.client, aio])
@pytest.mark.parametrize("name", ["send_messages", "schedule_messages"])
def test_the_documentation_of_sends_says_how_short_is_too_short(surface: Any, name: str) -> None:
    text = " ".join(getattr(surface.ServiceBusSender, name).__doc__.split())

    assert "60 if None; 15 or less may be too short for another partition to be tried" in text
