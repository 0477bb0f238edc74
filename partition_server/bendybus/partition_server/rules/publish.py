"""Publishing: a message that is sent to a topic becomes copies in its subscriptions, in one commit.

    topic ──number, duplicates, schedule──► rules ──┬─► subscription a, with a number of its own
                                                    ├─► subscription b
                                                    └─► dead letters of c, whose filter failed

The rules read the head only. Rules without an action make one copy in their subscription, each with
an action a copy of its own. A message that no rule takes is accepted and dropped. A body that
several copies have is stored once and counts once, to the topic; the copies refer to it.

A scheduled message waits at the topic and is matched when it is due.
"""

from functools import partial
from typing import Final, NamedTuple

from bendybus.domain import bounds, errors, limits, sequence_number
from bendybus.domain.entity_settings import SubscriptionDescription
from bendybus.domain.filters.rule import CompiledRule
from bendybus.domain.filters.rule_index import Matches
from bendybus.domain.filters.values import FilterError
from bendybus.domain.steps import STOP_STEPS, Steps
from bendybus.partition_server.rules import room
from bendybus.partition_server.state.commands import Now
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.stage import check_numbers
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.copies import Copies
from bendybus.partition_server.store.records import (
    BODY_ID_BYTES,
    ROW_BYTES,
    SLOT_SHIFT,
    Body,
    Row,
    State,
    body_size,
    row_id,
)
from bendybus.wire import message_properties
from bendybus.wire.message_properties import Parts

NO_SESSION: Final = (
    "Session ID is null.",
    "Session enabled entity doesn't allow a message whose session identifier is null.",
)
# Steps that a copy takes: as it is, and with a head of its own.
_COPY_STEPS: Final = 5
_CHANGED_COPY_STEPS: Final = 300


class Destination(NamedTuple):
    """Where a copy goes, and what it is there. `row`: its id is not given yet."""

    queue: MessageQueue
    row: Row


def destinations(
    partition: PartitionState, now: Now, topic: MessageQueue, row: Row
) -> Steps[list[Destination]]:
    """Find the copies that a message makes, as they would be if they were made at this time.

    `row`: the message as the topic has it. The rules must not change before the last step. Raises
    InvalidArgument if its head cannot be decoded.
    """
    parts = _parts(row, partition.index)
    view = message_properties.View(parts, partition.new_id)
    view.check()
    found = yield from partition.topics.of(topic.entity).index.matching(view)
    made: list[Destination] = []
    failed: dict[str, tuple[str, str]] = {}
    steps = 0
    for copy in found.copies:
        changed = row
        steps += _steps_of(copy.rule)
        if steps >= STOP_STEPS:
            yield
            steps = 0
        if copy.rule is not None:
            try:
                changes = copy.rule.changes(view)
                changed = _with(row, message_properties.changed(parts, changes))
            except FilterError as error:
                failed.setdefault(copy.subscription, (FilterError.REASON, str(error)))
                continue
        queue = partition.queues.main_of(copy.subscription)
        if queue.entity.description.requires_session and changed.session_id is None:
            failed.setdefault(copy.subscription, NO_SESSION)
            continue
        made.append(Destination(queue, _lasting(changed, queue, now)))
    _add_failures(failed, found)
    for uid, texts in failed.items():
        made += _dead_letter(partition, uid, row, texts)
    return made


def size_bytes(row: Row, made: list[Destination]) -> int:
    """Return what the copies of a message add to the size of its topic, with their body."""
    shared = _shared(row, made)
    own, length = row.size(), len(row.payload)
    total = ROW_BYTES + length if shared else 0
    for each in made:
        total += own if each.row is row else each.row.size()
        if shared and each.row.payload is row.payload:
            total += BODY_ID_BYTES - length
    return total


def store(turn: Turn, topic: MessageQueue, row: Row, made: list[Destination]) -> None:
    """Put the copies of a message into their queues. `row`: as it is at the topic, with its id."""
    stage, now_ms = turn.stage, turn.now.wall_ms
    shared = _shared(row, made)
    body = Body(row.id, shared, row.payload)
    if shared:
        stage.touch(topic)
        stage.changes.bodies.append(body)
        topic.state.size_bytes += body.size()
    # Of a message that was forwarded to the topic, the number that it had first.
    number = row.enqueued_sequence_number or sequence_number.compose(
        turn.partition.index, row.counter
    )
    reference = body.reference()
    copied: Copies | None = None
    for queue, wanted in made:
        if copied is None or copied.row is not wanted:
            refers = shared and wanted.payload is row.payload
            copied = Copies(wanted, number, reference if refers else None)
        state = queue.state
        touched = stage.touch(queue)
        state.last_enqueued_ms = max(state.last_enqueued_ms, now_ms)
        id_ = row_id(state.slot, state.counter + 1)
        stage.append_copy(touched, copied, *copied.at(id_, state.last_enqueued_ms))


def activate(turn: Turn, topic: MessageQueue, row: Row) -> bool:
    """Publish a scheduled message that is due, with a new number, if there is room for it.

    Its time to live counts from when it was due. Raises NotMatched, with nothing changed.
    """
    state, partition = topic.state, turn.partition
    version = partition.topics.of(topic.entity).version
    needed_bytes = partition.awaiting.needed(topic.slot, row.id, version)
    if room.refusal(turn, topic, needed_bytes) is not None:
        # Known without meeting the rules again, which may be dear.
        return False
    check_numbers(topic)
    enqueued_ms = max(state.last_enqueued_ms, turn.now.wall_ms)
    due = row._replace(
        id=row_id(state.slot, state.counter + 1),
        state=State.ACTIVE,
        enqueued_ms=enqueued_ms,
        expires_ms=bounds.end_of_life(row.scheduled_ms, row.time_to_live_ms),
    )
    then = Now(row.scheduled_ms, turn.now.mono_ms)
    made = turn.matched(topic, row.id, partial(destinations, partition, then, topic, due))
    total = size_bytes(due, made)
    added_bytes = total - row.size()
    if room.refusal(turn, topic, added_bytes) is not None:
        partition.awaiting.needs(topic.slot, row.id, version, added_bytes)
        return False
    turn.stage.remove(topic, row.id, row.state, row.size())
    state.counter += 1
    state.last_enqueued_ms = enqueued_ms
    store(turn, topic, due, made)
    room.grown(partition, topic, added_bytes)
    turn.budget.spend(total, rows=len(made))
    return True


def _steps_of(rule: CompiledRule | None) -> int:
    if rule is None or rule.action is None:
        return _COPY_STEPS
    return _CHANGED_COPY_STEPS + rule.action.steps


def _shared(row: Row, made: list[Destination]) -> int:
    """Return how many copies share the body of a message; 0: each has its own."""
    if len(made) < 2 or len(row.payload) < limits.SHARED_BODY_BYTES_MIN:
        return 0
    count = sum(each.row.payload is row.payload for each in made)
    return count if count > 1 else 0


def _parts(row: Row, partition: int) -> Parts:
    return Parts(
        row.payload,
        row.format,
        row.head,
        row.message_id,
        row.partition_key,
        row.session_id,
        row.time_to_live_ms,
        row.scheduled_ms,
        row.enqueued_ms,
        row.expires_ms,
        sequence_number.compose(partition, row.counter),
    )


def _with(row: Row, parts: Parts) -> Row:
    """Return the message with what an action made of it."""
    return row._replace(
        payload=parts.payload if parts.format != row.format else row.payload,
        format=parts.format,
        head=parts.head,
        message_id=parts.message_id,
        partition_key=parts.partition_key,
        session_id=parts.session_id,
        time_to_live_ms=parts.time_to_live_ms,
    )


def _lasting(row: Row, queue: MessageQueue, now: Now) -> Row:
    """Return the copy with the shorter of both times to live."""
    ceiling = queue.entity.description.default_message_time_to_live_ms
    if not ceiling:
        # As it lives at the topic, unless an action says otherwise.
        lives = row.time_to_live_ms
        if row.expires_ms == bounds.end_of_life(now.wall_ms, lives):
            return row
    lives = min(row.time_to_live_ms or ceiling or 0, ceiling or row.time_to_live_ms)
    return row._replace(
        time_to_live_ms=lives, expires_ms=bounds.end_of_life(now.wall_ms, lives) if lives else None
    )


def _add_failures(failed: dict[str, tuple[str, str]], found: Matches[str]) -> None:
    for failure in found.failures:
        failed.setdefault(failure.subscription, (FilterError.REASON, str(failure.error)))


def _dead_letter(
    partition: PartitionState, uid: str, row: Row, texts: tuple[str, str]
) -> list[Destination]:
    """Return the copy that a subscription dead-letters; none if it is set to drop it."""
    queue = partition.queues.main_of(uid)
    described = queue.entity.description
    assert isinstance(described, SubscriptionDescription), queue.entity
    reason, sentence = texts[0], texts[1][: limits.DEAD_LETTER_TEXT_CHARS_MAX]
    if texts is not NO_SESSION and not described.dead_lettering_on_filter_evaluation_exceptions:
        return []
    dead = row._replace(
        expires_ms=None,
        scheduled_ms=0,
        dead_letter_reason=reason,
        dead_letter_error_description=sentence,
        extra_bytes=len(reason)
        + len(sentence)
        + len(row.changed_properties or b"")
        + len(row.dead_letter_source or ""),
    )
    return [Destination(partition.queues.dead_letters_of(queue), dead)]


def check_copies(topic: MessageQueue, count: int, added_bytes: int, most: int) -> None:
    """Raise InvalidOperation for a batch that makes more copies than one commit may write.

    `most`: copies that it may make.
    """
    if added_bytes > limits.PUBLISHED_BYTES_MAX:
        raise errors.InvalidOperation(
            f"{topic.entity.title}: the copies of the batch in subscriptions have more than "
            f"{limits.PUBLISHED_BYTES_MAX} bytes. Send fewer messages at a time, or with smaller "
            "properties.",
            metadata={"entity": topic.entity.name, "limit": str(limits.PUBLISHED_BYTES_MAX)},
        )
    if count > most:
        raise errors.InvalidOperation(
            f"{topic.entity.title}: the batch makes {count} copies in subscriptions; it may make "
            f"{most}, which in a transaction is what its other messages leave of "
            f"{limits.TRANSACTION_COPIES_MAX}. Send fewer messages at a time.",
            metadata={"entity": topic.entity.name, "limit": str(most)},
        )


def sweep_bodies(turn: Turn) -> None:
    """Remove some bodies that no message has any more, and what they count to their topics."""
    partition, stage, budget = turn.partition, turn.stage, turn.budget
    bodies, most = partition.store.bodies, budget.rows_left
    found = bodies.unreferenced(most)
    removed = 0
    for id_, length in found:
        topic = partition.queues.at(id_ >> SLOT_SHIFT)
        # Of a deleted topic, nothing is counted any more.
        if topic is not None:
            stage.touch(topic)
            topic.state.size_bytes -= body_size(length)
        stage.changes.bodies_removed.append(id_)
        removed += 1
        budget.spend(length)
        if budget.spent():
            break
    if removed == len(found) < most:
        stage.journal.later(partition.no_garbage)
