"""Appends one command's groups to a topic: the checks of a queue, then copies instead of rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bendybus.domain import limits, sequence_number
from bendybus.domain.errors import BusError
from bendybus.domain.steps import Steps
from bendybus.partition_server.rules import publish, room
from bendybus.partition_server.rules.publish import Destination
from bendybus.partition_server.rules.send import Appender
from bendybus.partition_server.state.answers import Appended
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.stage import check_numbers
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import Row, State, row_id


@dataclass(slots=True)
class Matched:
    """A group that has met the rules: each message with its copies and their size."""

    messages: list[tuple[Row, list[Destination], int]] = field(default_factory=list)
    added_bytes: int = 0
    copies: int = 0
    # What refuses the group.
    error: BusError | None = None


class Publisher(Appender):
    """Publishes one command's groups to one topic."""

    def __init__(self, turn: Turn, queue: MessageQueue) -> None:
        super().__init__(turn, queue)
        # Of each group; `in_transaction`: of all groups together.
        self.copies_left = limits.PUBLISHED_COPIES_MAX
        self.in_transaction = False
        self._turn = turn
        # The group that is looked at: where it begins, what it makes.
        self._start = 0
        self._matched: Matched | None = None

    def matching(self, batch: Batch, start: int, end: int) -> Steps[Matched]:
        """Let a group meet the rules, in steps; nothing changes. See `publish.destinations`."""
        partition, now, state = self._turn.partition, self._turn.now, self._queue.state
        made = Matched()
        try:
            super()._check_group(batch, start, end)
            first_id = row_id(state.slot, state.counter + 1)
            enqueued_ms = max(state.last_enqueued_ms, now.wall_ms)
            for given in map(Row._make, self._columns(batch, start, end, first_id)):
                row = given._replace(enqueued_ms=enqueued_ms)
                # Also of a scheduled message: what cannot be decoded is refused now.
                copies = yield from publish.destinations(partition, now, self._queue, row)
                if row.state == State.SCHEDULED:
                    copies, size_bytes = [], row.size()
                else:
                    size_bytes = publish.size_bytes(row, copies)
                made.messages.append((row, copies, size_bytes))
                made.added_bytes += size_bytes
                made.copies += len(copies)
                publish.check_copies(self._queue, made.copies, made.added_bytes, self.copies_left)
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
        state, matched = self._queue.state, self._matched
        assert matched is not None, "a group is appended after it was checked"
        check_numbers(self._queue, end - start)
        for row, made, size_bytes in matched.messages[start - self._start : end - self._start]:
            numbered = row._replace(
                id=row_id(state.slot, state.counter + 1), enqueued_ms=state.last_enqueued_ms
            )
            if row.state == State.SCHEDULED:
                self._turn.stage.append_row(self._queue, numbered)
            else:
                self._turn.stage.touch(self._queue)
                state.counter += 1
                publish.store(self._turn, self._queue, numbered, made)
                self.copies_left -= len(made) if self.in_transaction else 0
            room.grown(self._turn.partition, self._queue, size_bytes)
            self._numbers.append(sequence_number.compose(self._partition, state.counter))


def _columns_that_rules_read(batch: Batch) -> tuple[Sequence[Any], ...]:
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
