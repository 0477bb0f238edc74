"""Batch deletes over partitions: repeats delete no more; a lost answer is no definite no."""

from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from bendybus.domain import errors
from bendybus.domain.limits import Tier
from bendybus.domain.message_state import MessageState, ReceiveMode
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import batch_delete, by_number
from bendybus.frontend.core.batch_delete import BatchDelete
from bendybus.internal.v1 import partition_pb2
from bendybus.wire import batch_deletes
from tests.frontend.entities import queue

PARTITIONS = 3
ME = b"m" * 16


def lost() -> grpc.RpcError:
    """Return what a call ends with whose answer was lost."""
    return grpc.aio.AioRpcError(
        grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), "Socket closed"
    )


class Partition:
    """Deletes what it holds, and remembers what an operation deleted."""

    def __init__(self, index: int, messages: int) -> None:
        self.partition, self.available, self.calls = index, True, self
        self.messages = messages
        # What the next calls end with, after they did their work.
        self.errors: list[Exception] = []
        self._known: dict[bytes, int] = {}

    def conditions(self) -> list[str]:
        """Return why it cannot be asked."""
        return []

    async def DeleteMessages(
        self, request: partition_pb2.DeleteMessagesRequest, timeout: float
    ) -> Any:
        """Delete, once for each operation."""
        known = self._known.get(request.operation_id)
        if known is None and request.only_known:
            known = 0
        elif known is None:
            known = min(self.messages, request.max_messages)
            self.messages -= known
            self._known[request.operation_id] = known
        if self.errors:
            raise self.errors.pop(0)
        return partition_pb2.DeleteMessagesResponse(deleted=known)

    async def ReceiveDeferred(self, request: Any, timeout: float) -> Any:
        """Answer with nothing, or not at all."""
        raise self.errors.pop(0)


def bus(*messages: int) -> Any:
    """Return what batch deletes need of a front end."""
    entity = queue(partitions=len(messages))
    return SimpleNamespace(
        upstreams={index: Partition(index, count) for index, count in enumerate(messages)},
        directory=SimpleNamespace(
            find=lambda name: entity,
            fingerprint=SimpleNamespace(tier=Tier.PREMIUM),
        ),
        settings=SimpleNamespace(unary_timeout_s=5.0),
        receives=None,
    )


async def delete(front_end: Any, count: int = 5, *, age_ms: int = 0) -> int:
    """Delete up to `count` messages under one name."""
    request = BatchDelete("orders", SubQueue.MAIN, count, operation_id=ME, age_ms=age_ms)
    return await batch_delete.delete_messages(front_end, request)


def left(front_end: Any) -> int:
    """Return how many messages there are."""
    return sum(each.messages for each in front_end.upstreams.values())


async def test_a_repeat_deletes_no_more_though_a_partition_is_away_that_deleted_before() -> None:
    front_end = bus(10, 10, 10)
    assert await delete(front_end) == 5
    front_end.upstreams[0].available = False

    with pytest.raises(errors.OutcomeUnknown):
        await delete(front_end, age_ms=1_000)

    assert left(front_end) == 25


async def test_a_repeat_deletes_no_more_though_a_partition_is_back_that_was_passed_over() -> None:
    front_end = bus(10, 10, 10)
    front_end.upstreams[0].available = False
    assert await delete(front_end) == 5
    front_end.upstreams[0].available = True

    assert await delete(front_end, age_ms=1_000) == 5

    assert left(front_end) == 25


async def test_a_repeat_deletes_the_rest_where_the_first_try_did_not_come() -> None:
    front_end = bus(3, 10, 10)
    front_end.upstreams[0].errors = [lost()]
    with pytest.raises(errors.OutcomeUnknown):
        await delete(front_end)
    assert left(front_end) == 20

    assert await delete(front_end, age_ms=1_000) == 5

    assert left(front_end) == 18


async def test_what_some_partitions_deleted_is_told_though_another_refuses() -> None:
    front_end = bus(3, 10, 1)
    front_end.upstreams[1].available = False

    assert await delete(front_end) == 4


async def test_a_lost_answer_to_a_receive_of_deferred_messages_is_of_unknown_outcome() -> None:
    front_end = bus(1, 1, 1)
    front_end.upstreams[0].errors = [lost()]

    with pytest.raises(errors.OutcomeUnknown):
        await by_number.receive_deferred(
            front_end, by_number.Operation("orders", SubQueue.MAIN, [1]), ReceiveMode.PEEK_LOCK
        )


@pytest.mark.requirement("R195")
async def test_states_and_age_reach_every_partition() -> None:
    front_end = bus(1, 1)
    asked: list[Any] = []
    for each in front_end.upstreams.values():
        each.DeleteMessages = keeping(each.DeleteMessages, asked)
    states = frozenset({MessageState.DEFERRED, MessageState.SCHEDULED})

    request = BatchDelete("orders", SubQueue.MAIN, 5, enqueued_before_ms=7_000, states=states)
    await batch_delete.delete_messages(front_end, request)

    assert [(batch_deletes.states(each), batch_deletes.before_ms(each)) for each in asked] == [
        (states, 7_000)
    ] * 2


def keeping(delete: Any, asked: list[Any]) -> Any:
    """Return a call that keeps its requests."""

    async def kept(request: Any, timeout: float) -> Any:
        asked.append(request)
        return await delete(request, timeout)

    return kept
