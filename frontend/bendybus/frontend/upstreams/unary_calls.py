"""Unary calls to one partition: values in, values out, failures as domain errors.

The only module beside the streams that knows gRPC's errors; what calls it does not.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from bendybus.domain import errors
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import BusError
from bendybus.domain.filters.rule_set import RuleChange
from bendybus.domain.lifecycle import EntityAction
from bendybus.frontend.upstreams.upstream import Upstream
from bendybus.internal.v1 import entity_pb2, partition_pb2
from bendybus.wire import catalogue, entities, statuses

# (stub of the partition's calls, its number) → the answer
Make = Callable[[Any, int], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Commit:
    """A change of the catalogue, as the registrar is asked for it."""

    action: EntityAction
    name: str
    # The fields of the description that are set, as `entity.merged` takes them.
    changes: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin = Origin.CLIENT
    # At creation the UID to have; otherwise refused if the entity has another one, unless empty.
    uid: str = ""
    manifest_uid: str = ""
    # Refused if the entity has another generation by now; 0: whatever it has.
    if_generation: int = 0
    kind: EntityKind = EntityKind.QUEUE
    # Only with UPDATE of a subscription.
    rule_change: RuleChange | None = None
    # Only at creation: it keeps the partitions that it had elsewhere.
    migrated: bool = False


@dataclass(frozen=True, slots=True)
class Counts:
    """What a queue holds in one partition, or in several."""

    active: int = 0
    dead_letter: int = 0
    scheduled: int = 0
    deferred: int = 0
    locked: int = 0
    size_in_bytes: int = 0
    accessed_at_ms: int = 0
    transfer_dead_letter: int = 0
    transfer: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.active + other.active,
            self.dead_letter + other.dead_letter,
            self.scheduled + other.scheduled,
            self.deferred + other.deferred,
            self.locked + other.locked,
            self.size_in_bytes + other.size_in_bytes,
            max(self.accessed_at_ms, other.accessed_at_ms),
            self.transfer_dead_letter + other.transfer_dead_letter,
            self.transfer + other.transfer,
        )


async def call(upstream: Upstream, make: Make, *, changes: bool = False) -> Any:
    """Return a partition's answer. Raises the domain error, PartitionUnavailable included.

    `changes`: the call changes something; if its answer is lost, it may have been done.
    """
    return await _answer(
        upstream, lambda: make(upstream.calls, upstream.partition), changes=changes
    )


async def commit(upstream: Upstream, change: Commit, timeout_s: float) -> Entity:
    """Have the registrar change its catalogue; return the new entry. Raises the domain error."""
    request = catalogue.commit_request(
        change.kind,
        change.name,
        change.changes,
        change.rule_change,
        partition=upstream.partition,
        action=entity_pb2.EntityAction.Name(change.action),
        origin=entities.origin_to_proto(change.origin),
        uid=change.uid,
        manifest_uid=change.manifest_uid,
        if_generation=change.if_generation,
        migrated=change.migrated,
    )
    response = await _answer(
        upstream,
        lambda: upstream.catalogue_calls.CommitEntity(request, timeout=timeout_s),
        changes=True,
    )
    return catalogue.committed(response)


async def apply(upstream: Upstream, entries: Sequence[Entity], timeout_s: float) -> None:
    """Copy entries to a partition, which keeps newer ones: one queue, or some of other kinds.

    Raises the domain error.
    """
    request = catalogue.apply_request(upstream.partition, entries)
    await _answer(
        upstream,
        lambda: upstream.catalogue_calls.ApplyEntity(request, timeout=timeout_s),
        changes=True,
    )


async def fence_idle(upstream: Upstream, entity: Entity, idle_ms: int, timeout_s: float) -> bool:
    """Have a partition refuse traffic for a moment if it saw none for `idle_ms`; whether it does.

    Raises the domain error.
    """
    request = entity_pb2.FenceIdleEntityRequest(
        partition=upstream.partition,
        uid=entity.uid,
        generation=entity.generation,
        idle_ms=idle_ms,
    )
    answer = await _answer(
        upstream, lambda: upstream.catalogue_calls.FenceIdleEntity(request, timeout=timeout_s)
    )
    return bool(answer.fenced)


async def counts(upstream: Upstream, uids: Sequence[str], timeout_s: float) -> dict[str, Counts]:
    """Return what a partition holds of these entities, by UID. Raises the domain error."""
    request = partition_pb2.GetCountsRequest(partition=upstream.partition, uids=uids)
    answer = await call(upstream, lambda calls, _: calls.GetCounts(request, timeout=timeout_s))
    return {
        each.uid: Counts(
            each.active,
            each.dead_letter,
            each.scheduled,
            each.deferred,
            each.locked,
            each.size_in_bytes,
            each.accessed_at_ms,
            each.transfer_dead_letter,
            each.transfer,
        )
        for each in answer.entities
    }


def unreachable(upstream: Upstream) -> BusError:
    """Return the error for a partition that cannot be asked now."""
    why = "; ".join(upstream.conditions()) or "it did not answer"
    return errors.PartitionUnavailable(
        f"partition {upstream.partition} is unavailable ({why}). Try again when it is back.",
        metadata={"partition": str(upstream.partition)},
    )


def unknown(upstream: Upstream) -> BusError:
    """Return the error for a change of which the partition's answer was lost."""
    return errors.OutcomeUnknown(
        f"partition {upstream.partition} did not answer; it may have done this.",
        metadata={"partition": str(upstream.partition)},
    )


def older(upstream: Upstream) -> BusError:
    """Return the error for an operation that a partition is too old for."""
    partition = upstream.partition
    return errors.InvalidOperation(
        f"partition {partition} runs an older version of Bendybus, which does not have this "
        "operation. Update its partition server, then try again.",
        metadata={"partition": str(partition)},
    )


async def _answer(
    upstream: Upstream, make: Callable[[], Awaitable[Any]], *, changes: bool = False
) -> Any:
    if not upstream.available:
        raise unreachable(upstream)
    try:
        return await make()
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            raise older(upstream) from error
        found = statuses.from_rpc_error(error)
        if type(found) in (errors.RetryableError, errors.ServiceTimeout):
            raise (unknown(upstream) if changes else unreachable(upstream)) from error
        raise found from error
