"""The states of a message in its queue, and the modes of receiving; numbers are the contract's."""

from collections.abc import Collection
from enum import IntEnum
from typing import Final

from bendybus.domain.errors import InvalidArgument


class MessageState(IntEnum):
    """What a message waits for. A locked message is active, or deferred."""

    ACTIVE = 1
    DEFERRED = 2
    SCHEDULED = 3


ACTIVE_ONLY: Final = frozenset({MessageState.ACTIVE})
EVERY_STATE: Final = frozenset(MessageState)


def read(field: str, numbers: Collection[int]) -> frozenset[MessageState]:
    """Return the states of these numbers. Raises InvalidArgument for one that is unknown."""
    if len(numbers) > len(MessageState):
        raise InvalidArgument(field, "must name each state at most once.")
    try:
        return frozenset(map(MessageState, numbers))
    except ValueError:
        raise InvalidArgument(
            field, f"each must be one of 1 to {max(MessageState)}: active, deferred, scheduled."
        ) from None


class ReceiveMode(IntEnum):
    """Lock messages until they are settled, or delete them as they are handed over."""

    PEEK_LOCK = 1
    RECEIVE_AND_DELETE = 2
