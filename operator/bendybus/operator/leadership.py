"""Which of the peers acts: the one that Kopf does not pause. Pure.

Kopf pauses the watching of all operators but the one of the highest priority. What the operator
does beside watching follows the same rule, read from the same peering object.
"""

import datetime as dt
from collections.abc import Mapping
from typing import Any


def leads(status: Mapping[str, Any], identity: str, priority: int, now: dt.datetime) -> bool:
    """Whether no other living peer has this priority or a higher one."""
    return not any(
        name != identity and _number(peer, "priority", 0) >= priority and _lives(peer, now)
        for name, peer in status.items()
    )


def _number(peer: Any, field: str, default: int) -> int:
    """Return a number in a peer's entry; anybody may have written there."""
    try:
        return int(peer[field])
    except (KeyError, TypeError, ValueError):
        return default


def _lives(peer: Mapping[str, Any], now: dt.datetime) -> bool:
    seen = peer.get("lastseen")
    if seen is None:
        return True
    try:
        last = dt.datetime.fromisoformat(str(seen))
    except ValueError:
        return True
    if last.tzinfo is None:
        last = last.replace(tzinfo=dt.UTC)
    return last + dt.timedelta(seconds=_number(peer, "lifetime", 60)) > now
