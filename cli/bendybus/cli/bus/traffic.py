"""How many messages a second come into and go out of each entity. Pure.

Front ends count them for their metrics; two readings make rates. A bus whose metrics cannot be
read, which is any bus but a local one, has no rates.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_SAMPLE: Final = re.compile(
    r'^bendybus_(incoming|outgoing)_messages_total\{entity="((?:[^"\\]|\\.)*)"\} (\S+)$',
    re.MULTILINE,
)
_ESCAPED: Final = re.compile(r"\\(.)")

# By the lower-case name of an entity: how many came in, and went out, so far.
Counters = Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Rates:
    """Messages a second."""

    incoming: float = 0.0
    outgoing: float = 0.0


def counters(texts: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Return what front ends count together, from their metrics."""
    found: dict[str, tuple[float, float]] = {}
    for text in texts:
        for way, label, value in _SAMPLE.findall(text):
            name = _ESCAPED.sub(lambda each: {"n": "\n"}.get(each[1], each[1]), label).lower()
            before = found.get(name, (0.0, 0.0))
            count = float(value)
            more = (count, 0.0) if way == "incoming" else (0.0, count)
            found[name] = (before[0] + more[0], before[1] + more[1])
    return found


def rates(before: Counters, after: Counters, seconds: float) -> dict[str, Rates]:
    """Return the rates between two readings; a front end that was restarted counts from 0."""

    def rate(old: float, new: float) -> float:
        return max(0.0, new - old if new >= old else new) / seconds if seconds > 0 else 0.0

    found = {}
    for name, (incoming, outgoing) in after.items():
        old = before.get(name, (0.0, 0.0))
        found[name] = Rates(rate(old[0], incoming), rate(old[1], outgoing))
    return found
