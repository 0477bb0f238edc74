"""Changes of the catalogue on their way: every partition gets every entry that it lacks.

The registrar commits a change; partitions take it from there by themselves, and this waits for
them. It copies only to those that do not: the registrar, which lacks something after it was
restored, and one that did not take a change in time. `domain.directory` decides which partition
lacks an entry. A caller that changes an entry holds its key meanwhile, so that it is copied
once; what failed is copied by the task that brings lagging partitions up to date.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from bendybus.domain import directory as directories
from bendybus.domain import errors, subscription_name
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import BusError
from bendybus.frontend.core import fan_out
from bendybus.frontend.upstreams import unary_calls
from bendybus.frontend.upstreams.upstream import Upstream

logger = logging.getLogger(__name__)
RETRY_S: Final = 1.0
# How long a partition has to take a change by itself before it is copied to it. By then the
# circuit breaker of one that is suspended is open.
PULL_S: Final = 2.0
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
        # Replaced whenever it is set: entries came.
        self._news = asyncio.Event()
        self._held: Counter[str] = Counter()

    def changed(self) -> None:
        """Look for partitions that lag: one came back or was lost, or the catalogue changed."""
        self._changed.set()
        news, self._news = self._news, asyncio.Event()
        news.set()

    @contextlib.contextmanager
    def held(self, key: str) -> Iterator[None]:
        """Leave an entry to the caller, who changes and copies it; a topic with its family."""
        family = subscription_name.family(key)
        self._held[family] += 1
        try:
            yield
        finally:
            self._held[family] -= 1
            if not self._held[family]:
                del self._held[family]
            self._changed.set()

    async def copy(self, entity: Entity) -> Outcomes:
        """See an entry through to all partitions; return how that went, by partition.

        Of a topic or a subscription: with what else changed of the topic, in that order. A
        partition that has a generation of a topic has every earlier change of its subscriptions, or
        a publish would miss some. The registrar's catalogue comes in that order, so this waits
        until the change came back from there.
        """
        if entity.kind is not EntityKind.QUEUE and not await self._until(
            lambda: self._directory.shows(entity), self._timeout_s
        ):
            raise errors.PartitionUnavailable(
                f"{entity.title}: the change is recorded, but partition 0, the "
                "registrar, does not show it; the other partitions take it when it is back. "
                "Repeat the call to confirm.",
                metadata={"entity": entity.name, "generation": str(entity.generation)},
            )

        async def one(upstream: Upstream) -> None:
            if upstream.pulls and await self._pulled(upstream, entity):
                return
            if entity.kind is EntityKind.QUEUE:
                await self._take(upstream, [entity])
            elif not self._directory.heard(upstream.partition):
                raise unary_calls.unreachable(upstream)
            else:
                lagging = self._directory.lagging(upstream.partition)
                family = [each for each in lagging if each.topic_key == entity.topic_key]
                for refused in await self._copy(upstream, family):
                    raise refused

        # Known before the caller has the answer: it may use the entity at once, through here.
        return await fan_out.each(self._upstreams, one)

    async def _pulled(self, upstream: Upstream, entity: Entity) -> bool:
        """Wait until a partition took an entry by itself; False: it has to be copied.

        Raises the domain error when the partition is unavailable.
        """

        def has() -> bool:
            return self._directory.has(upstream.partition, entity)

        await self._until(
            lambda: has() or not upstream.available or not upstream.pulls,
            min(PULL_S, self._timeout_s / 2),
        )
        if not has() and not upstream.available:
            raise unary_calls.unreachable(upstream)
        return has()

    async def _until(self, reached: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for news until something is reached; return whether it is, in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not reached():
                    await self._news.wait()
        return reached()

    async def _copy(self, upstream: Upstream, entries: Sequence[Entity]) -> list[BusError]:
        """Copy entries to a partition in their order; see `directory.copy`."""
        return await directories.copy(entries, lambda some: self._take(upstream, some))

    async def _take(self, upstream: Upstream, entries: Sequence[Entity]) -> None:
        await unary_calls.apply(upstream, entries, self._timeout_s)
        self._learn(upstream.partition, entries)

    def _learn(self, partition: int, entries: Sequence[Entity]) -> None:
        fingerprint = self._directory.fingerprint
        if fingerprint is not None:
            self._directory.update(partition, fingerprint, entries, snapshot=False)

    async def run(self) -> None:
        """Copy what lags, whenever something changed, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            copied = [each for each in self._upstreams.values() if each.available]
            # Not in a generator: each partition has its turn, also after one that failed.
            if not all([await self._catch_up(each) for each in copied if not each.pulls]):
                await asyncio.sleep(RETRY_S)
                self._changed.set()

    async def _catch_up(self, upstream: Upstream) -> bool:
        """Copy to one partition what it lacks; False: it did not take something."""
        lagging = [
            entity
            for entity in self._directory.lagging(upstream.partition)
            if subscription_name.family(entity.key) not in self._held
        ]
        try:
            refused = await self._copy(upstream, lagging)
        except BusError as error:
            # One that does not answer would take a timeout for each.
            refused = [error]
        for refusal in refused:
            name = refusal.metadata.get("entity", "")
            logger.warning(
                "partition %d: could not take entity %s: %s",
                upstream.partition,
                name,
                refusal.message,
                extra={"partition": upstream.partition, "entity": name},
            )
        return not refused
