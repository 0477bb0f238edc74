"""Keeps one bus: one task does all for its manifests, another asks its partitions for counts.

What is to be done is a set of keys with the time when each is due, so it is bounded by the number
of manifests however often they change. Everything is decided from the world and the catalogue as
they are when its turn comes: a key in the set says "look at it", never what to do.
"""

import asyncio
import contextlib
import logging
import math
from dataclasses import dataclass, replace
from typing import Final

from bendybus.domain.entity import Entity
from bendybus.operator.bus.bus_link import BusLink
from bendybus.operator.bus.partition_addresses import Reaching
from bendybus.operator.certificates.authority_secrets import now_utc
from bendybus.operator.controllers.bus_reconciler import BusKeeping, Kept
from bendybus.operator.controllers.departures import Leaving
from bendybus.operator.controllers.entity_reconciler import EntityKeeping
from bendybus.operator.controllers.status_writer import StatusWriter
from bendybus.operator.decisions import conditions, validation
from bendybus.operator.decisions.conditions import Verdict
from bendybus.operator.decisions.data_identity import Footing
from bendybus.operator.decisions.manifests import BusView, QueueView, World
from bendybus.operator.decisions.plan import Departure
from bendybus.operator.decisions.reasons import Reason
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.api import ApiError, KubernetesApi
from bendybus.operator.kubernetes.names import ObjectKey
from bendybus.operator.metrics import Metrics
from bendybus.operator.settings import Settings

logger = logging.getLogger(__name__)
# Reasons that pass by themselves, and how soon they are looked at again.
PASSING_S: Final = {
    Reason.PROGRESSING: 1.0,
    Reason.PARTITION_UNAVAILABLE: 5.0,
    Reason.NAMESPACE_NOT_READY: 2.0,
    Reason.REFUSED: 60.0,
}
# Of these, what ends them is told: the link opens, or partitions answer.
TOLD: Final = frozenset({Reason.PARTITION_UNAVAILABLE, Reason.NAMESPACE_NOT_READY})
# How often all queues are looked at because partitions come and go.
LOOK_ALL_S: Final = 1.0
RETRY_S_MIN: Final = 1.0
RETRY_S_MAX: Final = 30.0
AT_ONCE: Final = 16
COUNTS_AGAIN_S: Final = 2.0
# How long partitions may take to answer a new link before any status says that they do not.
PATIENCE_S: Final = 5.0
PAUSED: Final = f"the annotation {names.PAUSE_ANNOTATION} keeps the operator away."


@dataclass(frozen=True, slots=True)
class Tools:
    """What keepers share."""

    api: KubernetesApi
    settings: Settings
    world: World
    writer: StatusWriter
    metrics: Metrics
    buses: BusKeeping
    entities: EntityKeeping
    reaching: Reaching


class Keeper:
    """One bus, whether its BusNamespace exists or is only named by queues."""

    def __init__(self, bus: ObjectKey, tools: Tools) -> None:
        self.bus = bus
        self._tools = tools
        self._wake = asyncio.Event()
        self._bus_due: float | None = 0.0
        self._bus_retry_s = RETRY_S_MIN
        self._queues_due: dict[ObjectKey, float] = {}
        self._verdicts: dict[ObjectKey, Verdict] = {}
        self._leaving = Leaving(
            bus,
            tools.api,
            tools.world,
            tools.entities,
            watched=tools.settings.watch_namespaces,
        )
        self._kept = Kept(Footing(None), 0)
        # The generation of the manifest that was acted on, and shown.
        self._kept_generation = 0
        self._patient_until = 0.0
        self._all_looked_at_s = 0.0
        self._link: BusLink | None = None
        self._link_task: asyncio.Task[None] | None = None

    # What others say

    def look_at_bus(self) -> None:
        """Have the BusNamespace and its objects looked at."""
        self._bus_due = 0.0
        self._wake.set()

    def look_at_queue(self, key: ObjectKey) -> None:
        """Have a Queue looked at."""
        self._queues_due[key] = 0.0
        self._wake.set()

    def look_at_all(self) -> None:
        """Have everything looked at, also for orphans: lists are complete now."""
        self._leaving.look_for_orphans()
        self._look_at_queues()
        self.look_at_bus()

    def departed(self, departure: Departure) -> None:
        """Take note of a manifest that was deleted."""
        self._leaving.note(departure)
        self._wake.set()

    def undone(self) -> list[str]:
        """Return the names of queues whose manifests left and that are not released yet."""
        return self._leaving.undone()

    def departures(self) -> list[Departure]:
        """Return the departures that are not carried out yet."""
        return self._leaving.departures()

    def _look_at_queues(self, at_s: float = 0.0) -> None:
        for key in self._tools.world.queues_of(self.bus):
            self._queues_due[key] = min(at_s, self._queues_due.get(key, at_s))
        self._wake.set()

    def _link_changed(self, keys: list[str]) -> None:
        """Take note of what partitions said: changed entities, or with none: who answers."""
        if not keys:
            self._leaving.hurry()
            # One that comes and goes ten times a second costs no more than one that comes.
            now_s = asyncio.get_running_loop().time()
            self._all_looked_at_s = max(now_s, self._all_looked_at_s + LOOK_ALL_S)
            self._look_at_queues(self._all_looked_at_s)
            return
        for key in keys:
            for queue in self._tools.world.named(self.bus, key):
                self._queues_due[queue.key] = 0.0
        self._wake.set()

    # The two tasks

    async def run(self) -> None:
        """Keep the bus until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._steward(), name=f"steward-{self.bus}")
                group.create_task(self._count(), name=f"count-{self.bus}")
        finally:
            await self._close_link()
            self._kept = Kept(Footing(None), 0)
            self._show_certificates()

    async def _steward(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wait(loop.time())
            now = loop.time()
            view = self._tools.world.buses.get(self.bus)
            if self._bus_due is not None and self._bus_due <= now:
                await self._keep_bus(view)
                await self._first_answers(view)
            if self._leaving_due() <= now and self._link is not None:
                await self._leaving.carry_out(self._link, now)
            await self._keep_queues(view)
            if self._link is not None:
                await self._link.catch_up()
            self._show_bus(view)

    async def _wait(self, now: float) -> None:
        due = [*self._queues_due.values(), self._leaving_due()]
        due += [] if self._bus_due is None else [self._bus_due]
        first = min(due)
        timeout_s = None if first == math.inf else max(0.0, first - now)
        if timeout_s != 0.0:
            # Not wait_for: in Python 3.11 it loses a cancellation that comes with the wake-up.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._wake.wait()
        self._wake.clear()

    def _leaving_due(self) -> float:
        """Return when departures are to be carried out; never while nothing could be."""
        link, due = self._link, self._leaving.due
        if due is None or link is None or not link.knows_catalogue() or self._paused:
            return math.inf
        return due

    async def _first_answers(self, view: BusView | None) -> None:
        """Let partitions answer a new link, so that no status tells of that moment."""
        if view is None or not conditions.has_run(view.status):
            return
        while self._impatient_in_s() > 0:
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._patient_until):
                    await self._wake.wait()

    def _impatient_in_s(self) -> float:
        if self._link is None or self._link.started:
            return 0.0
        return self._patient_until - asyncio.get_running_loop().time()

    async def _count(self) -> None:
        settings = self._tools.settings
        while True:
            link = self._link
            if self._link_task is not None and self._link_task.done():
                # A mistake of ours ended it; that must not stay unseen.
                self._link_task.result()
            if link is None:
                await asyncio.sleep(COUNTS_AGAIN_S)
                continue
            for key in await link.refresh_counts():
                for queue in self._tools.world.named(self.bus, key):
                    self._show_queue(queue, urgent=False)
            if self._impatient_in_s() <= 0:
                self._show_bus(self._tools.world.buses.get(self.bus), urgent=False)
            every_s = COUNTS_AGAIN_S if link.unreachable() else settings.counts_every_s
            await asyncio.sleep(min(every_s, settings.counts_every_s))

    # The bus

    async def _keep_bus(self, view: BusView | None) -> None:
        self._bus_due = None
        if view is None:
            self._kept, self._kept_generation = Kept(Footing(None), 0), 0
            self._show_certificates()
            await self._close_link()
            return
        problems = validation.bus_problems(view)
        if view.annotations.get(names.PAUSE_ANNOTATION) == "true":
            self._stand_still(view, Reason.PAUSED, PAUSED)
            await self._only_renew()
        elif problems:
            self._stand_still(view, Reason.INVALID_SPEC, problems[0])
            await self._only_renew()
        else:
            await self._try_to_keep(view)

    async def _try_to_keep(self, view: BusView) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            self._kept = await self._tools.buses.keep(view)
            self._kept_generation = view.generation
            self._show_certificates()
            await self._open_link(self._kept)
        except ApiError as error:
            self._tools.metrics.errors.labels("BusNamespace").inc()
            logger.warning(
                "bus %s: looked at again in %.0f s: %s",
                self.bus,
                self._bus_retry_s,
                error.message,
                extra={"action": "retry"},
            )
            if error.final:
                why = f"what the bus needs cannot be made: {error.message}"
                self._stand_still(view, Reason.REFUSED, why)
            self._look_again_in(self._bus_retry_s)
            self._bus_retry_s = min(2 * self._bus_retry_s, RETRY_S_MAX)
            return
        self._tools.metrics.reconciled("BusNamespace", loop.time() - began)
        self._bus_retry_s = RETRY_S_MIN
        if self._kept.footing.identity is None or self._kept.footing.reason is Reason.REFUSED:
            # Nobody says when volumes are gone, or when a quota was raised.
            self._look_again_in(RETRY_S_MAX)
        elif self._kept.frontends_ready < 1:
            self._look_again_in(10 * RETRY_S_MIN)

    async def _only_renew(self) -> None:
        """Renew the certificates of a bus that is left alone: it runs on, and they would end."""
        buses = self._tools.buses
        try:
            await buses.renew(self.bus)
            self._kept = replace(self._kept, certificates=await buses.certificates_of(self.bus))
            self._show_certificates()
            if self._link is not None:
                await self._open_link(self._kept)
        except ApiError as error:
            self._tools.metrics.errors.labels("BusNamespace").inc()
            logger.warning("bus %s: certificates not renewed: %s", self.bus, error.message)
            self._look_again_in(RETRY_S_MAX)

    def _look_again_in(self, delay_s: float) -> None:
        """Have the bus looked at again, unless that is due already: it changed meanwhile."""
        if self._bus_due is None:
            self._bus_due = asyncio.get_running_loop().time() + delay_s

    def _stand_still(self, view: BusView, reason: Reason, message: str) -> None:
        footing = Footing(self._kept.footing.identity, reason=reason, message=message)
        self._kept = replace(self._kept, footing=footing)
        self._kept_generation = view.generation

    async def _open_link(self, kept: Kept) -> None:
        identity = kept.footing.identity
        if identity is None:
            await self._close_link()
            return
        reaching = self._tools.reaching
        material = await reaching.material(self.bus)
        link = self._link
        if link is not None and link.identity == identity and link.material == material:
            return
        await self._close_link()
        self._link = BusLink(
            self.bus,
            identity,
            material,
            timeout_s=self._tools.settings.call_timeout_s,
            changed=self._link_changed,
            address=reaching.address,
        )
        self._link_task = asyncio.create_task(self._link.run(), name=f"link-{self.bus}")
        self._patient_until = asyncio.get_running_loop().time() + PATIENCE_S
        self._leaving.look_for_orphans()
        self._look_at_queues()

    async def _close_link(self) -> None:
        task, self._link, self._link_task = self._link_task, None, None
        if task is not None:
            task.cancel()
            # Not `await task`: its cancellation could not be told from our own.
            await asyncio.wait({task})
            self._tools.metrics.forget_bus(self.bus.namespace, self.bus.name)

    def _show_certificates(self) -> None:
        ends = self._kept.certificates.ends
        self._tools.metrics.show_certificates(self.bus.namespace, self.bus.name, ends)

    def _show_bus(self, view: BusView | None, *, urgent: bool = True) -> None:
        if view is None:
            return
        link, footing = self._link, self._kept.footing
        unreachable = link.unreachable() if link is not None else set()
        verdict = conditions.bus_verdict(
            footing,
            unreachable,
            self._kept.frontends_ready,
            started=(link is not None and link.started) or conditions.has_run(view.status),
        )
        before = view.status.get("conditions") or []
        generation = self._kept_generation or view.generation
        ready = conditions.ready_condition(verdict, generation, before, now_utc())
        warned = link.conditions() if link is not None else {}
        shown = [
            ready,
            *conditions.warnings(warned, generation, before, now_utc()),
            *conditions.certificates(
                self._kept.certificates.overdue, generation, before, now_utc()
            ),
            *conditions.manifests_not_seen(
                self._leaving.unseen, self._leaving.not_served, generation, before, now_utc()
            ),
        ]
        status = {"conditions": shown, "observedGeneration": generation}
        if link is not None:
            status |= conditions.bus_facts(
                self.bus,
                footing.identity,
                unreachable,
                link.directory.live(),
                link.directory.orphaned(),
                link.total(),
            )
            labels = (self.bus.namespace, self.bus.name)
            self._tools.metrics.unreachable.labels(*labels).set(len(unreachable))
            self._tools.metrics.orphaned.labels(*labels).set(len(link.directory.orphaned()))
        self._tools.writer.put(
            "BusNamespace",
            view.key,
            view.uid,
            status=status,
            current=view.status,
            urgent=urgent or _ready_changed(status, view),
        )

    # Entities

    @property
    def _paused(self) -> bool:
        return self._kept.footing.reason is Reason.PAUSED

    async def _keep_queues(self, view: BusView | None) -> None:
        now = asyncio.get_running_loop().time()
        due = [key for key, when in self._queues_due.items() if when <= now]
        for start in range(0, len(due), AT_ONCE):
            await asyncio.gather(
                *(self._keep_queue(key, view) for key in due[start : start + AT_ONCE])
            )

    async def _keep_queue(self, key: ObjectKey, view: BusView | None) -> None:
        del self._queues_due[key]
        queue = self._tools.world.queue(key)
        if queue is None or queue.bus != self.bus:
            self._verdicts.pop(key, None)
            return
        if self._paused and (key in self._verdicts or queue.status):
            return
        if self._paused:
            verdict = Verdict(False, Reason.PAUSED, PAUSED)
        else:
            verdict = await self._tools.entities.keep(queue, view, self._link, self._rival_of)
        self._verdicts[key] = verdict
        again_s = self._again_s(verdict)
        if again_s is not None and key not in self._queues_due:
            self._queues_due[key] = asyncio.get_running_loop().time() + again_s
        self._show_queue(self._tools.world.queue(key) or queue, urgent=True)

    def _again_s(self, verdict: Verdict) -> float | None:
        """Return when a queue is looked at again if nothing happens; None: it need not be."""
        if verdict.ready:
            return None
        again_s = PASSING_S.get(verdict.reason)
        link = self._link
        told = link is None or bool(link.unreachable()) or not link.knows_catalogue()
        if told and verdict.reason in TOLD:
            # All of a bus's queues every few seconds would be a third of a processor for 5,000.
            return None
        return again_s

    def _rival_of(self, entity: Entity) -> QueueView | None:
        return self._tools.world.queue_by_uid(entity.manifest_uid)

    def _show_queue(self, queue: QueueView, *, urgent: bool) -> None:
        verdict = self._verdicts.get(queue.key)
        if verdict is None:
            return
        status = EntityKeeping.status(queue, verdict, self._link)
        self._tools.writer.put(
            "Queue",
            queue.key,
            queue.uid,
            status=status,
            current=queue.status,
            urgent=urgent and _ready_changed(status, queue),
        )


def _ready_changed(status: conditions.Status, view: BusView | QueueView) -> bool:
    return bool(status["conditions"] != (view.status.get("conditions") or []))
