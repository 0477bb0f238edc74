"""What a front end or operator knows of the entities, as partitions reported them. Pure.

Each front end and each bus of the operator has one. Every partition's watch brings its whole
catalogue, then changes. Generations are given by the registrar alone, so the highest generation of
a name is current, whichever partition sent it; a partition with an older one lags and is brought up
to date by any front end that notices.

A change costs as much as there are partitions, never as much as there are entities: which entries
a partition lacks is noted when they come, not looked for.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from bendybus.domain import authorization_rules, bounds, errors, limits, subscription_name
from bendybus.domain import entity as entities
from bendybus.domain.entity import Entity, Fingerprint
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import SubscriptionDescription
from bendybus.domain.errors import BusError
from bendybus.domain.lifecycle import EntityState
from bendybus.domain.shared_access import Policy
from bendybus.domain.sub_queue import SubQueue


class Directory:
    """Entries by name, per partition and overall."""

    def __init__(self) -> None:
        self.fingerprint: Fingerprint | None = None
        self._best: dict[str, Entity] = {}
        self._by_uid: dict[str, Entity] = {}
        self._by_manifest_uid: dict[str, Entity] = {}
        # Names by state, as sets that keep their order; sorted only when they are read.
        self._names: dict[EntityState, dict[str, None]] = {state: {} for state in EntityState}
        self._sorted: dict[tuple[EntityKind, bool], list[str]] = {}
        # Of topics: how many SQL and correlation filters the rules of their subscriptions have.
        self._filters: dict[str, tuple[int, int]] = {}
        # Of each partition that was heard: what it has, and the names of which it has less.
        self._known: dict[int, dict[str, int]] = {}
        self._behind: dict[int, set[str]] = {}
        # Of each partition that is unavailable now: what it had.
        self._had: dict[int, dict[str, int]] = {}
        # How often policies that entities have themselves may have changed.
        self.authorization_changes = 0

    def update(
        self, partition: int, fingerprint: Fingerprint, entries: Iterable[Entity], *, snapshot: bool
    ) -> list[Entity]:
        """Take what a partition said; return the entries that are news here."""
        if self.fingerprint is None:
            self.fingerprint = fingerprint
        if snapshot:
            self._known[partition] = {}
            self._had.pop(partition, None)
            self._behind[partition] = set(self._best)
        # A partition that was not heard: an entry of it does not say what else it has.
        generations = self._known.get(partition, {})
        behind = self._behind.get(partition, set())
        news: list[Entity] = []
        for entry in entries:
            key, best = entry.key, self._best.get(entry.key)
            generations[key] = max(entry.generation, generations.get(key, 0))
            if best is None or entry.generation > best.generation:
                self._take(entry, best)
                best = entry
                news.append(entry)
            if generations[key] >= best.generation:
                behind.discard(key)
        buried = self._names[EntityState.DELETED]
        tombstones = (self._best[key] for key in buried)
        for tombstone in entities.forgettable(len(buried), tombstones):
            self._forget(tombstone)
        return news

    def forget(self, partition: int) -> None:
        """Note that a partition is unavailable: what it has now is unknown."""
        self._behind.pop(partition, None)
        known = self._known.pop(partition, None)
        if known is not None:
            self._had[partition] = known

    # Who has what

    def heard(self, partition: int) -> bool:
        """Whether it is known what a partition has."""
        return partition in self._known

    def lagging(self, partition: int) -> list[Entity]:
        """Return the entries that a reachable partition does not have yet, oldest first."""
        behind = (self._best[key] for key in self._behind.get(partition, ()))
        return sorted(behind, key=lambda entry: entry.generation)

    def holders(self, key: str) -> list[int]:
        """Return the partitions that are known to have the current entry of a name."""
        if key not in self._best:
            return []
        return sorted(p for p, behind in self._behind.items() if key not in behind)

    def lacking(self, key: str, partitions: Iterable[int]) -> list[int]:
        """Return those of `partitions` that are not known to have the current entry of a name."""
        holders = set(self.holders(key))
        return [partition for partition in partitions if partition not in holders]

    def lacked(self, key: str, partitions: Iterable[int]) -> list[int]:
        """Return those of `partitions` that, when last heard, lacked the current entry of a name.

        One that was never heard is among them.
        """
        best = self._best.get(key)
        if best is None:
            return list(partitions)
        heard = {**self._had, **self._known}
        return [each for each in partitions if heard.get(each, {}).get(key, 0) < best.generation]

    def has(self, partition: int, change: Entity) -> bool:
        """Whether a partition is known to have a change, or what came after it."""
        return self._known.get(partition, {}).get(change.key, 0) >= change.generation

    def shows(self, change: Entity) -> bool:
        """Whether a change of a topic or a subscription came back from a catalogue.

        Then all earlier changes of its topic did: a catalogue has them in their order, and the
        topic's generation rises after each change of a subscription.
        """
        known, topic = self._best.get(change.key), self._best.get(change.topic_key)
        if known is None or topic is None or known.generation < change.generation:
            return False
        return change.kind is EntityKind.TOPIC or topic.generation > change.generation

    # What there is

    def lookup(self, entity_path: str) -> tuple[Entity, SubQueue]:
        """Return (entity, sub-queue) of a path; orphans exist, too.

        Raises EntityNotFound; PartitionUnavailable while the registrar was never reached, since
        then it is unknown which entities exist.
        """
        bounds.check_path(entity_path)
        name, sub_queue = entities.split_path(entity_path)
        return self.find(name), sub_queue

    def find(self, name: str, kind: EntityKind | None = None) -> Entity:
        """Return the entity of a name, of this kind; raises as `lookup`."""
        entity = self._best.get(name.lower())
        if entity is not None and not entity.deleted:
            if kind is not None:
                entities.check_kind(entity, kind)
            return entity
        if entity is None and not self._known:
            raise errors.PartitionUnavailable(
                "the front end has not reached any partition yet. Try again in a moment."
            )
        made = kind or _kind_of(name)
        if not entities.is_name(name):
            raise errors.EntityNotFound(
                f"there is no {made} {name!r}, and there can be none with this name. Check how it "
                "is written.",
                metadata={"entity": name},
            )
        words = " ".join(subscription_name.split(name) or (name,))
        raise errors.EntityNotFound(
            f"there is no {made} {name!r}. Create it first: bendybus create {made} {words}, a "
            "manifest, or an administration client.",
            metadata={"entity": name},
        )

    def known(self, name: str) -> Entity | None:
        """Return the entity of a name; None: there is none."""
        entity = self._best.get(name.lower())
        return None if entity is None or entity.deleted else entity

    def authorization_rules(self, path: str) -> list[Policy]:
        """Return the policies that queues and topics have themselves: all that `path` begins with.

        `path`: what a token is for, with a sub-queue, a subscription or the rest of a URL in it.
        Of what is longer than any name, the beginning.
        """
        parts = path[: limits.ENTITY_NAME_CHARS_MAX + 1].split("/")
        found = (self.known("/".join(parts[:end])) for end in range(1, len(parts) + 1))
        return [
            policy
            for each in found
            if each is not None
            for policy in authorization_rules.on(each.name, each.description.authorization_rules)
        ]

    def name_of(self, entity_path: str) -> str | None:
        """Return the name of the entity of a path as it was created; None: there is none."""
        entity = self.known(entity_path.partition("/$")[0])
        return None if entity is None else entity.name

    def size(self) -> int:
        """Return how many names are known, deleted ones included."""
        return len(self._best)

    def entry(self, key: str) -> Entity | None:
        """Return what is known of a name in lower case, also a tombstone."""
        return self._best.get(key)

    def by_uid(self, uid: str) -> Entity | None:
        """Return the entity with this UID, live or orphaned."""
        return self._by_uid.get(uid)

    def by_manifest_uid(self, manifest_uid: str) -> Entity | None:
        """Return the entry that belongs to a manifest, in whatever state, also a tombstone."""
        return self._by_manifest_uid.get(manifest_uid)

    def live(self) -> list[Entity]:
        """Return what exists and has an owner."""
        return self._in(EntityState.LIVE)

    def orphaned(self) -> list[Entity]:
        """Return what waits to be adopted or purged."""
        return self._in(EntityState.ORPHANED)

    def tombstones(self) -> list[Entity]:
        """Return what was deleted."""
        return self._in(EntityState.DELETED)

    def page(
        self,
        after: str,
        size: int,
        *,
        with_orphaned: bool,
        kind: EntityKind = EntityKind.QUEUE,
        topic: str = "",
    ) -> tuple[list[Entity], bool]:
        """Return up to `size` entities of a kind by name that follow `after`, and whether more do.

        `topic`: only the subscriptions of this one.
        """
        names, start, end = self._span(kind, topic, with_orphaned=with_orphaned)
        start = max(start, bisect_right(names, after))
        page = names[start : min(start + size, end)]
        return [self._best[key] for key in page], start + size < end

    def slice(
        self, skip: int, size: int, *, kind: EntityKind, topic: str = ""
    ) -> tuple[list[Entity], bool]:
        """Return up to `size` live entities of a kind by name after the first `skip`.

        And whether more follow. `topic`: only the subscriptions of this one.
        """
        names, start, end = self._span(kind, topic, with_orphaned=False)
        start += skip
        page = names[start : min(start + size, end)]
        return [self._best[key] for key in page], start + size < end

    def subscription_count(self, topic: str) -> int:
        """Return how many subscriptions a topic has, orphaned ones included."""
        _, start, end = self._span(EntityKind.SUBSCRIPTION, topic, with_orphaned=True)
        return end - start

    def filter_counts(self, topic: str) -> tuple[int, int]:
        """Return how many SQL and correlation filters the subscriptions of a topic have.

        As Service Bus counts: filters that are always true, or false, are SQL filters.
        """
        return self._filters.get(topic, (0, 0))

    def subscriptions(self, topic: str) -> Iterator[Entity]:
        """Return the subscriptions of a topic by name, orphaned ones included."""
        names, start, end = self._span(EntityKind.SUBSCRIPTION, topic, with_orphaned=True)
        return (self._best[names[at]] for at in range(start, end))

    def _span(
        self, kind: EntityKind, topic: str, *, with_orphaned: bool
    ) -> tuple[list[str], int, int]:
        """Return the sorted names of a kind, and where those of a topic begin and end there."""
        names = self._sorted.get((kind, with_orphaned))
        if names is None:
            orphans = self._names[EntityState.ORPHANED] if with_orphaned else ()
            found = [*self._names[EntityState.LIVE], *orphans]
            names = sorted(key for key in found if self._best[key].kind is kind)
            self._sorted[kind, with_orphaned] = names
        if not topic:
            return names, 0, len(names)
        first = subscription_name.keys_of(topic.lower())
        # "~" follows every character that a name may have.
        return names, bisect_right(names, first), bisect_right(names, f"{first}~")

    def _in(self, state: EntityState) -> list[Entity]:
        return [self._best[key] for key in self._names[state]]

    def _forget(self, tombstone: Entity) -> None:
        """Forget a deleted name; partitions forget the oldest ones by themselves."""
        key = tombstone.key
        del self._best[key], self._names[EntityState.DELETED][key]
        if self._by_manifest_uid.get(tombstone.manifest_uid) is tombstone:
            del self._by_manifest_uid[tombstone.manifest_uid]
        for partition, generations in self._known.items():
            generations.pop(key, None)
            self._behind[partition].discard(key)

    def _take(self, entry: Entity, old: Entity | None) -> None:
        """Make an entry the current one; every known partition lacks it until it reports it."""
        key = entry.key
        if old is not None:
            self._by_uid.pop(old.uid, None)
            if self._by_manifest_uid.get(old.manifest_uid) is old:
                del self._by_manifest_uid[old.manifest_uid]
        if old is None or old.state is not entry.state or old.kind is not entry.kind:
            if old is not None:
                del self._names[old.state][key]
            self._names[entry.state][key] = None
            self._sort(old, entry)
        self._best[key] = entry
        had = () if old is None else old.description.authorization_rules
        if had != entry.description.authorization_rules:
            self.authorization_changes += 1
        if not entry.deleted:
            self._by_uid[entry.uid] = entry
        if old is not None:
            self._count_filters(old, -1)
        self._count_filters(entry, 1)
        if entry.manifest_uid:
            self._by_manifest_uid[entry.manifest_uid] = entry
        for partition, generations in self._known.items():
            if generations.get(key, 0) < entry.generation:
                self._behind[partition].add(key)

    def _sort(self, old: Entity | None, entry: Entity) -> None:
        """Sort an entry into the lists that are kept; a reader of an old list goes on with that."""
        for listing, names in self._sorted.items():
            was, is_now = (each is not None and _is_in(listing, each) for each in (old, entry))
            at = bisect_left(names, entry.key)
            if was and not is_now:
                self._sorted[listing] = [*names[:at], *names[at + 1 :]]
            elif is_now and not was:
                self._sorted[listing] = [*names[:at], entry.key, *names[at:]]

    def _count_filters(self, entry: Entity, sign: int) -> None:
        described = entry.description
        if entry.deleted or not isinstance(described, SubscriptionDescription):
            return
        figures = described.rules.figures
        correlation, sql = figures.correlation_filters, figures.rules - figures.correlation_filters
        sql_so_far, correlation_so_far = self.filter_counts(entry.topic_key)
        counts = (sql_so_far + sign * sql, correlation_so_far + sign * correlation)
        if any(counts):
            self._filters[entry.topic_key] = counts
        else:
            self._filters.pop(entry.topic_key, None)


# Has a partition take entries, all or none. Raises the domain error.
Take = Callable[[Sequence[Entity]], Awaitable[None]]


async def copy(entries: Sequence[Entity], take: Take) -> list[BusError]:
    """Have a partition take entries, oldest first; return its refusals, which name an entity.

    A queue goes alone. Topics and subscriptions go together, in the order of their changes: what
    follows a refused one of the same topic is left out, other topics are not. Raises the first
    error that a repeat may not meet.
    """
    refused: list[BusError] = []
    others = [entry for entry in entries if entry.kind is not EntityKind.QUEUE]
    for queue in entries:
        if queue.kind is EntityKind.QUEUE:
            await _copied([queue], take, refused)
    topics_refused: set[str] = set()
    for start in range(0, len(others), limits.ENTRIES_A_COPY_MAX):
        some = others[start : start + limits.ENTRIES_A_COPY_MAX]
        some = [entry for entry in some if entry.topic_key not in topics_refused]
        if not some or await _copied(some, take, []):
            continue
        for topic_key, family in by_topic(some).items():
            if not await _copied(family, take, refused):
                topics_refused.add(topic_key)
    return refused


async def _copied(entries: Sequence[Entity], take: Take, refused: list[BusError]) -> bool:
    try:
        await take(entries)
    except BusError as error:
        error.metadata.setdefault("entity", entries[0].name)
        if error.retryable:
            raise
        refused.append(error)
        return False
    return True


def by_topic(entries: Iterable[Entity]) -> dict[str, list[Entity]]:
    """Return entries by the topic that they belong to, each topic's in their order."""
    found: dict[str, list[Entity]] = {}
    for entry in entries:
        found.setdefault(entry.topic_key, []).append(entry)
    return found


def _is_in(listing: tuple[EntityKind, bool], entry: Entity) -> bool:
    """Return whether an entry is in a list: of a kind, with orphaned ones or without."""
    kind, with_orphaned = listing
    listed = entry.state is EntityState.LIVE or (
        with_orphaned and entry.state is EntityState.ORPHANED
    )
    return listed and entry.kind is kind


def _kind_of(name: str) -> EntityKind:
    """Return of which kind an entity of a name would be, to say that there is none."""
    return EntityKind.QUEUE if subscription_name.split(name) is None else EntityKind.SUBSCRIPTION
