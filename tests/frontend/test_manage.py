"""What management reports when partitions are away, and what counts add up to."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from bendybus.domain import errors
from bendybus.domain.entity import Entity, Fingerprint
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.limits import Tier
from bendybus.frontend.core import manage
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.listeners.management_service import ManagementService, runtime_to_proto
from bendybus.frontend.settings import Settings
from bendybus.frontend.upstreams.unary_calls import Commit, Counts
from bendybus.internal.v1 import entity_pb2
from bendybus.v1 import management_pb2, message_pb2
from bendybus.wire import entities
from tests.frontend.entities import queue

ACTIONS = ("CreateQueue", "UpdateQueue", "DeleteQueue")


class Refused(Exception):
    """What a call was ended with."""


class Context:
    """The context of a call: ends it with an exception."""

    def __getattr__(self, name: str) -> Any:
        async def take(*_: Any, **__: Any) -> None:
            raise Refused

        return take


class Partition:
    """A partition that commits and copies whatever it is told."""

    pulls = False

    def __init__(self, partition: int, entity: Entity) -> None:
        self.partition, self.available = partition, True
        self.catalogue_calls = self
        self._entity = entity

    def conditions(self) -> list[str]:
        """Return why it cannot be asked."""
        return []

    async def CommitEntity(self, request: Any, timeout: float) -> Any:
        """Commit what is asked for."""
        return entity_pb2.CommitEntityResponse(entity=entities.entity_to_proto(self._entity))

    async def ApplyEntity(self, request: Any, timeout: float) -> Any:
        """Copy an entry."""
        return entity_pb2.ApplyEntityResponse()


async def lose(request: Any, timeout: float) -> Any:
    """Lose the answer to a call."""
    raise grpc.aio.AioRpcError(
        grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), "Socket closed"
    )


async def refuse(request: Any, timeout: float) -> Any:
    """Refuse to create what there is."""
    raise errors.EntityAlreadyExists("queue 'orders' already exists.")


def front_end_of(entity: Entity) -> FrontEnd:
    """Return a front end of four partitions in memory."""
    front_end = FrontEnd(Settings(partitions={}))
    for index in range(4):
        front_end.upstreams[index] = Partition(index, entity)  # type: ignore[assignment]
    return front_end


@pytest.mark.requirement("R34")
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("away", [1, 3])
async def test_a_change_that_a_partition_missed_is_reported_as_a_failure(
    action: str, away: int
) -> None:
    front_end = front_end_of(replace(queue(), deleted=action == "DeleteQueue"))
    front_end.upstreams[away].available = False  # type: ignore[misc]
    service, request = ManagementService(front_end), getattr(management_pb2, f"{action}Request")

    with pytest.raises((Refused, errors.PartitionUnavailable, grpc.RpcError)):
        await getattr(service, action)(request(name="orders"), Context())


@pytest.mark.requirement("R34")
@pytest.mark.parametrize("action", ACTIONS)
async def test_a_change_that_all_partitions_took_names_them_all(action: str) -> None:
    front_end = front_end_of(replace(queue(), deleted=action == "DeleteQueue"))
    service, request = ManagementService(front_end), getattr(management_pb2, f"{action}Request")

    answer = await getattr(service, action)(request(name="orders"), SimpleNamespace())

    assert [(each.partition, each.done) for each in answer.outcomes] == [
        (index, True) for index in range(4)
    ]


async def test_a_change_whose_answer_was_lost_may_be_done() -> None:
    front_end = front_end_of(queue())
    told = errors.OutcomeUnknown
    front_end.upstreams[0].CommitEntity = lose  # type: ignore[attr-defined]

    with pytest.raises(told):
        await front_end.manager.change(Commit(EntityAction.UPDATE, "orders"))


async def test_a_copy_whose_answer_was_lost_may_be_done() -> None:
    entity = replace(queue(), partition_count=3)
    front_end = front_end_of(entity)
    front_end.upstreams[3].ApplyEntity = lose  # type: ignore[attr-defined]
    request = management_pb2.UpdateQueueRequest(name="orders")
    context: Any = SimpleNamespace()

    answer = await ManagementService(front_end).UpdateQueue(request, context)

    [lost] = [each for each in answer.outcomes if not each.done]
    assert lost.partition == 3
    assert lost.error.outcome == message_pb2.OUTCOME_UNKNOWN


@pytest.mark.parametrize("partitions", [1, 4])
async def test_a_queue_that_is_complete_exists_also_while_a_partition_is_away(
    partitions: int,
) -> None:
    entity = queue(partitions=partitions)
    front_end = front_end_of(entity)
    for partition in range(4):
        own = Fingerprint("test", "uid", Tier.STANDARD, 4, partition)
        front_end.catalogue(partition, own, [entity], snapshot=True)
    front_end.upstreams[3].available = False  # type: ignore[misc]
    front_end.directory.forget(3)
    front_end.upstreams[0].CommitEntity = refuse  # type: ignore[attr-defined]

    with pytest.raises(errors.EntityAlreadyExists):
        await front_end.manager.change(Commit(EntityAction.CREATE, entity.name))


async def test_a_creation_that_a_partition_missed_is_reported_again_while_it_is_away() -> None:
    entity = queue()
    front_end = front_end_of(entity)
    for partition in range(4):
        own = Fingerprint("test", "uid", Tier.STANDARD, 4, partition)
        known = [] if partition == 3 else [entity]
        front_end.catalogue(partition, own, known, snapshot=True)
    front_end.upstreams[3].available = False  # type: ignore[misc]
    front_end.directory.forget(3)
    front_end.upstreams[0].CommitEntity = refuse  # type: ignore[attr-defined]

    with pytest.raises(errors.PartitionUnavailable, match=r"recorded, but partitions \[3\]"):
        await front_end.manager.change(Commit(EntityAction.CREATE, entity.name))


@pytest.mark.requirement("R637")
@pytest.mark.parametrize("action", [EntityAction.CREATE, EntityAction.DELETE])
async def test_a_call_that_was_to_be_repeated_succeeds_after_the_partition_took_it(
    action: EntityAction,
) -> None:
    entity = replace(queue(), deleted=action is EntityAction.DELETE)
    front_end = front_end_of(entity)
    front_end.upstreams[3].available = False  # type: ignore[misc]
    with pytest.raises(errors.PartitionUnavailable, match="Repeat the call to confirm"):
        await front_end.manager.change(Commit(action, entity.name))

    # It comes back, and takes what it lacked.
    for partition in range(4):
        own = Fingerprint("test", "uid", Tier.STANDARD, 4, partition)
        front_end.catalogue(partition, own, [entity], snapshot=True)
    front_end.upstreams[3].available = True  # type: ignore[misc]
    front_end.upstreams[0].CommitEntity = refuse  # type: ignore[attr-defined]
    other = {"max_delivery_count": 3} if action is EntityAction.CREATE else {}
    if other:
        with pytest.raises(errors.EntityAlreadyExists):
            await front_end.manager.change(Commit(action, entity.name, other))
    again = await front_end.manager.change(Commit(action, entity.name))

    assert again.entity.uid == entity.uid
    assert not any(again.outcomes.values())
    # It was confirmed: another one is a call of its own.
    with pytest.raises(errors.EntityAlreadyExists):
        await front_end.manager.change(Commit(action, entity.name))


@pytest.mark.requirement("R35")
def test_counts_of_every_kind_are_summed_over_partitions_and_one_away_makes_them_limited() -> None:
    kinds = ("active", "dead_letter", "scheduled", "deferred")
    entity = queue()
    counts = Counts(size_in_bytes=100, **{kind: n + 1 for n, kind in enumerate(kinds)})
    answer = {entity.uid: counts}
    away = errors.PartitionUnavailable("away")

    sums = manage.sums(entity, dict.fromkeys(range(4), answer))
    whole = runtime_to_proto(entity, sums)
    sums = manage.sums(entity, {**dict.fromkeys(range(3), answer), 3: away})
    part = runtime_to_proto(entity, sums)

    for runtime, partitions in ((whole, 4), (part, 3)):
        told = [getattr(runtime.count_details, f"{kind}_message_count") for kind in kinds]
        assert told == [(n + 1) * partitions for n in range(4)]
        assert runtime.size_in_bytes == 100 * partitions
    assert whole.availability_status == management_pb2.ENTITY_AVAILABILITY_STATUS_AVAILABLE
    assert part.availability_status == management_pb2.ENTITY_AVAILABILITY_STATUS_LIMITED
