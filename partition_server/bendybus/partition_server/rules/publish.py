"""Publishing: a message that is sent to a topic becomes copies in its subscriptions, in one commit.

    topic ──number, duplicates, schedule──► rules ──┬─► subscription a, with a number of its own
                                                    ├─► subscription b
                                                    └─► dead letters of c, whose filter failed

The rules read the head only. Rules without an action make one copy in their subscription, each with
an action a copy of its own. A message that no rule takes is accepted and dropped. A body that
several copies have is stored once and counts once, to the topic; the copies refer to it.

Whatever is the same for several copies is done once for them: subscriptions that get the same copy
of a message are a *portion* of it, and messages one after the other whose portions go to the same
ones are a run, which goes into each of them as a whole.

A scheduled message waits at the topic and is matched when it is due.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from bendybus.domain import bounds, errors, limits
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import SubscriptionDescription
from bendybus.domain.errors import BusError
from bendybus.domain.filters.rule import CompiledRule
from bendybus.domain.filters.rule_index import Copy, Matches
from bendybus.domain.filters.values import FilterError
from bendybus.domain.steps import STOP_STEPS, Steps
from bendybus.partition_server.rules import reserved_numbers, room
from bendybus.partition_server.rules.send import Appender
from bendybus.partition_server.state.answers import Appended
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, Now
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.stage import check_numbers
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import (
    BODY_ID_BYTES,
    ROW_BYTES,
    SLOT_SHIFT,
    Body,
    Copies,
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


Queues = tuple[MessageQueue, ...]


class Portion(NamedTuple):
    """Queues that get the same copy of a message, and that copy. `row`: its id is not given yet."""

    queues: Queues
    row: Row


def portions(
    partition: PartitionState, now: Now, topic: MessageQueue, row: Row
) -> Steps[list[Portion]]:
    """Find the copies that a message makes, as they would be if they were made at this time.

    `row`: the message as the topic has it. The rules must not change before the last step. Raises
    InvalidArgument if its head cannot be decoded.
    """
    parts = _parts(row, topic.base)
    view = message_properties.View(parts, partition.new_id)
    view.check()
    found = yield from partition.topics.of(topic.entity).index.matching(view)
    if found.copies.arranged is None:
        found.copies.arranged = _alike(partition, found.copies)
    made: list[Portion] = []
    failed: dict[str, tuple[str, str]] = {}
    steps = 0
    for queues, rule in found.copies.arranged:
        changed, queue = row, queues[0]
        steps += _steps_of(rule)
        if steps >= STOP_STEPS:
            yield
            steps = 0
        if rule is not None:
            try:
                changes = rule.changes(view)
                changed = _with(row, message_properties.changed(parts, changes))
            except FilterError as error:
                failed.setdefault(queue.entity.uid, (FilterError.REASON, str(error)))
                continue
        if queue.entity.description.requires_session and changed.session_id is None:
            for each in queues:
                failed.setdefault(each.entity.uid, NO_SESSION)
            continue
        made.append(Portion(queues, _lasting(changed, queue, now)))
    _add_failures(failed, found)
    for uid, texts in failed.items():
        made += _dead_letter(partition, uid, row, texts)
    return made


def _alike(
    partition: PartitionState, copies: Sequence[Copy[str]]
) -> list[tuple[Queues, CompiledRule | None]]:
    """Return the queues that get the same copy together, or one that gets several, for each."""
    found: list[tuple[Queues, CompiledRule | None]] = []
    plain: dict[object, list[MessageQueue]] = {}
    alone: dict[str, Queues] = {
        copy.subscription: (partition.queues.main_of(copy.subscription),)
        for copy in copies
        if copy.rule is not None
    }
    for copy in copies:
        if copy.subscription in alone:
            found.append((alone[copy.subscription], copy.rule))
            continue
        queue = partition.queues.main_of(copy.subscription)
        described = queue.entity.description
        what = described.default_message_time_to_live_ms, described.requires_session
        plain.setdefault(what, []).append(queue)
    return found + [(tuple(queues), None) for queues in plain.values()]


def copies_in(made: list[Portion]) -> int:
    """Return how many copies a message makes."""
    return sum([len(queues) for queues, _ in made])


def stored_bytes(row: Row, made: list[Portion]) -> int:
    """Return what the copies of a message add to the size of its topic, with their body."""
    shared = _shared(row, made)
    own, length = row.size(), len(row.payload)
    total = ROW_BYTES + length if shared else 0
    for queues, copy in made:
        each = own if copy is row else copy.size()
        if shared and copy.payload == row.payload:
            each += BODY_ID_BYTES - length
        total += each * len(queues)
    return total


def store(turn: Turn, topic: MessageQueue, messages: Sequence[tuple[Row, list[Portion]]]) -> None:
    """Put the copies of messages into their queues. Each row: as it is at the topic, with its id.

    The topic was touched.
    """
    changes = turn.stage.changes
    # Where messages go: tuples of queues are the same objects as long as the rules are the same,
    # but for one queue alone, whose copy may be of a filter that failed.
    names: list[int] = []
    runs: dict[int, tuple[Copies, Queues]] = {}
    for row, made in messages:
        reference: bytes | None = None
        if shared := _shared(row, made):
            body = Body(row.id, shared, row.payload)
            changes.bodies.append(body)
            topic.state.size_bytes += body.size()
            reference = body.reference()
        # Of a message that was forwarded to the topic, the number that it had first.
        number = row.enqueued_sequence_number or topic.base + row.counter
        before = names
        names = [id(queues if len(queues) > 1 else queues[0]) for queues, _ in made]
        if names != before:
            _end(turn, runs)
            runs = {name: (Copies(), queues) for name, (queues, _) in zip(names, made, strict=True)}
        for name, (_, wanted) in zip(names, made, strict=True):
            copies, _ = runs[name]
            refers = wanted.payload == row.payload
            copies.add(wanted, number, reference if refers else None)
    _end(turn, runs)


def _end(turn: Turn, runs: dict[int, tuple[Copies, Queues]]) -> None:
    for copies, queues in runs.values():
        turn.stage.append_copies(copies, queues, turn.now.wall_ms)


def activate(turn: Turn, topic: MessageQueue, row: Row) -> bool:
    """Publish a scheduled message that is due, with a new number, if there is room for it.

    Its time to live counts from when it was due. Raises NotMatched, or InvalidOperation for one
    that makes more copies than a commit may write, with nothing changed.
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
    made = turn.matched(topic, row.id, partial(portions, partition, then, topic, due))
    total = stored_bytes(due, made)
    check_copies(topic, copies_in(made), total, limits.PUBLISHED_COPIES_MAX)
    added_bytes = total - row.size()
    if room.refusal(turn, topic, added_bytes) is not None:
        partition.awaiting.needs(topic.slot, row.id, version, added_bytes)
        return False
    turn.stage.remove(topic, row.id, row.state, row.size())
    state.counter += 1
    state.last_enqueued_ms = enqueued_ms
    store(turn, topic, [(due, made)])
    room.grown(partition, topic, added_bytes)
    turn.budget.spend(total, rows=copies_in(made))
    return True


def _steps_of(rule: CompiledRule | None) -> int:
    if rule is None or rule.action is None:
        return _COPY_STEPS
    return _CHANGED_COPY_STEPS + rule.action.steps


def _shared(row: Row, made: list[Portion]) -> int:
    """Return how many copies share the body of a message; 0: each has its own."""
    if len(row.payload) < limits.SHARED_BODY_BYTES_MIN:
        return 0
    alike = copies_in([each for each in made if each.row.payload == row.payload])
    return alike if alike > 1 else 0


def _parts(row: Row, base: int) -> Parts:
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
        base + row.counter,
        row.enqueued_sequence_number,
        row.delivery_count,
        row.dead_letter_reason,
        row.dead_letter_error_description,
        row.dead_letter_source,
        row.changed_properties,
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
        changed_properties=parts.changed_properties,
        dead_letter_reason=parts.dead_letter_reason,
        dead_letter_error_description=parts.dead_letter_error_description,
        extra_bytes=sum(
            len(each or "")
            for each in (
                parts.changed_properties,
                parts.dead_letter_reason,
                parts.dead_letter_error_description,
                parts.dead_letter_source,
            )
        ),
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
) -> list[Portion]:
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
    return [Portion((partition.queues.dead_letters_of(queue),), dead)]


def check_copies(topic: MessageQueue, copies: int, added_bytes: int, most: int) -> None:
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
    if copies > most:
        raise errors.InvalidOperation(
            f"{topic.entity.title}: the batch makes {copies} copies in subscriptions; it may make "
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


@dataclass(slots=True)
class Matched:
    """A group that has met the rules: each message with its copies and their size."""

    messages: list[tuple[Row, list[Portion], int]] = field(default_factory=list)
    added_bytes: int = 0
    copies: int = 0
    # What refuses the group.
    error: BusError | None = None


def appender(turn: Turn, queue: MessageQueue) -> Appender:
    """Return what appends a command's groups to a queue or a topic."""
    kind = Publisher if queue.entity.kind is EntityKind.TOPIC else Appender
    return kind(turn, queue)


class Publisher(Appender):
    """Publishes one command's groups to one topic."""

    def __init__(self, turn: Turn, queue: MessageQueue, command: Append | None = None) -> None:
        super().__init__(turn, queue)
        self.measured = command is not None and command.measured
        # Of each group; `in_transaction`: of all groups together.
        self.copies_left = limits.PUBLISHED_COPIES_MAX
        self.in_transaction = False
        # The group that is looked at: where it begins, what it makes.
        self._start = 0
        self._matched: Matched | None = None

    def matching(self, batch: Batch, start: int, end: int) -> Steps[Matched]:
        """Let a group meet the rules, in steps; nothing changes. See `portions`."""
        partition, now, state = self._turn.partition, self._turn.now, self._queue.state
        made = Matched()
        try:
            super()._check_group(batch, start, end)
            first_id = row_id(state.slot, state.counter + 1)
            enqueued_ms = max(state.last_enqueued_ms, now.wall_ms)
            for given in map(Row._make, self._columns(batch, start, end, first_id)):
                row = given._replace(enqueued_ms=enqueued_ms)
                # Also of a scheduled message: what cannot be decoded is refused now.
                copies = yield from portions(partition, now, self._queue, row)
                if row.state == State.SCHEDULED:
                    copies, size_bytes = [], row.size()
                else:
                    size_bytes = stored_bytes(row, copies)
                made.messages.append((row, copies, size_bytes))
                made.added_bytes += size_bytes
                made.copies += copies_in(copies)
                check_copies(self._queue, made.copies, made.added_bytes, self.copies_left)
        except BusError as error:
            return Matched(error=error)
        return made

    def append_matched(
        self, batch: Batch, group: int, span: tuple[int, int], matched: Matched
    ) -> None:
        """Append a group that has met the rules, or note what refuses it."""
        self._matched = matched
        self._append_group(batch, group, *span)

    def outcome(self) -> Appended:
        """Return what became of the groups so far; their numbers begin with the first of them."""
        return Appended(self._numbers, self._duplicates, self._failures)

    def _all_fit(self, batch: Batch, sizes: Sequence[int]) -> bool:
        # Each message may be refused for what is in it.
        return False

    def _check_group(self, batch: Batch, start: int, end: int) -> int:
        if self._matched is None:
            name = tuple(column[start:end] for column in _columns_that_rules_read(batch))
            match = partial(self.matching, batch, start, end)
            self._matched = self._turn.matched(self._queue, name, match)
        matched = self._matched
        if matched.error is not None:
            self._matched = None
            raise matched.error
        self._start = start
        now, added_bytes = self._turn.now, matched.added_bytes
        state = self._turn.stage.touch(self._queue).queue.state
        state.last_enqueued_ms = max(state.last_enqueued_ms, now.wall_ms)
        self._room = room.left(self._turn.partition, self._queue, now, added_bytes)
        return added_bytes + self._history_bytes(batch, start, end)

    def _append_group(self, batch: Batch, group: int, start: int, end: int) -> None:
        super()._append_group(batch, group, start, end)
        self._matched = None

    def _append(self, batch: Batch, start: int, end: int) -> None:
        stage, state, matched = self._turn.stage, self._queue.state, self._matched
        assert matched is not None, "a group is appended after it was checked"
        check_numbers(self._queue, end - start)
        stage.touch(self._queue)
        published: list[tuple[Row, list[Portion]]] = []
        added_bytes = 0
        made_of = matched.messages[start - self._start : end - self._start]
        for at, (row, made, size_bytes) in enumerate(made_of, start):
            numbered = row._replace(
                id=row_id(state.slot, state.counter + 1), enqueued_ms=state.last_enqueued_ms
            )
            counter = state.counter + 1
            if row.state == State.SCHEDULED:
                number = batch.reserved[at] if batch.reserved else 0
                counter = reserved_numbers.append(self._turn, self._queue, numbered, number)
            else:
                state.counter = counter
                published.append((numbered, made))
                self.copies_left -= copies_in(made) if self.in_transaction else 0
            added_bytes += size_bytes
            self._numbers.append(self._queue.base + counter)
        store(self._turn, self._queue, published)
        room.grown(self._turn.partition, self._queue, added_bytes)


def _columns_that_rules_read(batch: Batch) -> tuple[Sequence[object], ...]:
    """Return what tells a message from others: two that are equal here meet the rules alike."""
    return (
        batch.payloads,
        batch.heads,
        batch.message_ids,
        batch.partition_keys,
        batch.session_ids,
        batch.time_to_live_ms,
        batch.scheduled_ms,
        batch.carried,
    )
