"""The entities of one bus: which are due for reconciling, whether each is Ready, their status.

Driven by the bus's controller, in its task. What is due is a set of keys with times, so it is
bounded by the number of manifests however often they change.
"""

import asyncio
import math
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from bendybus.domain import limits
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.lifecycle import EntityState
from bendybus.operator.bus.bus_link import BusLink
from bendybus.operator.controllers.entity_reconciler import EntityReconciler
from bendybus.operator.controllers.status_writer import StatusWriter, conditions_changed
from bendybus.operator.decisions.conditions import Readiness
from bendybus.operator.decisions.manifest_cache import ManifestCache
from bendybus.operator.decisions.manifests import BusView, EntityId, EntityView
from bendybus.operator.decisions.reasons import Reason
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.names import ObjectKey

# Transient reasons, and after how long the entity is reconciled again.
TRANSIENT_S: Final = {
    Reason.PROGRESSING: 1.0,
    Reason.PARTITION_UNAVAILABLE: 5.0,
    Reason.NAMESPACE_NOT_READY: 2.0,
    Reason.PARTITION_OUTDATED: 5.0,
    Reason.REFUSED: 60.0,
}
# Of these, an event announces the end: the link opens, or partitions answer.
ENDED_BY_EVENT: Final = frozenset({Reason.PARTITION_UNAVAILABLE, Reason.NAMESPACE_NOT_READY})
CONCURRENT_MAX: Final = 16
STATES_REMEMBERED: Final = limits.ENTITIES_PER_NAMESPACE + limits.TOMBSTONES_MAX
PAUSED: Final = f"reconciliation is paused by the annotation {names.PAUSE_ANNOTATION}."


class _Reconciled(NamedTuple):
    """A manifest as it was reconciled last. A new manifest of a name has another UID."""

    uid: str
    generation: int
    readiness: Readiness


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
                    if known is None or not known.readiness.ready:
                        self._due[view.id] = 0.0

    def next_due(self) -> float:
        """Return when the first entity is due; infinity if none is."""
        return min(self._due.values(), default=math.inf)

    async def reconcile(self, bus: BusView | None, link: BusLink | None, *, paused: bool) -> None:
        """Reconcile the entities that are due; subscriptions after topics."""
        now = asyncio.get_running_loop().time()
        due = [manifest for manifest, when in self._due.items() if when <= now]
        due.sort(key=lambda manifest: manifest.kind is EntityKind.SUBSCRIPTION)
        for start in range(0, len(due), CONCURRENT_MAX):
            batch = due[start : start + CONCURRENT_MAX]
            await asyncio.gather(*(self._reconcile(each, bus, link, paused) for each in batch))

    async def _reconcile(
        self, manifest: EntityId, bus: BusView | None, link: BusLink | None, paused: bool
    ) -> None:
        del self._due[manifest]
        view = self._cache.entity(manifest)
        if view is None or view.bus != self._bus:
            self._reconciled.pop(manifest, None)
            return
        if paused and self._stands(view):
            return
        if paused:
            readiness = Readiness(False, Reason.PAUSED, PAUSED)
        else:
            readiness = await self._entities.reconcile(
                view, bus, link, self._rival_of, self._unseen()
            )
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
    if event_comes and readiness.reason in ENDED_BY_EVENT:
        # All of a bus's entities every few seconds would be a third of a processor for 5,000.
        return None
    return TRANSIENT_S.get(readiness.reason)
