"""Appends one command's groups to a topic: the checks of a queue, then copies instead of rows."""

from collections.abc import Sequence

from bendybus.domain import sequence_number
from bendybus.partition_server.rules import publish
from bendybus.partition_server.rules.publish import Destination
from bendybus.partition_server.rules.send import Appender
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import Row, State, row_id


class Publisher(Appender):
    """Publishes one command's groups to one topic."""

    def __init__(self, turn: Turn, queue: MessageQueue) -> None:
        super().__init__(turn, queue)
        self._turn = turn
        self._topic = turn.partition.topics.of(queue.entity)
        # Of the group that is looked at: its first message, then each with its copies.
        self._start = 0
        self._matched: list[tuple[Row, list[Destination], int]] = []

    def _all_fit(self, batch: Batch, sizes: Sequence[int]) -> bool:
        # Each message may be refused for what is in it.
        return False

    def _check_group(self, batch: Batch, start: int, end: int) -> int:
        super()._check_group(batch, start, end)
        state = self._queue.state
        state.last_enqueued_ms = max(state.last_enqueued_ms, self._turn.now.wall_ms)
        first_id = row_id(state.slot, state.counter + 1)
        self._start, self._matched = start, []
        added_bytes = copies = 0
        for row in map(Row._make, self._columns(batch, start, end, first_id)):
            # Also of a scheduled message: what cannot be decoded is refused now.
            made = publish.destinations(self._turn, self._queue, row)
            if row.state == State.SCHEDULED:
                made, size_bytes = [], row.size()
            else:
                size_bytes = publish.size_bytes(row, made)
            self._matched.append((row, made, size_bytes))
            added_bytes += size_bytes
            copies += len(made)
            publish.check_copies(self._queue, copies)
        now = self._turn.now
        self._room = publish.room(self._turn.partition, self._queue, now, added_bytes)
        return added_bytes + self._history_bytes(batch, start, end)

    def _append(self, batch: Batch, start: int, end: int) -> None:
        state = self._queue.state
        self._check_numbers(end - start)
        for row, made, size_bytes in self._matched[start - self._start : end - self._start]:
            numbered = row._replace(
                id=row_id(state.slot, state.counter + 1), enqueued_ms=state.last_enqueued_ms
            )
            if row.state == State.SCHEDULED:
                self._turn.stage.append_row(self._queue, numbered)
            else:
                state.counter += 1
                publish.store(self._turn, self._queue, numbered, made)
            publish.published(self._topic, size_bytes)
            self._numbers.append(sequence_number.compose(self._partition, state.counter))
