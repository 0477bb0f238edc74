"""Compiles SQL rules before a partition's thread needs them: it finds them compiled.

A long text takes tens of milliseconds, and a subscription may have 2,000. One thread does this for
all calls, one after the other. What it has compiled stays (`limits.COMPILED_TEXTS_MAX`), also of a
call that is cancelled: its repeat goes on from there.
"""

import asyncio
import contextlib
import threading
from collections.abc import Iterable, Sequence
from itertools import islice

from bendybus.domain import limits
from bendybus.domain.entity_settings import Description, SubscriptionDescription
from bendybus.domain.errors import BusError
from bendybus.domain.filters import rule as rules
from bendybus.domain.filters.rule import Rule, SqlFilter


class RuleCompiler:
    """Compiles what calls bring."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def prepare(self, given: Iterable[Rule]) -> None:
        """Compile rules, up to the first that is wrong: that is left to the decision on it."""
        sql = (each for each in given if isinstance(each.filter, SqlFilter) or each.action)
        wanted = list(islice(sql, limits.COMPILED_TEXTS_MAX))
        if not wanted:
            return
        cancelled = threading.Event()
        async with self._turn:
            try:
                await asyncio.to_thread(_compile, wanted, cancelled)
            finally:
                cancelled.set()


def of_descriptions(descriptions: Iterable[Description]) -> Iterable[Rule]:
    """Return the rules of all subscriptions among some descriptions."""
    for each in descriptions:
        if isinstance(each, SubscriptionDescription):
            yield from each.rules


def _compile(wanted: Sequence[Rule], cancelled: threading.Event) -> None:
    with contextlib.suppress(BusError):
        for each in wanted:
            if cancelled.is_set():
                return
            rules.compiled(each, partitioned=False)
