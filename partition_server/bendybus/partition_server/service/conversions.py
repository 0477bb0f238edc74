"""Columns of the contract ↔ values of the rules; the only place where both meet."""

from collections.abc import Sequence

from bendybus.domain import lock_token, sequence_number
from bendybus.internal.v1 import partition_pb2
from bendybus.partition_server.state.answers import Delivery
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import EntityRef
from bendybus.partition_server.store.records import COUNTER_MASK, SHARED_FORMAT, Row, State
from bendybus.v1 import message_pb2
from bendybus.wire import entity_refs, message_heads


def entity_ref(proto: partition_pb2.EntityRef) -> EntityRef:
    """Return the entity that a call is about."""
    return EntityRef(proto.uid, proto.generation, entity_refs.sub_queue_of(proto))


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


def delivery_to_proto(
    delivery: Delivery, *, partition: int, heads: bool
) -> message_pb2.DeliveredBatch:
    """Return delivered or shown messages; columns that say nothing stay empty.

    `heads`: the caller reads heads; otherwise messages are whole.
    """
    rows = delivery.rows
    base = sequence_number.compose(partition, 0)
    proto = message_pb2.DeliveredBatch(
        partition=partition,
        messages=[row.payload for row in rows],
        sequence_numbers=[base + (row.id & COUNTER_MASK) for row in rows],
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
        if not heads:
            message_heads.join(proto)
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
