"""A settlement whose first try may have been done stays in doubt until somebody knows."""

from typing import Any

import pytest

from bendybus.client.core.retry_policy import RetryPolicy
from bendybus.client.core.settlements import Outcome, Settlement, Settlements
from bendybus.client.exceptions import (
    MessageLockLostError,
    OutcomeUnknownError,
    PartitionUnavailableError,
)
from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.v1 import receiver_pb2
from bendybus.wire import statuses

TOKEN = b"t" * 16
AWAY = errors.PartitionUnavailable("partition 1 is unavailable")
LOST = errors.MessageLockLost("the lock is lost")


class Waiter:
    """Keeps the outcome."""

    def __init__(self) -> None:
        self.outcome: Outcome | None = None
        self.error: BaseException | None = None

    def resolve(self, value: Outcome) -> None:
        """Take the outcome."""
        self.outcome = value

    def fail(self, error: BaseException) -> None:
        """Take the error."""
        self.error = error


def answer(frame: Any, error: BusError) -> receiver_pb2.SettleResult:
    """Return a result in which the only token failed."""
    failure = receiver_pb2.SettleFailure(indexes=[0], error=statuses.to_error(error))
    return receiver_pb2.SettleResult(frame_id=frame.frame_id, failures=[failure])


def told(disposition: Any, *tries: BusError | None) -> type[Exception]:
    """Return what a caller is told; None: the stream breaks before an answer."""
    rules = Settlements(RetryPolicy(total=len(tries) - 1))
    waiter = Waiter()
    rules.add(Settlement(disposition, TOKEN, waiter, 60.0))
    for error in tries:
        frame = rules.next_frame()
        if error is None:
            rules.stream_broke(errors.RetryableError("the stream broke"))
            continue
        for _, again in rules.answered(answer(frame, error)):
            rules.add(again)
    if waiter.error is not None:
        return type(waiter.error)  # type: ignore[return-value]  # set in every case
    assert waiter.outcome is not None
    [(_, found)] = waiter.outcome.errors
    return type(found)


COMPLETE = receiver_pb2.DISPOSITION_COMPLETE
RENEW = receiver_pb2.DISPOSITION_RENEW_LOCK
UNKNOWN = errors.OutcomeUnknown("its stream broke")


@pytest.mark.parametrize(
    ("disposition", "tries", "expected"),
    [
        (COMPLETE, (AWAY,), PartitionUnavailableError),
        (COMPLETE, (LOST,), MessageLockLostError),
        (COMPLETE, (AWAY, LOST), MessageLockLostError),
        (COMPLETE, (UNKNOWN, AWAY), OutcomeUnknownError),
        (COMPLETE, (UNKNOWN, AWAY, LOST), OutcomeUnknownError),
        (COMPLETE, (None, AWAY), OutcomeUnknownError),
        (COMPLETE, (None, LOST), OutcomeUnknownError),
        # To renew twice is to renew.
        (RENEW, (None, LOST), MessageLockLostError),
    ],
)
def test_only_an_answer_of_who_knows_ends_the_doubt(
    disposition: Any, tries: tuple[BusError | None, ...], expected: type[Exception]
) -> None:
    assert told(disposition, *tries) is expected


def delayed(delay_ms: int) -> Settlement:
    """Return an abandon with a delay."""
    return Settlement(receiver_pb2.DISPOSITION_ABANDON, TOKEN, Waiter(), 60.0, delay_ms=delay_ms)


@pytest.mark.requirement("R229")
def test_abandons_share_a_frame_only_with_those_of_the_same_delay() -> None:
    rules = Settlements(RetryPolicy(total=0))
    for delay_ms in (5, 5, 0, 7):
        rules.add(delayed(delay_ms))

    frames = [rules.next_frame() for _ in range(3)]

    assert [(frame.delay_ms, len(frame.lock_tokens) // 16) for frame in frames] == [
        (5, 2),
        (0, 1),
        (7, 1),
    ]
