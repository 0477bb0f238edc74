"""Starts and stops the controllers: one per bus, while this operator leads.

Events tell what changed; a list every few minutes, and whenever this operator becomes the leader,
covers events that were missed. Only its controller acts for a bus.
"""

import asyncio
import json
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from bendybus.crds import loading
from bendybus.crds.manifest import DeletionPolicy
from bendybus.domain.backoff import Backoff
from bendybus.domain.entity_kind import EntityKind
from bendybus.operator.bus.partition_channel import PartitionEndpoints, PodEndpoints
from bendybus.operator.bus.worker_pool import WorkerPool
from bendybus.operator.certificates.cert_manager_issuer import CertManagerIssuer
from bendybus.operator.certificates.operator_issuer import OperatorIssuer, now_utc
from bendybus.operator.controllers import leadership
from bendybus.operator.controllers.bus_controller import BusController, Shared
from bendybus.operator.controllers.bus_reconciler import BusReconciler
from bendybus.operator.controllers.entity_controller import EntityReconciler
from bendybus.operator.controllers.kopf_settings import LIFETIME_S
from bendybus.operator.controllers.leadership import Peers
from bendybus.operator.controllers.manifest_deletions import VolumeDeletions
from bendybus.operator.controllers.status_writer import StatusWriter
from bendybus.operator.decisions import manifests
from bendybus.operator.decisions.conditions import READY
from bendybus.operator.decisions.manifests import BusView, EntityView, ManifestCache, View
from bendybus.operator.decisions.plan import ManifestDeletion
from bendybus.operator.endless import endless
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.api import ApiError, Body, KubernetesApi
from bendybus.operator.kubernetes.names import ObjectKey
from bendybus.operator.metrics import Metrics
from bendybus.operator.settings import Settings

logger = logging.getLogger(__name__)
TICK_S: Final = 2.0
TICKS_PER_MEASURE: Final = 5
# The pause before a failed controller is restarted, and after how long a failure is forgotten.
RESTART: Final = Backoff(first_s=1.0, max_s=60.0)
# How often at most everything is listed because peers considered this operator dead.
MISSED_AGAIN_S: Final = 30.0
FORGIVEN_S: Final = 600.0
DELETED: Final = "DELETED"


@dataclass(frozen=True, slots=True)
class ManifestLists:
    """All manifests. `kinds`: the kinds of entities that could be listed."""

    buses: list[BusView]
    entities: list[EntityView]
    kinds: frozenset[EntityKind]


class ControllerManager:
    """Fills the manifest cache from events and lists; runs a controller per bus while it leads."""

    def __init__(
        self,
        api: KubernetesApi,
        settings: Settings,
        metrics: Metrics,
        *,
        priority: int,
        endpoints: PartitionEndpoints | None = None,
        workers: WorkerPool | None = None,
        tick_s: float = TICK_S,
    ) -> None:
        self._api = api
        self._settings = settings
        self._metrics = metrics
        self._priority = priority
        self._tick_s = tick_s
        self.authority = OperatorIssuer(api, settings)
        issued = CertManagerIssuer(api, settings)
        self.endpoints = endpoints or PodEndpoints(settings, self.authority, issued)
        self._writer = StatusWriter(
            api,
            patches_per_s=settings.status_patches_per_s,
            urgent_per_s=settings.urgent_patches_per_s,
        )
        self.cache = ManifestCache()
        buses = BusReconciler(api, settings, self.authority, issued)
        self._volumes = VolumeDeletions(buses)
        self._shared = Shared(
            api=api,
            settings=settings,
            cache=self.cache,
            writer=self._writer,
            metrics=metrics,
            buses=buses,
            entities=EntityReconciler(metrics),
            endpoints=self.endpoints,
            workers=workers,
        )
        self._controllers: dict[ObjectKey, tuple[BusController, asyncio.Task[None]]] = {}
        self._children: dict[tuple[str, ObjectKey], int] = {}
        # Bus → how often its controller failed, and when last.
        self._failures: dict[ObjectKey, tuple[int, float]] = {}
        self.leading = False
        # Whether this operator is, and ever was, among its peers.
        self._present = self._signed_in = False
        self._listed_at: float | None = None
        self._peers = Peers()
        self._missed_at = -math.inf
        self._clocks_differ = False
        # Events that came while lists were read; they are applied after the lists.
        self._deferred: list[Callable[[], None]] | None = None

    # Events, from the handlers

    def bus_event(self, change: str | None, body: Body) -> None:
        """Take an event of a BusNamespace."""
        if self._deferred is not None:
            self._deferred.append(lambda: self.bus_event(change, body))
            return
        if not self.leading:
            return
        view = manifests.bus_view(body)
        before = self.cache.buses.get(view.key)
        if change != DELETED and before is not None and manifests.succeeded_by(view, before):
            # Kopf orders the events of one UID only: this one was deleted meanwhile.
            return
        if change == DELETED:
            # The bus may have been recreated already.
            if before is not None and before.uid == view.uid:
                self.cache.drop_bus(view.key)
            if view.manifest and view.manifest.spec.deletion_policy is DeletionPolicy.DELETE:
                self._volumes.start(view)
        else:
            self.cache.put_bus(view)
            if before is not None and _same(before, view):
                return
        controller = self._controller(view.key)
        controller.enqueue_all()

    def entity_event(self, change: str | None, body: Body) -> None:
        """Take an event of an entity's manifest."""
        if self._deferred is not None:
            self._deferred.append(lambda: self.entity_event(change, body))
            return
        if not self.leading:
            return
        view = manifests.entity_view(body)
        before = self.cache.entity(view.id)
        if change == DELETED:
            if before is not None and before.uid == view.uid:
                self.cache.drop_entity(view.id)
            self._manifest_deleted(view.bus, _deletion_of(view))
            # What was known of it is forgotten.
            self._controller(view.bus).enqueue_entity(view.id)
            return
        if before is not None and manifests.succeeded_by(view, before):
            # Kopf orders the events of one UID only: this one was deleted meanwhile.
            return
        self.cache.put_entity(view)
        if before is not None and before.uid != view.uid:
            # Its deletion was missed, and so was the deletionPolicy of that time.
            self._manifest_deleted(before.bus, _deletion_of(before).retained())
        if before is None or not _same(before, view):
            self._controller(view.bus).enqueue_entity(view.id)

    def child_event(self, change: str | None, body: Body) -> None:
        """Take an event of an object that the operator created and others may have changed."""
        labels = body["metadata"].get("labels") or {}
        if not self.leading or names.BUS_LABEL not in labels:
            return
        own = manifests.key_of(body)
        bus = ObjectKey(own.namespace, labels[names.BUS_LABEL])
        mark = hash(json.dumps(_relevant_state(body), sort_keys=True))
        known = self._children.pop((body["kind"], own), None)
        if change != DELETED:
            self._children[body["kind"], own] = mark
        if (change == DELETED or known != mark) and bus in self._controllers:
            self._controllers[bus][0].enqueue_bus()

    def _manifest_deleted(self, bus: ObjectKey, deletion: ManifestDeletion) -> None:
        controller = self._controller(bus)
        controller.manifest_deleted(deletion)
        for rival in self.cache.named(bus, deletion.name.lower()):
            controller.enqueue_entity(rival.id)

    # The task

    async def run(self) -> None:
        """Lead whenever no other peer does, until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as group:
                writer = endless(self._writer.run(), "status writer")
                group.create_task(writer, name="status-writer")
                ticks = 0
                while True:
                    await self._tick(loop.time())
                    # Walks through every manifest, so not every time.
                    if ticks % TICKS_PER_MEASURE == 0:
                        self._measure()
                    ticks += 1
                    self._replace_failed()
                    await asyncio.sleep(self._tick_s)
        finally:
            await self._stop()

    async def _tick(self, now: float) -> None:
        try:
            leading = await self._leads()
            if leading and not self.leading:
                logger.info("operator: leading", extra={"action": "leading"})
                self._listed_at = None
            if not leading and self.leading:
                logger.info("operator: standing by", extra={"action": "standby"})
                self.leading = False
                await self._stop()
            overdue = self._listed_at is None or now - self._listed_at > self._settings.resync_s
            if leading and overdue:
                await self._list_manifests()
                self._listed_at = now
        except ApiError as error:
            # While the API server is unavailable, controllers continue with the cache.
            logger.warning("operator: %s", error.message, extra={"action": "retry"})

    async def _leads(self) -> bool:
        settings = self._settings
        if not settings.peering:
            return True
        namespaced = bool(settings.watch_namespaces)
        kind = "KopfPeering" if namespaced else "ClusterKopfPeering"
        place = settings.watch_namespaces[0] if namespaced else ""
        peering = await self._api.get(kind, place, settings.peering)
        status = (peering or {}).get("status") or {}
        present = settings.identity in status
        now_s = asyncio.get_running_loop().time()
        if self._present and not present and now_s - self._missed_at > MISSED_AGAIN_S:
            # Where clocks differ, peers consider it dead repeatedly.
            self._missed_at = now_s
            # Peers considered it dead: it, or the API server, was suspended. It continues until
            # Kopf has registered it again, since two leaders do no harm; but everything is listed
            # for what happened meanwhile.
            self._listed_at = None
        self._present = present
        self._signed_in = self._signed_in or present
        self._warn_of_clocks(leadership.skew_s(status, settings.identity, now_utc()))
        leads = self._peers.leads(status, settings.identity, self._priority, now_s)
        # Before it is registered it does not know its peers.
        return self._signed_in and leads

    def _warn_of_clocks(self, skew_s: float) -> None:
        """Log once that the clocks of nodes differ by more than Kopf's peering tolerates."""
        differ = skew_s > LIFETIME_S / 2
        if differ and not self._clocks_differ:
            logger.warning(
                "operator: the clock of a peer's node is %.0f s ahead; synchronize the clocks, or "
                "Kopf may consider running operators dead",
                skew_s,
                extra={"action": "clock-skew"},
            )
        self._clocks_differ = differ

    async def _list_manifests(self) -> None:
        """Read all manifests and lead from then on. Raises ApiError.

        Nothing is reconciled before the first complete lists: an entity that is not in the cache
        yet would look like one whose manifest is gone. Events that come meanwhile are applied
        afterwards, since they may be newer.
        """
        self._deferred = []
        try:
            namespaces = self._settings.watch_namespaces or ("",)
            found = await read_lists(self._api, namespaces)
            self.cache.replace(found.buses, found.entities, found.kinds)
            self.leading = True
        finally:
            deferred, self._deferred = self._deferred, None
            for event in deferred:
                event()
        for key in self.cache.bus_keys() | set(self._controllers):
            self._controller(key).enqueue_all()

    def _measure(self) -> None:
        self._metrics.leading.set(self.leading)
        self._metrics.waiting.set(self._writer.waiting())
        self._metrics.written.set(self._writer.written)
        views: list[tuple[str, View]] = [(view.object_kind, view) for view in self.cache.entities()]
        views += [("BusNamespace", view) for view in self.cache.buses.values()]
        reasons = Counter(
            (kind, each.get("reason", ""))
            for kind, view in views
            for each in view.status.get("conditions") or []
            if each.get("type") == READY and each.get("status") != "True"
        )
        self._metrics.show_not_ready(reasons if self.leading else {})

    def _controller(self, bus: ObjectKey) -> BusController:
        known = self._controllers.get(bus)
        if known is None:
            controller = BusController(bus, self._shared)
            task = asyncio.create_task(controller.run(), name=f"controller-{bus}")
            known = self._controllers[bus] = (controller, task)
        return known[0]

    def _replace(self, bus: ObjectKey, failed: BusController, error: BaseException | None) -> None:
        """Restart the controller of one bus after a pause; others are not affected."""
        failures, _ = self._failures.get(bus, (0, 0.0))
        pause_s = RESTART.delay_s(failures + 1)
        logger.error(
            "bus %s: its controller failed; restarting in %.0f s",
            bus,
            pause_s,
            exc_info=error,
            extra={"action": "controller-failed"},
        )
        self._metrics.controller_failures.labels(bus.namespace, bus.name).inc()
        now_s = asyncio.get_running_loop().time()
        self._failures[bus] = (failures + 1, now_s)
        controller = BusController(bus, self._shared)
        for deletion in failed.deletions():
            controller.manifest_deleted(deletion)
        controller.enqueue_all()

        async def run() -> None:
            await asyncio.sleep(pause_s)
            await controller.run()

        task = asyncio.create_task(run(), name=f"controller-{bus}")
        self._controllers[bus] = (controller, task)

    def _replace_failed(self) -> None:
        """Stop controllers whose bus is gone; restart failed ones, and log that."""
        now_s = asyncio.get_running_loop().time()
        known = self.cache.bus_keys()
        for bus, (_, at_s) in list(self._failures.items()):
            if now_s - at_s > FORGIVEN_S or bus not in known:
                del self._failures[bus]
        for bus, (controller, task) in list(self._controllers.items()):
            if task.done() and bus in known:
                self._replace(bus, controller, task.exception())
            if bus not in known:
                if controller.pending_names():
                    logger.warning(
                        "bus %s: deleted before its entities were released; if its data is "
                        "restored, these are orphans: %s",
                        bus,
                        ", ".join(controller.pending_names()),
                        extra={"action": "undone"},
                    )
                del self._controllers[bus]
                task.cancel()

    async def _stop(self) -> None:
        self.leading = False
        self._children.clear()
        self._failures.clear()
        controllers, self._controllers = self._controllers, {}
        self._writer.clear()
        for _, task in controllers.values():
            task.cancel()
        if controllers:
            # Not `await task`: its cancellation could not be distinguished from our own.
            await asyncio.wait({task for _, task in controllers.values()})


def _deletion_of(view: EntityView) -> ManifestDeletion:
    return ManifestDeletion(
        view.uid,
        view.entity_name,
        view.key.namespace,
        view.deletion_policy,
        with_messages=view.annotations.get(names.ALLOW_DELETION_ANNOTATION) == "true",
        created_at=view.created_at,
    )


def _same(before: BusView | EntityView, now: BusView | EntityView) -> bool:
    """Whether only the status changed, which the operator writes itself."""
    return (before.uid, before.generation, before.annotations, before.deleting) == (
        now.uid,
        now.generation,
        now.annotations,
        now.deleting,
    )


def _relevant_state(body: Body) -> Any:
    """Return what matters of a child object: generation, version of its data, ready pods."""
    ready = (body.get("status") or {}).get("readyReplicas")
    metadata, is_deployment = body["metadata"], body["kind"] == "Deployment"
    # Of a Secret only the metadata is watched; whatever changes in it changes the version.
    version = metadata.get("resourceVersion") if body["kind"] == "Secret" else None
    return [metadata.get("generation"), version, ready if is_deployment else None]


async def read_lists(api: KubernetesApi, namespaces: Iterable[str]) -> ManifestLists:
    """Return the manifests of these namespaces; "" is all of them. Raises ApiError."""
    buses: list[Body] = []
    entities: list[Body] = []
    kinds = set(EntityKind)
    for namespace in namespaces:
        buses += await api.list("BusNamespace", namespace)
        for kind in EntityKind:
            found = await _of_kind(api, kind, namespace)
            if found is None:
                kinds.discard(kind)
            else:
                entities += found
    return ManifestLists(
        [manifests.bus_view(body) for body in buses],
        [manifests.entity_view(body) for body in entities],
        frozenset(kinds),
    )


async def _of_kind(api: KubernetesApi, kind: EntityKind, namespace: str) -> list[Body] | None:
    """Return the manifests of a kind; None if they cannot be listed. Raises ApiError.

    An upgrade may have left out the CustomResourceDefinitions, or the rights, of kinds that came
    later: queues are served without them.
    """
    object_kind = loading.ENTITIES[kind].KIND
    try:
        return await api.list(object_kind, namespace)
    except ApiError as error:
        if kind is EntityKind.QUEUE or error.status not in (403, 404):
            raise
        logger.warning(
            "operator: %s manifests are not served: %s. Apply the CustomResourceDefinitions and "
            "the ClusterRole of this version",
            object_kind,
            error.message,
            extra={"action": "not-served"},
        )
        return None
