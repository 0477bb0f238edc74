"""Which messages a batch delete is for, on both contracts.

Servers before 0.5 know no `states`, and would delete messages in other states. So a request with
states has a time that they refuse, and its own time in another field.
"""

from collections.abc import Iterable
from typing import Any, Final

from bendybus.domain import errors, message_state
from bendybus.domain.message_state import ACTIVE_ONLY, EVERY_STATE, MessageState

# What servers before 0.5 refuse as a time.
REFUSED_MS: Final = -1


def write(request: Any, states: Iterable[MessageState], before_ms: int) -> None:
    """Set states and time of a request; what older servers do as well is asked for as before."""
    wanted = frozenset(states)
    if wanted in (EVERY_STATE, ACTIVE_ONLY):
        request.include_deferred_and_scheduled = wanted == EVERY_STATE
        request.enqueued_before_ms = before_ms
        return
    request.states.extend(sorted(wanted))
    request.enqueued_before_ms = REFUSED_MS
    request.states_enqueued_before_ms = before_ms


def states(request: Any) -> frozenset[MessageState]:
    """Return the states that a request is for. Raises InvalidArgument."""
    if request.states:
        return message_state.read("states", request.states)
    return EVERY_STATE if request.include_deferred_and_scheduled else ACTIVE_ONLY


def before_ms(request: Any) -> int:
    """Return the time of a request; 0: now. Raises InvalidArgument."""
    if not request.states:
        return int(request.enqueued_before_ms)
    if request.enqueued_before_ms != REFUSED_MS:
        raise errors.InvalidArgument(
            "enqueued_before_ms",
            f"must be {REFUSED_MS} with `states`: set states_enqueued_before_ms.",
        )
    return int(request.states_enqueued_before_ms)
