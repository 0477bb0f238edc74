"""A settlement that waited for room on its way to a partition, which then does not answer."""

import asyncio

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.frontend.core import repeated_settles, settle
from bendybus.frontend.core.metrics import Metrics
from bendybus.frontend.core.repeated_settles import RepeatedSettles
from bendybus.frontend.core.settle import SettleDispatcher
from bendybus.frontend.upstreams.deliver_frames import Settled
from tests.frontend.test_settle import Partition, ask, partition, settlement
from tests.frontend.test_stream import settle_down

__all__ = ["partition"]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settle, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(settle, "SWEEP_S", 0.05)


@pytest.mark.requirement("R453")
async def test_a_settlement_that_waited_for_room_times_out_like_any_other(
    partition: Partition,
) -> None:
    for _ in range(2):
        while partition._delivers.put(ask(1)):
            pass
        # The first ones are on their way.
        await settle_down()
    settles = SettleDispatcher({0: partition}, Metrics())
    settling = asyncio.ensure_future(settles.settle(settlement(Disposition.COMPLETE)))
    await settle_down()
    assert not partition.kinds()

    partition.call.taking.set()
    async with asyncio.timeout(2):
        outcome = await settling

    assert "settle" in partition.kinds()
    [(indexes, error)] = outcome.failures
    assert list(indexes) == [0]
    assert isinstance(error, errors.OutcomeUnknown)


@pytest.mark.requirement("R648")
async def test_locks_count_until_their_partition_answers_though_their_time_is_over(
    partition: Partition,
) -> None:
    partition.call.taking.set()
    settles = SettleDispatcher({0: partition}, Metrics())
    answered, let_go = asyncio.Event(), asyncio.Event()

    settling = settles.start(settlement(Disposition.COMPLETE), lambda _: answered.set(), let_go.set)
    async with asyncio.timeout(2):
        await answered.wait()

    assert isinstance(settling.outcome.failures[0][1], errors.OutcomeUnknown)
    await asyncio.sleep(0.1)
    assert not let_go.is_set()
    [settle_id] = settling.waiting
    settles.settled(Settled(settle_id, [([0], errors.MessageLockLost("late"))], 0, 0))
    assert let_go.is_set()
    assert len(settling.outcome.failures) == 1


@pytest.mark.requirement("R648")
async def test_what_nobody_counts_is_forgotten_when_its_time_is_over(
    partition: Partition,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeated_settles, "REPEAT_S", 0.0)
    partition.call.taking.set()
    settles = SettleDispatcher({0: partition}, Metrics())

    async with asyncio.timeout(2):
        outcome = await RepeatedSettles(settles).settle(settlement(Disposition.COMPLETE))

    assert isinstance(outcome.failures[0][1], errors.OutcomeUnknown)
    assert not settles._waiting
