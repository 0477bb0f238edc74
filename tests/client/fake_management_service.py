"""The management service of the front end in the test's process."""

from typing import TYPE_CHECKING, Any

from bendybus.domain import descriptions, errors
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.errors import BusError
from bendybus.v1 import management_pb2, management_pb2_grpc
from bendybus.wire import entities, statuses
from tests import topics_in_memory
from tests.client.memory_queue import PARTITION

if TYPE_CHECKING:
    from tests.client.fake_front_end import FakeFrontEnd


@topics_in_memory.answered_by(lambda service: service.topics, statuses.abort, is_async=True)
class ManagementService(management_pb2_grpc.ManagementServiceServicer):
    """Keeps the entities of a FakeFrontEnd."""

    def __init__(self, fake: "FakeFrontEnd") -> None:
        self._fake = fake
        self.topics = topics_in_memory.Topics()

    def _shown(self, name: str, runtime: bool) -> Any:
        described = self._fake.entities[name]
        shown = entities.queue_to_proto(described)
        shown.reported_size_in_megabytes = described.description.max_size_in_megabytes
        if runtime:
            queue = self._fake.queues[name]
            counts = shown.runtime.count_details
            counts.active_message_count = sum(
                1 for one in queue.messages.values() if not one.deferred and not one.scheduled_ms
            )
            counts.dead_letter_message_count = len(queue.dead.messages) if queue.dead else 0
            counts.scheduled_message_count = sum(
                1 for one in queue.messages.values() if one.scheduled_ms
            )
            shown.runtime.size_in_bytes = sum(len(one.payload) for one in queue.messages.values())
            shown.runtime.created_at_ms = 1_700_000_000_000
            shown.runtime.updated_at_ms = 1_700_000_000_000
            shown.runtime.availability_status = management_pb2.ENTITY_AVAILABILITY_STATUS_AVAILABLE
        return shown

    async def _known(self, name: str, context: Any) -> None:
        if name not in self._fake.entities:
            await statuses.abort(context, errors.EntityNotFound(f"There is no queue {name!r}."))

    async def GetNamespace(self, request: Any, context: Any) -> Any:
        return management_pb2.GetNamespaceResponse(
            name="test", uid="u", tier="Standard", partition_count=16, version="0"
        )

    async def CreateQueue(self, request: Any, context: Any) -> Any:
        known = self._fake.entities.get(request.name)
        if known is not None and known.uid == request.uid:
            return management_pb2.CreateQueueResponse(queue=self._shown(request.name, False))
        if known is not None:
            taken = errors.EntityAlreadyExists(f"The name {request.name!r} is taken.")
            await statuses.abort(context, taken)
        try:
            wanted = entities.description_from_proto(request.description)
            if wanted.forward_to:
                raise errors.InvalidArgument("forwardTo", "is refused.")
        except BusError as exc:
            await statuses.abort(context, exc)
        self._fake.add_queue(request.name, lock_ms=wanted.lock_duration_ms)
        uid = request.uid or "uid"
        made = Entity(request.name, uid, 1, Origin.CLIENT, wanted, 1, PARTITION, 1, 1)
        self._fake.entities[request.name] = made
        return management_pb2.CreateQueueResponse(queue=self._shown(request.name, False))

    async def UpdateQueue(self, request: Any, context: Any) -> Any:
        await self._known(request.name, context)
        old = self._fake.entities[request.name]
        changes = entities.description_changes(request.description)
        wanted = descriptions.merged(old.description, changes)
        self._fake.entities[request.name] = Entity(
            old.name, old.uid, old.generation + 1, old.origin, wanted, 1, PARTITION, 1, 1
        )
        return management_pb2.UpdateQueueResponse(queue=self._shown(request.name, False))

    async def DeleteQueue(self, request: Any, context: Any) -> Any:
        await self._known(request.name, context)
        del self._fake.entities[request.name], self._fake.queues[request.name]
        return management_pb2.DeleteQueueResponse()

    async def GetQueue(self, request: Any, context: Any) -> Any:
        await self._known(request.name, context)
        shown = self._shown(request.name, request.include_runtime)
        return management_pb2.GetQueueResponse(queue=shown)

    async def ListQueues(self, request: Any, context: Any) -> Any:
        names = sorted(self._fake.entities)
        start = int(request.page_token or "0")
        size = request.page_size or 100
        page = [self._shown(name, request.include_runtime) for name in names[start : start + size]]
        more = str(start + size) if start + size < len(names) else ""
        return management_pb2.ListQueuesResponse(queues=page, next_page_token=more)
