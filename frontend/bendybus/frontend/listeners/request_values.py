"""Converts names, enums and deadlines of requests to values of the core."""

from contextvars import ContextVar
from typing import Any, Final, TypeAlias

import grpc

from bendybus.domain import bounds, errors
from bendybus.domain import entity as entities
from bendybus.domain.disposition import Disposition
from bendybus.domain.message_state import ReceiveMode
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core.quota.room import Holder

# A call of a client, whatever its requests and answers.
Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
# The caller of the unary call that is answered in this task.
HOLDER: Final[ContextVar[Holder]] = ContextVar("holder")
_DISPOSITIONS: Final = {int(each): each for each in Disposition}


def entity_and_sub_queue(entity_path: str) -> tuple[str, SubQueue]:
    """Return the name of an entity, and the sub-queue. Raises InvalidArgument, InvalidOperation."""
    bounds.check_path(entity_path)
    return entities.split_path(entity_path)


def entity(entity_path: str) -> str:
    """Return the name of an entity, whose sub-queues have no sessions. Raises InvalidOperation."""
    name, sub_queue = entity_and_sub_queue(entity_path)
    if sub_queue is not SubQueue.MAIN:
        raise errors.InvalidOperation(
            f"{entity_path!r}: sub-queues have no sessions.", metadata={"entity": name}
        )
    return name


def receive_mode(number: int) -> ReceiveMode:
    """Return the mode of a receive; one that the contract does not name is PEEK_LOCK."""
    delete = number == ReceiveMode.RECEIVE_AND_DELETE
    return ReceiveMode.RECEIVE_AND_DELETE if delete else ReceiveMode.PEEK_LOCK


def disposition(number: int) -> Disposition:
    """Return the disposition of a settlement. Raises InvalidArgument."""
    found = _DISPOSITIONS.get(number)
    if found is None:
        raise errors.InvalidArgument(
            "disposition", f"must be one of 1 to {max(_DISPOSITIONS)} (got {number})."
        )
    return found


DEFAULT_TIMEOUT_MS: Final = 60_000


def remaining_ms(context: Context) -> int:
    """Return what is left of a call's deadline; the default where it has none."""
    left: float | None = context.time_remaining()
    return DEFAULT_TIMEOUT_MS if left is None else max(1, round(left * 1000))
