"""The messages that a batch delete is for, on both contracts."""

from collections.abc import Iterable
from typing import Any

from bendybus.domain import message_state
from bendybus.domain.message_state import ACTIVE_ONLY, EVERY_STATE, MessageState


def write(request: Any, states: Iterable[MessageState], before_ms: int) -> None:
    """Set states and time of a request."""
    wanted = frozenset(states)
    if wanted in (EVERY_STATE, ACTIVE_ONLY):
        request.include_deferred_and_scheduled = wanted == EVERY_STATE
    else:
        request.states.extend(sorted(wanted))
    request.enqueued_before_ms = before_ms


def states(request: Any) -> frozenset[MessageState]:
    """Return the states that a request is for. Raises InvalidArgument."""
    if request.states:
        return message_state.read("states", request.states)
    return EVERY_STATE if request.include_deferred_and_scheduled else ACTIVE_ONLY


def before_ms(request: Any) -> int:
    """Return the time of a request; 0: now."""
    return int(request.enqueued_before_ms)
