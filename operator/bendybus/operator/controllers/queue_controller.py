"""The queues of one bus: which are due for reconciling, whether each is Ready, and their status.

Driven by the bus's controller, in its task. What is due is a set of keys with times, so it is
bounded by the number of manifests however often they change.
"""

import asyncio
import math
from collections.abc import Iterable
from typing import Final

from bendybus.domain.entity import Entity
from bendybus.operator.bus.bus_link import BusLink
from bendybus.operator.controllers.entity_reconciler import EntityReconciler
from bendybus.operator.controllers.status_writer import StatusWriter, conditions_changed
from bendybus.operator.decisions.conditions import Readiness
from bendybus.operator.decisions.manifest_cache import ManifestCache
from bendybus.operator.decisions.manifests import BusView, QueueView
from bendybus.operator.decisions.reasons import Reason
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.names import ObjectKey

# Transient reasons, and after how long the queue is reconciled again.
TRANSIENT_S: Final = {
    Reason.PROGRESSING: 1.0,
    Reason.PARTITION_UNAVAILABLE: 5.0,
    Reason.NAMESPACE_NOT_READY: 2.0,
    Reason.REFUSED: 60.0,
}
# Of these, an event announces the end: the link opens, or partitions answer.
ENDED_BY_EVENT: Final = frozenset({Reason.PARTITION_UNAVAILABLE, Reason.NAMESPACE_NOT_READY})
CONCURRENT_MAX: Final = 16
PAUSED: Final = f"reconciliation is paused by the annotation {names.PAUSE_ANNOTATION}."


class QueueController:
    """Reconciles the Queues of one bus when they are due."""

    def __init__(
        self,
        bus: ObjectKey,
        cache: ManifestCache,
        entities: EntityReconciler,
        writer: StatusWriter,
    ) -> None:
        self._bus = bus
        self._cache = cache
        self._entities = entities
        self._writer = writer
        self._due: dict[ObjectKey, float] = {}
        self._readiness: dict[ObjectKey, Readiness] = {}

    def enqueue(self, key: ObjectKey) -> None:
        """Have a Queue reconciled now."""
        self._due[key] = 0.0

    def enqueue_all(self, at_s: float = 0.0) -> None:
        """Have every Queue reconciled at `at_s`, unless it is due earlier."""
        for key in self._cache.queues_of(self._bus):
            self._due[key] = min(at_s, self._due.get(key, at_s))

    def enqueue_entities(self, entity_keys: Iterable[str]) -> None:
        """Have the Queues of these entities reconciled now."""
        for key in entity_keys:
            for queue in self._cache.named(self._bus, key):
                self._due[queue.key] = 0.0

    def next_due(self) -> float:
        """Return when the first Queue is due; infinity if none is."""
        return min(self._due.values(), default=math.inf)

    async def reconcile(self, bus: BusView | None, link: BusLink | None, *, paused: bool) -> None:
        """Reconcile the Queues that are due."""
        now = asyncio.get_running_loop().time()
        due = [key for key, when in self._due.items() if when <= now]
        for start in range(0, len(due), CONCURRENT_MAX):
            batch = due[start : start + CONCURRENT_MAX]
            await asyncio.gather(*(self._reconcile(key, bus, link, paused) for key in batch))

    async def _reconcile(
        self, key: ObjectKey, bus: BusView | None, link: BusLink | None, paused: bool
    ) -> None:
        del self._due[key]
        queue = self._cache.queue(key)
        if queue is None or queue.bus != self._bus:
            self._readiness.pop(key, None)
            return
        if paused and (key in self._readiness or queue.status):
            return
        if paused:
            readiness = Readiness(False, Reason.PAUSED, PAUSED)
        else:
            readiness = await self._entities.reconcile(queue, bus, link, self._rival_of)
        self._readiness[key] = readiness
        delay_s = _requeue_after_s(readiness, link)
        if delay_s is not None and key not in self._due:
            self._due[key] = asyncio.get_running_loop().time() + delay_s
        self._show(self._cache.queue(key) or queue, link, urgent=True)

    def _rival_of(self, entity: Entity) -> QueueView | None:
        return self._cache.queue_by_uid(entity.manifest_uid)

    def show_counts(self, entity_keys: Iterable[str], link: BusLink | None) -> None:
        """Have the status of these entities' Queues written, with their new counts."""
        for key in entity_keys:
            for queue in self._cache.named(self._bus, key):
                self._show(queue, link, urgent=False)

    def _show(self, queue: QueueView, link: BusLink | None, *, urgent: bool) -> None:
        readiness = self._readiness.get(queue.key)
        if readiness is None:
            return
        status = EntityReconciler.status(queue, readiness, link)
        self._writer.put(
            "Queue",
            queue.key,
            queue.uid,
            status=status,
            current=queue.status,
            urgent=urgent and conditions_changed(status, queue.status),
        )


def _requeue_after_s(readiness: Readiness, link: BusLink | None) -> float | None:
    """Return after how long a queue is reconciled again without an event; None: never."""
    if readiness.ready:
        return None
    event_comes = link is None or bool(link.unreachable()) or not link.knows_catalogue()
    if event_comes and readiness.reason in ENDED_BY_EVENT:
        # All of a bus's queues every few seconds would be a third of a processor for 5,000.
        return None
    return TRANSIENT_S.get(readiness.reason)
