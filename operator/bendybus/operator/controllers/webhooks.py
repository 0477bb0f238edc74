"""The admission webhooks: collect the facts for `validation`, and reject what it objects to.

They run on every replica, also on standby: they use neither the manifest cache nor a controller,
only the objects in the request, the API server and the partitions.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

import kopf

from bendybus.domain.entity_kind import EntityKind
from bendybus.operator.bus.partition_channel import PartitionEndpoints
from bendybus.operator.bus.partition_link import PartitionLink
from bendybus.operator.bus.worker_pool import Through, WorkerPool
from bendybus.operator.decisions import manifests, validation
from bendybus.operator.decisions.manifests import BusView
from bendybus.operator.decisions.validation import Held
from bendybus.operator.kubernetes.api import ApiError, Body, KubernetesApi
from bendybus.operator.kubernetes.names import ObjectKey
from bendybus.operator.metrics import Metrics
from bendybus.wire import tls

logger = logging.getLogger(__name__)
ASK_S: Final = 2.0
ASKING_MAX: Final = 32
# Of these, for manifests of one Kubernetes namespace: partitions that do not answer hold each of
# their places for ASK_S.
ASKING_PER_NAMESPACE: Final = 8
# Reviews in progress, of all operations; each reads from the API server.
REVIEWS_MAX: Final = 64
# How often partitions are asked for one object: so many times, then once in a while.
ASKS_AT_ONCE: Final = 5
ASK_EVERY_S: Final = 2.0
OBJECTS_REMEMBERED: Final = 4_096
# How long a review waits until its rules may be compiled.
COMPILE_WAIT_S: Final = 1.0
# How much of the time rules are compiled: so long at once, then this part of it. A rule takes some
# 5 ms of a processor that all else needs, too.
COMPILE_BURST_S: Final = 1.0
COMPILE_SHARE: Final = 0.1


class ObjectRates:
    """How often partitions may be asked for each object, by UID. Pure."""

    def __init__(self) -> None:
        # UID → how many asks are left, and when that was.
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, uid: str, now_s: float) -> bool:
        """Whether an object may be asked for now."""
        left, at_s = self._left.pop(uid, (float(ASKS_AT_ONCE), now_s))
        left = min(ASKS_AT_ONCE, left + (now_s - at_s) / ASK_EVERY_S)
        if len(self._left) >= OBJECTS_REMEMBERED:
            del self._left[next(iter(self._left))]
        self._left[uid] = (left - 1 if left >= 1 else left, now_s)
        return left >= 1


class CompileTime:
    """How long rules may be compiled. Pure."""

    def __init__(self) -> None:
        self._spent_s = 0.0
        self._at_s = 0.0

    def is_spent(self, now_s: float) -> bool:
        """Whether there is none left."""
        return self._spent_at(now_s) > COMPILE_BURST_S

    def spend(self, seconds: float, now_s: float) -> None:
        """Note that rules were compiled for so long."""
        self._spent_s, self._at_s = self._spent_at(now_s) + seconds, now_s

    def _spent_at(self, now_s: float) -> float:
        return max(0.0, self._spent_s - (now_s - self._at_s) * COMPILE_SHARE)


class Webhooks:
    """Admits or rejects changes of manifests."""

    def __init__(
        self,
        api: KubernetesApi,
        metrics: Metrics,
        endpoints: PartitionEndpoints,
        workers: WorkerPool | None = None,
    ) -> None:
        """`workers`: the processes that ask partitions; None: this one does."""
        self._workers = workers
        self._api = api
        self._metrics = metrics
        self._endpoints = endpoints
        # Deletions for which partitions are being asked, by Kubernetes namespace.
        self._asking: Counter[str] = Counter()
        self._reviews = 0
        self._rates = ObjectRates()
        self._compiling = asyncio.Semaphore(1)
        self._compile_time = CompileTime()

    async def bus(self, operation: str, body: Body) -> list[str]:
        """Validate a BusNamespace; return warnings. Raises kopf.AdmissionError."""
        with self._in_progress():
            return await self._bus(operation, body)

    async def entity(self, operation: str, body: Body) -> list[str]:
        """Validate an entity's manifest; return warnings. Raises kopf.AdmissionError."""
        with self._in_progress():
            return await self._entity(operation, body)

    @contextlib.contextmanager
    def _in_progress(self) -> Iterator[None]:
        if self._reviews >= REVIEWS_MAX:
            raise kopf.AdmissionError(
                f"{REVIEWS_MAX} changes are being reviewed already; try again.", code=503
            )
        self._reviews += 1
        try:
            yield
        finally:
            self._reviews -= 1

    async def _bus(self, operation: str, body: Body) -> list[str]:
        old = None
        if operation == "DELETE":
            await self._deletion("BusNamespace", body)
            return []
        if operation == "UPDATE" and (old := await self._stored("BusNamespace", body)) is None:
            return []
        self._refuse("BusNamespace", validation.check_bus(body, old))
        return validation.annotation_notes(body)

    async def _entity(self, operation: str, body: Body) -> list[str]:
        view, old = manifests.entity_view(body), None
        if operation == "DELETE":
            await self._deletion(view.object_kind, body)
            return []
        if operation == "UPDATE" and (old := await self._stored(view.object_kind, body)) is None:
            return []
        bus = await self._bus_of(view.bus)
        found = await self._checked(body, old, bus)
        self._refuse(view.object_kind, found)
        return validation.notes(body, bus)

    async def _checked(self, body: Body, old: Body | None, bus: BusView | None) -> list[str]:
        """Return what is wrong with an entity's manifest.

        Rules of subscriptions are compiled, in a thread, one review at a time, for a part of the
        time: the threads of a process share its processor with all else that it does. A review
        whose turn does not come leaves its rules to the bus.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(COMPILE_WAIT_S):
                await self._compiling.acquire()
        except TimeoutError:
            return validation.check_entity(body, old, bus, compiled_max=0)
        try:
            began_s = loop.time()
            if self._compile_time.is_spent(began_s):
                return validation.check_entity(body, old, bus, compiled_max=0)
            try:
                return await asyncio.to_thread(validation.check_entity, body, old, bus)
            finally:
                self._compile_time.spend(loop.time() - began_s, loop.time())
        finally:
            self._compiling.release()

    async def _bus_of(self, key: ObjectKey) -> BusView | None:
        found = await self._read("BusNamespace", key)
        return manifests.bus_view(found) if found is not None else None

    async def _read(self, kind: str, key: ObjectKey) -> Body | None:
        try:
            return await self._api.get(kind, key.namespace, key.name)
        except ApiError as error:
            raise kopf.AdmissionError(
                f"{kind} {key} could not be read ({error.message}); try again.", code=503
            ) from error

    async def _stored(self, kind: str, reviewed: Body) -> Body | None:
        """Return the object that a review is about, as the API server has it; None: no such one.

        Whoever reaches the webhook may send a review: nothing in it is believed of what is there.
        """
        body = await self._read(kind, manifests.key_of(reviewed))
        if body is None or body["metadata"]["uid"] != reviewed["metadata"].get("uid"):
            return None
        return body

    async def _deletion(self, kind: str, reviewed: Body) -> None:
        """Refuse the deletion of what holds messages.

        No partition is asked for what is not there, and not often for one object.
        """
        key = manifests.key_of(reviewed)
        if not validation.guards(reviewed) or await self._ending(key.namespace):
            return
        body = await self._stored(kind, reviewed)
        if body is None:
            return
        if not self._rates.take(body["metadata"]["uid"], asyncio.get_running_loop().time()):
            raise kopf.AdmissionError(
                f"{kind} {key} was checked {ASKS_AT_ONCE} times just now; try again in "
                f"{ASK_EVERY_S:.0f} s.",
                code=429,
            )
        with self._place(key.namespace):
            await self._check_held(kind, body)

    @contextlib.contextmanager
    def _place(self, namespace: str) -> Iterator[None]:
        asking = self._asking
        if asking[namespace] >= ASKING_PER_NAMESPACE or asking.total() >= ASKING_MAX:
            raise kopf.AdmissionError(
                f"{ASKING_PER_NAMESPACE} deletions in namespace {namespace}, or {ASKING_MAX} in "
                "all, are being checked already; try again.",
                code=503,
            )
        asking[namespace] += 1
        try:
            yield
        finally:
            asking[namespace] -= 1
            if not asking[namespace]:
                del asking[namespace]

    async def _check_held(self, kind: str, body: Body) -> None:
        entity = manifests.entity_view(body) if kind != "BusNamespace" else None
        view = await self._bus_of(entity.bus if entity is not None else manifests.key_of(body))
        if view is None or not validation.guards(body):
            return
        uids = validation.data_uids(body) if entity is not None else frozenset()
        is_topic = entity is not None and entity.kind is EntityKind.TOPIC
        async with self._links(view) as links:
            held = await _held(links, uids, with_subscriptions=is_topic)
        what = f"{kind} {body['metadata']['name']!r}"
        self._refuse(kind, validation.check_deletion(what, held))

    async def _ending(self, namespace: str) -> bool:
        """Whether a Kubernetes namespace is being deleted; that must not be blocked."""
        try:
            found = await self._api.get("Namespace", "", namespace)
        except ApiError:
            return False
        return found is None or "deletionTimestamp" in found["metadata"]

    @contextlib.asynccontextmanager
    async def _links(self, view: BusView) -> AsyncIterator[list[PartitionLink]]:
        """Give a link to each partition that may hold messages."""
        try:
            material = await self._endpoints.material(view.key)
        except ApiError as error:
            raise kopf.AdmissionError(
                f"could not ask the partitions for message counts ({error.message}); try again.",
                code=503,
            ) from error
        links = [
            self._link(view.key, index, material)
            for index in range(validation.partitions_to_ask(view))
        ]
        try:
            yield links
        finally:
            await asyncio.gather(*(link.close() for link in links))

    def _link(self, bus: ObjectKey, index: int, material: tls.Material | None) -> PartitionLink:
        address, workers = self._endpoints.address(bus, index), self._workers
        way = None if workers is None else Through(workers, bus, index, address, material)
        return PartitionLink(index, address, material, _NoListener(), timeout_s=ASK_S, way=way)

    def _refuse(self, kind: str, sentences: list[str]) -> None:
        if sentences:
            self._metrics.refused.labels(kind).inc()
            raise kopf.AdmissionError(" ".join(sentences), code=422)


async def _held(
    links: Sequence[PartitionLink], uids: frozenset[str], *, with_subscriptions: bool
) -> Held:
    """Ask all partitions how many messages they hold; without `uids`, of all entities.

    `with_subscriptions`: also those of a topic's subscriptions, which are deleted with it.
    """
    if with_subscriptions:
        entries = await links[0].catalogue()
        if entries is None:
            return Held(0, (links[0].partition,))
        topics = {each.key for each in entries if each.uid in uids and not each.deleted}
        family = (e.uid for e in entries if e.topic_key in topics and not e.deleted)
        uids = uids.union(family)
    answers = await asyncio.gather(*(link.counts(uids) for link in links))
    messages, unknown = 0, []
    for link, answer in zip(links, answers, strict=True):
        if answer is None:
            unknown.append(link.partition)
            continue
        for uid, counts in answer.items():
            if not uids or uid in uids:
                messages += counts.messages
    return Held(messages, tuple(unknown))


class _NoListener:
    """Ignores all events: these links are used for calls only."""

    def catalogue(self, *_: Any, **__: Any) -> bool:
        """Ignore it."""
        return True

    def lost(self, *_: Any) -> None:
        """Ignore it."""

    def reached(self, *_: Any) -> None:
        """Ignore it."""
