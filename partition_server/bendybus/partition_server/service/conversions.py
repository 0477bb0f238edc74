"""Columns and transactions of the contract ↔ values of the rules, where both meet."""

from collections.abc import Iterator, Sequence
from typing import Any

from bendybus.domain import errors, lock_token, sequence_number
from bendybus.domain.disposition import Disposition
from bendybus.internal.v1 import partition_pb2
from bendybus.partition_server.state import answers, commands
from bendybus.partition_server.state.answers import Delivery, SessionCounts, SessionsCounted
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import EntityRef
from bendybus.partition_server.store.records import COUNTER_MASK, SHARED_FORMAT, Row, State
from bendybus.partition_server.store.store import CountPlace
from bendybus.v1 import message_pb2, receiver_pb2
from bendybus.wire import entities, statuses


def entity_ref(proto: partition_pb2.EntityRef) -> EntityRef:
    """Return the entity that a call is about."""
    return EntityRef(proto.uid, proto.generation, entities.sub_queue_of(proto))


def batch_from_proto(proto: message_pb2.MessageBatch) -> Batch:
    """Return the columns as lists; heads and payloads stay as they are."""
    return Batch(
        list(proto.messages),
        list(proto.message_ids),
        list(proto.partition_keys),
        list(proto.session_ids),
        list(proto.session_present),
        list(proto.time_to_live_ms),
        list(proto.scheduled_enqueue_time_ms),
        list(proto.heads),
        list(proto.formats),
    )


def delivery_to_proto(delivery: Delivery, *, partition: int) -> message_pb2.DeliveredBatch:
    """Return delivered or shown messages; columns that say nothing stay empty."""
    rows = delivery.rows
    proto = message_pb2.DeliveredBatch(
        partition=partition,
        messages=[row.payload for row in rows],
        sequence_numbers=[delivery.base + (row.id & COUNTER_MASK) for row in rows],
        enqueued_time_ms=[row.enqueued_ms for row in rows],
        locked_until_ms=delivery.locked_until_ms,
        lock_remaining_ms=delivery.lock_remaining_ms,
    )
    if delivery.generations:
        counters = [row.id & COUNTER_MASK for row in rows]
        pairs = zip(counters, delivery.generations, strict=True)
        proto.lock_tokens = lock_token.pack(
            partition, delivery.slot, delivery.boot & lock_token.BOOT_MASK, pairs
        )
    if any(row.format for row in rows):
        proto.formats.extend(
            [row.format if 0 <= row.format < SHARED_FORMAT else _format(row.format) for row in rows]
        )
        proto.heads.extend([row.head for row in rows])
    _add_texts(proto, rows)
    if any(row.time_to_live_ms for row in rows):
        proto.time_to_live_ms.extend([row.time_to_live_ms for row in rows])
    if any(row.scheduled_ms for row in rows):
        proto.scheduled_enqueue_time_ms.extend([row.scheduled_ms for row in rows])
    if any(row.delivery_count for row in rows):
        proto.delivery_counts.extend([row.delivery_count for row in rows])
    if any(row.state for row in rows):
        proto.states.extend([_STATES[row.state] for row in rows])
    if any(row[_FIRST_RARE:_AFTER_RARE] != _NOTHING_RARE for row in rows):
        _add_rare(proto, rows)
    return proto


def _format(stored: int) -> int:
    """Return the format of a message that shares its body, or of one in a damaged file."""
    if SHARED_FORMAT <= stored < 2 * SHARED_FORMAT:
        return stored - SHARED_FORMAT
    return _UNKNOWN


def _add_texts(proto: message_pb2.DeliveredBatch, rows: Sequence[Row]) -> None:
    message_ids = [row.message_id for row in rows]
    if any(message_ids):
        proto.message_ids.extend(message_ids)
    partition_keys = [row.partition_key for row in rows]
    if any(partition_keys):
        proto.partition_keys.extend(partition_keys)
    present = [row.session_id is not None for row in rows]
    if any(present):
        proto.session_ids.extend([row.session_id or "" for row in rows])
        proto.session_present.extend(present)


def _add_rare(proto: message_pb2.DeliveredBatch, rows: Sequence[Row]) -> None:
    proto.changed_properties.extend([row.changed_properties or b"" for row in rows])
    proto.dead_letter_reasons.extend([row.dead_letter_reason or "" for row in rows])
    proto.dead_letter_error_descriptions.extend(
        [row.dead_letter_error_description or "" for row in rows]
    )
    proto.dead_letter_sources.extend([row.dead_letter_source or "" for row in rows])
    proto.enqueued_sequence_numbers.extend([row.enqueued_sequence_number for row in rows])


_STATES: dict[int, message_pb2.MessageState] = {
    State.ACTIVE: message_pb2.MESSAGE_STATE_ACTIVE,
    State.DEFERRED: message_pb2.MESSAGE_STATE_DEFERRED,
    State.SCHEDULED: message_pb2.MESSAGE_STATE_SCHEDULED,
}
# What a file may hold that was damaged: one message that clients reject, not a delivery that fails.
_UNKNOWN = 2**32 - 1
_FIRST_RARE = Row._fields.index("changed_properties")
_AFTER_RARE = Row._fields.index("extra_bytes")
_NOTHING_RARE = (None, None, None, None, 0)


def place(request: partition_pb2.CountSessionsRequest) -> CountPlace | None:
    """Return where a call goes on; None: at the beginning."""
    if not request.HasField("after"):
        return None
    after = request.after
    return CountPlace(
        after.session_id,
        after.state,
        after.counter,
        after.active,
        after.deferred,
        after.scheduled,
    )


def response(counted: SessionsCounted) -> partition_pb2.CountSessionsResponse:
    """Return the answer to a call."""
    following = counted.following
    return partition_pb2.CountSessionsResponse(
        sessions=[_to_proto(each) for each in counted.sessions],
        following=None
        if following is None
        else partition_pb2.SessionCountPlace(**following._asdict()),
    )


def _to_proto(counts: SessionCounts) -> receiver_pb2.SessionCounts:
    return receiver_pb2.SessionCounts(
        session_id=counts.session_id,
        active_message_count=counts.active,
        deferred_message_count=counts.deferred,
        scheduled_message_count=counts.scheduled,
        locked_message_count=counts.locked,
        state_size_in_bytes=counts.state_bytes,
        locked_until_ms=counts.locked_until_ms,
    )


def transact_command(request: partition_pb2.TransactRequest, reply: Any) -> commands.Transact:
    """Return what a call asks for. Raises InvalidArgument."""
    parts = list(_transact_parts(request))
    alone = any(map(_reads_store, parts))
    return (commands.TransactAlone if alone else commands.Transact)(
        reply,
        entity_ref(request.entity),
        request.transaction_id,
        parts,
        request.age_ms,
        request.deadline_monotonic_ms,
    )


def _reads_store(part: commands.Part) -> bool:
    if isinstance(part, commands.Append):
        return bool(part.batch.reserved)
    return isinstance(part, commands.CancelPart | commands.StatePart)


def transact_response(outcome: answers.Transacted) -> partition_pb2.TransactResponse:
    """Return the answer to a call."""
    made = partition_pb2.TransactResponse(
        outcomes=[
            partition_pb2.TransactionOutcome(
                sequence_numbers=part.numbers,
                duplicates=part.duplicates,
                locked_until_ms=part.locked_until_ms,
                lock_remaining_ms=part.lock_remaining_ms,
            )
            for part in outcome.parts
        ]
    )
    if outcome.error is not None:
        made.refusal.part = outcome.refused_part
        made.refusal.error.CopyFrom(statuses.to_error(outcome.error))
    return made


def _transact_parts(
    request: partition_pb2.TransactRequest,
) -> Iterator[commands.Part]:
    entity = entity_ref(request.entity)
    for part in request.parts:
        kind = part.WhichOneof("kind")
        if kind == "send":
            batch = batch_from_proto(part.send.batch)
            sizes, measured = list(part.send.group_sizes), part.send.measured
            batch.reserved = list(part.send.reserved_sequence_numbers)
            yield commands.Append(None, entity, batch, sizes, measured=measured)
        elif kind == "settle":
            yield _transact_settle(part.settle, entity)
        elif kind == "transfer":
            batch = batch_from_proto(part.transfer.batch)
            destination = entity_ref(part.transfer.destination)
            batch.reserved = list(part.transfer.reserved_sequence_numbers)
            sizes, measured = list(part.transfer.group_sizes), part.transfer.measured
            yield commands.Transfer(destination, batch, sizes, measured)
        elif kind == "cancel":
            numbers = part.cancel.sequence_numbers
            yield commands.CancelPart([sequence_number.counter_of(n) for n in numbers])
        elif kind == "state":
            state = part.state.state if part.state.HasField("state") else None
            yield commands.StatePart(part.state.session_token, state)
        else:
            raise errors.InvalidArgument("parts", "a part is of an unknown kind.")


def _transact_settle(
    settle: partition_pb2.TransactionSettle, entity: commands.EntityRef
) -> commands.Settle:
    try:
        disposition = Disposition(settle.disposition)
    except ValueError:
        raise errors.InvalidArgument("disposition", f"{settle.disposition} is unknown.") from None
    changed = settle.changed_properties
    return commands.Settle(
        None,
        0,
        disposition,
        settle.lock_tokens,
        changed.SerializeToString() if changed.entries else None,
        settle.dead_letter_reason,
        settle.dead_letter_error_description,
        entity.uid,
        session_token=settle.session_token,
    )
