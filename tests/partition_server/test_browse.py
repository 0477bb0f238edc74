"""Peek and batch delete, inside one partition."""

from itertools import combinations

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.domain.limits import KB, PEEK_BYTES_MAX
from bendybus.domain.message_state import ACTIVE_ONLY, EVERY_STATE, MessageState
from bendybus.partition_server.state.answers import Done
from bendybus.partition_server.state.commands import DeleteMessages, Peek, ReceiveDeferred, Settle
from tests.partition_server.driver import Driver

STATES = [set(each) for n in (1, 2) for each in combinations(EVERY_STATE, n)]


@pytest.mark.requirement("R14")
def test_peek_shows_active_locked_deferred_and_scheduled_oldest_first(queue: Driver) -> None:
    queue.send(b"locked", b"deferred", b"active")
    [_, (_, token)] = queue.receive(2)
    queue.settle(Disposition.DEFER, token)
    queue.send(b"scheduled", scheduled_ms=[queue.wall_ms + 5_000])

    rows = queue.peek()

    assert [row.payload for row in rows] == [b"locked", b"deferred", b"active", b"scheduled"]
    assert [row.state for row in rows] == [0, 1, 0, 2]


def test_peek_locks_nothing(queue: Driver) -> None:
    queue.send(b"a")

    queue.peek()

    assert len(queue.receive()) == 1


@pytest.mark.requirement("R17")
def test_peek_goes_on_from_a_number(queue: Driver) -> None:
    queue.send(b"a", b"b", b"c")

    [peeked] = queue.run(Peek("t", queue.ref(), 0, 2, PEEK_BYTES_MAX))
    rest = queue.peek(peeked.next_number)

    assert [row.payload for row in rest] == [b"c"]


@pytest.mark.requirement("R38")
def test_peek_stops_at_256_kilobytes_but_shows_one_message(queue: Driver) -> None:
    queue.send(b"x" * 200 * KB)
    queue.send(b"x" * 200 * KB)
    queue.send(b"x" * 900 * KB)

    [first] = queue.run(Peek("t", queue.ref(), 0, 10, PEEK_BYTES_MAX))
    [large] = queue.run(Peek("t", queue.ref(), 3, 10, PEEK_BYTES_MAX))

    assert len(first.delivery.rows) == 1
    assert first.next_number == 2
    assert len(large.delivery.rows) == 1


def test_peek_shows_dead_letters(queue: Driver) -> None:
    queue.send(b"a")
    [(_, token)] = queue.receive()
    queue.settle(Disposition.DEAD_LETTER, token, dead_letter_reason="r")

    [row] = queue.peek(dead_letter=True)

    assert row.dead_letter_reason == "r"


def delete(queue: Driver, count: int = 100, *, before_ms: int = 0, everything: bool = False) -> int:
    """Delete messages; return how many."""
    [done] = queue.run(
        DeleteMessages(
            "t", queue.ref(), count, before_ms, EVERY_STATE if everything else ACTIVE_ONLY
        )
    )
    assert isinstance(done, Done), done
    return done.count


def test_delete_takes_the_oldest_and_leaves_locked_deferred_and_scheduled(queue: Driver) -> None:
    queue.send(b"locked", b"deferred", b"a", b"b", b"c")
    [_, (_, token)] = queue.receive(2)
    queue.settle(Disposition.DEFER, token)
    queue.send(b"scheduled", scheduled_ms=[queue.wall_ms + 5_000])

    assert delete(queue, 2) == 2

    assert [row.payload for row in queue.peek()] == [b"locked", b"deferred", b"c", b"scheduled"]
    assert [row.payload for row, _ in queue.receive(5)] == [b"c"]


def test_a_purge_takes_deferred_and_scheduled_too(queue: Driver) -> None:
    queue.send(b"deferred", b"a")
    [(row, token)] = queue.receive()
    queue.settle(Disposition.DEFER, token)
    queue.send(b"scheduled", scheduled_ms=[queue.wall_ms + 5_000])

    assert delete(queue, everything=True) == 3

    counts = queue.counts()
    assert (counts.active, counts.deferred, counts.scheduled, counts.size_bytes) == (0, 0, 0, 0)
    [answer] = queue.run(ReceiveDeferred("t", queue.ref(), False, [row.counter]))
    assert isinstance(answer.error, errors.MessageNotFound)


@pytest.mark.requirement("R195")
@pytest.mark.parametrize(
    "states", [set(each) for n in (1, 2) for each in combinations(EVERY_STATE, n)]
)
@pytest.mark.parametrize("old", [True, False])
def test_a_purge_takes_the_states_and_the_age_that_are_asked_for(
    queue: Driver, states: set[MessageState], old: bool
) -> None:
    bodies = {}
    for age in (True, False):
        names = {state: f"{state.name} {age}".encode() for state in EVERY_STATE}
        queue.send(names[MessageState.DEFERRED])
        [*_, (_, token)] = queue.receive(10)
        queue.settle(Disposition.DEFER, token)
        queue.send(names[MessageState.SCHEDULED], scheduled_ms=[queue.wall_ms + 500_000])
        bodies.update({(state, age): name for state, name in names.items()})
        queue.advance(1_000)
    for age in (True, False):
        queue.send(bodies[MessageState.ACTIVE, age])
    before_ms = queue.wall_ms - 1_500 if old else 0

    command = DeleteMessages("t", queue.ref(), 100, before_ms, frozenset(states))
    queue.run(command)

    gone = {
        body
        for (state, age), body in bodies.items()
        if state in states and (not old or (age and state is not MessageState.ACTIVE))
    }
    assert {row.payload for row in queue.peek()} == set(bodies.values()) - gone


def test_delete_stops_at_a_time(queue: Driver) -> None:
    queue.send(b"old")
    queue.advance(1_000)
    queue.send(b"new")

    assert delete(queue, before_ms=queue.wall_ms) == 1
    assert [row.payload for row in queue.peek()] == [b"new"]


def test_what_is_deleted_is_not_received_from_the_window(queue: Driver) -> None:
    queue.send(b"a", b"b", b"c")
    queue.receive(1)

    delete(queue)

    assert queue.receive(5) == []


def test_settling_and_deleting_in_one_turn_do_not_collide(queue: Driver) -> None:
    queue.send(b"a", b"b")
    [(_, token)] = queue.receive()

    queue.run(
        Settle("s", 1, Disposition.COMPLETE, token),
        DeleteMessages("t", queue.ref(), 10, 0, ACTIVE_ONLY),
    )

    counts = queue.counts()
    assert (counts.active, counts.size_bytes) == (0, 0)
