"""What a destination refuses: it waits, in order, and is set aside when that has lasted."""

from dataclasses import replace
from typing import Any

import pytest

from bendybus.domain import limits
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity_settings import EntityStatus
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.message_state import ACTIVE_ONLY
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state.commands import DeleteMessages
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.driver import Driver
from tests.partition_server.forwarding_driver import bodies, held, locked, send

LASTS_MS = limits.FORWARD_REFUSED_MS
ASIDE = SubQueue.TRANSFER_DEAD_LETTER


@pytest.fixture
def pair(driver: Driver) -> Driver:
    """Return a partition where `orders` forwards to `audit`."""
    driver.create("audit")
    driver.create("orders", forward_to="audit")
    return driver


def disable(driver: Driver) -> None:
    commit(driver, EntityAction.UPDATE, "audit", changes={"status": EntityStatus.SEND_DISABLED})


def delete(driver: Driver) -> None:
    commit(driver, EntityAction.DELETE, "audit")


@pytest.mark.requirement("R147")
@pytest.mark.parametrize(
    ("refuse", "reason"), [(disable, "EntityDisabled"), (delete, "EntityNotFound")]
)
def test_a_refusal_that_lasts_sets_messages_aside(pair: Driver, refuse: Any, reason: str) -> None:
    refuse(pair)
    send(pair, "orders", b"one", b"two")

    pair.sweep()
    for _ in range(LASTS_MS // 1_000 - 1):
        pair.advance(1_000)
    assert bodies(pair, "orders") == [b"one", b"two"]
    pair.advance(1_000)

    assert bodies(pair, "orders") == []
    rows = held(pair, "orders", ASIDE)
    assert [(row.payload, row.dead_letter_reason) for row in rows] == [
        (b"one", reason),
        (b"two", reason),
    ]
    assert "audit" in rows[0].dead_letter_error_description
    counts = pair.counts_of("orders")
    assert (counts.transfer_dead_letter, counts.dead_letter, counts.messages) == (2, 0, 2)
    assert pair.partition.state.forwards.due.first() is None


@pytest.mark.requirement("R333")
def test_what_was_set_aside_and_is_deferred_counts_as_set_aside(pair: Driver) -> None:
    disable(pair)
    send(pair, "orders", b"one", b"two")
    pair.sweep()
    for _ in range(LASTS_MS // 1_000):
        pair.advance(1_000)

    pair.settle(Disposition.DEFER, locked(pair, "orders", 1, ASIDE))

    counts = pair.counts_of("orders")
    assert (counts.transfer_dead_letter, counts.deferred, counts.dead_letter) == (2, 0, 0)


@pytest.mark.requirement("R147")
def test_a_refusal_that_ends_in_time_sets_nothing_aside(pair: Driver) -> None:
    disable(pair)
    send(pair, "orders", b"one")
    pair.sweep()
    pair.advance(LASTS_MS - 1_000)

    commit(pair, EntityAction.UPDATE, "audit", changes={"status": EntityStatus.ACTIVE})
    pair.advance(1_000)

    assert (bodies(pair, "audit"), bodies(pair, "orders", ASIDE)) == ([b"one"], [])
    disable(pair)
    send(pair, "orders", b"two")
    pair.advance(LASTS_MS - 1_000)
    assert bodies(pair, "orders") == [b"two"]


@pytest.mark.requirement("R147")
def test_a_destination_that_is_made_again_takes_them(pair: Driver) -> None:
    delete(pair)
    send(pair, "orders", b"one")
    pair.sweep()

    commit(pair, EntityAction.CREATE, "audit", uid="another")
    pair.advance(1_000)

    assert bodies(pair, "audit") == [b"one"]


def fill(driver: Driver, left_bytes: int) -> None:
    """Leave so much room at `audit`."""
    state = driver.partition.state.queues.main_of(driver.ref("audit").uid).state
    state.size_bytes += 1_024 * limits.MB - left_bytes


@pytest.mark.requirement("R147")
def test_nothing_overtakes_a_message_that_a_full_destination_has_no_room_for(
    pair: Driver,
) -> None:
    fill(pair, 2_000)

    send(pair, "orders", b"s1", b"l" * 5_000, b"s2")
    pair.sweep()

    assert bodies(pair, "audit") == [b"s1"]
    assert bodies(pair, "orders") == [b"l" * 5_000, b"s2"]
    pair.partition.state.queues.main_of(pair.ref("audit").uid).state.size_bytes = 0
    pair.advance(1_000)
    assert bodies(pair, "audit")[1:] == [b"l" * 5_000, b"s2"]


@pytest.mark.requirement("R147")
def test_a_destination_that_stays_full_sets_aside_only_what_has_no_room(pair: Driver) -> None:
    fill(pair, 2_000)
    send(pair, "orders", b"s1", b"l" * 5_000, b"s2")
    pair.sweep()

    pair.advance(LASTS_MS)

    assert bodies(pair, "audit") == [b"s1", b"s2"]
    [row] = held(pair, "orders", ASIDE)
    assert (row.payload, row.dead_letter_reason) == (b"l" * 5_000, "QuotaExceeded")
    assert bodies(pair, "orders") == []


@pytest.mark.requirement("R147")
def test_what_the_destination_never_takes_is_set_aside_at_once(driver: Driver) -> None:
    driver.create("by-session", requires_session=True)
    driver.create("orders", forward_to="by-session")
    columns: dict[str, Any] = {
        "session_ids": ["s", "", "s"],
        "session_present": [True, False, True],
    }

    send(driver, "orders", b"one", b"none", b"two", **columns)
    driver.sweep()

    assert bodies(driver, "by-session") == [b"one", b"two"]
    [row] = held(driver, "orders", ASIDE)
    assert (row.payload, row.dead_letter_reason) == (b"none", "InvalidOperation")
    assert "SessionId was not set" in row.dead_letter_error_description


@pytest.mark.requirement("R147")
def test_a_message_that_is_too_large_there_is_set_aside(driver: Driver) -> None:
    driver.create("small", max_message_size_in_kilobytes=1_024)
    driver.create("orders", forward_to="small", max_message_size_in_kilobytes=1_024)
    state = driver.partition.state
    send(driver, "orders", b"x" * 2_000)

    small = state.catalogue.by_key("small")
    assert small is not None
    state.queues.main_of(small.uid).entity = small_of(small, 1)
    driver.sweep()

    [row] = held(driver, "orders", ASIDE)
    assert row.dead_letter_reason == "MessageSizeExceeded"


def small_of(entity: Any, kilobytes: int) -> Any:
    described = replace(entity.description, max_message_size_in_kilobytes=kilobytes)
    return replace(entity, description=described)


@pytest.mark.requirement("R147")
def test_a_disk_without_room_makes_messages_wait_however_long(pair: Driver) -> None:
    send(pair, "orders", b"one")
    pair.partition.state.sends_refused = "the disk is full"

    for _ in range(3):
        pair.advance(LASTS_MS)
    assert bodies(pair, "orders") == [b"one"]
    pair.partition.state.sends_refused = ""
    pair.advance(1_000)

    assert bodies(pair, "audit") == [b"one"]


@pytest.mark.requirement("R147")
def test_what_was_set_aside_is_received_settled_and_purged(pair: Driver) -> None:
    delete(pair)
    send(pair, "orders", b"one", b"two", b"three")
    pair.sweep()
    pair.advance(LASTS_MS)

    tokens = locked(pair, "orders", 2, ASIDE)
    assert not pair.settle(Disposition.COMPLETE, tokens[:16]).failures
    assert pair.settle(Disposition.DEAD_LETTER, tokens[16:]).failures
    for _ in range(12):
        pair.settle(Disposition.ABANDON, tokens[16:])
        tokens = tokens[:16] + locked(pair, "orders", 1, ASIDE)
    pair.advance(60_001)
    ref = pair.ref("orders")._replace(sub_queue=ASIDE)
    pair.run(DeleteMessages("t", ref, 10, 0, ACTIVE_ONLY))

    pair.sweep()
    assert bodies(pair, "orders", ASIDE) == []
    assert pair.counts_of("orders").size_bytes == 0


@pytest.mark.requirement("R147")
def test_an_entity_that_never_needed_it_has_no_transfer_dead_letter_queue(pair: Driver) -> None:
    slots = len(list(pair.partition.state.queues))

    assert bodies(pair, "orders", ASIDE) == []
    assert len(list(pair.partition.state.queues)) == slots + 1
    assert slots == 4


@pytest.mark.requirement("R147")
def test_the_minute_begins_again_when_the_destination_has_taken_something(pair: Driver) -> None:
    disable(pair)
    send(pair, "orders", b"one")
    pair.advance(LASTS_MS // 2)
    commit(pair, EntityAction.UPDATE, "audit", changes={"status": EntityStatus.ACTIVE})
    pair.advance(10_000)
    assert bodies(pair, "audit") == [b"one"]

    disable(pair)
    send(pair, "orders", b"two")
    pair.sweep()
    pair.advance(LASTS_MS - 1_000)
    assert bodies(pair, "orders") == [b"two"]
    pair.advance(1_000)

    assert [row.payload for row in held(pair, "orders", ASIDE)] == [b"two"]
