"""A management service in memory: names, generations and the domain's rules, nothing stored."""

import uuid
from concurrent import futures
from typing import Any

import grpc
from grpc_status import rpc_status

from bendybus.domain import descriptions, entity, errors, limits, partitioning
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import QueueDescription
from bendybus.domain.errors import BusError
from bendybus.v1 import management_pb2 as pb
from bendybus.v1 import management_pb2_grpc
from bendybus.wire import entities, statuses
from tests import topics_in_memory


@topics_in_memory.answered_by(
    lambda service: service.topics,
    lambda context, error: context.abort_with_status(
        rpc_status.to_status(statuses.to_status(error))
    ),
    is_async=False,
)
class FakeManagement(management_pb2_grpc.ManagementServiceServicer):
    """One bus of 16 partitions whose last one can be out of reach."""

    def __init__(self, *, name: str = "flights", unreached: tuple[int, ...] = ()) -> None:
        self.name = name
        self.unreached = unreached
        self.address = ""
        self.calls: list[str] = []
        self.failures: list[BusError] = []
        self.topics = topics_in_memory.Topics()
        self._queues: dict[str, pb.Queue] = {}
        self._generation = 0

    def GetNamespace(self, request: Any, context: Any) -> pb.GetNamespaceResponse:
        return pb.GetNamespaceResponse(
            name=self.name,
            uid="u",
            tier="Standard",
            partition_count=16,
            version="0.1.0",
            partitions=[
                pb.NamespacePartition(
                    partition=index,
                    available=index not in self.unreached,
                    conditions=["its store is not open"] if index in self.unreached else [],
                )
                for index in range(16)
            ],
        )

    def ListQueues(self, request: Any, context: Any) -> pb.ListQueuesResponse:
        self._fail_if_told(context)
        names = sorted(
            name
            for name, queue in self._queues.items()
            if request.include_orphaned or not queue.orphaned
        )
        first = int(request.page_token or 0)
        page = names[first : first + min(request.page_size or 100, 2)]
        following = first + len(page)
        return pb.ListQueuesResponse(
            queues=[self._queues[name] for name in page],
            next_page_token=str(following) if following < len(names) else "",
        )

    def GetQueue(self, request: Any, context: Any) -> pb.GetQueueResponse:
        return pb.GetQueueResponse(queue=self._found(request.name, context))

    def CreateQueue(self, request: Any, context: Any) -> pb.CreateQueueResponse:
        self.calls.append(f"create {request.name}{' migrated' if request.migrated else ''}")
        wanted = entities.description_from_proto(request.description)
        # As the real ones do: what the tier decides is written down.
        wanted = descriptions.merged(wanted, {"max_message_size_in_kilobytes": 256})
        self._put(request.name, request.uid or str(uuid.uuid4()), request.origin, wanted)
        return pb.CreateQueueResponse(
            queue=self._queues[request.name.lower()], outcomes=self._outcomes()
        )

    def UpdateQueue(self, request: Any, context: Any) -> pb.UpdateQueueResponse:
        self.calls.append(f"update {request.name}")
        found = self._found(request.name, context)
        if request.if_generation not in (0, found.generation):
            self._refuse(context, errors.GenerationMismatch("It was changed meanwhile."))
        current = entities.description_from_proto(found.description)
        wanted = descriptions.merged(current, entities.description_changes(request.description))
        try:
            descriptions.check_unchanged(request.name, current, wanted)
        except BusError as error:
            self._refuse(context, error)
        self._put(request.name, found.uid, found.origin, wanted)
        self._fail_if_told(context, "half-way")
        return pb.UpdateQueueResponse(
            queue=self._queues[request.name.lower()], outcomes=self._outcomes()
        )

    def DeleteQueue(self, request: Any, context: Any) -> pb.DeleteQueueResponse:
        self.calls.append(f"delete {request.name}")
        self._found(request.name, context)
        del self._queues[request.name.lower()]
        return pb.DeleteQueueResponse(outcomes=self._outcomes())

    def add(
        self, name: str, origin: entity.Origin, *, orphaned: bool = False, **fields: Any
    ) -> None:
        """Make a queue as if it had been there before."""
        wire_origin = entities.origin_to_proto(origin)
        self._put(name, str(uuid.uuid4()), wire_origin, QueueDescription(**fields))
        self._queues[name.lower()].orphaned = orphaned

    def count(self, name: str, counts: pb.MessageCountDetails) -> None:
        """Say what a queue holds."""
        self._queues[name.lower()].runtime.count_details.CopyFrom(counts)

    def _put(
        self,
        name: str,
        uid: str,
        origin: pb.EntityOrigin,
        wanted: QueueDescription,
    ) -> None:
        self._generation += 1
        count, home = partitioning.placement(
            name,
            enable_partitioning=wanted.enable_partitioning,
            tier=limits.Tier.STANDARD,
            partition_count=16,
        )
        share = pb.MessageCountDetails(active_message_count=1)
        parts = [
            pb.PartitionRuntime(partition=index, reachable=index not in self.unreached,
                                count_details=share, size_in_bytes=100)
            for index in (range(count) if count > 1 else [home])
        ]  # fmt: skip
        self._queues[name.lower()] = pb.Queue(
            name=name,
            uid=uid,
            generation=self._generation,
            origin=origin,
            description=entities.description_to_proto(wanted),
            partition_count=count,
            home_partition=home,
            runtime=pb.QueueRuntime(
                availability_status=pb.ENTITY_AVAILABILITY_STATUS_AVAILABLE
                if all(part.reachable for part in parts)
                else pb.ENTITY_AVAILABILITY_STATUS_LIMITED,
                count_details=pb.MessageCountDetails(active_message_count=len(parts)),
                size_in_bytes=100 * len(parts),
                max_size_in_megabytes_total=wanted.max_size_in_megabytes * count,
                partitions=parts,
            ),
        )

    def _outcomes(self) -> list[pb.PartitionOutcome]:
        return [
            pb.PartitionOutcome(partition=index, done=index not in self.unreached)
            for index in range(16)
        ]

    def _found(self, name: str, context: Any) -> pb.Queue:
        if name.lower() not in self._queues:
            try:
                self.topics.directory.find(name, EntityKind.QUEUE)
            except errors.EntityNotFound as error:
                if "kind" in error.metadata:
                    self._refuse(context, error)
            sentence = f"There is no queue {name!r}. List them with bendybus get queues."
            self._refuse(context, errors.EntityNotFound(sentence))
        return self._queues[name.lower()]

    def _fail_if_told(self, context: Any, when: str = "list") -> None:
        if self.failures and when == self.failures[0].metadata.get("when", "list"):
            self._refuse(context, self.failures.pop(0))

    def _refuse(self, context: Any, error: BusError) -> None:
        context.abort_with_status(rpc_status.to_status(statuses.to_status(error)))


def serve(fake: FakeManagement, listen: str = "127.0.0.1:0") -> tuple[grpc.Server, str]:
    """Serve `fake`; return the server and its address."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    management_pb2_grpc.add_ManagementServiceServicer_to_server(fake, server)
    host, _, _ = listen.rpartition(":")
    port = server.add_insecure_port(listen)
    server.start()
    return server, f"{host}:{port}"
