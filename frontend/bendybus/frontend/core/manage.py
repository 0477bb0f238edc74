"""Entities: changed by the registrar, copied to all partitions, shown with sums over them.

For every listener; requests and answers are plain values. Entities with AutoDeleteOnIdle are looked
at in intervals, and deleted when they are idle.
"""

import asyncio
import contextlib
import logging
import time
import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bendybus.domain import authorization_rules, errors, shared_access
from bendybus.domain import entity as entities
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import BusError
from bendybus.domain.filters import rule as rule_domain
from bendybus.domain.filters import rule_set
from bendybus.domain.filters.rule import Rule
from bendybus.domain.filters.rule_set import RuleAction, RuleChange
from bendybus.domain.lifecycle import EntityAction
from bendybus.frontend.core import fan_out
from bendybus.frontend.core.catalogue_copies import CatalogueCopies, Outcomes
from bendybus.frontend.core.quota.bounds import UNFINISHED_MAX
from bendybus.frontend.upstreams import unary_calls
from bendybus.frontend.upstreams.unary_calls import Commit, Counts
from bendybus.frontend.upstreams.upstream import Upstream

REGISTRAR: Final = 0
PAGE_DEFAULT: Final = 100
PAGE_MAX: Final = 1_000
# How long a change that is not confirmed may be repeated; SDKs repeat calls for some seconds.
REPEATED_WITHIN_S: Final = 60.0
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Changed:
    """A change that is done on all partitions that matter; `outcomes` names the others.

    Of a subscription whose rule was changed, `entity` has that rule, and maybe no other.
    """

    entity: Entity
    outcomes: Outcomes


@dataclass(frozen=True, slots=True)
class Runtime:
    """What an entity holds. `partitions`: the share of each, None where one did not answer."""

    total: Counts
    partitions: Mapping[int, Counts | None]

    @property
    def limited(self) -> bool:
        """Whether the total lacks a partition."""
        return None in self.partitions.values()


class EntityManager:
    """Creates, changes, deletes and shows entities."""

    def __init__(
        self,
        upstreams: Mapping[int, Upstream],
        directory: Directory,
        copies: CatalogueCopies,
        timeout_s: float,
    ) -> None:
        self._upstreams = upstreams
        self._directory = directory
        self._copies = copies
        self._timeout_s = timeout_s
        # Calls under way, by what they do.
        self._under_way: Counter[tuple[str, ...]] = Counter()
        self._unconfirmed = _Unconfirmed()

    async def change(self, wanted: Commit) -> Changed:
        """Commit at the registrar, copy to all. Raises the domain error.

        PartitionUnavailable also when a partition that holds the entity did not take the change,
        which is recorded then. A creation without a UID gets one.
        """
        entities.check_name_of(wanted.name, wanted.kind)
        wanted = self._with_keys(wanted)
        if wanted.action is EntityAction.CREATE:
            uid = wanted.uid or str(uuid.uuid4())
            manifest_uid = uid if wanted.origin is Origin.MANIFEST else ""
            wanted = replace(wanted, uid=uid, manifest_uid=manifest_uid)
        earlier = self._half_done(wanted)
        with self._copies.held(wanted.name.lower()), self._noted(wanted) as alone:
            try:
                entity = await self._commit(wanted)
            except (errors.EntityAlreadyExists, errors.EntityNotFound):
                found = self._done_before(wanted, earlier)
                # What repeats a call comes after it failed. Of creations at the same time, which
                # may be equal, only one succeeds.
                if found is None or not alone():
                    raise
                entity = found
            self._unconfirmed.add(_what(wanted), entity)
            outcomes = await self._copies.copy(entity)
        missing = [partition for partition in entity.partitions() if outcomes.get(partition)]
        if missing:
            why = "could not be reached; they take it when they are back."
            for partition in missing:
                error = outcomes[partition]
                if error is not None and not error.retryable:
                    why = f"did not apply it; partition {partition} says: {error.message}"
            raise errors.PartitionUnavailable(
                f"{entity.title}: the change is recorded, but partitions {missing} {why} "
                "Repeat the call to confirm.",
                metadata={
                    "entity": entity.name,
                    "partitions": ",".join(map(str, missing)),
                    "generation": str(entity.generation),
                },
            )
        self._unconfirmed.forget(_what(wanted))
        return Changed(entity, outcomes)

    async def change_rule(
        self,
        subscription: Entity,
        action: RuleAction,
        rule: Rule,
        origin: Origin = Origin.CLIENT,
    ) -> Changed:
        """Change a rule of a subscription. Raises the domain error."""
        if action is not RuleAction.DELETE:
            # Parsing takes up to a second for the longest texts: not on the event loop. The
            # registrar checks it again, on the thread of its partition; what is refused here never
            # gets there.
            await asyncio.to_thread(rule_domain.check, rule, partitioned=subscription.partitioned)
        return await self.change(
            Commit(
                EntityAction.UPDATE,
                subscription.name,
                origin=origin,
                kind=EntityKind.SUBSCRIPTION,
                rule_change=RuleChange(action, rule),
            )
        )

    async def delete_if_idle(self, entity: Entity) -> bool:
        """Delete an entity that was idle for its interval everywhere; return whether it was.

        A partition that cannot be asked counts as busy. A fence refuses traffic for a moment, so
        that no message is acknowledged between the last look and the deletion; it lapses by itself
        if any partition answers that the entity was used. So all are asked before the first fence:
        what is in use in one partition is not refused in the others. Raises the domain error.
        """
        idle_ms = entity.description.auto_delete_on_idle_ms
        assert idle_ms is not None
        # Also those without its messages: transactions there may have sent to it.
        upstreams = [upstream for _, upstream in sorted(self._upstreams.items())]
        if not all(upstream.available for upstream in upstreams):
            return False
        # Whoever uses a subscription uses its topic.
        family = [entity, *self._directory.subscriptions(entity.name)]
        if not await self._looks_idle([each.uid for each in family], idle_ms):
            return False
        with self._copies.held(entity.key):
            for upstream in upstreams:
                if not await unary_calls.fence_idle(upstream, entity, idle_ms, self._timeout_s):
                    return False
            delete = Commit(
                EntityAction.DELETE_IDLE,
                entity.name,
                uid=entity.uid,
                if_generation=entity.generation,
                kind=entity.kind,
            )
            await self._copies.copy(await self._commit(delete))
        return True

    async def _looks_idle(self, uids: Sequence[str], idle_ms: int) -> bool:
        """Whether all partitions answer that these entities were not used for so long."""
        answers = await fan_out.each(
            self._upstreams,
            lambda upstream: unary_calls.idle_times(upstream, uids, self._timeout_s),
        )
        return all(
            not isinstance(answer, BusError) and min(answer.values(), default=idle_ms) >= idle_ms
            for answer in answers.values()
        )

    def page(
        self, after: str, size: int, *, with_orphaned: bool, kind: EntityKind, topic: str = ""
    ) -> tuple[list[Entity], bool]:
        """Return up to `size` entities of a kind by name that follow `after`, and whether more do.

        `topic`: only the subscriptions of this one.
        """
        size = min(size or PAGE_DEFAULT, PAGE_MAX)
        return self._directory.page(
            after, size, with_orphaned=with_orphaned, kind=kind, topic=topic
        )

    async def runtime(self, shown: Sequence[Entity]) -> list[Runtime]:
        """Return what entities hold, asked of all partitions; those that do not answer show."""
        uids = [entity.uid for entity in shown]
        if not uids:
            return []
        answers = await fan_out.each(
            self._upstreams,
            lambda upstream: unary_calls.counts(upstream, uids, self._timeout_s),
        )
        return [sums(entity, answers) for entity in shown]

    async def _commit(self, wanted: Commit) -> Entity:
        registrar = self._upstreams[REGISTRAR]
        if not registrar.available:
            raise errors.PartitionUnavailable(
                "partition 0, the registrar of entities, is unavailable: nothing can be created, "
                "changed or deleted until it is back. Sending and receiving are not affected.",
                metadata={"partition": "0"},
            )
        return await unary_calls.commit(registrar, wanted, self._timeout_s)

    @contextlib.contextmanager
    def _noted(self, wanted: Commit) -> Iterator[Callable[[], bool]]:
        """Note a call that is under way; yield what tells whether it is the only such call."""
        what = _what(wanted)
        self._under_way[what] += 1
        try:
            yield lambda: self._under_way[what] == 1
        finally:
            self._under_way[what] -= 1
            if not self._under_way[what]:
                del self._under_way[what]

    def _with_keys(self, wanted: Commit) -> Commit:
        """Return a change whose authorization rules all have keys; those not given are made."""
        rules = wanted.changes.get("authorization_rules")
        if not rules:
            return wanted
        known = self._directory.known(wanted.name)
        current = () if known is None else known.description.authorization_rules
        complete = authorization_rules.completed(rules, current, shared_access.new_key)
        return replace(wanted, changes={**wanted.changes, "authorization_rules": complete})

    def _done_before(self, wanted: Commit, earlier: Entity | None) -> Entity | None:
        """Return the entity of an earlier try whose caller is to repeat the call, or None.

        `earlier`: what was half done when this one began.
        """
        recorded = self._unconfirmed.get(_what(wanted))
        if recorded is not None and self._is_deletion(wanted):
            return recorded
        found = self._as_wanted(wanted)
        if recorded is not None and found is not None and found.uid == recorded.uid:
            return found
        return None if earlier is None else self._half_done(wanted)

    def _is_deletion(self, wanted: Commit) -> bool:
        change = wanted.rule_change
        if change is not None:
            return change.action is RuleAction.DELETE
        return wanted.action is EntityAction.DELETE

    def _half_done(self, wanted: Commit) -> Entity | None:
        """Return what an earlier try of the same call made, if a partition of it may lack it."""
        entity = self._as_wanted(wanted)
        if entity is None or not self._directory.lacked(entity.key, entity.partitions()):
            return None
        return entity

    def _as_wanted(self, wanted: Commit) -> Entity | None:
        """Return the entity that a call would make, if it is there already."""
        try:
            entity = self._directory.find(wanted.name, wanted.kind)
        except BusError:
            return None
        same = all(
            getattr(entity.description, name) == value for name, value in wanted.changes.items()
        )
        if wanted.rule_change is not None:
            rule = wanted.rule_change.rule
            same = rule_set.find(entities.rules_of(entity), rule.name) == rule
        # A client may change a rule of a subscription that a manifest made.
        own = entity.origin is wanted.origin or wanted.rule_change is not None
        return entity if same and own else None


def _what(wanted: Commit) -> tuple[str, ...]:
    """Return a key that equal calls share."""
    change = wanted.rule_change
    of_rule = () if change is None else (change.action, change.rule.name.lower())
    return (wanted.action.name, wanted.name.lower(), *of_rule)


class _Unconfirmed:
    """Changes of the last minute that are recorded, and whose callers are to repeat the call.

    When they do, all partitions may have taken it, and the registrar says that it was done before.
    """

    def __init__(self) -> None:
        self._changes: OrderedDict[tuple[str, ...], tuple[float, Entity]] = OrderedDict()

    def add(self, what: tuple[str, ...], entity: Entity) -> None:
        """Take note of a change that is recorded."""
        self.forget(what)
        self._changes[what] = (time.monotonic(), entity)
        if len(self._changes) > UNFINISHED_MAX:
            self._changes.popitem(last=False)

    def get(self, what: tuple[str, ...]) -> Entity | None:
        """Return the entity of a change that was not confirmed, or None."""
        at_s, entity = self._changes.get(what, (0.0, None))
        return entity if time.monotonic() - at_s < REPEATED_WITHIN_S else None

    def forget(self, what: tuple[str, ...]) -> None:
        """Take note that a change is confirmed."""
        self._changes.pop(what, None)


def sums(entity: Entity, answers: Mapping[int, Mapping[str, Counts] | BusError]) -> Runtime:
    """Return the sums of an entity over its partitions."""
    shares: dict[int, Counts | None] = {}
    total = Counts()
    for partition in entity.partitions():
        answer = answers[partition]
        if isinstance(answer, BusError):
            shares[partition] = None
            continue
        share = shares[partition] = answer.get(entity.uid, Counts())
        total += share
    return Runtime(total, shares)


async def delete_idle(manager: EntityManager, directory: Directory, every_s: float) -> None:
    """Look at idle entities until cancelled."""
    while True:
        await asyncio.sleep(every_s)
        for entity in directory.live():
            if entity.description.auto_delete_on_idle_ms is None:
                continue
            try:
                deleted = await manager.delete_if_idle(entity)
            except BusError as error:
                logger.info(
                    "%s %s: not deleted as idle: %s", entity.kind, entity.name, error.message
                )
                continue
            if deleted:
                logger.info(
                    "%s %s: deleted after %d ms without use",
                    entity.kind,
                    entity.name,
                    entity.description.auto_delete_on_idle_ms,
                    extra={"entity": entity.name, "action": "auto-delete"},
                )
