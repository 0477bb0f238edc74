"""The rules of sending, inside one partition.

Order of checks: may this entity be sent to at all (status, fence, room on disk, deadline); is it
a repeat; then group by group size, quota and duplicates. A group is stored whole or not at all,
and one bad group does not harm the others of its frame.
"""

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Final

from bendybus.domain import (
    bounds,
    errors,
    limits,
    message_access,
    message_format,
    partitioning,
    sequence_number,
)
from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import BusError
from bendybus.domain.message_access import Access
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.rules import duplicates, reserved_numbers, room
from bendybus.partition_server.state import producer_memory
from bendybus.partition_server.state.answers import Appended
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, EntityRef
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.stage import check_numbers
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import ROW_BYTES, Row, State, row_id

# The last columns of a row that was not forwarded.
_NOTHING_CARRIED: Final = (*[repeat(None)] * 4, *[repeat(0)] * 3)


def checked(turn: Turn, command: Append) -> MessageQueue:
    """Return where a frame goes. Raises what `target` does, and InvalidArgument for its name."""
    queue = target(turn, command.entity)
    bounds.check_producer(
        command.producer_id,
        command.producer_sequence,
        command.age_ms,
        command.deadline_mono_ms,
    )
    return queue


def send(turn: Turn, command: Append, queue: MessageQueue) -> Appended:
    """Store a frame's groups; a repeat gets the first outcome. Raises what refuses all of it."""
    partition, changes = turn.partition, turn.stage.changes
    known = partition.producers.find(command, turn.now)
    if known is not None and known.rest is None:
        return known.outcome
    # A repeat of a part of which some units are known stores the others.
    fresh = command if known is None or known.rest is None else known.rest
    try:
        check_sends(turn, queue, fresh.deadline_mono_ms)
    except BusError as error:
        if known is None:
            raise
        return producer_memory.refuse_rest(command, known, error)
    outcome = Appender(turn, queue).run(fresh)
    partition.producers.remember(fresh, outcome, turn.now, changes)
    if changes.producers_forgotten and not turn.expiry_held:
        # The next opening compares its clock with the one that says when this was forgotten.
        partition.due.mark(turn.stage.changes, turn.now)
    return outcome if known is None else producer_memory.merge(command, known, outcome)


def target(turn: Turn, ref: EntityRef) -> MessageQueue:
    """Return the queue that messages are sent to. Raises what `find` does, InvalidOperation."""
    queue = turn.partition.find(ref, turn.now, Access.SEND)
    if queue.state.sub_queue is not SubQueue.MAIN:
        raise errors.InvalidOperation(
            f"{queue.entity.title}: messages cannot be sent to a dead-letter sub-queue."
        )
    return queue


def check_sends(turn: Turn, queue: MessageQueue, deadline_mono_ms: int) -> None:
    """Raise what refuses a send before its messages are looked at."""
    room.check_sends(queue.entity)
    check_room(turn)
    check_deadline(turn, deadline_mono_ms)


def check_room(turn: Turn) -> None:
    """Raise DiskLow where there is no room on the disk for messages."""
    index, why = turn.partition.index, turn.partition.sends_refused
    if why:
        raise errors.DiskLow(
            f"partition {index} takes no messages: {why}. Receive or purge messages, or give the "
            "volume more room.",
            metadata={"partition": str(index)},
        )


def check_deadline(turn: Turn, deadline_mono_ms: int) -> None:
    """Raise ServiceTimeout for a command whose deadline has passed."""
    if deadline_mono_ms and turn.now.mono_ms > deadline_mono_ms:
        # The front end has given up and may have gone to another partition.
        index = turn.partition.index
        raise errors.ServiceTimeout(
            f"partition {index} did not process this frame before its deadline; nothing of it is "
            "stored.",
            metadata={"partition": str(index)},
        )


class Appender:
    """Appends one command's groups to one queue."""

    def __init__(self, turn: Turn, queue: MessageQueue) -> None:
        partition, entity = turn.partition, queue.entity
        self._turn = turn
        self._stage = turn.stage
        self._queue = queue
        self._entity = self._payer = entity
        self._partition = partition.index
        self._tier = partition.fingerprint.tier
        # Of a topic, each group asks again.
        self._room = 0
        if entity.kind is EntityKind.QUEUE:
            self._room = room.left(partition, queue, turn.now, 0)
        self._now = turn.now
        self._history: duplicates.KeyHistory | None = None
        if entity.description.requires_duplicate_detection:
            self._history = duplicates.KeyHistory(turn, queue)
        # As of the command.
        self.measured = False
        self._numbers: list[int] = []
        self._duplicates: list[bool] = []
        self._failures: list[tuple[int, BusError]] = []

    def run(self, command: Append) -> Appended:
        """Append what can be and return the outcome."""
        batch, sizes = command.batch, command.group_sizes or (len(command.batch.payloads),)
        check_shape(batch, sizes)
        self.measured = command.measured
        if self._history is None and self._all_fit(batch, sizes):
            self._append(batch, 0, len(batch.payloads))
            return Appended(self._numbers)
        start = 0
        for group, size in enumerate(sizes):
            self._append_group(batch, group, start, start + size)
            start += size
        flags = self._duplicates if any(self._duplicates) else ()
        return Appended(self._numbers, flags, self._failures)

    # Whole frames: a few comparisons instead of some per message.

    def _all_fit(self, batch: Batch, sizes: Sequence[int]) -> bool:
        if self._entity.description.requires_session and (
            batch.partition_keys or not _all_in_sessions(batch, 0, None)
        ):
            return False
        contents = batch.sizes()
        total = sum(contents)
        if not bounds.messages_fit(*_columns_of(batch)):
            return False
        largest, most = self._limits()
        if max(contents) > largest:
            return False
        overhead = (ROW_BYTES + 3 * limits.KEY_CHARS_MAX * 4) * len(contents)
        if total + overhead + _carried_bytes(batch, 0, None) > self._room:
            return False
        return len(sizes) == len(contents) or total <= most

    def _limits(self) -> tuple[int, int]:
        """Return how many bytes a message may have, and a group."""
        largest = self._entity.message_bytes_max(self._tier)
        most = limits.batch_bytes_max(self._tier)
        if self.measured:
            return limits.converted_bytes_max(largest), limits.converted_bytes_max(most)
        return largest, most

    # Group by group.

    def _append_group(self, batch: Batch, group: int, start: int, end: int) -> None:
        try:
            size_bytes = self._check_group(batch, start, end)
            if size_bytes > self._room:
                raise room.full(self._payer, self._partition, self._with_history())
        except BusError as error:
            self._failures.append((group, error))
            self._numbers.extend(repeat(0, end - start))
            self._duplicates.extend(repeat(False, end - start))
            return
        before_bytes = self._queue.state.size_bytes
        if self._history is not None:
            self._append_new(self._history, batch, start, end)
        else:
            self._duplicates.extend(repeat(False, end - start))
            self._append(batch, start, end)
        # What was stored, not what was sent: a duplicate takes no room.
        self._room -= self._queue.state.size_bytes - before_bytes

    def _check_group(self, batch: Batch, start: int, end: int) -> int:
        if self._entity.description.requires_session:
            _check_sessions(self._entity, batch, start, end)
        largest, most = self._limits()
        texts = _columns_of(batch, start, end)
        if not bounds.messages_fit(*texts):
            raise next(error for _, error in bounds.message_faults(*texts))
        content = sum(sum(map(len, column)) for column in texts[:3])
        for size in batch.sizes()[start:end]:
            if size > largest:
                raise self._too_large("message", size, largest)
            content += size
        if end - start > 1 and content > most:
            raise self._too_large("batch", content, most)
        content += _carried_bytes(batch, start, end)
        return content + (end - start) * ROW_BYTES + self._history_bytes(batch, start, end)

    def _history_bytes(self, batch: Batch, start: int, end: int) -> int:
        return duplicates.history_bytes(self._entity, batch, start, end)

    def _with_history(self) -> str:
        return "" if self._history is None else ", with the history of duplicate detection"

    def _too_large(self, what: str, size: int, most: int) -> BusError:
        return errors.MessageSizeExceeded(
            f"{self._entity.title}: a {what} of {size} bytes is larger than the {most} "
            "allowed. Send less at a time, or keep the data elsewhere and send a reference.",
            metadata={"entity": self._entity.name, "limit": str(most)},
        )

    def _append_new(
        self, history: duplicates.KeyHistory, batch: Batch, start: int, end: int
    ) -> None:
        """Append what is no duplicate; a duplicate gets the number of the original."""
        keys = [duplicates.key_of(self._entity, batch, i) for i in range(start, end)]
        known = history.known(keys)
        for i, key in enumerate(keys, start):
            remembered = known.get(key) if key else None
            original = history.original(key, remembered) if key else None
            if original is not None:
                self._numbers.append(self._queue.base + original)
                self._duplicates.append(True)
                continue
            self._append(batch, i, i + 1)
            self._duplicates.append(False)
            if key:
                counter = sequence_number.counter_of(self._numbers[-1])
                history.remember(key, counter, is_new=remembered is None)

    # The rows.

    def _append(self, batch: Batch, start: int, end: int) -> None:
        if batch.reserved:
            self._append_reserved(batch, start, end)
            return
        touched, state = self._stage.touch(self._queue), self._queue.state
        first, count = state.counter + 1, end - start
        check_numbers(self._queue, count)
        state.last_enqueued_ms = max(state.last_enqueued_ms, self._now.wall_ms)
        rows = list(map(Row._make, self._columns(batch, start, end, row_id(state.slot, first))))
        waiting = sum(row.state for row in rows) // State.SCHEDULED if batch.scheduled_ms else 0
        state.counter += count
        state.active += count - waiting
        state.scheduled += waiting
        state.size_bytes += ROW_BYTES * count + _text_bytes(batch, start, end)
        self._stage.changes.inserts += rows
        touched.fresh += rows
        number = self._queue.base + first
        self._numbers.extend(range(number, number + count))

    def _append_reserved(self, batch: Batch, start: int, end: int) -> None:
        state = self._stage.touch(self._queue).queue.state
        check_numbers(self._queue, end - start)
        state.last_enqueued_ms = max(state.last_enqueued_ms, self._now.wall_ms)
        rows = map(Row._make, self._columns(batch, start, end, row_id(state.slot, 0)))
        for row, number in zip(rows, batch.reserved[start:end], strict=True):
            counter = reserved_numbers.append(self._turn, self._queue, row, number)
            self._numbers.append(self._queue.base + counter)

    def _columns(self, batch: Batch, start: int, end: int, first_id: int) -> Iterator[tuple]:  # type: ignore[type-arg]
        span = slice(start, end)
        # Shown times never go back; what counts runs from the clock as it is now.
        enqueued_ms, now_ms = self._queue.state.last_enqueued_ms, self._now.wall_ms
        states: Iterator[int] | list[int] = repeat(0)
        due: Iterator[int] | Sequence[int] = repeat(0)
        if batch.scheduled_ms:
            due = batch.scheduled_ms[span]
            states = [State.SCHEDULED if ms > now_ms else State.ACTIVE for ms in due]
        ceiling = self._entity.description.default_message_time_to_live_ms
        lives: Iterator[int] | list[int] = repeat(ceiling or 0)
        if batch.time_to_live_ms:
            lives = [_lifetime(ms, ceiling) for ms in batch.time_to_live_ms[span]]
        ends: Iterator[int | None] | list[int | None] = repeat(None)
        if batch.time_to_live_ms or ceiling:
            count = end - start
            lives = lives if isinstance(lives, list) else [ceiling or 0] * count
            plan = states if isinstance(states, list) else [0] * count
            # A scheduled message lives from its activation on.
            ends = [
                None if state else bounds.end_of_life(now_ms, life)
                for life, state in zip(lives, plan, strict=True)
            ]
        sessions: Iterator[str | None] | Sequence[str | None] = repeat(None)
        if batch.session_ids:
            sessions = [duplicates.session_of(batch, i) for i in range(start, end)]
        return zip(
            range(first_id, first_id + end - start),
            states,
            repeat(enqueued_ms),
            ends,
            due,
            lives,
            repeat(0),
            batch.message_ids[span] if batch.message_ids else repeat(""),
            batch.partition_keys[span] if batch.partition_keys else repeat(""),
            sessions,
            batch.payloads[span],
            batch.formats[span] if batch.formats else repeat(message_format.WHOLE),
            batch.heads[span] if batch.heads else repeat(b""),
            *(zip(*batch.carried[span], strict=True) if batch.carried else _NOTHING_CARRIED),
            strict=False,
        )


def _columns_of(
    batch: Batch, start: int = 0, end: int | None = None
) -> tuple[Sequence[str], Sequence[str], Sequence[str], Sequence[int], Sequence[int]]:
    """Return the columns that have bounds, of the whole frame or of one group."""
    columns = (
        batch.message_ids,
        batch.partition_keys,
        batch.session_ids,
        batch.time_to_live_ms,
        batch.scheduled_ms,
    )
    if end is None:
        return columns
    ids, keys, sessions, lives, due = columns
    span = slice(start, end)
    return ids[span], keys[span], sessions[span], lives[span], due[span]


def _all_in_sessions(batch: Batch, start: int, end: int | None) -> bool:
    """Whether each message has a session."""
    return bool(batch.session_ids) and all(batch.session_present[start:end])


def _check_sessions(entity: Entity, batch: Batch, start: int, end: int) -> None:
    """Raise InvalidOperation for a message without a session, or with another partition key."""
    if not _all_in_sessions(batch, start, end):
        raise message_access.missing_session(entity)
    for index in range(start, end) if batch.partition_keys else ():
        partitioning.effective_key(
            session_id=batch.session_ids[index],
            partition_key=batch.partition_keys[index],
            message_id="",
            detects_duplicates=False,
        )


def _carried_bytes(batch: Batch, start: int, end: int | None) -> int:
    """Return what forwarded messages take along beside what their sender sent."""
    return sum(each.extra_bytes for each in batch.carried[start:end])


def _lifetime(asked_ms: int, ceiling: int | None) -> int:
    """Return the time to live, 0 for none: the entity's default is a ceiling."""
    if asked_ms and ceiling:
        return min(asked_ms, ceiling)
    return asked_ms or ceiling or 0


def _text_bytes(batch: Batch, start: int, end: int) -> int:
    columns = (batch.payloads, batch.heads, batch.message_ids, batch.partition_keys)
    total = sum(sum(map(len, column[start:end])) for column in columns if column)
    if batch.session_ids:
        total += sum(len(duplicates.session_of(batch, i) or "") for i in range(start, end))
    return total + _carried_bytes(batch, start, end)


def check_shape(batch: Batch, group_sizes: Sequence[int]) -> None:
    """Raise InvalidArgument unless the columns of a frame, and its groups, fit together."""
    sizes = group_sizes or (len(batch.payloads),)
    count = len(batch.payloads)
    if not count:
        raise errors.InvalidArgument("messages", "the frame is empty; send at least one message.")
    if count > limits.FRAME_MESSAGES_MAX:
        raise errors.InvalidArgument(
            "messages", f"a frame takes at most {limits.FRAME_MESSAGES_MAX} (got {count})."
        )
    if sum(sizes) != count or 0 in sizes:
        raise errors.InvalidArgument("group_sizes", f"must add up to {count} messages.")
    for name in Batch.__slots__[1:]:
        column = getattr(batch, name)
        if column and len(column) != count:
            raise errors.InvalidArgument(name, f"has {len(column)} entries for {count} messages.")
    message_format.check(batch.heads, batch.formats)
