"""Copies of the catalogue: every partition gets every entry that it lacks.

The registrar commits a change; this copies it. Which partition lacks what is decided by
`domain.directory`. A caller that changes an entry holds its key meanwhile, so that it is copied
once; what failed is copied by the task that brings lagging partitions up to date.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from bendybus.domain.directory import Directory
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.frontend.core import fan_out
from bendybus.frontend.upstreams import unary_calls
from bendybus.frontend.upstreams.upstream import Upstream

logger = logging.getLogger(__name__)
RETRY_S: Final = 1.0
# Partition → why it did not take an entry; None: it did.
Outcomes = dict[int, BusError | None]


class CatalogueCopies:
    """Copies entries to partitions."""

    def __init__(
        self, upstreams: Mapping[int, Upstream], directory: Directory, timeout_s: float
    ) -> None:
        self._upstreams = upstreams
        self._directory = directory
        self._timeout_s = timeout_s
        self._changed = asyncio.Event()
        self._held: Counter[str] = Counter()

    def changed(self) -> None:
        """Look for partitions that lag: one came back, or the catalogue changed."""
        self._changed.set()

    @contextlib.contextmanager
    def held(self, key: str) -> Iterator[None]:
        """Leave an entry to the caller, who changes and copies it."""
        self._held[key] += 1
        try:
            yield
        finally:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
            self._changed.set()

    async def copy(self, entity: Entity) -> Outcomes:
        """Copy an entry to all partitions; return how that went, by partition."""

        async def one(upstream: Upstream) -> None:
            await unary_calls.apply(upstream, entity, self._timeout_s)

        outcomes: Outcomes = await fan_out.each(self._upstreams, one)
        # Known before the caller has the answer: it may use the entity at once, through here.
        fingerprint = self._directory.fingerprint
        if fingerprint is not None:
            for partition, error in outcomes.items():
                if error is None:
                    self._directory.update(partition, fingerprint, [entity], snapshot=False)
        return outcomes

    async def run(self) -> None:
        """Copy what lags, whenever something changed, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            available = [each for each in self._upstreams.values() if each.available]
            # Not in a generator: each partition has its turn, also after one that failed.
            if not all([await self._catch_up(upstream) for upstream in available]):
                await asyncio.sleep(RETRY_S)
                self._changed.set()

    async def _catch_up(self, upstream: Upstream) -> bool:
        """Copy to one partition what it lacks; False: it did not take something."""
        for entity in self._directory.lagging(upstream.partition):
            if entity.key in self._held:
                continue
            try:
                await unary_calls.apply(upstream, entity, self._timeout_s)
            except BusError as error:
                logger.warning(
                    "partition %d: could not take entity %s: %s",
                    upstream.partition,
                    entity.name,
                    error.message,
                    extra={"partition": upstream.partition, "entity": entity.name},
                )
                return False
        return True
