"""Management through a front end: its work, and what it leaves to the repair task."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.entity import Entity, Fingerprint, Origin
from bendybus.domain.entity_settings import QueueDescription
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.limits import Tier
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.listeners.management_service import ManagementService
from bendybus.frontend.settings import Settings
from bendybus.frontend.upstreams.unary_calls import Commit
from bendybus.internal.v1 import entity_pb2, partition_pb2
from bendybus.v1 import management_pb2
from bendybus.wire import catalogue, entities
from tests.work import steps

FINGERPRINT = Fingerprint("n", "u", Tier.PREMIUM, 4, 0)
# Of a partition's counts: what clients see of it.
COUNTED = {
    "active": "active_message_count",
    "dead_letter": "dead_letter_message_count",
    "scheduled": "scheduled_message_count",
    "deferred": "deferred_message_count",
    "locked": "locked_message_count",
    "transfer": "transfer_message_count",
    "transfer_dead_letter": "transfer_dead_letter_message_count",
}
PATTERN = Entity("", "", 0, Origin.CLIENT, QueueDescription(), 4, 0, 0, 0)


class Partition:
    """A partition that commits and copies whatever it is told, and tells its watchers first."""

    available = True
    pulls = False

    def __init__(self, front_end: FrontEnd, partition: int) -> None:
        self.partition = partition
        self.catalogue_calls = self
        self.applied: list[str] = []
        self._front_end = front_end

    async def CommitEntity(self, request: Any, timeout: float) -> Any:
        """Make the entity that is asked for."""
        generation = 1_000_000 + len(self.applied)
        entity = replace(PATTERN, name=request.name, uid=request.uid, generation=generation)
        self._front_end.catalogue(self.partition, FINGERPRINT, [entity], snapshot=False)
        # The repair task gets its chance before the caller has the answer.
        await asyncio.sleep(0)
        return entity_pb2.CommitEntityResponse(entity=entities.entity_to_proto(entity))

    async def ApplyEntity(self, request: Any, timeout: float) -> Any:
        """Copy an entry."""
        await asyncio.sleep(0)
        [entity] = catalogue.applied(request)
        self.applied.append(entity.name)
        self._front_end.catalogue(self.partition, FINGERPRINT, [entity], snapshot=False)
        return entity_pb2.ApplyEntityResponse()

    def conditions(self) -> list[str]:
        """Return why it cannot be asked."""
        return ["it ended"]

    @property
    def calls(self) -> "Partition":
        """What other calls are made with."""
        return self

    async def GetCounts(self, request: Any, timeout: float) -> partition_pb2.GetCountsResponse:
        """Tell another number in each field; the same in each partition."""
        counts = {field: 2**bit for bit, field in enumerate(COUNTED)}
        return partition_pb2.GetCountsResponse(
            entities=[partition_pb2.EntityCounts(uid=uid, **counts) for uid in request.uids]
        )


def front_end_of(count: int, unary_timeout_s: float = 60.0) -> FrontEnd:
    """Return a front end of partitions in memory."""
    front_end = FrontEnd(Settings(partitions={}, unary_timeout_s=unary_timeout_s))
    for index in range(count):
        front_end.upstreams[index] = Partition(front_end, index)  # type: ignore[assignment]
        front_end.catalogue(index, FINGERPRINT, [], snapshot=True)
    return front_end


class Context:
    """A call whose end with a status is the error that it is of."""

    async def abort_with_status(self, status: Any) -> None:
        """End it."""
        raise errors.PartitionUnavailable(status.details)


async def create(front_end: FrontEnd, name: str) -> None:
    """Create a queue as a client does."""
    context: Any = Context()
    request = management_pb2.CreateQueueRequest(name=name)
    await ManagementService(front_end).CreateQueue(request, context)


def test_a_creation_costs_the_same_however_many_queues_there_are() -> None:
    front_end = front_end_of(4)

    def fill(numbers: range) -> None:
        for number in numbers:
            entry = replace(PATTERN, name=f"q{number}", uid=f"u{number}", generation=number + 1)
            for partition in range(4):
                front_end.catalogue(partition, FINGERPRINT, [entry], snapshot=False)

    def work(name: str) -> int:
        with asyncio.Runner() as runner:
            runner.run(asyncio.sleep(0))
            return steps(lambda: runner.run(create(front_end, name)))

    fill(range(20))
    work("first")
    few = work("few")
    fill(range(20, 2_000))
    many = work("many")

    assert few > 500
    assert many <= few * 1.1


async def test_an_entry_is_copied_once_and_what_failed_later_by_the_repair_task() -> None:
    front_end = front_end_of(3)
    partitions: dict[int, Any] = dict(front_end.upstreams)
    repairing = asyncio.get_running_loop().create_task(front_end.copies.run())
    try:
        await create(front_end, "a")
        await asyncio.sleep(0)
        assert [partition.applied for partition in partitions.values()] == [["a"]] * 3

        entity, _ = front_end.directory.lookup("a")
        newer = replace(entity, generation=entity.generation + 1)
        front_end.catalogue(0, FINGERPRINT, [newer], snapshot=False)
        async with asyncio.timeout(5):
            while front_end.directory.holders("a") != [0, 1, 2]:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    finally:
        repairing.cancel()
        await asyncio.gather(repairing, return_exceptions=True)

    assert [len(partition.applied) for partition in partitions.values()] == [1, 2, 2]


@pytest.mark.requirement("R481")
async def test_a_change_waits_for_partitions_that_take_it_by_themselves() -> None:
    front_end = front_end_of(3)
    partitions: dict[int, Any] = dict(front_end.upstreams)
    partitions[1].pulls = partitions[2].pulls = True
    repairing = asyncio.get_running_loop().create_task(front_end.copies.run())
    creating = asyncio.get_running_loop().create_task(create(front_end, "a"))
    try:
        for partition in (1, 2):
            await asyncio.sleep(0.02)
            assert not creating.done()
            entity, _ = front_end.directory.lookup("a")
            front_end.catalogue(partition, FINGERPRINT, [entity], snapshot=False)
        await asyncio.wait_for(creating, 5)
    finally:
        repairing.cancel()
        await asyncio.gather(repairing, return_exceptions=True)

    assert [partition.applied for partition in partitions.values()] == [["a"], [], []]


@pytest.mark.requirement("R481")
async def test_the_repair_task_leaves_partitions_alone_that_take_entries_by_themselves() -> None:
    front_end = front_end_of(3)
    partitions: dict[int, Any] = dict(front_end.upstreams)
    partitions[1].pulls = True
    repairing = asyncio.get_running_loop().create_task(front_end.copies.run())
    try:
        entry = replace(PATTERN, name="a", uid="u", generation=1)
        front_end.catalogue(0, FINGERPRINT, [entry], snapshot=False)
        async with asyncio.timeout(5):
            while front_end.directory.holders("a") != [0, 2]:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        # Partition 2 is looked at after partition 1.
        assert [partition.applied for partition in partitions.values()] == [[], [], ["a"]]
    finally:
        repairing.cancel()
        await asyncio.gather(repairing, return_exceptions=True)


@pytest.mark.requirement("R481")
async def test_a_partition_that_ends_before_it_takes_a_change_is_named() -> None:
    front_end = front_end_of(3)
    partitions: dict[int, Any] = dict(front_end.upstreams)
    partitions[1].pulls = partitions[2].pulls = True
    creating = asyncio.get_running_loop().create_task(
        front_end.manager.change(Commit(EntityAction.CREATE, "a"))
    )
    await asyncio.sleep(0.02)
    entity, _ = front_end.directory.lookup("a")
    front_end.catalogue(1, FINGERPRINT, [entity], snapshot=False)

    partitions[2].available = False
    front_end.copies.changed()

    with pytest.raises(errors.PartitionUnavailable, match=r"partitions \[2\]"):
        await asyncio.wait_for(creating, 5)


@pytest.mark.requirement("R481")
async def test_a_change_is_copied_to_a_partition_that_cannot_take_it_by_itself_any_more() -> None:
    front_end = front_end_of(2)
    partitions: dict[int, Any] = dict(front_end.upstreams)
    partitions[1].pulls = True
    creating = asyncio.get_running_loop().create_task(create(front_end, "a"))
    await asyncio.sleep(0.02)
    assert not creating.done()

    partitions[1].pulls = False
    front_end.catalogue(1, FINGERPRINT, [], snapshot=False)
    await asyncio.wait_for(creating, 1)

    assert partitions[1].applied == ["a"]


@pytest.mark.requirement("R481")
async def test_a_change_is_copied_to_a_partition_that_does_not_take_it_in_time() -> None:
    """As one does whose connection to the registrar is dead, which it has not noticed yet."""
    front_end = front_end_of(2, unary_timeout_s=0.1)
    partitions: dict[int, Any] = dict(front_end.upstreams)
    partitions[1].pulls = True

    await create(front_end, "a")

    assert partitions[1].applied == ["a"]


@pytest.mark.requirement("R481")
@pytest.mark.parametrize("lost", ["stalled", "send_stream_lost"])
async def test_nothing_waits_for_a_partition_that_is_lost(lost: str) -> None:
    front_end = front_end_of(2)
    partitions: dict[int, Any] = dict(front_end.upstreams)
    partitions[1].pulls = True
    creating = asyncio.get_running_loop().create_task(create(front_end, "a"))
    await asyncio.sleep(0.02)

    partitions[1].available = False
    getattr(front_end, lost)(1, "it ended")

    with pytest.raises(errors.PartitionUnavailable, match=r"partitions \[1\]"):
        await asyncio.wait_for(creating, 1)
    assert partitions[1].applied == []


async def test_a_change_that_a_partition_refuses_says_why() -> None:
    front_end = front_end_of(2)
    partitions: dict[int, Any] = dict(front_end.upstreams)

    async def refuse(request: Any, timeout: float) -> Any:
        raise errors.InvalidArgument("rules", "are those of a later version.")

    partitions[1].ApplyEntity = refuse

    with pytest.raises(errors.PartitionUnavailable, match=r"\[1\] did not apply it; partition 1 "):
        await front_end.manager.change(Commit(EntityAction.CREATE, "a"))


async def test_orphans_are_listed_only_if_asked_for() -> None:
    front_end = front_end_of(1)
    entries = [
        replace(PATTERN, name="live", uid="1", generation=1),
        replace(PATTERN, name="lost", uid="2", generation=2, orphaned=True),
        replace(PATTERN, name="gone", uid="3", generation=3, deleted=True),
    ]
    front_end.catalogue(0, FINGERPRINT, entries, snapshot=True)
    context: Any = SimpleNamespace()

    shown = {}
    for flag in (False, True):
        request = management_pb2.ListQueuesRequest(include_orphaned=flag)
        answer = await ManagementService(front_end).ListQueues(request, context)
        shown[flag] = [(queue.name, queue.orphaned) for queue in answer.queues]

    assert shown == {
        False: [("live", False)],
        True: [("live", False), ("lost", True)],
    }


async def test_every_count_of_the_partitions_is_summed_and_shown() -> None:
    front_end = front_end_of(4)
    entry = replace(PATTERN, name="orders", uid="1", generation=1)
    front_end.catalogue(0, FINGERPRINT, [entry], snapshot=True)
    context: Any = SimpleNamespace()
    request = management_pb2.GetQueueRequest(name="orders", include_runtime=True)

    answer = await ManagementService(front_end).GetQueue(request, context)

    shown = answer.queue.runtime.count_details
    found = {each.name: getattr(shown, each.name) for each in shown.DESCRIPTOR.fields}
    assert found == {name: 4 * 2**bit for bit, name in enumerate(COUNTED.values())}
