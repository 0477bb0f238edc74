"""Reading a partition by number: the tail is stable, ranges repeat, nothing is locked."""

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.disposition import Disposition
from bendybus.domain.limits import KB, MB
from bendybus.domain.message_state import ACTIVE_ONLY, EVERY_STATE, MessageState
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, BrowseRange, DeleteMessages, GetRange
from tests.partition_server import draining
from tests.partition_server.draining import bodies, number_at, page, range_of
from tests.partition_server.driver import Driver
from tests.partition_server.transacting import sending, settling, transact

DEAD = ("orders", SubQueue.DEAD_LETTER)


@pytest.mark.requirement("R273")
def test_a_range_is_after_one_number_and_up_to_another(queue: Driver) -> None:
    queue.send(b"a", b"b", b"c", b"d")

    assert bodies(queue, 1, 3) == [b"b", b"c"]
    assert bodies(queue) == [b"a", b"b", b"c", b"d"]
    assert bodies(queue, 4) == []
    assert bodies(queue, 0, 99) == [b"a", b"b", b"c", b"d"]


@pytest.mark.requirement("R273")
def test_pages_go_on_after_each_other_and_say_where_the_range_is_done(queue: Driver) -> None:
    queue.send(*[b"x"] * 5)

    first = page(queue, count=2)
    second = page(queue, first.next_after, 0, count=2)
    third = page(queue, second.next_after, 0, count=2)

    assert [len(each.delivery.rows) for each in (first, second, third)] == [2, 2, 1]
    assert [each.complete for each in (first, second, third)] == [False, False, True]
    assert third.next_after == 5


@pytest.mark.requirement("R273")
def test_a_page_that_ends_exactly_with_the_range_is_the_last(queue: Driver) -> None:
    queue.send(*[b"x"] * 4)

    assert page(queue, 0, 2, count=2).complete
    assert not page(queue, 0, 3, count=2).complete


@pytest.mark.requirement("R273")
def test_a_page_is_bounded_in_bytes_but_shows_one_message(queue: Driver) -> None:
    queue.send(b"x" * 700 * KB)
    queue.send(b"y" * 700 * KB)

    first = page(queue)
    small = page(queue, 1, 0, size_bytes=10)

    assert [len(row.payload) for row in first.delivery.rows] == [700 * KB]
    assert first.next_after == 1
    assert not first.complete
    assert len(small.delivery.rows) == 1
    assert 1_400 * KB > 1 * MB


def test_a_range_shows_what_is_locked_and_locks_nothing(queue: Driver) -> None:
    queue.send(b"a", b"b")
    queue.receive(1)

    assert bodies(queue) == [b"a", b"b"]
    assert len(queue.receive(5)) == 1


def test_a_range_without_bodies_has_heads(queue: Driver) -> None:
    queue.send(b"body", heads=[b"head"], formats=[1])
    queue.send(b"whole")

    rows = page(queue, bodies=False).delivery.rows

    assert [(row.head, row.payload) for row in rows] == [(b"head", b""), (b"", b"whole")]


@pytest.mark.parametrize(
    ("states", "shown"),
    [
        (ACTIVE_ONLY, [b"active"]),
        (frozenset({MessageState.DEFERRED}), [b"deferred"]),
        (EVERY_STATE, [b"deferred", b"active", b"scheduled"]),
    ],
)
def test_a_range_shows_the_states_that_are_asked_for(
    queue: Driver, states: frozenset[MessageState], shown: list[bytes]
) -> None:
    queue.send(b"deferred")
    [(_, token)] = queue.receive(1)
    queue.settle(Disposition.DEFER, token)
    queue.send(b"active")
    queue.send(b"scheduled", scheduled_ms=[queue.wall_ms + 5_000])

    found = page(queue, states=states)

    assert [row.payload for row in found.delivery.rows] == shown
    assert found.complete


def test_pages_without_a_message_of_the_state_go_on(queue: Driver) -> None:
    queue.send(*[b"active"] * 4)
    queue.send(b"scheduled", scheduled_ms=[queue.wall_ms + 5_000])
    only = frozenset({MessageState.SCHEDULED})

    first = page(queue, count=3, states=only)
    second = page(queue, first.next_after, 0, count=3, states=only)

    assert (list(first.delivery.rows), first.next_after, first.complete) == ([], 3, False)
    assert [row.payload for row in second.delivery.rows] == [b"scheduled"]


# Nothing becomes visible at or below the tail any more.


@pytest.mark.requirement("R273")
def test_a_page_looks_through_a_bounded_range_and_passes_over_what_is_gone(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RANGE_SPAN", 10)
    later = queue.wall_ms + 60_000
    queue.send(*[b"later"] * 15, scheduled_ms=[later] * 15)
    queue.send(*[b"gone"] * 45)
    queue.receive(45, delete=True)
    queue.send(b"a", b"b")

    found = [page(queue)]
    while not found[-1].complete:
        found.append(page(queue, found[-1].next_after))

    assert [each.next_after for each in found] == [10, 60, 62]
    assert [row.payload for each in found for row in each.delivery.rows] == [b"a", b"b"]


@pytest.mark.requirement("R273")
def test_a_read_of_the_same_turn_ends_before_what_is_not_committed(queue: Driver) -> None:
    queue.send(b"a")
    of = queue.ref()

    # The send is decided in the same turn: it is committed before the read looks.
    _, read, shown = queue.run(
        Append("t", of, Batch([b"b"])), GetRange("t", of), BrowseRange("t", of, 0, 0, 10, 0)
    )

    assert read.tail == 2
    assert [row.payload for row in shown.delivery.rows] == [b"a", b"b"]


@pytest.mark.requirement("R273")
def test_what_a_transaction_sends_arrives_above_the_tail(queue: Driver) -> None:
    queue.send(b"before")
    tail = range_of(queue).tail

    transact(queue, sending(queue.ref(), b"one", b"two"))

    assert bodies(queue, 0, tail) == [b"before"]
    assert bodies(queue, tail) == [b"one", b"two"]


@pytest.mark.requirement("R273")
def test_a_transaction_that_is_refused_leaves_the_tail(queue: Driver) -> None:
    queue.send(b"before")

    transact(queue, sending(queue.ref(), b"one"), settling(Disposition.COMPLETE, b"x" * 16))

    assert range_of(queue).tail == 1
    queue.send(b"after")
    assert bodies(queue, 1) == [b"after"]


@pytest.mark.requirement("R273")
def test_a_scheduled_message_becomes_active_above_the_tail(queue: Driver) -> None:
    queue.send(b"late", scheduled_ms=[queue.wall_ms + 5_000])
    queue.send(b"now")
    tail = range_of(queue).tail

    queue.advance(5_000)

    assert bodies(queue, 0, tail) == [b"now"]
    assert bodies(queue, tail) == [b"late"]


@pytest.mark.requirement("R273")
def test_a_dead_letter_arrives_above_the_tail_of_the_dead_letters(queue: Driver) -> None:
    queue.send(b"early", b"late")
    [(_, early), (_, late)] = queue.receive(2)
    queue.settle(Disposition.DEAD_LETTER, late)
    tail = range_of(queue, *DEAD).tail

    queue.settle(Disposition.DEAD_LETTER, early)

    assert bodies(queue, 0, tail, *DEAD) == [b"late"]
    assert bodies(queue, tail, 0, *DEAD) == [b"early"]


@pytest.mark.requirement("R285")
def test_numbers_of_dead_letters_are_of_another_incarnation_than_those_of_the_queue(
    queue: Driver,
) -> None:
    queue.send(b"a")
    found = {
        range_of(queue, "orders", sub_queue).incarnation
        for sub_queue in (SubQueue.MAIN, SubQueue.DEAD_LETTER)
    }

    assert len(found) == 2


@pytest.mark.requirement("R273")
def test_a_forwarded_message_arrives_above_the_tail(driver: Driver) -> None:
    driver.create("target")
    driver.create("orders")
    driver.create("source", forward_to="target")
    for name, body in (("source", b"first"), ("target", b"second")):
        driver.run(Append("t", driver.ref(name), Batch([body])))
    tail = range_of(driver, "target").tail
    shown = bodies(driver, 0, tail, "target")

    driver.advance(1_000)

    assert bodies(driver, 0, tail, "target") == shown
    assert sorted(bodies(driver, 0, 0, "target")) == [b"first", b"second"]


@pytest.mark.requirement("R273")
def test_the_tail_stays_when_all_messages_are_gone_and_over_a_restart(queue: Driver) -> None:
    queue.send(b"a", b"b")
    for _, token in queue.receive(2):
        queue.settle(Disposition.COMPLETE, token)
    before = range_of(queue)

    queue.restart()

    assert (before.tail, before.first) == (2, 0)
    assert range_of(queue) == before


# What is gone for good


@pytest.mark.requirement("R274")
def test_the_low_watermark_is_the_last_message_that_expired_unread(queue: Driver) -> None:
    queue.send(b"short", time_to_live_ms=[1_000])
    queue.send(b"long")
    queue.advance(1_000)
    queue.receive(1)

    found = range_of(queue)

    assert (found.lost, found.first, found.tail) == (1, 2, 2)
    queue.restart()
    assert range_of(queue).lost == 1


@pytest.mark.requirement("R274")
def test_the_low_watermark_rises_with_a_batch_delete(queue: Driver) -> None:
    queue.send(b"a", b"b", b"c")

    queue.run(DeleteMessages("t", queue.ref(), 2, 0, ACTIVE_ONLY))

    assert range_of(queue).lost == 2
    assert page(queue).lost == 2


@pytest.mark.requirement("R274")
def test_what_receivers_settle_is_not_lost_nor_what_is_dead_lettered(queue: Driver) -> None:
    queue.send(b"a", b"b")
    [(_, first), (_, second)] = queue.receive(2)

    queue.settle(Disposition.COMPLETE, first)
    queue.settle(Disposition.DEAD_LETTER, second)

    assert range_of(queue).lost == 0


# The number at a time


@pytest.mark.requirement("R279")
def test_the_number_at_a_time_is_that_before_the_first_message_from_then_on(queue: Driver) -> None:
    times = []
    for body in (b"a", b"b", b"c"):
        times.append(queue.wall_ms)
        queue.send(body)
        queue.advance(1_000)

    found = [number_at(queue, at) for at in (times[0], times[0] + 1, times[1], times[2] + 1)]

    assert [(each.after, each.found) for each in found] == [
        (0, True),
        (1, True),
        (1, True),
        (3, True),
    ]


@pytest.mark.requirement("R279")
def test_the_number_at_a_time_passes_over_what_is_gone(queue: Driver) -> None:
    for _ in range(20):
        queue.send(b"x")
        queue.advance(1_000)
    for _, token in queue.receive(20)[3:17]:
        queue.settle(Disposition.COMPLETE, token)
    middle = queue.wall_ms - 10_000

    found = number_at(queue, middle)

    assert bodies(queue, found.after) == [b"x"] * 3


@pytest.mark.requirement("R279")
def test_dead_letters_are_looked_through_since_their_times_do_not_rise(queue: Driver) -> None:
    start = queue.wall_ms
    queue.send(b"old")
    queue.advance(10_000)
    queue.send(b"new")
    [(_, old), (_, new)] = queue.receive(2)
    queue.settle(Disposition.DEAD_LETTER, new)
    queue.settle(Disposition.DEAD_LETTER, old)

    assert number_at(queue, start + 5_000, *DEAD).after == 0
    assert number_at(queue, start + 20_000, *DEAD).after == 2


def test_numbers_out_of_bounds_are_refused(queue: Driver) -> None:
    with pytest.raises(errors.InvalidArgument, match="after"):
        page(queue, 2**45)
    with pytest.raises(errors.InvalidArgument, match="upto"):
        page(queue, 0, 2**45)
    with pytest.raises(errors.InvalidArgument, match="enqueued_time"):
        draining.number_at(queue, -1)
