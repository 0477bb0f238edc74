"""Unary calls to one partition: values in, values out, failures as domain errors.

The only module beside the streams that knows gRPC's errors; what calls it does not.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import BusError
from bendybus.domain.filters.rule_set import RuleChange
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.message_state import MessageState, ReceiveMode
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.upstreams import deliver_frames
from bendybus.frontend.upstreams.deliver_frames import MODES
from bendybus.frontend.upstreams.upstream import Upstream, now_ms
from bendybus.internal.v1 import entity_pb2, partition_pb2
from bendybus.v1 import message_pb2, receiver_pb2
from bendybus.wire import batch_deletes, catalogue, entities, statuses

if TYPE_CHECKING:
    from bendybus.internal.v1 import partition_pb2_grpc

ReplyT = TypeVar("ReplyT")
# (stub of the partition's calls, its number) → the answer
Make: TypeAlias = "Callable[[partition_pb2_grpc.PartitionServiceAsyncStub, int], Awaitable[ReplyT]]"


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
    # The age of the oldest active message; None: no message is active, or no age was asked for.
    oldest_active_ms: int | None = None

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
            _larger(self.oldest_active_ms, other.oldest_active_ms),
        )


def _larger(first: int | None, second: int | None) -> int | None:
    if first is None or second is None:
        return second if first is None else first
    return max(first, second)


async def call(upstream: Upstream, make: "Make[ReplyT]", *, changes: bool = False) -> ReplyT:
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
    return answer.fenced


async def counts(
    upstream: Upstream, uids: Sequence[str], timeout_s: float, *, oldest: bool = False
) -> dict[str, Counts]:
    """Return the counts of these entities in a partition, by UID. Raises the domain error.

    `oldest`: also how long the oldest message of the first one has been active.
    """
    request = partition_pb2.GetCountsRequest(partition=upstream.partition, uids=uids, oldest=oldest)
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
            each.oldest_active_ms if each.HasField("oldest_active_ms") else None,
        )
        for each in answer.entities
    }


async def idle_times(upstream: Upstream, uids: Sequence[str], timeout_s: float) -> dict[str, int]:
    """Return for how many ms a partition saw no use of these entities, by UID; those that it has.

    Raises the domain error.
    """
    request = partition_pb2.GetCountsRequest(partition=upstream.partition, uids=uids)
    answer = await call(upstream, lambda calls, _: calls.GetCounts(request, timeout=timeout_s))
    return {each.uid: each.idle_ms for each in answer.entities}


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


async def _answer(
    upstream: Upstream, make: Callable[[], Awaitable[ReplyT]], *, changes: bool = False
) -> ReplyT:
    if not upstream.available:
        raise unreachable(upstream)
    try:
        return await make()
    except grpc.RpcError as error:
        found = statuses.from_rpc_error(error)
        if type(found) in (errors.RetryableError, errors.ServiceTimeout):
            raise (unknown(upstream) if changes else unreachable(upstream)) from error
        raise found from error


# Handed on as it is.
SessionCounts = receiver_pb2.SessionCounts


@dataclass(frozen=True, slots=True)
class Target:
    """The queue that a call is about, and how long the call may take."""

    entity: Entity
    sub_queue: SubQueue
    timeout_s: float

    @property
    def ref(self) -> partition_pb2.EntityRef:
        """The queue in the internal contract."""
        return entities.ref_to_proto(self.entity, self.sub_queue)


@dataclass(frozen=True, slots=True)
class Repeatable:
    """The name under which an operation may be repeated; empty: it may not."""

    operation_id: bytes = b""
    # Since the first try; 0: this is the first.
    age_ms: int = 0


async def peek(
    upstream: Upstream,
    target: Target,
    *,
    from_number: int,
    messages: int,
    size_bytes: int,
    session_id: str | None = None,
) -> message_pb2.DeliveredBatch:
    """Return messages from a number on, without locks. Raises the domain error."""
    request = partition_pb2.PeekRequest(
        partition=upstream.partition,
        entity=target.ref,
        from_sequence_number=from_number,
        max_messages=messages,
        max_bytes=size_bytes,
        session_id=session_id,
    )
    answer = await call(upstream, lambda calls, _: calls.Peek(request, timeout=target.timeout_s))
    return answer.batch


async def receive_deferred(
    upstream: Upstream,
    target: Target,
    name: Repeatable,
    *,
    mode: ReceiveMode,
    numbers: Sequence[int],
    session_token: bytes = b"",
) -> message_pb2.DeliveredBatch:
    """Lock deferred messages, or delete them; return them. Raises the domain error."""
    request = partition_pb2.ReceiveDeferredRequest(
        partition=upstream.partition,
        entity=target.ref,
        receive_mode=MODES[mode],
        sequence_numbers=numbers,
        operation_id=name.operation_id,
        age_ms=name.age_ms,
        session_token=session_token,
    )
    answer = await call(
        upstream,
        lambda calls, _: calls.ReceiveDeferred(request, timeout=target.timeout_s),
        changes=True,
    )
    return answer.batch


async def cancel_scheduled(
    upstream: Upstream,
    target: Target,
    name: Repeatable,
    *,
    numbers: Sequence[int],
    only_check: bool = False,
) -> None:
    """Delete scheduled messages. Raises the domain error.

    `only_check`: delete nothing, raise what the cancellation would.
    """
    request = partition_pb2.CancelScheduledMessagesRequest(
        partition=upstream.partition,
        entity=target.ref,
        sequence_numbers=numbers,
        operation_id=name.operation_id,
        age_ms=name.age_ms,
        only_check=only_check,
    )
    await call(
        upstream,
        lambda calls, _: calls.CancelScheduledMessages(request, timeout=target.timeout_s),
        changes=not only_check,
    )


async def reserve_numbers(upstream: Upstream, target: Target, *, count: int) -> int:
    """Give numbers to `count` messages to come; return the first. Raises the domain error."""
    request = partition_pb2.ReserveNumbersRequest(
        partition=upstream.partition, entity=target.ref, count=count
    )
    answer = await call(
        upstream, lambda calls, _: calls.ReserveNumbers(request, timeout=target.timeout_s)
    )
    return answer.first_sequence_number


async def delete_messages(
    upstream: Upstream,
    target: Target,
    name: Repeatable,
    *,
    messages: int,
    enqueued_before_ms: int,
    states: frozenset[MessageState],
    only_known: bool = False,
) -> int:
    """Delete the oldest messages; return how many. Raises the domain error.

    `only_known`: delete nothing, return how many the operation deleted before.
    """
    request = partition_pb2.DeleteMessagesRequest(
        partition=upstream.partition,
        entity=target.ref,
        max_messages=messages,
        operation_id=name.operation_id,
        age_ms=name.age_ms,
        only_known=only_known,
    )
    batch_deletes.write(request, states, enqueued_before_ms)
    answer = await call(
        upstream,
        lambda calls, _: calls.DeleteMessages(request, timeout=target.timeout_s),
        changes=True,
    )
    return answer.deleted


async def set_session_state(
    upstream: Upstream, target: Target, token: bytes, state: bytes | None
) -> None:
    """Keep something for a session, or nothing. Raises the domain error."""
    request = partition_pb2.SetSessionStateRequest(
        partition=upstream.partition,
        session_token=token,
        state=state,
        entity_uid=target.entity.uid,
    )
    await call(
        upstream,
        lambda calls, _: calls.SetSessionState(request, timeout=target.timeout_s),
        changes=True,
    )


async def session_state(upstream: Upstream, target: Target, token: bytes) -> bytes | None:
    """Return what is kept for a session. Raises the domain error."""
    request = partition_pb2.GetSessionStateRequest(
        partition=upstream.partition, session_token=token, entity_uid=target.entity.uid
    )
    answer = await call(
        upstream, lambda calls, _: calls.GetSessionState(request, timeout=target.timeout_s)
    )
    return answer.state if answer.HasField("state") else None


async def list_sessions(
    upstream: Upstream,
    target: Target,
    *,
    sessions: int,
    after: str | None,
    state_updated_after_ms: int,
) -> tuple[Sequence[str], str | None]:
    """Return sessions of one partition, and where to go on. Raises the domain error."""
    request = partition_pb2.ListSessionsRequest(
        partition=upstream.partition,
        entity=target.ref,
        max_sessions=sessions,
        after=after,
        state_updated_after_ms=state_updated_after_ms,
    )
    answer = await call(
        upstream, lambda calls, _: calls.ListSessions(request, timeout=target.timeout_s)
    )
    return answer.session_ids, answer.following if answer.HasField("following") else None


async def count_sessions(
    upstream: Upstream, target: Target, *, sessions: int, after: bytes | None
) -> tuple[Sequence[SessionCounts], bytes | None]:
    """Return what sessions of one partition hold, and where to go on. Raises the domain error.

    `after` is what an earlier call returned, or a client, unchecked: raises InvalidArgument.
    """
    request = partition_pb2.CountSessionsRequest(
        partition=upstream.partition, entity=target.ref, max_sessions=sessions
    )
    if after is not None:
        try:
            request.after.ParseFromString(after)
        except DecodeError as error:
            raise errors.InvalidArgument("page_token", "is not valid for this call.") from error
    answer = await call(
        upstream, lambda calls, _: calls.CountSessions(request, timeout=target.timeout_s)
    )
    following = answer.following.SerializeToString() if answer.HasField("following") else None
    return answer.sessions, following


class SendPart(NamedTuple):
    """Messages that are sent as one unit. `measured`: as in a request of sends.

    `via_keys`: where they go through another entity, the key of each for that; empty: their own.
    `numbers`: reserved for them, 0 for none; empty: for none of them.
    """

    messages: message_pb2.MessageBatch
    measured: bool = False
    via_keys: Sequence[str] = ()
    numbers: Sequence[int] = ()


class TransferPart(NamedTuple):
    """Messages for another entity than that of the transaction, sent as one unit."""

    destination: Entity
    messages: message_pb2.MessageBatch
    measured: bool = False
    via_keys: Sequence[str] = ()
    numbers: Sequence[int] = ()


class SettlePart(NamedTuple):
    """Messages that are settled, or whose locks are renewed."""

    disposition: Disposition
    lock_tokens: bytes
    changed_properties: message_pb2.ValueMap | None = None
    dead_letter_reason: str = ""
    dead_letter_error_description: str = ""
    # Of the receiver's session; empty: it has none.
    session_token: bytes = b""


class CancelPart(NamedTuple):
    """Scheduled messages that are deleted, by their sequence numbers."""

    sequence_numbers: Sequence[int]


class StatePart(NamedTuple):
    """The state of a session; None: it has none any more."""

    session_token: bytes
    state: bytes | None


Part: TypeAlias = SendPart | SettlePart | TransferPart | CancelPart | StatePart


class Result(NamedTuple):
    """What became of a part."""

    numbers: Sequence[int] = ()
    duplicates: Sequence[bool] = ()
    # Of renewed locks.
    locked_until_ms: int = 0
    lock_remaining_ms: int = 0


class Answer(NamedTuple):
    """The outcome of a transaction, which the partition keeps for repeats."""

    # One for each part; none if it was refused.
    results: list[Result]
    # Why nothing of it is done.
    refusal: BusError | None = None


async def transact(
    upstream: Upstream,
    entity: Entity,
    parts: Sequence[Part],
    *,
    transaction_id: bytes,
    age_ms: int,
    deadline_ms: int,
) -> Answer:
    """Have a partition do all parts in one commit, or nothing. Raises the domain error.

    `deadline_ms`: on this process's monotonic clock.
    """
    offset = upstream.clock_offset_ms
    request = partition_pb2.TransactRequest(
        partition=upstream.partition,
        entity=_reference(entity),
        transaction_id=transaction_id,
        age_ms=age_ms,
        deadline_monotonic_ms=0 if offset is None else deadline_ms + offset,
    )
    for part in parts:
        _add(request, part)
    timeout_s = max(0.001, (deadline_ms - now_ms()) / 1000)
    answer = await call(
        upstream, lambda calls, _: calls.Transact(request, timeout=timeout_s), changes=True
    )
    if answer.HasField("refusal"):
        return Answer([], _refused(answer.refusal))
    return Answer(
        [
            Result(
                each.sequence_numbers, each.duplicates, each.locked_until_ms, each.lock_remaining_ms
            )
            for each in answer.outcomes
        ]
    )


def _reference(entity: Entity) -> partition_pb2.EntityRef:
    return partition_pb2.EntityRef(uid=entity.uid, generation=entity.generation)


def _add(request: partition_pb2.TransactRequest, part: Part) -> None:
    made = request.parts.add()
    if isinstance(part, SendPart):
        # Given to a constructor it would be serialised and parsed.
        made.send.batch.CopyFrom(part.messages)
        made.send.measured = part.measured
        made.send.reserved_sequence_numbers.extend(part.numbers)
        return
    if isinstance(part, TransferPart):
        made.transfer.destination.CopyFrom(_reference(part.destination))
        made.transfer.batch.CopyFrom(part.messages)
        made.transfer.measured = part.measured
        made.transfer.reserved_sequence_numbers.extend(part.numbers)
        return
    if isinstance(part, CancelPart):
        made.cancel.sequence_numbers.extend(part.sequence_numbers)
        return
    if isinstance(part, StatePart):
        made.state.session_token = part.session_token
        if part.state is not None:
            made.state.state = part.state
        return
    settle = made.settle
    settle.disposition = deliver_frames.DISPOSITIONS[part.disposition]
    settle.lock_tokens = part.lock_tokens
    if part.changed_properties is not None:
        settle.changed_properties.CopyFrom(part.changed_properties)
    settle.dead_letter_reason = part.dead_letter_reason
    settle.dead_letter_error_description = part.dead_letter_error_description
    settle.session_token = part.session_token


def _refused(refusal: partition_pb2.TransactionRefusal) -> BusError:
    error = statuses.from_error(refusal.error)
    why = f"nothing of the transaction is done: its operation {refusal.part + 1} was refused: "
    if isinstance(error, errors.InvalidArgument):
        return errors.InvalidArgument(
            error.field, why + error.message.removeprefix(f"{error.field}: ")
        )
    return type(error)(
        why + error.message, retry_after_ms=error.retry_after_ms, metadata=error.metadata
    )
