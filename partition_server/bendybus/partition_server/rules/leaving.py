"""Messages on their way out of a queue that forwards: what they are at their destination, and
where those go that are not forwarded.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from bendybus.domain import errors, forwarding, limits, message_format
from bendybus.domain.errors import BusError
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.rules import dead_letter
from bendybus.partition_server.state.batch import Batch, Carried
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import SHARED_FORMAT, Row


class Aside(NamedTuple):
    """Where a message goes that is not forwarded, and why."""

    to: SubQueue
    reason: str
    description: str


INTERNAL_ERROR: Final = "InternalError"
TOO_OFTEN: Final = Aside(SubQueue.DEAD_LETTER, forwarding.HOPS_REASON, forwarding.HOPS_DESCRIPTION)


def aside_for(error: BusError) -> Aside:
    """Return where a message goes that its destination never takes."""
    text = error.message[: limits.DEAD_LETTER_TEXT_CHARS_MAX]
    reason = INTERNAL_ERROR if is_internal(error) else type(error).__name__
    return Aside(SubQueue.TRANSFER_DEAD_LETTER, reason, text)


def is_internal(error: BusError | None) -> bool:
    """Whether an error is that of a bug: no refusal of the destination."""
    return error is not None and error.reason == BusError.reason


class Leaving:
    """What leaves one queue in one turn."""

    def __init__(self, turn: Turn, queue: MessageQueue) -> None:
        self._turn = turn
        self._queue = queue
        self._transfers = queue.state.sub_queue is SubQueue.TRANSFER

    def batch(self, rows: Sequence[Row], *, stays: bool) -> Batch:
        """Return messages as they are sent to their destination; `stays`: in this partition."""
        lives = [self._lifetime(row, stays=stays) for row in rows]
        # In a transfer queue, the number that is reserved at the destination; 0: none is.
        reserved = [row.enqueued_sequence_number for row in rows] if self._transfers else []
        by_session = any(row.session_id is not None for row in rows)
        return Batch(
            [row.payload for row in rows],
            [row.message_id for row in rows],
            [row.partition_key for row in rows],
            [row.session_id or "" for row in rows] if by_session else (),
            [row.session_id is not None for row in rows] if by_session else (),
            lives if any(lives) else (),
            self._scheduled(rows),
            [row.head for row in rows],
            [row.format % SHARED_FORMAT for row in rows],
            [self._carried(row) for row in rows],
            reserved if any(reserved) else (),
        )

    def _lifetime(self, row: Row, *, stays: bool) -> int:
        """Return what is left of the time to live, 0 for none: it ends no later for going on."""
        now_ms, life_ms = self._turn.now.wall_ms, row.time_to_live_ms
        held = self._turn.expiry_held
        if row.expires_ms is not None:
            # Another partition has another clock: what this one says while it is in doubt would
            # end the message there too early.
            if held and not stays:
                return life_ms
            return max(1, min(row.expires_ms - now_ms, life_ms))
        if not self._transfers or not life_ms or held:
            return life_ms if self._transfers else 0
        # Nothing expires in a transfer queue; what it waited there counts, from its schedule on.
        return max(1, life_ms - max(0, now_ms - max(row.enqueued_ms, row.scheduled_ms)))

    def _scheduled(self, rows: Sequence[Row]) -> Sequence[int]:
        """Return when messages are due at their destination; in a transfer queue they go on."""
        if not self._transfers or not any(row.scheduled_ms for row in rows):
            return ()
        return [row.scheduled_ms for row in rows]

    def _carried(self, row: Row) -> Carried:
        first = 0 if self._transfers else row.enqueued_sequence_number
        source = row.dead_letter_source
        if self._queue.is_dead_letter:
            source = self._queue.entity.name
        return Carried(
            row.changed_properties,
            row.dead_letter_reason,
            row.dead_letter_error_description,
            source,
            first or self._queue.base + row.counter,
            row.extra_bytes - len(row.dead_letter_source or "") + len(source or ""),
            row.hops + 1,
        )

    def set_aside(self, row: Row, aside: Aside) -> None:
        """Dead-letter a message that is not forwarded; one that is a dead letter, too."""
        turn, queue, queues = self._turn, self._queue, self._turn.partition.queues
        envelope = dead_letter.envelope_of(turn, queue, row.counter)
        assert envelope is not None, row.id
        away = queues.dead_letters_of(queue)
        if away is queue or aside.to is SubQueue.TRANSFER_DEAD_LETTER:
            away = queues.transfer_dead_letters_of(queue)
        # It was in use as long as this waited to go on.
        queue.used(turn.now)
        dead_letter.move(turn, queue, envelope, aside.reason, aside.description, to=away)
        turn.stage.journal.later(_count, turn.partition.forwards.set_aside, queue, 1)

    def went_on(self, count: int) -> None:
        """Count messages that their destination has."""
        turn = self._turn
        if count:
            forwarded = turn.partition.forwards.forwarded
            turn.stage.journal.later(_count, forwarded, self._queue, count)


def _count(counter: Counter[int], queue: MessageQueue, count: int) -> None:
    counter[queue.slot] += count


def kept_from_going(row: Row) -> Aside | None:
    """Return what becomes of a message before its destination is asked, None if it may go."""
    if row.hops >= limits.FORWARD_HOPS_MAX:
        return TOO_OFTEN
    if row.format % SHARED_FORMAT > message_format.NEWEST:
        return aside_for(errors.InvalidArgument("format", f"{row.format} cannot be read."))
    return None
