"""A scheduled message that waits in a topic and whose publishing raises: the others go on."""

import pytest

from bendybus.partition_server.rules import publish
from bendybus.partition_server.state import awaiting_room, faults
from tests.partition_server import topic_changes
from tests.partition_server.driver import Driver
from tests.partition_server.faulty_rules import break_function
from tests.partition_server.test_awaiting_room import capacity, received, schedule

NAMES = (b"1", b"poison", b"3", b"4", b"5")


def break_publishing(monkeypatch: pytest.MonkeyPatch, message_id: str) -> None:
    """Let the publishing of a scheduled message raise."""
    break_function(
        monkeypatch, publish, "activate", lambda _turn, _topic, row: row.message_id == message_id
    )


def wait_for_room(driver: Driver, monkeypatch: pytest.MonkeyPatch, *names: bytes) -> list[int]:
    """Schedule messages that are due when their topic has no room; return their numbers."""
    topic_changes.make_news(driver)
    numbers = schedule(driver, *names)
    with monkeypatch.context() as patched:
        capacity(patched, 1_024)
        driver.advance(10_000)
    assert received(driver) == []
    return numbers


@pytest.mark.requirement("R460")
def test_a_scheduled_message_that_raises_does_not_hold_up_those_that_wait_with_it(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_for_room(faulty, monkeypatch, *NAMES)
    with monkeypatch.context() as patched:
        break_publishing(patched, "poison")
        faulty.advance(awaiting_room.RETRY_MS)

        assert received(faulty) == ["1", "3", "4", "5"]
        assert faulty.counts_of("news").scheduled == 1
        assert faulty.partition.state.wait_ms(faulty.now) != 0
        # It is tried again, less and less often.
        faulty.partition.state.faults.take()
        for _ in range(120):
            faulty.advance(faults.PAUSE_MS)
        assert 3 <= len(faulty.partition.state.faults.take()) <= 20
        # What becomes due meanwhile comes.
        schedule(faulty, b"6")
        faulty.advance(1_001)
        assert received(faulty) == ["6"]

    faulty.advance(faults.PAUSE_MS_MAX)

    assert received(faulty) == ["poison"]
    assert faulty.counts_of("news").scheduled == 0


@pytest.mark.requirement("R460")
def test_many_that_raise_take_no_places_of_those_that_wait(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaiting_room, "WAITING_MAX", 2)
    names = [b"poison"] * 5 + [b"6", b"7"]
    wait_for_room(faulty, monkeypatch, *names)
    break_publishing(monkeypatch, "poison")

    faulty.advance(awaiting_room.RETRY_MS)

    assert received(faulty) == ["6", "7"]
    assert faulty.counts_of("news").scheduled == 5


@pytest.mark.requirement("R460")
def test_the_fault_of_a_scheduled_message_names_it(
    faulty: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = wait_for_room(faulty, monkeypatch, *NAMES)
    break_publishing(monkeypatch, "poison")

    faulty.advance(awaiting_room.RETRY_MS)

    [fault] = faulty.partition.state.faults.take()
    assert (fault.work, fault.entity) == ("AWAITING_ROOM", "news")
    assert fault.error.__notes__ == [f"sequence number {numbers[1]}"]
