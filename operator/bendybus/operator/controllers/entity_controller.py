"""The entities of one bus: which are due, reconciled with their manifests, and their status.

Driven by the bus's controller, in its task. What is due is a set of keys with times, so it is
bounded by the number of manifests however often they change. `plan` decides, the registrar
validates and commits, the bus link makes the calls.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, NamedTuple

from bendybus.crds.manifest import DeletionPolicy
from bendybus.domain import limits
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import BusError, EntityNotFound
from bendybus.domain.lifecycle import EntityState
from bendybus.internal.v1 import entity_pb2
from bendybus.operator.bus.bus_link import BusLink
from bendybus.operator.certificates.operator_issuer import now_utc
from bendybus.operator.controllers.status_writer import StatusWriter, conditions_changed
from bendybus.operator.decisions import conditions, plan
from bendybus.operator.decisions.conditions import Readiness
from bendybus.operator.decisions.manifests import BusView, EntityId, EntityView, ManifestCache
from bendybus.operator.decisions.plan import Decision, ManifestDeletion, Step
from bendybus.operator.decisions.reasons import Reason
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.names import ObjectKey
from bendybus.operator.metrics import Metrics

# Transient reasons, and after how long the entity is reconciled again.
TRANSIENT_S: Final = {
    Reason.PROGRESSING: 1.0,
    Reason.PARTITION_UNAVAILABLE: 5.0,
    Reason.NAMESPACE_NOT_READY: 2.0,
    Reason.REFUSED: 60.0,
}
# Of these, an event announces the end: the link opens, or partitions answer.
ENDED_BY_EVENT: Final = frozenset({Reason.PARTITION_UNAVAILABLE, Reason.NAMESPACE_NOT_READY})
CONCURRENT_MAX: Final = 16
STATES_REMEMBERED: Final = limits.ENTITIES_PER_NAMESPACE + limits.TOMBSTONES_MAX
PAUSED: Final = f"reconciliation is paused by the annotation {names.PAUSE_ANNOTATION}."
logger = logging.getLogger(__name__)
ACTIONS: Final = {
    Step.CREATE: entity_pb2.ENTITY_ACTION_CREATE,
    Step.UPDATE: entity_pb2.ENTITY_ACTION_UPDATE,
    Step.ADOPT: entity_pb2.ENTITY_ACTION_ADOPT,
    Step.PURGE: entity_pb2.ENTITY_ACTION_DELETE,
}
# Purge, create, and a check; more steps than this make no progress.
STEPS_MAX: Final = 4


class _Reconciled(NamedTuple):
    """A manifest as it was reconciled last. A new manifest of a name has another UID."""

    uid: str
    generation: int
    readiness: Readiness


class EntityReconciler:
    """Reconciles the entities of one bus."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def reconcile(
        self,
        view: EntityView,
        bus: BusView | None,
        link: BusLink | None,
        rival_of: Callable[[Entity], EntityView | None],
        unseen: Collection[str] = (),
    ) -> Readiness:
        """Reconcile an entity; return whether it is Ready. Errors of the bus become its reason.

        `unseen`: names of entities whose manifests may be where nobody watches.
        """
        began = time.monotonic()
        try:
            return await self._keep(view, bus, link, rival_of, unseen)
        except BusError as error:
            return Readiness(False, plan.reason_of(error), error.message, failed=True)
        finally:
            self._metrics.reconciled(view.object_kind, time.monotonic() - began)

    async def _keep(
        self,
        view: EntityView,
        bus: BusView | None,
        link: BusLink | None,
        rival_of: Callable[[Entity], EntityView | None],
        unseen: Collection[str],
    ) -> Readiness:
        for _ in range(STEPS_MAX):
            entry = topic = own = None
            if link is not None:
                entry = link.directory.entry(view.entity_name.lower())
                topic = link.directory.entry(view.topic_key)
                own = link.directory.by_manifest_uid(view.uid)
            decision = plan.decide(
                view,
                bus,
                entry,
                rival=rival_of(entry) if entry is not None else None,
                topic=topic,
                own=own,
                unseen=entry is not None and entry.name in unseen,
                complete=link is not None and link.knows_catalogue(),
            )
            if decision.step is Step.REFUSE:
                return Readiness(False, decision.reason, decision.message)
            if link is None:
                return Readiness(
                    False,
                    Reason.NAMESPACE_NOT_READY,
                    "the partitions of the bus are not running yet.",
                )
            if decision.step is Step.NOTHING:
                assert entry is not None
                await link.copy(entry)
                return conditions.entity_readiness(
                    entry, link.unreachable(), link.behind(entry.key), topic=topic
                )
            if not link.knows_catalogue():
                return Readiness(
                    False,
                    Reason.PARTITION_UNAVAILABLE,
                    "partition 0, which commits changes of entities, does not answer; retrying.",
                )
            assert decision.wanted is not None
            await self._do(view, decision, entry, link)
        # Partitions of another version may store an entity differently from what was requested.
        return Readiness(
            False,
            Reason.REFUSED,
            f"the bus accepted {decision.step.value.lower()} {STEPS_MAX} times, but the "
            f"{view.kind} differs from the manifest; check that partitions and operator have the "
            "same version.",
        )

    async def _do(
        self, view: EntityView, decision: Decision, entry: Entity | None, link: BusLink
    ) -> None:
        current = entry if entry is not None and not entry.deleted else None
        await link.commit(
            ACTIONS[decision.step],
            current.name if current is not None else view.entity_name,
            kind=current.kind if current is not None else view.kind,
            manifest_uid="" if decision.step is Step.PURGE else view.uid,
            wanted=None if decision.step is Step.PURGE else decision.wanted,
            keep=() if view.manifest is None else view.manifest.left_out(),
            uid=current.uid if current is not None else view.uid,
            if_generation=current.generation if current is not None else 0,
        )
        logger.info(
            "%s %s: %s on bus %s",
            view.kind,
            view.entity_name,
            decision.step.value.lower(),
            link.bus,
            extra={"entity": view.entity_name, "action": decision.step.value},
        )

    async def manifest_deleted(self, deletion: ManifestDeletion, link: BusLink) -> bool:
        """Release or delete the entity of a manifest that was deleted. Raises BusError.

        Return whether there was one, or had been.
        """
        entity = link.directory.by_manifest_uid(deletion.manifest_uid)
        if entity is None:
            return False
        delete = deletion.policy is DeletionPolicy.DELETE
        if not entity.deleted and (delete or not entity.orphaned):
            action = entity_pb2.ENTITY_ACTION_DELETE if delete else entity_pb2.ENTITY_ACTION_ORPHAN
            await self._end(link, entity, action)
        return True

    async def orphan(self, name: str, link: BusLink) -> None:
        """Orphan an entity whose manifest was deleted unnoticed. Raises BusError."""
        entity = link.directory.entry(name.lower())
        if entity is not None and not entity.deleted and not entity.orphaned:
            await self._end(link, entity, entity_pb2.ENTITY_ACTION_ORPHAN)

    async def _end(self, link: BusLink, entity: Entity, action: Any) -> None:
        try:
            await link.commit(
                action,
                entity.name,
                kind=entity.kind,
                manifest_uid=entity.manifest_uid,
                uid=entity.uid,
                if_generation=entity.generation,
            )
        except EntityNotFound:
            return
        word = "deleted" if action == entity_pb2.ENTITY_ACTION_DELETE else "orphaned"
        logger.warning(
            "%s %s: manifest deleted; %s on bus %s",
            entity.kind,
            entity.name,
            word,
            link.bus,
            extra={"entity": entity.name, "action": word},
        )

    @staticmethod
    def status(
        view: EntityView, readiness: Readiness, generation: int, link: BusLink | None
    ) -> conditions.Status:
        """Return the complete status of an entity's manifest.

        `generation`: the one that was reconciled with this readiness.
        """
        before = view.status.get("conditions") or []
        ready = conditions.ready_condition(readiness, generation, before, now_utc())
        shown = [ready, *conditions.progress(readiness, generation, before, now_utc())]
        status: conditions.Status = {"conditions": shown, "observedGeneration": generation}
        entity = link.directory.by_manifest_uid(view.uid) if link is not None else None
        if link is not None and entity is not None and not entity.deleted:
            subscriptions = 0
            if entity.kind is EntityKind.TOPIC:
                subscriptions = link.directory.subscription_count(entity.key)
            status |= conditions.entity_facts(
                entity, link.unreachable(), link.counts(entity), subscriptions=subscriptions
            )
        return status


class EntityController:
    """Reconciles the entities of one bus when they are due."""

    def __init__(
        self,
        bus: ObjectKey,
        cache: ManifestCache,
        entities: EntityReconciler,
        writer: StatusWriter,
        *,
        unseen: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """`unseen`: returns the names of entities whose manifests may be where nobody watches."""
        self._bus = bus
        self._unseen = unseen
        self._cache = cache
        self._entities = entities
        self._writer = writer
        self._due: dict[EntityId, float] = {}
        self._reconciled: dict[EntityId, _Reconciled] = {}
        # What is being reconciled now: it may have been decided without the latest news.
        self._running: set[EntityId] = set()
        # Queue or topic → UID and state of its entry when what waits for it was made due.
        self._states: dict[str, tuple[str, EntityState]] = {}

    def enqueue(self, manifest: EntityId) -> None:
        """Have an entity reconciled now."""
        self._due[manifest] = 0.0

    def enqueue_all(self, at_s: float = 0.0) -> None:
        """Have every entity reconciled at `at_s`, unless it is due earlier."""
        for manifest in self._cache.entities_of(self._bus):
            self._due[manifest] = min(at_s, self._due.get(manifest, at_s))

    def enqueue_entities(self, entity_keys: Iterable[str], directory: Directory) -> None:
        """Have the manifests of these entities reconciled now, as their entries changed.

        With a topic that came, went, or was orphaned or adopted: its subscriptions, too; with a
        destination: what is to forward to it and could not. A topic's generation alone changes
        with each of its subscriptions.
        """
        for key in entity_keys:
            for view in self._cache.named(self._bus, key):
                self._due[view.id] = 0.0
            entry = directory.entry(key)
            if entry is None or entry.kind is EntityKind.SUBSCRIPTION:
                continue
            now = (entry.uid, entry.state)
            if self._states.get(key) != now:
                if len(self._states) >= STATES_REMEMBERED:
                    self._states.clear()
                self._states[key] = now
                for view in self._cache.subscriptions_of(self._bus, key):
                    self._due[view.id] = 0.0
                for view in self._cache.forwarding_to(self._bus, key):
                    known = self._known(view)
                    ready = known is not None and known.readiness.ready
                    if not ready or view.id in self._running:
                        self._due[view.id] = 0.0

    def next_due(self) -> float:
        """Return when the first entity is due; infinity if none is."""
        return min(self._due.values(), default=math.inf)

    async def reconcile(self, link: BusLink | None, *, paused: bool) -> None:
        """Reconcile the entities that are due; subscriptions after topics."""
        now = asyncio.get_running_loop().time()
        due = [manifest for manifest, when in self._due.items() if when <= now]
        due.sort(key=lambda manifest: manifest.kind is EntityKind.SUBSCRIPTION)
        for start in range(0, len(due), CONCURRENT_MAX):
            batch = due[start : start + CONCURRENT_MAX]
            await asyncio.gather(*(self._reconcile(each, link, paused) for each in batch))

    async def _reconcile(self, manifest: EntityId, link: BusLink | None, paused: bool) -> None:
        del self._due[manifest]
        # The bus as it is now: a change of it that came before this made the entity due only once.
        view, bus = self._cache.entity(manifest), self._cache.buses.get(self._bus)
        if view is None or view.bus != self._bus:
            self._reconciled.pop(manifest, None)
            return
        if paused and self._stands(view):
            return
        if paused:
            readiness = Readiness(False, Reason.PAUSED, PAUSED)
        else:
            self._running.add(manifest)
            try:
                readiness = await self._entities.reconcile(
                    view, bus, link, self._rival_of, self._unseen()
                )
            finally:
                self._running.discard(manifest)
        self._reconciled[manifest] = _Reconciled(view.uid, view.generation, readiness)
        delay_s = _requeue_after_s(readiness, link)
        if delay_s is not None and manifest not in self._due:
            self._due[manifest] = asyncio.get_running_loop().time() + delay_s
        self._show(self._cache.entity(manifest) or view, link, urgent=True)

    def _stands(self, view: EntityView) -> bool:
        """Whether a manifest was reconciled as it is: its status stays while the bus is paused."""
        known = self._known(view)
        shown = known.generation if known is not None else view.status.get("observedGeneration")
        return bool(shown == view.generation)

    def _rival_of(self, entity: Entity) -> EntityView | None:
        return self._cache.by_uid(entity.manifest_uid)

    def _known(self, view: EntityView) -> "_Reconciled | None":
        """Return how a manifest was reconciled last, None if it was not yet."""
        known = self._reconciled.get(view.id)
        return known if known is not None and known.uid == view.uid else None

    def show_counts(self, entity_keys: Iterable[str], link: BusLink | None) -> None:
        """Have the status of these entities' manifests written, with their new counts."""
        for key in entity_keys:
            for view in self._cache.named(self._bus, key):
                self._show(view, link, urgent=False)

    def _show(self, view: EntityView, link: BusLink | None, *, urgent: bool) -> None:
        known = self._known(view)
        if known is None:
            return
        # The view may be newer: its status says what was reconciled, and not that it was.
        status = EntityReconciler.status(view, known.readiness, known.generation, link)
        self._writer.put(
            view.object_kind,
            view.key,
            view.uid,
            status=status,
            current=view.status,
            urgent=urgent and conditions_changed(status, view.status),
        )


def _requeue_after_s(readiness: Readiness, link: BusLink | None) -> float | None:
    """Return after how long an entity is reconciled again without an event; None: never."""
    if readiness.ready:
        return None
    event_comes = link is None or bool(link.unreachable()) or not link.knows_catalogue()
    if event_comes and readiness.reason in ENDED_BY_EVENT and not readiness.failed:
        # All of a bus's entities every few seconds would be a third of a processor for 5,000.
        return None
    return TRANSIENT_S.get(readiness.reason)
