"""What streams have open: the end of one looks at nothing of others."""

from typing import Any

from bendybus.domain.errors import PartitionUnavailable
from bendybus.partition_server.state.commands import Ask, StreamEnded
from bendybus.partition_server.state.shares import OpenStreams
from tests.partition_server.driver import Driver


def test_the_end_of_a_stream_returns_its_asks_and_slots_and_forgets_them() -> None:
    streams = OpenStreams()
    streams.ask_opened("a", 1, 4)
    streams.ask_opened("b", 1, 6)
    streams.reserved("a", 4)
    streams.reserved("a", 8)

    assert (streams.asks_of("a"), streams.slots_of("a")) == ([(1, 4)], {4, 8})
    streams.ask_closed("a", 1)
    assert (streams.asks_of("a"), streams.slots_of("a")) == ([], {4, 8})
    streams.forget("a")
    assert (streams.asks_of("a"), streams.slots_of("a")) == ([], set())
    assert streams.slot_of_ask("b", 1) == 6
    assert len(streams) == 1


def test_the_end_of_a_stream_that_is_decided_again_gives_back_what_was_reserved(
    queue: Driver,
) -> None:
    """As with a send beside it that finds no room: the rest of its stage is decided again."""
    queue.send(b"a", b"b")
    queue.reserve(2, stream="s")
    partition, end = queue.partition, StreamEnded("s")

    partition.take_back(partition.decide([end], queue.now))
    queue.run(end)

    assert queue.counts().locked == 0
    assert not partition.state.streams.slots_of("s")


def test_a_stream_whose_end_cannot_be_committed_is_forgotten(queue: Driver) -> None:
    queue.send(b"a")
    queue.reserve(1, stream="s")
    partition = queue.partition

    stage = partition.decide([StreamEnded("s")], queue.now)
    partition.abandon(stage, PartitionUnavailable("no room"), queue.now)

    assert not partition.state.streams.slots_of("s")


def test_a_closed_ask_leaves_nothing_behind() -> None:
    streams = OpenStreams()
    streams.ask_opened("a", 1, 4)

    assert streams.ask_closed("a", 1) == 4
    assert streams.ask_closed("a", 1) is None
    assert len(streams) == 0
    assert streams.slot_of_ask("a", 1) == -1


def test_the_end_of_a_stream_looks_at_no_locks_of_queues_that_gave_it_nothing(
    driver: Driver,
) -> None:
    class Unread(dict[int, Any]):
        def items(self) -> Any:
            raise AssertionError("looked at")

    from bendybus.partition_server.state.commands import Append, Batch

    driver.create("orders")
    driver.create("other")
    for name in ("orders", "other"):
        driver.run(Append("t", driver.ref(name), Batch([b"x"])))
    driver.run(Ask("s", 1, driver.ref("orders"), False, 1, 1 << 20))
    driver.run(Ask("t", 1, driver.ref("other"), False, 1, 1 << 20))
    [other] = [q for q in driver.partition.state.queues if q.entity.name == "other" and q.locks]
    other.locks = Unread(other.locks)

    driver.run(StreamEnded("s"))

    assert driver.counts_of("orders").locked == 0
    assert driver.counts_of("other").locked == 1
