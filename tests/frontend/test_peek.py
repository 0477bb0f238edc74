"""Peeks over partitions: whose answer counts, where the next one goes on, how much is shown."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.domain import limits, sequence_number
from bendybus.domain.errors import PartitionUnavailable
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import peek
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import message_pb2
from tests import sequence_numbers
from tests.frontend.entities import queue

PARTITIONS = 4


def batch(partition: int, counters: Sequence[int], size: int = 10) -> message_pb2.DeliveredBatch:
    """Return messages of a partition."""
    numbers = [sequence_numbers.of(partition, counter) for counter in counters]
    return message_pb2.DeliveredBatch(
        messages=[b"x" * size] * len(numbers), sequence_numbers=numbers
    )


class Partition:
    """Answers peeks with what it holds; `answers` lets it answer."""

    def __init__(self, index: int, counters: Sequence[int] = (), size: int = 10) -> None:
        self.partition, self.available = index, True
        self.calls = self
        self.answers = asyncio.Event()
        self.answers.set()
        self.asked: list[partition_pb2.PeekRequest] = []
        self._counters, self._size = counters, size

    def conditions(self) -> list[str]:
        """Return why it cannot be asked."""
        return []

    async def Peek(self, request: partition_pb2.PeekRequest, timeout: float) -> Any:
        """Answer with the messages from a number on."""
        self.asked.append(request)
        await self.answers.wait()
        start = sequence_number.counter_of(request.from_sequence_number)
        found = [n for n in self._counters if n >= start][: request.max_messages]
        return partition_pb2.PeekResponse(batch=batch(self.partition, found, self._size))


def front_end(*partitions: Partition) -> Any:
    """Return what browsing needs of a front end."""
    return SimpleNamespace(
        upstreams={each.partition: each for each in partitions},
        directory=SimpleNamespace(find=lambda name: queue(partitions=PARTITIONS)),
        settings=SimpleNamespace(unary_timeout_s=5.0),
    )


def four(make: Callable[[int], Partition]) -> list[Partition]:
    """Return all partitions."""
    return [make(index) for index in range(PARTITIONS)]


async def shown_by(
    bus: Any, count: int = 10, cursor: bytes = b"", number: int = 0
) -> tuple[list[int], bytes]:
    """Return the numbers that a peek shows, and its cursor."""
    request = peek.Peek("orders", SubQueue.MAIN, count, number, cursor)
    async with asyncio.timeout(10):
        shown = await peek.peek(bus, request)
    return [n for each in shown.batches for n in each.sequence_numbers], shown.cursor


@pytest.mark.requirement("R15")
async def test_a_peek_does_not_wait_for_partitions_that_answer_later() -> None:
    partitions = four(lambda index: Partition(index, [1]))
    for late in (0, 1, 3):
        partitions[late].answers.clear()

    shown, _ = await shown_by(front_end(*partitions))

    assert shown == [sequence_numbers.of(2, 1)]


@pytest.mark.requirement("R15")
async def test_an_empty_answer_does_not_end_a_peek_while_others_may_have_messages() -> None:
    partitions = four(lambda index: Partition(index, [1] if index == 3 else []))
    partitions[3].answers.clear()
    peeking = asyncio.create_task(shown_by(front_end(*partitions)))
    # The empty answers are there before the one that counts.
    for _ in range(100):
        await asyncio.sleep(0)
    assert partitions[3].asked

    partitions[3].answers.set()

    assert (await peeking)[0] == [sequence_numbers.of(3, 1)]


@pytest.mark.requirement("R17", "R39")
async def test_repeated_peeks_show_every_message_once() -> None:
    bus = front_end(*four(lambda index: Partition(index, range(1, 8))))

    seen: list[int] = []
    cursor = b""
    while True:
        shown, cursor = await shown_by(bus, 3, cursor)
        if not shown:
            break
        seen += shown

    assert len(seen) == len(set(seen)) == 4 * 7


@pytest.mark.requirement("R46")
@pytest.mark.requirement("R17", "R39")
async def test_a_peek_by_number_goes_on_through_the_partitions_after_it() -> None:
    bus = front_end(*four(lambda index: Partition(index, [1, 2, 3])))

    shown, cursor = await shown_by(bus, 4, number=sequence_numbers.of(1, 2))
    rest, _ = await shown_by(bus, 100, cursor)

    expected = [(1, 2), (1, 3), (2, 1), (2, 2)]
    assert shown == [sequence_numbers.of(*each) for each in expected]
    # What follows; the cursor skips what lies before the number.
    assert rest
    assert {sequence_numbers.partition_of(n) for n in rest} <= {2, 3}


@pytest.mark.requirement("R38")
async def test_a_peek_asks_for_256_kb_and_shows_no_more_however_much_it_gets() -> None:
    partitions = four(lambda index: Partition(index, [1, 2, 3], size=100_000))

    shown, _ = await shown_by(front_end(*partitions), 100)

    assert [each.asked[0].max_bytes for each in partitions] == [limits.PEEK_BYTES_MAX] * 4
    assert len(shown) == limits.PEEK_BYTES_MAX // 100_000


@pytest.mark.requirement("R38")
async def test_a_peek_by_number_shows_what_is_exactly_as_large_as_it_may_be() -> None:
    half = limits.PEEK_BYTES_MAX // 2
    partitions = four(lambda index: Partition(index, [1], size=half))

    shown, _ = await shown_by(front_end(*partitions), 100, number=1)

    assert [sequence_numbers.partition_of(n) for n in shown] == [0, 1]


@pytest.mark.requirement("R38")
async def test_a_message_that_is_larger_than_a_peek_is_shown_alone() -> None:
    partitions = four(lambda index: Partition(index, [1], size=limits.PEEK_BYTES_MAX + 1))

    shown, _ = await shown_by(front_end(*partitions), 100)

    assert len(shown) == 1


async def test_a_peek_that_no_partition_can_answer_is_an_error() -> None:
    partitions = four(Partition)
    for each in partitions:
        each.available = False

    with pytest.raises(PartitionUnavailable):
        await peek.peek(front_end(*partitions), peek.Peek("orders"))
