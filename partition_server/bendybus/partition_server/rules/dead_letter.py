"""Dead-lettering: a message moves to the dead-letter sub-queue, with a number of its own there."""

from bendybus.domain import errors
from bendybus.partition_server.rules import application_properties
from bendybus.partition_server.state.commands import Settle
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.stage import check_numbers
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import Envelope, RowUpdate, row_id

TTL_REASON = "TTLExpiredException"
TTL_DESCRIPTION = "The message expired and was dead lettered."
DELIVERIES_REASON = "MaxDeliveryCountExceeded"


def dead_letter(turn: Turn, queue: MessageQueue, counter: int, command: Settle) -> None:
    """Dead-letter a locked message for its receiver. Raises what refuses it."""
    if queue.is_dead_letter:
        raise errors.InvalidOperation(
            f"{queue.entity.title}: a message of the dead-letter sub-queue cannot be "
            "dead-lettered again. Complete, abandon or defer it.",
            metadata={"entity": queue.entity.name},
        )
    envelope = envelope_of(turn, queue, counter)
    if envelope is None:
        raise errors.MessageLockLost(f"message {counter} is gone.")
    changed = application_properties.merged(
        turn, queue, envelope.row.changed_properties, command.changed_properties
    )
    check_numbers(turn.partition.queues.dead_letters_of(queue))
    turn.stage.unlock(queue, counter)
    move(
        turn,
        queue,
        envelope,
        command.dead_letter_reason,
        command.dead_letter_error_description,
        changed=changed,
    )


def move(
    turn: Turn,
    queue: MessageQueue,
    envelope: Envelope,
    reason: str,
    description: str,
    *,
    changed: bytes | None = None,
    to: MessageQueue | None = None,
) -> None:
    """Move a message that is not locked (any more) from `queue` to the dead-letter sub-queue.

    `changed`: its changed properties from now on, with those that it has. `to`: another sub-queue.
    """
    row, stage = envelope.row, turn.stage
    update = forget_update(turn, row.id)
    added_bytes = 0 if update is None else update.added_bytes
    stage.uncount(queue, row.state, envelope.size() + added_bytes)
    if update is not None:
        count, changed = update.delivery_count, update.changed_properties
        row = row._replace(delivery_count=count)
    dead_letters = to or turn.partition.queues.dead_letters_of(queue)
    target = dead_letters.state
    original = row.enqueued_sequence_number or queue.base + row.counter
    properties = changed or row.changed_properties
    texts = (reason, description, row.dead_letter_source or "")
    moved = row._replace(
        id=row_id(target.slot, target.counter + 1),
        state=0,
        expires_ms=None,
        scheduled_ms=0,
        changed_properties=properties,
        dead_letter_reason=reason,
        dead_letter_error_description=description,
        enqueued_sequence_number=original,
        extra_bytes=len(properties or b"") + sum(map(len, texts)),
    )
    turn.budget.spend(envelope.content_bytes + moved.size(), rows=0)
    stage.move(dead_letters, row.id, moved, envelope.content_bytes)


def envelope_of(turn: Turn, queue: MessageQueue, counter: int) -> Envelope | None:
    """Return a message without its payload, None if it is gone."""
    return turn.partition.store.envelope(row_id(queue.slot, counter))


def forget_update(turn: Turn, id_: int) -> RowUpdate | None:
    """Take back the update of a row that is deleted or moved in the same transaction."""
    updates = turn.stage.changes.updates
    return updates.pop() if updates and updates[-1].id == id_ else None
