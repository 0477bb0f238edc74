"""Leader election: the leader is the operator that Kopf does not pause. Deterministic.

Kopf pauses the watches of all operators except the one with the highest priority. The controllers
follow the same rule, read from the same peering object. Clocks of nodes differ, so a peer's
timestamp is not compared with the local clock: a peer is alive as long as its entry changes.
"""

import datetime as dt
from collections.abc import Mapping
from typing import Any

LIFETIME_S = 60


class Peers:
    """The peers and when their entries changed; `now_s` is a monotonic clock."""

    def __init__(self) -> None:
        # Name → `lastseen` of its entry, and since when it has this value.
        self._seen: dict[str, tuple[str, float]] = {}

    def leads(self, status: Mapping[str, Any], identity: str, priority: int, now_s: float) -> bool:
        """Whether no other living peer has this priority or a higher one."""
        self._seen = {
            name: self._known(name, str(_field(peer, "lastseen")), now_s)
            for name, peer in status.items()
        }
        return not any(
            name != identity
            and _number(peer, "priority", 0) >= priority
            and now_s - self._seen[name][1] < _number(peer, "lifetime", LIFETIME_S)
            for name, peer in status.items()
        )

    def _known(self, name: str, said: str, now_s: float) -> tuple[str, float]:
        known = self._seen.get(name)
        return known if known is not None and known[0] == said else (said, now_s)


def skew_s(status: Mapping[str, Any], identity: str, now: dt.datetime) -> float:
    """Return how far the clock of a peer is ahead of the local one at least; 0.0 if none is."""
    ahead = [0.0]
    for name, peer in status.items():
        try:
            seen = dt.datetime.fromisoformat(str(_field(peer, "lastseen")))
        except ValueError:
            continue
        if seen.tzinfo is None:
            seen = seen.replace(tzinfo=dt.UTC)
        if name != identity:
            ahead.append((seen - now).total_seconds())
    return max(ahead)


def _field(peer: Any, field: str) -> Any:
    return peer.get(field) if isinstance(peer, Mapping) else None


def _number(peer: Any, field: str, default: int) -> int:
    """Return a number in a peer's entry, or `default` if it is not one."""
    try:
        return int(peer[field])
    except (KeyError, TypeError, ValueError):
        return default
