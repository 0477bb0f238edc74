"""The connections to all partitions of one bus, with its catalogue and counts."""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from bendybus.domain import directory as directories
from bendybus.domain import entity_settings
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Entity, Fingerprint
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Description
from bendybus.domain.errors import BusError, InvalidArgument, PartitionUnavailable
from bendybus.internal.v1 import entity_pb2
from bendybus.operator.bus import answers
from bendybus.operator.bus.answers import InvalidAnswer
from bendybus.operator.bus.partition_link import PartitionLink
from bendybus.operator.bus.worker_pool import Through, WorkerPool
from bendybus.operator.decisions.conditions import (
    ANSWER_NOT_UNDERSTOOD,
    VERSION_REFUSED,
    WORKER_ENDED,
    Counts,
)
from bendybus.operator.decisions.storage import Identity
from bendybus.operator.endless import endless
from bendybus.operator.kubernetes.names import ObjectKey
from bendybus.v1 import management_pb2
from bendybus.wire import catalogue, tls

logger = logging.getLogger(__name__)
REGISTRAR: Final = 0
# How long a partition has to take a change by itself before it is copied to it.
PULL_S: Final = 1.0


class BusLink:
    """Links to the partitions, the catalogue and the counts."""

    def __init__(
        self,
        bus: ObjectKey,
        identity: Identity,
        material: tls.Material | None,
        *,
        timeout_s: float,
        entities_changed: Callable[[list[str]], None],
        reachability_changed: Callable[[], None],
        address: Callable[[ObjectKey, int], str],
        workers: WorkerPool | None = None,
    ) -> None:
        """`entities_changed` is called with the keys of entities that changed.

        `workers`: the processes that call the partitions; None: this one does.
        """
        self._workers = workers
        self.bus = bus
        self._timeout_s = timeout_s
        self.identity = identity
        self.material = material
        self.directory = Directory()
        # Whether every partition has answered once since this link was made.
        self.started = False
        self._entities_changed = entities_changed
        self._reachability_changed = reachability_changed
        self._counts: dict[int, dict[str, Counts]] = {}
        self._total = Counts()
        # Whether the total includes counts of a partition that is unavailable now.
        self._stale = False
        self._seen: set[int] = set()
        # The partitions that took what they lack by themselves, as of their last news.
        self._pulling: set[int] = set()
        # Subscription → how many rules it has.
        self._rules: dict[str, int] = {}
        # One per partition: held while changes of topics are copied to it.
        self._copying = [asyncio.Lock() for _ in range(identity.partition_count)]
        # Replaced whenever it is set: entries came.
        self._news = asyncio.Event()
        share, large = answers.Share(), asyncio.Lock()
        self._links = [
            PartitionLink(
                index,
                address(bus, index),
                material,
                self,
                timeout_s=timeout_s,
                share=share,
                large=large,
                way=None
                if workers is None
                else Through(workers, bus, index, address(bus, index), material),
            )
            for index in range(identity.partition_count)
        ]

    async def run(self) -> None:
        """Keep the links connected until cancelled."""
        async with asyncio.TaskGroup() as group:
            for link in self._links:
                name = f"link-{self.bus}-{link.partition}"
                group.create_task(endless(link.run(), name), name=name)

    # partition_link.Listener

    def catalogue(
        self, partition: int, fingerprint: Fingerprint, entries: list[Entity], *, snapshot: bool
    ) -> bool:
        """Take entries of a partition; with another fingerprint they are ignored.

        Raises InvalidAnswer when the bus would have more entries than any can.
        """
        if fingerprint.namespace_uid != self.identity.uid:
            logger.error(
                "partition %s/%d: its file belongs to namespace UID %s, not %s; it is ignored",
                self.bus,
                partition,
                fingerprint.namespace_uid,
                self.identity.uid,
                extra={"partition": partition, "action": "fingerprint"},
            )
            return False
        fresh = {entry.key for entry in entries if self.directory.entry(entry.key) is None}
        if self.directory.size() + len(fresh) > answers.ENTRIES_MAX:
            raise InvalidAnswer(f"it sends more than {answers.ENTRIES_MAX} entities")
        self._note_rules(entries)
        lagged = {entry.key for entry in self.directory.lagging(partition)}
        news = self.directory.update(partition, fingerprint, entries, snapshot=snapshot)
        confirmed = {entry.key for entry in entries} if not snapshot else lagged
        if changed := {entry.key for entry in news} | confirmed:
            self._entities_changed([*changed])
        self._heard()
        if self._links[partition].pulls:
            self._pulling.add(partition)
        elif partition in self._pulling:
            # What it lacks now has to be copied.
            self._pulling.discard(partition)
            self._reachability_changed()
        return True

    def _heard(self) -> None:
        heard, self._news = self._news, asyncio.Event()
        heard.set()

    def _note_rules(self, entries: Iterable[Entity]) -> None:
        """Raise InvalidAnswer when the bus would have more rules than any can.

        Of what is news only: a partition that was away may send many that were replaced since.
        """
        numbers = {
            entry.key: len(getattr(entry.description, "rules", ()))
            for entry in entries
            if (old := self.directory.entry(entry.key)) is None or entry.generation > old.generation
        }
        found = self._rules | {key: number for key, number in numbers.items() if number}
        if sum(found.values()) > answers.RULES_MAX:
            raise InvalidAnswer(f"it sends more than {answers.RULES_MAX} rules")
        self._rules = {key: number for key, number in found.items() if numbers.get(key, number)}

    def lost(self, partition: int) -> None:
        """Forget the entries of a partition: it sends all of them again when it is back."""
        self.directory.forget(partition)

    def reached(self, partition: int, reachable: bool) -> None:
        """Note a partition that became available or unavailable."""
        if reachable:
            self._seen.add(partition)
            self.started = self.started or len(self._seen) == len(self._links)
        else:
            self._stale = self._counts.pop(partition, None) is not None or self._stale
        self._heard()
        self._reachability_changed()

    # What is known

    def unreachable(self) -> set[int]:
        """Return the partitions that do not answer."""
        return {link.partition for link in self._links if not link.reachable}

    def knows_catalogue(self) -> bool:
        """Whether the registrar answers and has sent its complete catalogue."""
        return self._links[REGISTRAR].reachable and self.directory.fingerprint is not None

    def behind(self, key: str) -> set[int]:
        """Return the reachable partitions that lack the current entry of a name."""
        reachable = [link.partition for link in self._links if link.reachable]
        return set(self.directory.lacking(key, reachable))

    def counts(self, entity: Entity) -> Counts:
        """Return an entity's counts over the partitions that answer."""
        return sum(
            (
                self._counts[index][entity.uid]
                for index in entity.partitions()
                if entity.uid in self._counts.get(index, ())
            ),
            Counts(),
        )

    async def held(self, entity: Entity) -> int:
        """Return how many messages an entity holds now, those of a topic's subscriptions included.

        Raises PartitionUnavailable if one of its partitions does not answer.
        """
        uids = {entity.uid}
        if entity.kind is EntityKind.TOPIC:
            uids |= {each.uid for each in self.directory.subscriptions(entity.name)}
        asked = entity.partitions()
        missing = self.unreachable() & set(asked)
        found: list[dict[str, Counts] | None] = []
        if not missing:
            found = await asyncio.gather(*(self._links[index].counts(uids) for index in asked))
            missing = {index for index, each in zip(asked, found, strict=True) if each is None}
        if missing:
            raise PartitionUnavailable(
                f"partition {min(missing)} cannot say whether {entity.title} holds messages."
            )
        known = (counts for each in found if each is not None for counts in each.items())
        return sum(counts.messages for uid, counts in known if uid in uids)

    def total(self) -> Counts:
        """Return the counts of all entities, as of when partitions were asked last."""
        return self._total

    def conditions(self) -> dict[str, set[int]]:
        """Return the warnings of partitions, and invalid answers: warning → partitions."""
        found: dict[str, set[int]] = {}
        for link in self._links:
            words = link.conditions if link.reachable else ()
            for word in (*words, ANSWER_NOT_UNDERSTOOD) if link.invalid_answer else words:
                found.setdefault(word, set()).add(link.partition)
            if link.refusal:
                found.setdefault(VERSION_REFUSED, set()).add(link.partition)
        ended_by = self._workers.trouble(self.bus) if self._workers is not None else None
        if ended_by is not None:
            found[WORKER_ENDED] = {ended_by}
        return found

    # What is asked

    async def commit(
        self,
        action: entity_pb2.EntityAction,
        name: str,
        *,
        kind: EntityKind = EntityKind.QUEUE,
        manifest_uid: str = "",
        wanted: Description | None = None,
        keep: Collection[str] = (),
        uid: str = "",
        if_generation: int = 0,
    ) -> Entity:
        """Have the registrar change an entity, then copy the change to all that answer.

        `keep`: fields of the description that stay as they are, also if a client changes them now.
        Raises BusError; after PartitionUnavailable it may have been done. Safe to repeat.
        """
        changes = {}
        if wanted is not None:
            values = entity_settings.values_of(wanted)
            changes = {name: value for name, value in values.items() if name not in keep}
        try:
            request = catalogue.commit_request(
                kind,
                name,
                changes,
                partition=REGISTRAR,
                action=action,
                origin=management_pb2.ENTITY_ORIGIN_MANIFEST,
                uid=uid,
                manifest_uid=manifest_uid,
                if_generation=if_generation,
            )
        except (ValueError, TypeError, ArithmeticError) as error:
            # Only this manifest is wrong: the other entities of the bus must not wait for it.
            raise InvalidArgument(
                "spec", f"has a value that cannot be stored: {answers.sentence(str(error))}"
            ) from error
        registrar = self._links[REGISTRAR]
        if not registrar.reachable:
            raise PartitionUnavailable(
                "partition 0, which commits changes of entities, does not answer."
            )
        entity = await registrar.commit(request)
        if entity.kind is EntityKind.QUEUE:
            self._learn(REGISTRAR, [entity])
        else:
            await self._until_shown(entity)
        await self.copy(entity)
        return entity

    async def _until_shown(self, entity: Entity) -> None:
        """Wait until the registrar's catalogue shows a change of a topic or a subscription.

        Its answer to the commit may overtake earlier changes of the same topic, which partitions
        must have first; its catalogue does not.
        """
        if not await self._until(lambda: self.directory.shows(entity), self._timeout_s):
            raise PartitionUnavailable(
                "partition 0, which commits changes of entities, does not show the change."
            )

    async def _until(self, reached: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for news until something is reached; return whether it is, in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not reached():
                    await self._news.wait()
        return reached()

    async def copy(self, entity: Entity) -> None:
        """See an entry through to every reachable partition; one that does not take it lags.

        Of a topic or a subscription: with what else changed of the topic, in that order.
        """
        links = [self._links[index] for index in self.behind(entity.key)]

        async def one(link: PartitionLink) -> None:
            if not link.pulls:
                await self._catch_up(link, entity.topic_key or entity.key)
            elif not await self._pulled(link, entity) and link.reachable:
                # With all that it lacks: each of these would wait as long.
                await self._catch_up(link)

        await asyncio.gather(*(one(link) for link in links))

    async def _pulled(self, link: PartitionLink, entity: Entity) -> bool:
        """Wait until a partition took an entry by itself; False: it cannot, or not in time."""
        has = functools.partial(self.directory.has, link.partition, entity)
        await self._until(
            lambda: has() or not link.reachable or not link.pulls,
            min(PULL_S, self._timeout_s / 2),
        )
        return has()

    async def catch_up(self) -> None:
        """Bring every reachable partition up to date that does not do so by itself."""
        links = [link for link in self._links if link.reachable and not link.pulls]
        await asyncio.gather(*(self._catch_up(link) for link in links))

    async def _catch_up(self, link: PartitionLink, family: str = "") -> None:
        """Copy what a partition lacks, or of one queue or topic; see `directory.copy`."""
        # One at a time: what another call copies meanwhile is not copied twice.
        async with self._copying[link.partition]:
            lagging = [
                entry
                for entry in self.directory.lagging(link.partition)
                if family in ("", entry.topic_key or entry.key)
            ]
            with contextlib.suppress(BusError):
                await directories.copy(lagging, lambda some: self._take(link, some))

    async def _take(self, link: PartitionLink, entries: Sequence[Entity]) -> None:
        """Have a partition take entries. Raises what it refuses, or that it does not answer."""
        try:
            await link.copy(entries)
        except BusError as error:
            logger.warning(
                "partition %s/%d: %s not copied: %s",
                self.bus,
                link.partition,
                entries[0].title,
                error.message,
                extra={"partition": link.partition, "entity": entries[0].name, "action": "copy"},
            )
            raise
        self._learn(link.partition, entries)

    def _learn(self, partition: int, entries: Sequence[Entity]) -> None:
        fingerprint = self.directory.fingerprint
        if fingerprint is not None and self._links[partition].reachable:
            self.directory.update(partition, fingerprint, entries, snapshot=False)

    async def refresh_counts(self) -> list[str]:
        """Ask all partitions for counts; return the keys of entities whose counts changed."""
        answers = await asyncio.gather(*(link.counts() for link in self._links))
        changed: set[str] = set()
        for link, answer in zip(self._links, answers, strict=True):
            before = self._counts.get(link.partition, {})
            now = answer or {}
            if answer is None:
                self._counts.pop(link.partition, None)
            else:
                self._counts[link.partition] = now
            changed |= {
                uid for uid in before.keys() | now.keys() if before.get(uid) != now.get(uid)
            }
        if changed or self._stale:
            self._stale = False
            each = (counts for known in self._counts.values() for counts in known.values())
            self._total = sum(each, Counts())
        known = (self.directory.by_uid(uid) for uid in changed)
        return [entity.key for entity in known if entity is not None]
