"""Whom what is held counts for: a connection and its policy, whatever a caller says of itself."""

from collections.abc import Hashable
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.metrics import Metrics
from bendybus.frontend.core.quota.bounds import TOKEN_BYTES
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.listeners import request_values
from bendybus.frontend.listeners.receiver_service import ReceiverService
from bendybus.frontend.settings import Settings
from bendybus.v1 import receiver_pb2

pytestmark = pytest.mark.requirement("R635")


class Receives:
    """Takes note of the owner of each receive."""

    def __init__(self) -> None:
        self.owners: list[Hashable] = []

    async def receive(self, *given: Any) -> list[Any]:
        """Return no messages."""
        self.owners.append(given[-1])
        return []


class Context:
    """The context of a call."""

    def peer(self) -> str:
        """Return the connection."""
        return "ipv4:a"

    def time_remaining(self) -> float:
        """Return the seconds that are left."""
        return 60.0


async def test_a_name_that_a_client_gives_itself_is_no_name_of_a_client_of_another_policy() -> None:
    receives = Receives()
    front_end: Any = SimpleNamespace(receives=receives, metrics=Metrics())
    anything: Any = None
    service, context = ReceiverService(front_end, anything), Context()
    for policy in ("p", "q"):
        request_values.HOLDER.set(Holder(context.peer(), policy))
        for client_id in ("", "me", "me"):
            request = receiver_pb2.ReceiveRequest(entity_path="orders", client_id=client_id)
            await service.Receive(request, context)  # type: ignore[arg-type]

    unnamed, named, again, *others = receives.owners
    assert named == again
    assert named not in others
    assert unnamed == "ipv4:a"


async def test_settlements_are_accounted_for_until_their_outcomes_are_read() -> None:
    front_end = FrontEnd(Settings(partitions={}))

    with front_end.deliveries.of("a") as connection, connection.stream() as flow:
        await flow.take_tokens(1_000)
        assert front_end.accounted_bytes() == 1_000 * TOKEN_BYTES
        flow.give_tokens(400)
        assert front_end.accounted_bytes() == 600 * TOKEN_BYTES
    assert front_end.accounted_bytes() == 0


def test_answers_that_clients_have_not_read_are_accounted_for() -> None:
    front_end = FrontEnd(Settings(partitions={}))

    with front_end.send_answers.of("a") as connection, connection.stream() as flow:
        flow.handed(500)
        assert front_end.accounted_bytes() == 500
        # A client that reads no answers to its sends is handed messages all the same.
        assert front_end.deliveries.unread_bytes == 0
    assert front_end.accounted_bytes() == 0
