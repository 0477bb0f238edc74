"""Requests with more elements than are allowed: refused before anything walks them."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.domain import errors, limits, message_state
from bendybus.domain.message_state import MessageState
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.metrics import Metrics
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.send import SendRequest
from bendybus.frontend.listeners import sender_service
from bendybus.frontend.listeners.receiver_service import ReceiverService
from bendybus.frontend.listeners.sender_service import SenderService
from bendybus.v1 import message_pb2, sender_pb2
from tests.frontend.test_send import Upstream, sends_of


class Unwalked(Sequence[Any]):
    """Elements that nobody may look at."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        pytest.fail(f"element {index} was looked at")

    def __iter__(self) -> Iterator[Any]:
        pytest.fail("the elements were walked")


class Context:
    """A call whose refusal is an exception."""

    async def abort_with_status(self, status: Any) -> None:
        """Refuse the call."""
        raise PermissionError(status.details)


def front_end() -> FrontEnd:
    """Return the parts that the services need to refuse something."""
    made: Any = SimpleNamespace(metrics=Metrics(), upstreams={}, send_answers=None)
    return made


async def test_a_send_of_too_many_messages_is_refused_before_they_are_walked() -> None:
    anything: Any = None
    context: Any = Context()
    request: Any = SimpleNamespace(
        entity_path="orders", messages=Unwalked(limits.FRAME_MESSAGES_MAX + 1)
    )

    with pytest.raises(PermissionError, match="messages: must be 1 to 5000 of them"):
        await SenderService(front_end(), anything).Send(request, context)


async def test_a_settlement_of_too_many_locks_is_refused_before_they_are_walked() -> None:
    anything: Any = None
    context: Any = Context()
    request: Any = SimpleNamespace(lock_tokens=Unwalked(limits.SETTLE_TOKENS_MAX + 1))

    with pytest.raises(PermissionError, match="lock_tokens: must be 1 to 5000 of them"):
        await ReceiverService(front_end(), anything).Settle(request, context)


@pytest.mark.parametrize("split", [False, True])
async def test_a_frame_with_more_units_than_messages_is_refused_before_they_are_walked(
    split: bool,
) -> None:
    sends = sends_of({partition: Upstream() for partition in range(4)})
    batch = message_pb2.MessageBatch(messages=[b"x", b"y"])
    frame = sender_pb2.SendStreamRequest(entity_path="orders", batch=batch)
    request: SendRequest = sender_service.to_request(frame)
    request.group_sizes, request.split_by_partition_key = Unwalked(3), split
    answers: list[Any] = []

    sends.submit(request, answers.append, Holder("a connection", ""))

    [answer] = answers
    assert answer.message == "group_sizes: must add up to 2 messages."


def test_more_states_than_there_are_are_refused_before_they_are_walked() -> None:
    states: Any = Unwalked(len(MessageState) + 1)

    with pytest.raises(errors.InvalidArgument, match="each state at most once"):
        message_state.read("states", states)
