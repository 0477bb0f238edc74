"""Copies of the catalogue: every partition gets every entry that it lacks.

The registrar commits a change; this copies it. Which partition lacks what is decided by
`domain.directory`. A caller that changes an entry holds its key meanwhile, so that it is copied
once; what failed is copied by the task that brings lagging partitions up to date.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bendybus.domain import directory as directories
from bendybus.domain import errors, limits, subscription_name
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
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
        # Replaced whenever it is set: entries came.
        self._news = asyncio.Event()
        self._held: Counter[str] = Counter()

    def changed(self) -> None:
        """Look for partitions that lag: one came back, or the catalogue changed."""
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
        """Copy an entry to all partitions; return how that went, by partition."""
        if entity.kind is not EntityKind.QUEUE:
            return await self._copy_family(entity)

        async def one(upstream: Upstream) -> None:
            await unary_calls.apply(upstream, [entity], self._timeout_s)

        outcomes: Outcomes = await fan_out.each(self._upstreams, one)
        # Known before the caller has the answer: it may use the entity at once, through here.
        for partition, error in outcomes.items():
            if error is None:
                self._learn(partition, [entity])
        return outcomes

    async def _copy_family(self, entity: Entity) -> Outcomes:
        """Copy what changed of a topic and its subscriptions, in the order of the changes.

        A partition that has a generation of a topic has every earlier change of its subscriptions,
        or a publish would miss some. The registrar's catalogue comes in that order; so this waits
        until the change came back from there, and copies all that a partition lacks.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                while not self._directory.shows(entity):
                    await self._news.wait()
        except TimeoutError:
            raise errors.PartitionUnavailable(
                f"{entity.title}: the change is recorded, but partition 0, the "
                "registrar, does not show it; the other partitions take it when it is back. "
                "Repeat the call to confirm.",
                metadata={"entity": entity.name, "generation": str(entity.generation)},
            ) from None
        family = entity.topic_key

        async def one(upstream: Upstream) -> None:
            if not self._directory.heard(upstream.partition):
                raise unary_calls.unreachable(upstream)
            lagging = self._directory.lagging(upstream.partition)
            await self._copy_in_order(upstream, [e for e in lagging if e.topic_key == family])

        return await fan_out.each(self._upstreams, one)

    async def _copy_in_order(self, upstream: Upstream, entries: Sequence[Entity]) -> None:
        """Copy topics and subscriptions, oldest first.

        What follows a refused entry of the same topic is not copied; other topics are. Raises the
        last refusal, and at once what may succeed later.
        """
        refused: BusError | None = None
        topics_refused: set[str] = set()
        for start in range(0, len(entries), limits.ENTRIES_A_COPY_MAX):
            some = entries[start : start + limits.ENTRIES_A_COPY_MAX]
            some = [entry for entry in some if entry.topic_key not in topics_refused]
            try:
                await self._apply(upstream, some)
            except BusError as error:
                if error.retryable:
                    raise
                for topic_key, family in directories.by_topic(some).items():
                    try:
                        await self._apply(upstream, family)
                    except BusError as own:
                        if own.retryable:
                            raise
                        topics_refused.add(topic_key)
                        refused = _named(own, family)
        if refused is not None:
            raise refused

    async def _apply(self, upstream: Upstream, entries: Sequence[Entity]) -> None:
        if entries:
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
            available = [each for each in self._upstreams.values() if each.available]
            # Not in a generator: each partition has its turn, also after one that failed.
            if not all([await self._catch_up(upstream) for upstream in available]):
                await asyncio.sleep(RETRY_S)
                self._changed.set()

    async def _catch_up(self, upstream: Upstream) -> bool:
        """Copy to one partition what it lacks; False: it did not take something."""
        lagging = [
            entity
            for entity in self._directory.lagging(upstream.partition)
            if subscription_name.family(entity.key) not in self._held
        ]
        queues = [
            [entity]
            for entity in lagging
            if entity.kind is EntityKind.QUEUE
            and (not entity.description.requires_session or upstream.knows_sessions)
        ]
        # A partition of an earlier version gets topics and subscriptions when it is upgraded.
        others = [
            e for e in lagging if e.kind is not EntityKind.QUEUE and e.kind in upstream.entity_kinds
        ]
        done = True
        for entries in (*queues, others):
            try:
                if entries is others:
                    await self._copy_in_order(upstream, others)
                else:
                    await unary_calls.apply(upstream, entries, self._timeout_s)
            except BusError as error:
                name = error.metadata.get("entity") or entries[0].name
                logger.warning(
                    "partition %d: could not take entity %s: %s",
                    upstream.partition,
                    name,
                    error.message,
                    extra={"partition": upstream.partition, "entity": name},
                )
                done = False
                if error.retryable:
                    # One that does not answer would take a timeout for each.
                    break
        return done


def _named(error: BusError, entries: Sequence[Entity]) -> BusError:
    """Return a refusal that names the topic, or its subscription, that was not copied."""
    error.metadata.setdefault("entity", entries[0].name)
    return error
