"""Transactions on the contract: what one asks for, and its outcome."""

from collections.abc import Iterator
from typing import Any

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.internal.v1 import partition_pb2
from bendybus.partition_server.service import conversions
from bendybus.partition_server.state import answers, commands
from bendybus.wire import statuses


def command(request: partition_pb2.TransactRequest, reply: Any) -> commands.Transact:
    """Return what a call asks for. Raises InvalidArgument."""
    return commands.Transact(
        reply,
        conversions.entity_ref(request.entity),
        request.transaction_id,
        list(_parts(request)),
        request.age_ms,
        request.deadline_monotonic_ms,
    )


def response(outcome: answers.Transacted) -> partition_pb2.TransactResponse:
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


def _parts(
    request: partition_pb2.TransactRequest,
) -> Iterator[commands.Append | commands.Settle | commands.Transfer]:
    entity = conversions.entity_ref(request.entity)
    for part in request.parts:
        kind = part.WhichOneof("kind")
        if kind == "send":
            batch = conversions.batch_from_proto(part.send.batch)
            yield commands.Append(None, entity, batch, list(part.send.group_sizes))
        elif kind == "settle":
            yield _settle(part.settle, entity)
        elif kind == "transfer":
            batch = conversions.batch_from_proto(part.transfer.batch)
            destination = conversions.entity_ref(part.transfer.destination)
            yield commands.Transfer(destination, batch, list(part.transfer.group_sizes))
        else:
            raise errors.InvalidArgument(
                "parts", "each part must be a send, a settlement or a transfer."
            )


def _settle(settle: partition_pb2.TransactionSettle, entity: commands.EntityRef) -> commands.Settle:
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
