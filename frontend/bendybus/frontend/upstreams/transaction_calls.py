"""The call that hands a transaction to its partition: values ↔ the internal contract."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.frontend.upstreams import deliver_frames
from bendybus.frontend.upstreams.unary_calls import call
from bendybus.frontend.upstreams.upstream import Upstream, now_ms
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import message_pb2
from bendybus.wire import statuses


class SendPart(NamedTuple):
    """Messages that are sent as one unit."""

    messages: message_pb2.MessageBatch


class TransferPart(NamedTuple):
    """Messages for another entity than that of the transaction, sent as one unit."""

    destination: Entity
    messages: message_pb2.MessageBatch


class SettlePart(NamedTuple):
    """Messages that are settled, or whose locks are renewed."""

    disposition: Disposition
    lock_tokens: bytes
    changed_properties: message_pb2.ValueMap | None = None
    dead_letter_reason: str = ""
    dead_letter_error_description: str = ""
    # Of the receiver's session; empty: it has none.
    session_token: bytes = b""


Part: TypeAlias = SendPart | SettlePart | TransferPart


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
        return
    if isinstance(part, TransferPart):
        made.transfer.destination.CopyFrom(_reference(part.destination))
        made.transfer.batch.CopyFrom(part.messages)
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
