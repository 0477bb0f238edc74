"""The controller of one bus: one task reconciles its manifests, another polls its partitions.

What is to be done is a set of keys with the time when each is due, so it is bounded by the number
of manifests however often they change. Every decision is made from the cache and the catalogue as
they are when a key is due: a key requests a reconciliation and never says what to do.
"""

import asyncio
import contextlib
import logging
import math
from dataclasses import dataclass, replace
from typing import Final

from bendybus.domain.backoff import Backoff
from bendybus.operator.bus.bus_link import BusLink
from bendybus.operator.bus.partition_channel import PartitionEndpoints
from bendybus.operator.bus.worker_pool import WorkerPool
from bendybus.operator.certificates.operator_issuer import now_utc
from bendybus.operator.controllers.bus_reconciler import BusReconciler, ReconcileResult
from bendybus.operator.controllers.entity_controller import (
    PAUSED,
    EntityController,
    EntityReconciler,
)
from bendybus.operator.controllers.manifest_deletions import ManifestDeletions
from bendybus.operator.controllers.status_writer import StatusWriter, conditions_changed
from bendybus.operator.decisions import conditions, validation
from bendybus.operator.decisions.conditions import PodTrouble
from bendybus.operator.decisions.manifests import BusView, EntityId, ManifestCache
from bendybus.operator.decisions.plan import ManifestDeletion
from bendybus.operator.decisions.reasons import Reason
from bendybus.operator.decisions.storage import DataDecision
from bendybus.operator.endless import endless
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.api import ApiError, KubernetesApi
from bendybus.operator.kubernetes.names import ObjectKey
from bendybus.operator.metrics import Metrics
from bendybus.operator.settings import Settings

logger = logging.getLogger(__name__)
PODS_EVERY_S: Final = 5.0
# How often all entities are reconciled because partitions come and go.
RECONCILE_ALL_S: Final = 1.0
RETRY: Final = Backoff(first_s=1.0, max_s=30.0)
# How often a bus is checked whose end of waiting no event tells.
POLL_S: Final = 30.0
FRONTEND_POLL_S: Final = 10.0
COUNTS_RETRY_S: Final = 2.0
# How long partitions may take to answer a new link before status reports that they do not.
GRACE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Shared:
    """What the controllers of all buses share."""

    api: KubernetesApi
    settings: Settings
    cache: ManifestCache
    writer: StatusWriter
    metrics: Metrics
    buses: BusReconciler
    entities: EntityReconciler
    endpoints: PartitionEndpoints
    workers: WorkerPool | None = None


class BusController:
    """One bus, whether its BusNamespace exists or is only named by entities."""

    def __init__(self, bus: ObjectKey, shared: Shared) -> None:
        self.bus = bus
        self._shared = shared
        self._wake = asyncio.Event()
        self._bus_due: float | None = 0.0
        self._bus_failures = 0
        self._entities = EntityController(
            bus,
            shared.cache,
            shared.entities,
            shared.writer,
            unseen=lambda: self._deletions.unseen,
        )
        self._deletions = ManifestDeletions(
            bus,
            shared.api,
            shared.cache,
            shared.entities,
            watched=shared.settings.watch_namespaces,
        )
        self._result = ReconcileResult(DataDecision(None), 0)
        # The manifest that was reconciled last; status shows its generation.
        self._result_uid, self._result_generation = "", 0
        self._grace_until_s = 0.0
        self._pods = PodWatch(bus, shared.buses)
        self._all_due_s = 0.0
        self._link: BusLink | None = None
        self._link_task: asyncio.Task[None] | None = None

    # Events, from the controller manager

    def enqueue_bus(self) -> None:
        """Have the BusNamespace and its objects reconciled."""
        self._bus_due = 0.0
        self._wake.set()

    def enqueue_entity(self, manifest: EntityId) -> None:
        """Have an entity reconciled."""
        self._entities.enqueue(manifest)
        self._wake.set()

    def enqueue_all(self) -> None:
        """Have everything reconciled, and orphans searched for: the cache is complete."""
        self._deletions.search_orphans()
        self._enqueue_entities()
        self.enqueue_bus()

    def manifest_deleted(self, deletion: ManifestDeletion) -> None:
        """Record a manifest that was deleted."""
        self._deletions.note(deletion)
        self._wake.set()

    def pending_names(self) -> list[str]:
        """Return the names of entities whose manifests are gone and that are not released yet."""
        return self._deletions.pending_names()

    def deletions(self) -> list[ManifestDeletion]:
        """Return the deletions that are not carried out yet."""
        return self._deletions.deletions()

    def _enqueue_entities(self, at_s: float = 0.0) -> None:
        self._entities.enqueue_all(at_s)
        self._wake.set()

    # Events, from the link

    def _entities_changed(self, keys: list[str]) -> None:
        """Have the manifests of changed entities reconciled."""
        assert self._link is not None, "only a link that is open tells changes"
        self._entities.enqueue_entities(keys, self._link.directory)
        self._deletions.entities_changed(keys, self._link.directory)
        self._wake.set()

    def _reachability_changed(self) -> None:
        """Have all entities reconciled, at most once in RECONCILE_ALL_S."""
        self._deletions.retry_now()
        now_s = asyncio.get_running_loop().time()
        self._all_due_s = max(now_s, self._all_due_s + RECONCILE_ALL_S)
        self._enqueue_entities(self._all_due_s)

    # The two tasks

    async def run(self) -> None:
        """Reconcile the bus until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                works = {"reconcile": self._reconcile_loop(), "count": self._count_loop()}
                for what, work in works.items():
                    group.create_task(endless(work, what), name=f"{what}-{self.bus}")
        finally:
            await self._close_link()
            self._result = ReconcileResult(DataDecision(None), 0)
            self._show_certificates()

    async def _reconcile_loop(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wait(loop.time())
            now = loop.time()
            view = self._shared.cache.buses.get(self.bus)
            if self._bus_due is not None and self._bus_due <= now:
                await self._reconcile_bus(view)
                await self._wait_for_first_answers(view)
            if self._deletions_due() <= now and self._link is not None:
                await self._deletions.carry_out(self._link, now)
            await self._entities.reconcile(self._link, paused=self._paused)
            if self._link is not None:
                await self._link.catch_up()
            self._show_bus(self._shared.cache.buses.get(self.bus))

    async def _wait(self, now: float) -> None:
        bus_due = math.inf if self._bus_due is None else self._bus_due
        first = min(bus_due, self._entities.next_due(), self._deletions_due())
        timeout_s = None if first == math.inf else max(0.0, first - now)
        if timeout_s != 0.0:
            # Not wait_for: in Python 3.11 it loses a cancellation that comes with the wake-up.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._wake.wait()
        self._wake.clear()

    def _deletions_due(self) -> float:
        """Return when deletions are due; infinity while they cannot be carried out."""
        link, due = self._link, self._deletions.due
        if due is None or link is None or not link.knows_catalogue() or self._paused:
            return math.inf
        return due

    async def _wait_for_first_answers(self, view: BusView | None) -> None:
        """Give partitions time to answer a new link, so that status does not flap."""
        if view is None or not conditions.has_run(view.status):
            return
        while self._grace_left_s() > 0:
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._grace_until_s):
                    await self._wake.wait()

    def _grace_left_s(self) -> float:
        if self._link is None or self._link.started:
            return 0.0
        return self._grace_until_s - asyncio.get_running_loop().time()

    async def _count_loop(self) -> None:
        settings = self._shared.settings
        while True:
            link = self._link
            if self._link_task is not None and self._link_task.done():
                # It never ends by itself: raise the error that ended it.
                self._link_task.result()
            if link is None:
                await asyncio.sleep(COUNTS_RETRY_S)
                continue
            self._entities.show_counts(await link.refresh_counts(), self._link)
            all_run = not link.unreachable() and self._result.frontends_ready > 0
            await self._pods.look(all_run=all_run)
            if self._grace_left_s() <= 0:
                self._show_bus(self._shared.cache.buses.get(self.bus), urgent=False)
            every_s = COUNTS_RETRY_S if link.unreachable() else settings.counts_every_s
            await asyncio.sleep(min(every_s, settings.counts_every_s))

    # The bus

    @property
    def _paused(self) -> bool:
        return self._result.decision.reason is Reason.PAUSED

    async def _reconcile_bus(self, view: BusView | None) -> None:
        self._bus_due = None
        if view is None:
            self._result = ReconcileResult(DataDecision(None), 0)
            self._result_uid, self._result_generation = "", 0
            self._show_certificates()
            await self._close_link()
            return
        problems = validation.bus_problems(view)
        if view.annotations.get(names.PAUSE_ANNOTATION) == "true":
            self._hold(view, Reason.PAUSED, PAUSED)
            await self._renew_certificates()
        elif problems:
            self._hold(view, Reason.INVALID_SPEC, problems[0])
            await self._renew_certificates()
        else:
            await self._try_reconcile_bus(view)

    async def _try_reconcile_bus(self, view: BusView) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            self._result = await self._shared.buses.reconcile(view)
            self._result_uid, self._result_generation = view.uid, view.generation
            self._show_certificates()
            await self._open_link(self._result)
        except ApiError as error:
            self._bus_failures += 1
            delay_s = RETRY.delay_s(self._bus_failures)
            self._shared.metrics.errors.labels("BusNamespace").inc()
            logger.warning(
                "bus %s: reconciliation failed; retrying in %.0f s: %s",
                self.bus,
                delay_s,
                error.message,
                extra={"action": "retry"},
            )
            if error.final:
                why = f"cannot create the objects of the bus: {error.message}"
                self._hold(view, Reason.REFUSED, why)
            self._requeue_bus_in(delay_s)
            return
        self._shared.metrics.reconciled("BusNamespace", loop.time() - began)
        self._bus_failures = 0
        if self._result.decision.identity is None or self._result.decision.reason is Reason.REFUSED:
            # No event tells that volumes are gone, or that a quota was raised.
            self._requeue_bus_in(POLL_S)
        elif self._result.frontends_ready < 1:
            self._requeue_bus_in(FRONTEND_POLL_S)

    async def _renew_certificates(self) -> None:
        """Renew the certificates of a bus that is not reconciled; they would expire otherwise."""
        buses = self._shared.buses
        try:
            await buses.renew(self.bus)
            self._result = replace(self._result, certificates=await buses.certificates_of(self.bus))
            self._show_certificates()
            if self._link is not None:
                await self._open_link(self._result)
        except ApiError as error:
            self._shared.metrics.errors.labels("BusNamespace").inc()
            logger.warning("bus %s: certificates not renewed: %s", self.bus, error.message)
            self._requeue_bus_in(POLL_S)

    def _requeue_bus_in(self, delay_s: float) -> None:
        """Have the bus reconciled after a delay, unless it is due already."""
        if self._bus_due is None:
            self._bus_due = asyncio.get_running_loop().time() + delay_s

    def _hold(self, view: BusView, reason: Reason, message: str) -> None:
        decision = DataDecision(self._result.decision.identity, reason=reason, message=message)
        self._result = replace(self._result, decision=decision)
        self._result_uid, self._result_generation = view.uid, view.generation

    async def _open_link(self, result: ReconcileResult) -> None:
        identity = result.decision.identity
        if identity is None:
            await self._close_link()
            return
        endpoints = self._shared.endpoints
        material = await endpoints.material(self.bus)
        link = self._link
        if link is not None and link.identity == identity and link.material == material:
            return
        await self._close_link()
        self._link = BusLink(
            self.bus,
            identity,
            material,
            timeout_s=self._shared.settings.call_timeout_s,
            entities_changed=self._entities_changed,
            reachability_changed=self._reachability_changed,
            address=endpoints.address,
            workers=self._shared.workers,
        )
        self._link_task = asyncio.create_task(self._link.run(), name=f"link-{self.bus}")
        self._grace_until_s = asyncio.get_running_loop().time() + GRACE_S
        self._deletions.search_orphans()
        self._enqueue_entities()

    async def _close_link(self) -> None:
        task, self._link, self._link_task = self._link_task, None, None
        if task is not None:
            task.cancel()
            # Not `await task`: its cancellation could not be distinguished from our own.
            await asyncio.wait({task})
            self._shared.metrics.forget_bus(self.bus.namespace, self.bus.name)

    def _show_certificates(self) -> None:
        ends = self._result.certificates.ends
        self._shared.metrics.show_certificates(self.bus.namespace, self.bus.name, ends)

    def _show_bus(self, view: BusView | None, *, urgent: bool = True) -> None:
        if view is None:
            return
        link, decision = self._link, self._result.decision
        unreachable = link.unreachable() if link is not None else set()
        readiness = conditions.bus_readiness(
            decision,
            unreachable,
            self._result.frontends_ready,
            started=(link is not None and link.started) or conditions.has_run(view.status),
            troubles=self._pods.troubles,
        )
        before = view.status.get("conditions") or []
        # 0: none yet, or one of an earlier manifest of this name.
        generation = self._result_generation if self._result_uid == view.uid else 0
        ready = conditions.ready_condition(readiness, generation, before, now_utc())
        warned = link.conditions() if link is not None else {}
        shown = [
            ready,
            *conditions.progress(readiness, generation, before, now_utc()),
            *conditions.warnings(warned, generation, before, now_utc()),
            *conditions.certificates(
                self._result.certificates.overdue, generation, before, now_utc()
            ),
            *conditions.manifests_not_seen(
                self._deletions.unseen, self._deletions.not_served, generation, before, now_utc()
            ),
        ]
        status = {"conditions": shown, "observedGeneration": generation}
        if link is not None:
            status |= conditions.bus_facts(
                self.bus,
                decision.identity,
                unreachable,
                link.directory.live(),
                link.directory.orphaned(),
                link.total(),
            )
            labels = (self.bus.namespace, self.bus.name)
            self._shared.metrics.unreachable.labels(*labels).set(len(unreachable))
            self._shared.metrics.orphaned.labels(*labels).set(len(link.directory.orphaned()))
        self._shared.writer.put(
            "BusNamespace",
            view.key,
            view.uid,
            status=status,
            current=view.status,
            urgent=urgent or conditions_changed(status, view.status),
        )


class PodWatch:
    """The troubles of one bus's pods, as of the last look."""

    def __init__(self, bus: ObjectKey, buses: BusReconciler) -> None:
        self.troubles: list[PodTrouble] = []
        self._bus = bus
        self._buses = buses
        self._due_s = 0.0

    async def look(self, *, all_run: bool) -> None:
        """List the pods if it is time to, unless all of them run."""
        now_s = asyncio.get_running_loop().time()
        if all_run:
            self.troubles = []
        elif now_s >= self._due_s:
            self._due_s = now_s + PODS_EVERY_S
            try:
                self.troubles = await self._buses.pod_troubles(self._bus)
            except ApiError as error:
                logger.warning("bus %s: its pods cannot be listed: %s", self._bus, error.message)
