"""A request that receives and deletes, when its partition does not say what became of it."""

from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.frontend.core import repeated_settles
from bendybus.frontend.core.repeated_settles import RepeatedSettles
from bendybus.frontend.listeners.web.connection_receives import Received
from bendybus.frontend.listeners.web.message_paths import MessageCall
from bendybus.frontend.listeners.web.messages import Messages
from bendybus.v1 import message_pb2
from tests.frontend.entities import queue
from tests.frontend.test_management_service import front_end_of
from tests.frontend.test_repeated_settles import (
    AWAY,
    BUSY,
    LOST,
    UNKNOWN,
    Partitions,
    at_once,
)

__all__ = ["at_once"]
pytestmark = pytest.mark.requirement("R652")


async def may_be_seen(
    *answers: list[BusError | None], released: list[Received] | None = None
) -> bool:
    """Return whether a client may have message 7, as a partition answers its completion."""
    front_end: Any = front_end_of(1)
    messages = Messages(front_end, SimpleNamespace())  # type: ignore[arg-type]
    settles: Any = Partitions(*answers)
    messages._settles = RepeatedSettles(settles)
    batch = message_pb2.DeliveredBatch(lock_tokens=bytes(16), sequence_numbers=[7])
    nothing: Any = None
    received = Received(queue("orders", partitions=1), batch, nothing, 1, nothing)
    asked: Any = SimpleNamespace(
        guard=SimpleNamespace(has_ended=False), path=SimpleNamespace(call=MessageCall.TAKE)
    )
    receives: Any = SimpleNamespace(
        settler_id=lambda _: b"settler", release=([] if released is None else released).append
    )
    return await messages._may_be_seen(asked, receives, received)


async def test_one_that_is_deleted_is_seen_and_one_whose_lock_is_lost_is_not() -> None:
    assert await may_be_seen([None])
    assert await may_be_seen([UNKNOWN], [None])
    assert not await may_be_seen([LOST])


async def test_one_that_may_be_deleted_is_no_reason_to_take_another_in_silence() -> None:
    with pytest.raises(errors.OutcomeUnknown, match="message 7 may be deleted"):
        await may_be_seen([UNKNOWN], [LOST])


async def test_one_whose_partition_says_nothing_for_too_long_is_named_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeated_settles, "REPEAT_S", 0.0)
    released: list[Received] = []

    with pytest.raises(errors.OutcomeUnknown, match="message 7 may be deleted"):
        await may_be_seen([UNKNOWN], released=released)

    assert released == []


@pytest.mark.parametrize("error", [AWAY, BUSY])
async def test_one_that_is_not_deleted_goes_back(error: BusError) -> None:
    released: list[Received] = []

    with pytest.raises(type(error)):
        await may_be_seen([error], released=released)

    assert [each.batch.sequence_numbers[0] for each in released] == [7]
