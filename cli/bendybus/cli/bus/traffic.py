"""How many messages a second come into and go out of each entity. Pure.

Front ends count them for their metrics; two readings make rates. A bus whose metrics cannot be
read, which is any bus but a local one, has no rates.
"""

import re
from collections.abc import Mapping
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


def counters(text: str) -> Counters:
    """Return what a front end counts, from its metrics."""
    found: dict[str, tuple[float, float]] = {}
    for way, label, value in _SAMPLE.findall(text):
        name = _ESCAPED.sub(lambda each: {"n": "\n"}.get(each[1], each[1]), label).lower()
        incoming, outgoing = found.get(name, (0.0, 0.0))
        if way == "incoming":
            incoming += float(value)
        else:
            outgoing += float(value)
        found[name] = (incoming, outgoing)
    return found


def rates(
    before: Mapping[str, Counters], after: Mapping[str, Counters], seconds: float
) -> dict[str, Rates]:
    """Return the rates between two readings of all front ends, those of each added up.

    One that was restarted counts from 0; one that did not answer twice adds nothing.
    """
    found: dict[str, Rates] = {}
    for front_end in before.keys() & after.keys():
        for name, counts in after[front_end].items():
            old = before[front_end].get(name, (0.0, 0.0))
            incoming, outgoing = (_rate(*pair, seconds) for pair in zip(old, counts, strict=True))
            others = found.get(name, Rates())
            found[name] = Rates(others.incoming + incoming, others.outgoing + outgoing)
    return found


def _rate(old: float, new: float, seconds: float) -> float:
    return max(0.0, new - old if new >= old else new) / seconds if seconds > 0 else 0.0
