"""How messages without a key are dealt to partitions."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from bendybus.client import ServiceBusMessage
from bendybus.client.core import round_robin, send_queue, send_stream
from bendybus.client.core.retry_policy import RetryPolicy
from bendybus.client.core.send_queue import SendLimit
from bendybus.client.messages.encode import Columns
from bendybus.domain import errors
from bendybus.v1 import sender_pb2
from bendybus.wire import statuses
from tests.client.outcome import Outcome


def units_of(size: int) -> list[send_queue.Unit]:
    """Return units of one message without a key, in their places in a frame."""
    columns = Columns()
    columns.add(ServiceBusMessage("x"))
    units = [send_queue.Unit("q", columns, Outcome(), 60.0) for _ in range(size)]
    for position, unit in enumerate(units):
        unit.position = position
    return units


@pytest.mark.requirement("R29")
@pytest.mark.parametrize("pause_s", [0.0, 0.01, 0.3, 10.0])
@pytest.mark.parametrize("sizes", [[1, 63], [1], [320], [64, 1, 1_000, 7], [200, 30]])
@pytest.mark.parametrize("partitions", [2, 4, 16])
def test_no_partition_ever_has_more_than_twice_its_share_whatever_the_sizes_of_frames(
    sizes: list[int], partitions: int, pause_s: float
) -> None:
    round_robin_, got, sent = round_robin.RoundRobin(), Counter[int](), 0
    for turn in range(200):
        size = sizes[turn % len(sizes)]
        lane, run = round_robin_.assign("q", units_of(size), turn * pause_s)
        for position in range(size):
            got[(lane + position // run) % partitions] += 1
        sent += size
        # And one, because messages cannot be divided.
        assert max(got.values()) <= 2 * sent / partitions + 1


@pytest.mark.requirement("R29")
@pytest.mark.parametrize("partitions", [2, 4, 8, 16])
@pytest.mark.parametrize("before", [0, 100_000])
def test_sends_at_once_are_spread_over_all_partitions(partitions: int, before: int) -> None:
    round_robin_ = round_robin.RoundRobin()
    for _ in range(before // 1_000):
        round_robin_.assign("q", units_of(1_000), 0.0)

    # A moment after whatever was sent before.
    lane, run = round_robin_.assign("q", units_of(320), 2.0)

    got = Counter((lane + position // run) % partitions for position in range(320))
    assert got == dict.fromkeys(range(partitions), 320 // partitions)


def test_a_connection_that_sends_much_is_not_slowed_down_by_short_runs() -> None:
    round_robin_, runs, frames = round_robin.RoundRobin(), 0, 500
    for turn in range(frames):
        # 25,000 a second.
        _, run = round_robin_.assign("q", units_of(250), turn * 0.01)
        runs += -(-250 // run)

    assert runs <= frames + 2 * round_robin.LANES * (frames * 0.01 / round_robin.MEMORY_S)


def test_messages_with_a_key_do_not_count_where_others_are_dealt() -> None:
    round_robin_ = round_robin.RoundRobin()
    keyed = Columns()
    keyed.add(ServiceBusMessage("x", partition_key="k"))
    for _ in range(100):
        round_robin_.assign("q", [send_queue.Unit("q", keyed, Outcome(), 60.0)] * 100, 0.0)

    _, run = round_robin_.assign("q", units_of(320), 0.0)

    assert run == 20


@pytest.mark.requirement("R29")
async def test_a_repeat_of_some_units_is_dealt_like_the_first_try() -> None:
    loop = asyncio.get_running_loop()
    rules = send_stream.SendStream(_never, loop, RetryPolicy(), SendLimit())
    for unit in units_of(40):
        rules.send(unit)
    first = rules.next_request()
    assert first is not None
    unknown = statuses.to_error(errors.OutcomeUnknown("it may be stored"))
    failures = [sender_pb2.GroupFailure(group=group, error=unknown) for group in (3, 17)]

    rules.handle(sender_pb2.SendStreamResponse(frame_id=first.frame_id, failures=failures))
    [again] = rules._resting

    assert again.request.positions == [3, 17]
    assert (again.request.lane, again.request.run) == (first.lane, first.run)
    assert first.run == 2
    await rules.close()


async def _never() -> Any:
    raise AssertionError
