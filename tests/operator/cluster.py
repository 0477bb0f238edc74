"""A cluster for the operator: the API server in memory, its controllers, real partition servers.

Servers run in this process, on loopback, with real files, real gRPC and no TLS.
"""

import asyncio
import contextlib
import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import grpc

from bendybus.domain.entity import Entity
from bendybus.domain.limits import Tier
from bendybus.internal.v1 import (
    entity_pb2,
    entity_pb2_grpc,
    partition_pb2,
    partition_pb2_grpc,
)
from bendybus.operator.bus.worker_pool import WorkerPool
from bendybus.operator.controllers.controller_manager import ControllerManager
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.names import ObjectKey
from bendybus.operator.metrics import Metrics
from bendybus.operator.settings import Settings
from bendybus.partition_server import server
from bendybus.partition_server.settings import Settings as PartitionSettings
from bendybus.v1 import message_pb2
from bendybus.wire import catalogue
from bendybus.wire.contract_versions import OPERATOR
from tests.operator.memory_api import Body, MemoryKubernetesApi
from tests.ports import free_port

Value = TypeVar("Value")
# Far more than any machine needs: it ends a test that would wait for ever.
WITHIN_S = 60.0
CHILDREN = ("StatefulSet", "Deployment", "Service", "Secret")


async def eventually(look: Callable[[], Value], what: str = "the condition") -> Value:
    """Return the first true value of `look`; fail when there is none in time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WITHIN_S
    while True:
        value = look()
        if value:
            return value
        assert loop.time() < deadline, f"{what} did not come true within {WITHIN_S} s"
        await asyncio.sleep(0.01)


class Loopback:
    """Reaches the partitions of a cluster in plain text."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster

    def address(self, bus: ObjectKey, partition: int) -> str:
        """Return where a partition is, or will be."""
        return self._cluster.address(bus, partition)

    async def material(self, bus: ObjectKey) -> None:
        """Return nothing: plain text."""


class Operator:
    """One operator process's office."""

    def __init__(
        self, cluster: "Cluster", priority: int, *, workers: bool = False, **settings: Any
    ) -> None:
        values: dict[str, Any] = {
            "peering": "",
            "counts_every_s": 0.2,
            "call_timeout_s": 1.0,
            "status_patches_per_s": 500.0,
            "urgent_patches_per_s": 5_000.0,
        }
        # Processes that call partitions, as in a real operator; else this one does.
        self.workers = WorkerPool() if workers else None
        self.manager = ControllerManager(
            cluster.api,
            Settings(**{**values, **settings}),
            Metrics(),
            priority=priority,
            endpoints=Loopback(cluster),
            tick_s=0.02,
            workers=self.workers,
        )
        # What a watch that is cut off does not bring.
        self.deaf = False
        cluster.api.watchers.append(self._hear)
        self._cluster = cluster
        self.task = asyncio.create_task(self._run(), name="operator")

    async def _run(self) -> None:
        if self.workers is None:
            await self.manager.run()
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self.workers.run(), name="workers")
            group.create_task(self.manager.run(), name="controllers")

    def _hear(self, change: str, body: Body) -> None:
        if self.deaf or self.task.done():
            return
        change = "DELETED" if change.startswith("DELETED") else change
        loop = asyncio.get_running_loop()
        if body["kind"] == "BusNamespace":
            loop.call_soon(self.manager.bus_event, change, body)
        elif body["kind"] in ("Queue", "Topic", "Subscription"):
            loop.call_soon(self.manager.entity_event, change, body)
        elif body["kind"] in CHILDREN:
            loop.call_soon(self.manager.child_event, change, body)

    async def stop(self) -> None:
        """End it as a kill would; raise what it died of, if it did."""
        with contextlib.suppress(ValueError):
            self._cluster.api.watchers.remove(self._hear)
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


class Partition:
    """One partition server; it starts when the one before it on the same volume has ended."""

    def __init__(self, settings: PartitionSettings, before: asyncio.Task[None] | None) -> None:
        self._stop = asyncio.Event()
        self._before = before
        self.task = asyncio.create_task(self._run(settings), name="partition")

    async def _run(self, settings: PartitionSettings) -> None:
        if self._before is not None:
            await self._before
        settings.data.mkdir(parents=True, exist_ok=True)
        await server.serve(settings, self._stop)

    async def stop(self) -> None:
        """End it."""
        self._stop.set()
        await self.task


class Cluster:
    """API server, controllers, partitions, operators."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.api = MemoryKubernetesApi()
        self.operators: list[Operator] = []
        self.partitions: dict[tuple[ObjectKey, int], Partition] = {}
        self.identities: dict[ObjectKey, tuple[str, Tier, int]] = {}
        # Partitions whose pods do not start.
        self.held_back: set[int] = set()
        self._ports: dict[tuple[ObjectKey, int], int] = {}
        self._ending: dict[tuple[ObjectKey, int], asyncio.Task[None]] = {}
        for name in ("shop", "guest", "bendybus-system"):
            self.api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.api.watchers.append(self._control)

    def operator(self, priority: int = 1, **settings: Any) -> Operator:
        """Start an operator."""
        made = Operator(self, priority, **settings)
        self.operators.append(made)
        return made

    def address(self, bus: ObjectKey, partition: int) -> str:
        """Return where a partition is, or will be."""
        if (bus, partition) not in self._ports:
            self._ports[bus, partition] = free_port()
        return f"127.0.0.1:{self._ports[bus, partition]}"

    def start(self, bus: ObjectKey, index: int) -> None:
        """Start a partition's server on its file."""
        uid, tier, count = self.identities[bus]
        self.partitions[bus, index] = Partition(
            PartitionSettings(
                data=self.folder / bus.name / str(index),
                namespace_name=bus.name,
                namespace_uid=uid,
                tier=tier,
                partition_count=count,
                partitions=(index,),
                listen=self.address(bus, index),
                reserve_bytes=0,
                free_space_min_bytes=0,
                drain_s=0.5,
            ),
            self._ending.get((bus, index)),
        )

    async def stop(self, bus: ObjectKey, index: int) -> None:
        """End a partition's server; its file stays."""
        await self.partitions.pop((bus, index)).stop()

    async def end(self) -> None:
        """End everything; a part that died says so."""
        async with asyncio.timeout(WITHIN_S):
            for operator in self.operators:
                await operator.stop()
        await asyncio.gather(
            *self._ending.values(), *(each.stop() for each in self.partitions.values())
        )

    # The controllers of Kubernetes, as far as they matter

    def _control(self, change: str, body: Body) -> None:
        if body["kind"] == "StatefulSet":
            self._control_pods(change, body)
        elif body["kind"] == "Deployment" and change != "DELETED" and "status" not in body:
            ready = copy.deepcopy(body)
            ready["status"] = {"readyReplicas": body["spec"].get("replicas", 2)}
            self.api.put(ready)
        elif body["kind"] == "PersistentVolumeClaim" and change == "DELETED":
            bus, index = body["metadata"]["labels"][names.BUS_LABEL], body["metadata"]["name"][-1]
            for file in (self.folder / bus / index).glob("*"):
                file.unlink()

    def _control_pods(self, change: str, body: Body) -> None:
        metadata = body["metadata"]
        bus = ObjectKey(metadata["namespace"], metadata["labels"][names.BUS_LABEL])
        if change == "DELETED":
            for key in [key for key in self.partitions if key[0] == bus]:
                self._ending[key] = asyncio.create_task(self.partitions.pop(key).stop())
        if change.startswith("DELETED"):
            return
        annotations = metadata["annotations"]
        self.identities[bus] = (
            annotations[names.UID_ANNOTATION],
            Tier(annotations[names.TIER_ANNOTATION]),
            int(annotations[names.COUNT_ANNOTATION]),
        )
        for index in range(body["spec"]["replicas"]):
            self._claim(body, bus, index)
            if (bus, index) not in self.partitions and index not in self.held_back:
                self.start(bus, index)

    def _claim(self, body: Body, bus: ObjectKey, index: int) -> None:
        (template,) = body["spec"]["volumeClaimTemplates"]
        name = names.volume_claim(bus, index)
        if ("PersistentVolumeClaim", bus.namespace, name) not in self.api.objects:
            self.api.put(
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {
                        **copy.deepcopy(template["metadata"]),
                        "name": name,
                        "namespace": bus.namespace,
                    },
                    "spec": copy.deepcopy(template["spec"]),
                }
            )

    # The bus itself

    async def catalogue(self, bus: ObjectKey, index: int) -> dict[str, Entity]:
        """Return what a partition has, by name, tombstones included."""
        async with grpc.aio.insecure_channel(self.address(bus, index)) as channel:
            stub = entity_pb2_grpc.EntityServiceStub(channel)
            async for response in stub.WatchEntities(
                catalogue.watch_request(OPERATOR, index), timeout=WITHIN_S
            ):
                return {
                    entity.name: entity
                    for entity in catalogue.entries_of(response, lambda key: None)
                }
        raise AssertionError("the partition told nothing")

    async def commit(self, bus: ObjectKey, action: Any, name: str, **fields: Any) -> None:
        """Have the registrar change an entity, as somebody beside the operator does."""
        kind = fields.pop("kind", entity_pb2.ENTITY_KIND_QUEUE)
        request = entity_pb2.CommitEntityRequest(action=action, name=name, kind=kind, **fields)
        async with grpc.aio.insecure_channel(self.address(bus, 0)) as channel:
            await entity_pb2_grpc.EntityServiceStub(channel).CommitEntity(request, timeout=WITHIN_S)

    async def send(self, bus: ObjectKey, index: int, name: str) -> None:
        """Have a partition store a message, as a front end does."""
        entity = (await self.catalogue(bus, index))[name]
        request = partition_pb2.SendFencedRequest(
            partition=index,
            entity=partition_pb2.EntityRef(uid=entity.uid, generation=entity.generation),
            producer_id=os.urandom(16),
            epoch=1,
            ordinals=[1],
            batch=message_pb2.MessageBatch(messages=[b""]),
        )
        async with grpc.aio.insecure_channel(self.address(bus, index)) as channel:
            stub = partition_pb2_grpc.PartitionServiceStub(channel)
            await stub.SendFenced(request, timeout=WITHIN_S)

    # What users do and see

    def apply(self, body: Body) -> Body:
        """Apply a manifest."""
        return self.api.put(body)

    def annotate(self, kind: str, name: str, **annotations: str) -> None:
        """Annotate a manifest; `retained_data` is bendybus.io/retained-data."""
        body = self.api.one(kind, name)
        made = {f"bendybus.io/{key.replace('_', '-')}": v for key, v in annotations.items()}
        body["metadata"]["annotations"] = {**body["metadata"].get("annotations", {}), **made}
        self.api.put(body)

    def history(self, kind: str, name: str) -> list[str]:
        """Return the list to which every new reason of a manifest is added from now on."""
        reasons: list[str] = []

        def watch(_: str, body: Body) -> None:
            if (body["kind"], body["metadata"]["name"]) == (kind, name):
                reason = self.ready(kind, name).get("reason", "")
                if reason and reasons[-1:] != [reason]:
                    reasons.append(reason)

        self.api.watchers.append(watch)
        return reasons

    def ready(self, kind: str, name: str, namespace: str = "shop") -> Body:
        """Return the Ready condition, {} if there is none."""
        body = self.api.objects.get((kind, namespace, name), {})
        conditions = (body.get("status") or {}).get("conditions") or [{}]
        found: Body = conditions[0]
        return found

    async def says(self, kind: str, name: str, reason: str, namespace: str = "shop") -> Body:
        """Wait until a manifest gives this reason; return its status."""
        try:
            await eventually(lambda: self.ready(kind, name, namespace).get("reason") == reason)
        except AssertionError:
            found = self.ready(kind, name, namespace)
            raise AssertionError(f"{kind} {name} does not say {reason} but {found}") from None
        status: Body = self.api.one(kind, name, namespace)["status"]
        return status
