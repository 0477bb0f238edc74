"""The operator as a whole: the world, a keeper per bus, and who of the peers acts.

Events say that something changed; a list every few minutes, and whenever this operator begins to
act, says it again for what was missed. Nothing is done for a bus but by its keeper.
"""

import asyncio
import json
import logging
import math
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from bendybus.crds.manifest import DeletionPolicy
from bendybus.operator.bus.partition_addresses import Reaching, ReachingPods
from bendybus.operator.certificates.authority_secrets import OwnAuthority, now_utc
from bendybus.operator.certificates.cert_manager import CertManager
from bendybus.operator.controllers import leadership
from bendybus.operator.controllers.bus_controller import Keeper, Tools
from bendybus.operator.controllers.bus_reconciler import BusKeeping
from bendybus.operator.controllers.entity_reconciler import EntityKeeping
from bendybus.operator.controllers.kopf_settings import LIFETIME_S
from bendybus.operator.controllers.leadership import Peers
from bendybus.operator.controllers.status_writer import StatusWriter
from bendybus.operator.decisions import manifests
from bendybus.operator.decisions.conditions import READY
from bendybus.operator.decisions.manifests import BusView, QueueView, View, World
from bendybus.operator.decisions.plan import Departure
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.api import ApiError, Body, KubernetesApi
from bendybus.operator.kubernetes.names import ObjectKey
from bendybus.operator.metrics import Metrics
from bendybus.operator.settings import Settings

logger = logging.getLogger(__name__)
LOOK_S: Final = 2.0
LOOKS_A_MEASURE: Final = 5
# How long a bus whose keeper failed is left alone, and when that is forgotten.
AGAIN_S_MIN: Final = 1.0
AGAIN_S_MAX: Final = 60.0
# How often everything is listed because peers took this operator for dead.
MISSED_AGAIN_S: Final = 30.0
FORGIVEN_S: Final = 600.0
DELETED: Final = "DELETED"


class Office:
    """Takes events, lists everything now and then, keeps a keeper per bus while it acts."""

    def __init__(
        self,
        api: KubernetesApi,
        settings: Settings,
        metrics: Metrics,
        *,
        priority: int,
        reaching: Reaching | None = None,
        look_s: float = LOOK_S,
    ) -> None:
        self._api = api
        self._settings = settings
        self._metrics = metrics
        self._priority = priority
        self._look_s = look_s
        self.authority = OwnAuthority(api, settings)
        issued = CertManager(api, settings)
        self.reaching = reaching or ReachingPods(settings, self.authority, issued)
        self._writer = StatusWriter(
            api,
            patches_per_s=settings.status_patches_per_s,
            urgent_per_s=settings.urgent_patches_per_s,
        )
        self.world = World()
        self._tools = Tools(
            api=api,
            settings=settings,
            world=self.world,
            writer=self._writer,
            metrics=metrics,
            buses=BusKeeping(api, settings, self.authority, issued),
            entities=EntityKeeping(metrics),
            reaching=self.reaching,
        )
        self._keepers: dict[ObjectKey, tuple[Keeper, asyncio.Task[None]]] = {}
        self._children: dict[tuple[str, ObjectKey], int] = {}
        # How often keepers failed, and when last.
        self._failures: dict[ObjectKey, tuple[int, float]] = {}
        self._forgetting: set[asyncio.Task[None]] = set()
        self.leading = False
        # Whether this operator is, and ever was, among its peers.
        self._present = self._signed_in = False
        self._listed_at: float | None = None
        self._peers = Peers()
        self._missed_at = -math.inf
        self._clocks_differ = False
        # Events that came while lists were read, which may be older than they are.
        self._heard: list[Callable[[], None]] | None = None

    # Events, from the handlers

    def bus_event(self, change: str | None, body: Body) -> None:
        """Take an event of a BusNamespace."""
        if self._heard is not None:
            self._heard.append(lambda: self.bus_event(change, body))
            return
        if not self.leading:
            return
        view = manifests.bus_view(body)
        before = self.world.buses.get(view.key)
        if change == DELETED:
            self.world.drop_bus(view.key)
            if view.manifest and view.manifest.spec.deletion_policy is DeletionPolicy.DELETE:
                self._forget_volumes(view)
        else:
            self.world.put_bus(view)
            if before is not None and _same(before, view):
                return
        keeper = self._keeper(view.key)
        keeper.look_at_all()

    def queue_event(self, change: str | None, body: Body) -> None:
        """Take an event of a Queue."""
        if self._heard is not None:
            self._heard.append(lambda: self.queue_event(change, body))
            return
        if not self.leading:
            return
        view = manifests.queue_view(body)
        before = self.world.queue(view.key)
        if change == DELETED:
            self.world.drop_queue(view.key)
            self._departed(view.bus, _departure(view))
            return
        self.world.put_queue(view)
        if before is not None and before.uid != view.uid:
            # Its deletion was not seen, so neither was the policy that was in force then.
            self._departed(before.bus, _departure(before).retained())
        if before is None or not _same(before, view):
            self._keeper(view.bus).look_at_queue(view.key)

    def child_event(self, change: str | None, body: Body) -> None:
        """Take an event of an object that the operator makes: somebody may have changed it."""
        labels = body["metadata"].get("labels") or {}
        if not self.leading or names.BUS_LABEL not in labels:
            return
        own = manifests.key_of(body)
        bus = ObjectKey(own.namespace, labels[names.BUS_LABEL])
        mark = hash(json.dumps(_mark(body), sort_keys=True))
        known = self._children.pop((body["kind"], own), None)
        if change != DELETED:
            self._children[body["kind"], own] = mark
        if (change == DELETED or known != mark) and bus in self._keepers:
            self._keepers[bus][0].look_at_bus()

    def _departed(self, bus: ObjectKey, departure: Departure) -> None:
        keeper = self._keeper(bus)
        keeper.departed(departure)
        for rival in self.world.named(bus, departure.name.lower()):
            keeper.look_at_queue(rival.key)

    def _forget_volumes(self, view: BusView) -> None:
        async def forget() -> None:
            try:
                await self._tools.buses.forget(view)
            except ApiError as error:
                logger.error(
                    "bus %s: volumes not deleted, they stay: %s",
                    view.key,
                    error.message,
                    extra={"action": "forget"},
                )

        task = asyncio.create_task(forget(), name=f"forget-{view.key}")
        self._forgetting.add(task)
        task.add_done_callback(self._forgetting.discard)

    # The task

    async def run(self) -> None:
        """Act whenever no other peer does, until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._writer.run(), name="status-writer")
                looks = 0
                while True:
                    await self._look(loop.time())
                    # It looks at every manifest.
                    if looks % LOOKS_A_MEASURE == 0:
                        self._measure()
                    looks += 1
                    self._tend()
                    await asyncio.sleep(self._look_s)
        finally:
            await self._stop()

    async def _look(self, now: float) -> None:
        try:
            leading = await self._leads()
            if leading and not self.leading:
                logger.info("operator: acting", extra={"action": "leading"})
                self._listed_at = None
            if not leading and self.leading:
                logger.info("operator: standing by", extra={"action": "standby"})
                self.leading = False
                await self._stop()
            overdue = self._listed_at is None or now - self._listed_at > self._settings.resync_s
            if leading and overdue:
                await self._list()
                self._listed_at = now
        except ApiError as error:
            # While the API server is away, what is known goes on: the bus does not need it.
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
            # Where clocks differ, peers take it for dead again and again.
            self._missed_at = now_s
            # Peers took it for dead: it, or the API server, stood still. It goes on until Kopf has
            # signed it in again, for they may be swept out, too, and two that act do no harm; but
            # what happened meanwhile must be read first.
            self._listed_at = None
        self._present = present
        self._signed_in = self._signed_in or present
        self._warn_of_clocks(leadership.skew_s(status, settings.identity, now_utc()))
        leads = self._peers.leads(status, settings.identity, self._priority, now_s)
        # At the start it is not known who is first.
        return self._signed_in and leads

    def _warn_of_clocks(self, skew_s: float) -> None:
        """Say once that the clocks of nodes differ by more than Kopf's peering bears."""
        differ = skew_s > LIFETIME_S / 2
        if differ and not self._clocks_differ:
            logger.warning(
                "operator: the clock of a peer's node is %.0f s ahead; set the clocks, or Kopf may "
                "take operators for dead that are not",
                skew_s,
                extra={"action": "clock-skew"},
            )
        self._clocks_differ = differ

    async def _list(self) -> None:
        """Read all manifests and act from then on; raises ApiError.

        Before the first complete lists nothing is done: a queue that is not known yet would look
        like one whose manifest is gone. Events meanwhile come after, since they may be newer.
        """
        buses: list[Body] = []
        queues: list[Body] = []
        self._heard = []
        try:
            for namespace in self._settings.watch_namespaces or ("",):
                buses += await self._api.list("BusNamespace", namespace)
                queues += await self._api.list("Queue", namespace)
            self.world.replace(map(manifests.bus_view, buses), map(manifests.queue_view, queues))
            self.leading = True
        finally:
            heard, self._heard = self._heard, None
            for event in heard:
                event()
        for key in self.world.bus_keys() | set(self._keepers):
            self._keeper(key).look_at_all()

    def _measure(self) -> None:
        self._metrics.leading.set(self.leading)
        self._metrics.waiting.set(self._writer.waiting())
        self._metrics.written.set(self._writer.written)
        views: list[tuple[str, View]] = [("Queue", view) for view in self.world.queues()]
        views += [("BusNamespace", view) for view in self.world.buses.values()]
        reasons = Counter(
            (kind, each.get("reason", ""))
            for kind, view in views
            for each in view.status.get("conditions") or []
            if each.get("type") == READY and each.get("status") != "True"
        )
        self._metrics.show_not_ready(reasons if self.leading else {})

    def _keeper(self, bus: ObjectKey) -> Keeper:
        known = self._keepers.get(bus)
        if known is None:
            keeper = Keeper(bus, self._tools)
            task = asyncio.create_task(keeper.run(), name=f"keeper-{bus}")
            known = self._keepers[bus] = (keeper, task)
        return known[0]

    def _replace(self, bus: ObjectKey, failed: Keeper, error: BaseException | None) -> None:
        """Go on with another keeper after a pause: one bus's failure is not that of all others."""
        failures, _ = self._failures.get(bus, (0, 0.0))
        pause_s = min(AGAIN_S_MAX, AGAIN_S_MIN * 2 ** min(failures, 16))
        logger.error(
            "bus %s: its keeper failed; started again in %.0f s",
            bus,
            pause_s,
            exc_info=error,
            extra={"action": "keeper-failed"},
        )
        self._metrics.keeper_failures.labels(bus.namespace, bus.name).inc()
        now_s = asyncio.get_running_loop().time()
        self._failures[bus] = (failures + 1, now_s)
        keeper = Keeper(bus, self._tools)
        for departure in failed.departures():
            keeper.departed(departure)
        keeper.look_at_all()

        async def run() -> None:
            await asyncio.sleep(pause_s)
            await keeper.run()

        task = asyncio.create_task(run(), name=f"keeper-{bus}")
        self._keepers[bus] = (keeper, task)

    def _tend(self) -> None:
        """Let keepers go whose bus is gone; replace one that failed, loudly."""
        now_s = asyncio.get_running_loop().time()
        known = self.world.bus_keys()
        for bus, (_, at_s) in list(self._failures.items()):
            if now_s - at_s > FORGIVEN_S or bus not in known:
                del self._failures[bus]
        for bus, (keeper, task) in list(self._keepers.items()):
            if task.done() and bus in known:
                self._replace(bus, keeper, task.exception())
            if bus not in known:
                if keeper.undone():
                    logger.warning(
                        "bus %s: gone before its queues were released; if its data comes back, "
                        "these are orphans: %s",
                        bus,
                        ", ".join(keeper.undone()),
                        extra={"action": "undone"},
                    )
                del self._keepers[bus]
                task.cancel()

    async def _stop(self) -> None:
        self.leading = False
        self._children.clear()
        self._failures.clear()
        keepers, self._keepers = self._keepers, {}
        self._writer.clear()
        for _, task in keepers.values():
            task.cancel()
        if keepers:
            # Not `await task`: its cancellation could not be told from our own.
            await asyncio.wait({task for _, task in keepers.values()})


def _departure(view: QueueView) -> Departure:
    return Departure(view.uid, view.entity_name, view.key.namespace, view.deletion_policy)


def _same(before: BusView | QueueView, now: BusView | QueueView) -> bool:
    """Whether nothing changed but the status, which is the operator's own."""
    return (before.uid, before.generation, before.annotations, before.deleting) == (
        now.uid,
        now.generation,
        now.annotations,
        now.deleting,
    )


def _mark(body: Body) -> Any:
    """Return what matters of a child: its spec's generation, its data, how many pods are ready."""
    ready = (body.get("status") or {}).get("readyReplicas")
    metadata, is_deployment = body["metadata"], body["kind"] == "Deployment"
    # Of a Secret only the metadata is watched; whatever changes in it changes the version.
    version = metadata.get("resourceVersion") if body["kind"] == "Secret" else None
    return [metadata.get("generation"), version, ready if is_deployment else None]
