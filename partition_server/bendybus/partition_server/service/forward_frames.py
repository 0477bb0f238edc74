"""Frames between partitions: what they ask for, and what they are answered."""

from collections.abc import Iterator, Sequence

from bendybus.domain import errors
from bendybus.domain.sub_queue import SubQueue
from bendybus.internal.v1 import partition_pb2
from bendybus.partition_server.broker.replies import Call
from bendybus.partition_server.service import conversions
from bendybus.partition_server.state import commands
from bendybus.partition_server.state.answers import ForwardedTaken
from bendybus.partition_server.state.batch import Batch, Carried
from bendybus.partition_server.state.lanes import Outgoing
from bendybus.partition_server.store.records import ForwardSource
from bendybus.v1 import message_pb2
from bendybus.wire import entities, statuses

# At the source


def request(frame: Outgoing, deadline_mono_ms: int) -> partition_pb2.ForwardRequest:
    """Return the frame of the contract; `deadline_mono_ms` is on the destination's clock."""
    return partition_pb2.ForwardRequest(
        partition=frame.partition,
        entity=partition_pb2.EntityRef(uid=frame.uid, generation=frame.generation),
        source=partition_pb2.ForwardSource(
            uid=frame.source.uid,
            sub_queue=entities.number_of(frame.source.sub_queue),
            partition=frame.source.partition,
            incarnation=frame.source.incarnation,
            destination=frame.source.destination,
        ),
        boot=frame.boot,
        sequence=frame.sequence,
        batch=_batch_to_proto(frame.batch),
        columns=_columns_to_proto(frame.batch.carried, frame.batch.reserved),
        counters=frame.counters,
        settled=frame.settled,
        settled_below=frame.settled_below,
        overtake=frame.overtake,
        deadline_monotonic_ms=deadline_mono_ms,
    )


def taken(frame: Outgoing, answer: partition_pb2.ForwardResponse) -> ForwardedTaken:
    """Return what became of a frame. Raises OutcomeUnknown for an invalid answer."""
    count = len(frame.counters)
    failures = {each.message: statuses.from_error(each.error) for each in answer.failures}
    if answer.done > count or any(at >= count for at in failures):
        raise errors.OutcomeUnknown(
            f"partition {frame.partition} answered for {answer.done} of {count} messages."
        )
    return ForwardedTaken(answer.done, failures)


def command_of(frame: Outgoing, reply: Call) -> commands.TakeForwarded:
    """Return what a frame asks for, for a partition of the same process."""
    return commands.TakeForwarded(
        reply,
        commands.EntityRef(frame.uid, frame.generation),
        frame.source,
        frame.boot,
        frame.sequence,
        frame.counters,
        frame.batch,
        frame.settled,
        frame.settled_below,
        frame.overtake,
    )


def _batch_to_proto(batch: Batch) -> message_pb2.MessageBatch:
    return message_pb2.MessageBatch(
        messages=batch.payloads,
        message_ids=batch.message_ids,
        partition_keys=batch.partition_keys,
        session_ids=batch.session_ids,
        session_present=batch.session_present,
        time_to_live_ms=batch.time_to_live_ms,
        scheduled_enqueue_time_ms=batch.scheduled_ms,
        heads=batch.heads,
        formats=batch.formats,
    )


def _columns_to_proto(
    carried: Sequence[Carried], reserved: Sequence[int]
) -> partition_pb2.ForwardedColumns:
    def texts(name: str) -> list[str]:
        column = [getattr(each, name) or "" for each in carried]
        return column if any(column) else []

    changed = [each.changed_properties or b"" for each in carried]
    return partition_pb2.ForwardedColumns(
        changed_properties=changed if any(changed) else [],
        dead_letter_reasons=texts("dead_letter_reason"),
        dead_letter_error_descriptions=texts("dead_letter_error_description"),
        dead_letter_sources=texts("dead_letter_source"),
        enqueued_sequence_numbers=[each.enqueued_sequence_number for each in carried],
        hops=[each.hops for each in carried],
        reserved_sequence_numbers=reserved,
    )


# At the destination


def command(request: partition_pb2.ForwardRequest, reply: Call) -> commands.TakeForwarded:
    """Return what a frame asks for. Raises InvalidArgument."""
    batch = conversions.batch_from_proto(request.batch)
    batch.carried = list(_carried(request.columns, len(batch.payloads)))
    batch.reserved = list(request.columns.reserved_sequence_numbers)
    source = request.source
    try:
        sub_queue = SubQueue(source.sub_queue)
    except ValueError:
        raise errors.InvalidArgument(
            "source.sub_queue", f"unknown sub-queue: {source.sub_queue}."
        ) from None
    return commands.TakeForwarded(
        reply,
        conversions.entity_ref(request.entity),
        ForwardSource(
            source.uid, sub_queue, source.partition, source.incarnation, source.destination
        ),
        request.boot,
        request.sequence,
        list(request.counters),
        batch,
        list(request.settled),
        request.settled_below,
        request.overtake,
        request.deadline_monotonic_ms,
    )


def response(outcome: ForwardedTaken, monotonic_ms: int) -> partition_pb2.ForwardResponse:
    """Return the answer to a frame."""
    return partition_pb2.ForwardResponse(
        done=outcome.done,
        failures=[
            partition_pb2.ForwardFailure(message=at, error=statuses.to_error(error))
            for at, error in outcome.failures.items()
        ],
        monotonic_ms=monotonic_ms,
    )


def _carried(columns: partition_pb2.ForwardedColumns, count: int) -> Iterator[Carried]:
    named = {field.name: list(getattr(columns, field.name)) for field in columns.DESCRIPTOR.fields}
    for name, column in named.items():
        if column and len(column) != count:
            raise errors.InvalidArgument(
                f"columns.{name}", f"has {len(column)} entries for {count} messages."
            )
    absent = [None] * count
    rows = zip(*(column or absent for column in named.values()), strict=True)
    for changed, reason, description, source, number, hops, _ in rows:
        texts = (changed, reason, description, source)
        yield Carried(
            changed or None,
            reason or None,
            description or None,
            source or None,
            number or 0,
            sum(len(text) for text in texts if text),
            hops or 0,
        )
