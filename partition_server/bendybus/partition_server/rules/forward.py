"""Forwarding: messages go on to another queue or topic by themselves, each exactly once.

    source ──take──► destination, in the same commit: its send rules apply (size, room, duplicates)
       │
       ├── refused for what it is (too large, no session) ─► transfer dead letters, at once
       ├── refused by the destination (missing, disabled, full), or a bug ─► waits, in order; when
       │                                     that has lasted for its time ─► transfer dead letters
       └── forwarded four times before ─► dead letters

A message keeps its body, identifiers, keys, what is left of its time to live and the number that it
had first; it gets a number and an enqueued time at its destination. Dead letters have no end there
but the destination's own. Which partition of the destination is decided in `forward_lanes`.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from bendybus.domain import errors, limits
from bendybus.domain.entity import DEAD_LETTER_SUFFIX, TRANSFER_SUFFIX, Entity
from bendybus.domain.errors import BusError
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.rules import (
    forward_lanes,
    forwarded,
    leaving,
    oldest,
    publications,
    room,
)
from bendybus.partition_server.rules.leaving import Leaving
from bendybus.partition_server.state.answers import Forwarding, Standstill
from bendybus.partition_server.state.commands import Now
from bendybus.partition_server.state.due_times import Sweep
from bendybus.partition_server.state.lanes import RETRY_MS, Lane
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.publications import Held
from bendybus.partition_server.state.ready_set import ReadyWindow
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import Row

PAGE_ROWS: Final = 500


def sweep(turn: Turn) -> None:
    """Forward some messages of the queue whose turn it is."""
    partition = turn.partition
    forwards = partition.forwards
    first = forwards.due.first()
    assert first is not None, "nothing is due"
    slot = first[1]
    held = Held(partial(_look, slot=slot), key=(Sweep.FORWARD.name, slot), alone=True)
    if partition.publications.holds(held.key) or not publications.attempt(turn, held):
        # It goes on by itself.
        forwards.due.replace(slot, None)


def _look(turn: Turn, slot: int) -> bool:
    """Look at a queue; return True."""
    partition = turn.partition
    queue, forwards = partition.queues.at(slot), partition.forwards
    if queue is None or slot not in forwards.sources:
        return True
    if turn.attempt(Sweep.FORWARD.name, queue.entity.name, lambda: _Look(turn, queue).run()):
        now_ms = turn.now.mono_ms
        next_ms = now_ms + partition.faults.pause_ms((Sweep.FORWARD, slot), now_ms)
        turn.stage.journal.later(forwards.looked, slot, next_ms, BusError.reason, now_ms)
    return True


class _Look:
    """One look at a queue that forwards."""

    def __init__(self, turn: Turn, queue: MessageQueue) -> None:
        assert isinstance(queue.ready, ReadyWindow), "a queue of sessions does not forward"
        self._turn = turn
        self._queue = queue
        self._ready = queue.ready
        self._leaving = Leaving(turn, queue)

    def run(self) -> None:
        """Forward a page of messages, as far as the destination takes them."""
        forwards, slot = self._turn.partition.forwards, self._queue.slot
        now_ms = self._turn.now.mono_ms
        refused: BusError | None
        try:
            entity = self._destination()
            if not self._turn.partition.stays(self._queue, entity):
                self._by_lanes(entity)
                return
            forward_lanes.give_back(self._turn.partition, self._queue)
            target = self._turn.partition.queues.main_of(entity.uid)
        except errors.PartitionUnavailable as error:
            self._end("", RETRY_MS, waits=type(error).__name__)
            return
        except BusError as error:
            refused, done = error, 0
            forward_lanes.give_back(self._turn.partition, self._queue)
            lasts = forwards.lasts(slot, type(error).__name__, now_ms)
            rows = self._take(PAGE_ROWS if lasts else 0)
            for row in rows:
                self._leaving.set_aside(row, leaving.aside_for(error))
        else:
            lasts = forwards.lasts(slot, errors.QuotaExceeded.__name__, now_ms)
            # A destination that was full is tried with one message, unless that has lasted.
            most = min(PAGE_ROWS, forwarded.messages_max(self._turn, target))
            rows = self._take(1 if forwards.is_refused(slot) and not lasts else most)
            done, refused = self._forward(target, rows, lasts=lasts)
            self._ready.put_back([row.counter for row in rows[done:]])
        if refused is None:
            self._end("", 0)
        else:
            code = _code(refused)
            lasts = forwards.lasts(slot, code, now_ms)
            self._end(code, 0 if lasts else forwards.retry_ms(slot, code, now_ms))

    def _destination(self) -> Entity:
        """Return where messages go. Raises what refuses all of them."""
        partition, source = self._turn.partition, self._queue.entity
        drain = partition.drains.held(source.uid, self._queue.state.sub_queue)
        if drain is not None:
            raise errors.PartitionUnavailable(
                f"{source.title} is drained by the data pipeline {drain.lease.owner!r}."
            )
        entity = partition.destination_of(self._queue)
        if entity is None and self._queue.state.destination:
            name = partition.destination_name(self._queue)
            raise errors.EntityNotFound(
                f"sent in a transaction of {source.title} to {name!r}, which was deleted."
            )
        if entity is None:
            name = partition.destination_name(self._queue)
            raise errors.EntityNotFound(f"{source.title} forwards to {name!r}: it does not exist.")
        room.check_sends(entity)
        stays = partition.stays(self._queue, entity)
        if partition.forward_link is None and not stays:
            raise errors.PartitionUnavailable(
                f"{source.title} forwards to {entity.title}, whose messages are in other "
                "partitions, whose addresses are unknown here."
            )
        # Otherwise only what is for this partition waits, see `forward_lanes`.
        if partition.sends_refused and stays:
            raise errors.PartitionUnavailable(partition.sends_refused)
        return entity

    def _by_lanes(self, entity: Entity) -> None:
        """Send what a lane has parked, else take more out of the queue."""
        turn, queue = self._turn, self._queue
        index = forward_lanes.next_lane(turn, queue)
        if index is not None:
            forward_lanes.send(turn, queue, entity, index)
        elif room := forward_lanes.room(turn, queue):
            # Also those past their time: they may be there already.
            rows = self._take(min(room, PAGE_ROWS), now_ms=0)
            forward_lanes.park(turn, queue, entity, rows)
        # After what the lanes do then.
        turn.stage.journal.later(self._look_at_lanes_again)

    def _look_at_lanes_again(self) -> None:
        turn, queue = self._turn, self._queue
        next_ms = forward_lanes.next_look_ms(turn, queue)
        if self._ready.has_ready() and forward_lanes.room(turn, queue):
            next_ms = turn.now.mono_ms
        turn.partition.forwards.looked(queue.slot, next_ms, "", turn.now.mono_ms)

    def _take(self, count: int, now_ms: int | None = None) -> Sequence[Row]:
        """Take messages that live at this time out of the queue, which gets them back if the
        commit fails.
        """
        turn = self._turn
        if turn.careful:
            # A page with it raised: those before the one that does go on, one by one.
            count = min(count, 1)
        try:
            rows = self._ready.take(
                min(count, turn.budget.rows_left),
                min(turn.budget.bytes_left, limits.FRAME_BYTES_MAX),
                now_ms=turn.now.wall_ms if now_ms is None else now_ms,
                store=turn.partition.store,
            )
            looked = len(rows) + self._ready.passed
            turn.budget.spend(sum(row.delivered_bytes() for row in rows), rows=looked)
            counters = [row.counter for row in rows]
            turn.stage.journal.note(self._ready.put_back, counters)
        except BaseException:
            turn.partition.read_again(self._queue)
            raise
        return rows

    def _end(self, refused: str, wait_ms: int, waits: str = "") -> None:
        """Note what was refused and when to look again, if there is something left to look at."""
        turn, slot, more = self._turn, self._queue.slot, self._ready.has_ready()
        next_ms = turn.now.mono_ms + wait_ms if more else None
        looked = turn.partition.forwards.looked
        turn.stage.journal.later(
            looked,
            slot,
            next_ms,
            refused if more else "",
            turn.now.mono_ms,
            waits if more else "",
        )

    # One page

    def _forward(
        self, target: MessageQueue, rows: Sequence[Row], *, lasts: bool
    ) -> tuple[int, BusError | None]:
        """Forward messages in order; return how many are dealt with, and what refuses the next."""
        going = [row for row in rows if leaving.kept_from_going(row) is None]
        batch = self._leaving.batch(going, stays=True)
        source = None if self._queue.state.destination else self._queue.entity
        reached, failed = forwarded.append(self._turn, target, batch, source, overtake=lasts)
        done = rows.index(going[reached]) if reached < len(going) else len(rows)
        if leaving.is_internal(failed.get(reached)) and self._bug_lasts():
            # It is what is tried first since then, and always raises.
            done += 1
        self._settle(rows[:done], {going[at].id: error for at, error in failed.items()})
        full = (error for error in failed.values() if isinstance(error, errors.QuotaExceeded))
        return done, failed[reached] if reached in failed else next(full, None)

    def _bug_lasts(self) -> bool:
        forwards, now_ms = self._turn.partition.forwards, self._turn.now.mono_ms
        return forwards.lasts(self._queue.slot, BusError.reason, now_ms)

    def _settle(self, rows: Sequence[Row], failed: Mapping[int, BusError]) -> None:
        """Take messages out of the source: those that were forwarded, and those that cannot be."""
        forwarded = 0
        for row in rows:
            error = failed.get(row.id)
            aside = leaving.kept_from_going(row) or (leaving.aside_for(error) if error else None)
            if aside is None:
                self._turn.stage.remove(self._queue, row.id, row.state, row.size())
                forwarded += 1
            else:
                self._leaving.set_aside(row, aside)
        self._leaving.went_on(forwarded)


def _code(error: BusError) -> str:
    """Return what a refusal is known by."""
    return error.reason if leaving.is_internal(error) else type(error).__name__


PEER_UNAVAILABLE: Final = "PeerUnavailable"
_SUFFIXES: Final = {
    SubQueue.DEAD_LETTER: f"/{DEAD_LETTER_SUFFIX}",
    SubQueue.TRANSFER: f"/{TRANSFER_SUFFIX}",
}


def of_entity(partition: PartitionState, uid: str, now: Now) -> list[Forwarding]:
    """Return this of the queues of an entity that forward."""
    sources = partition.forwards.sources
    if not sources:
        return []
    queues = [queue for queue in partition.queues.all_of(uid) if queue.slot in sources]
    return [_of(partition, queue, now) for queue in queues]


def _of(partition: PartitionState, queue: MessageQueue, now: Now) -> Forwarding:
    forwards, slot = partition.forwards, queue.slot
    suffix = _SUFFIXES.get(queue.state.sub_queue, "")
    return Forwarding(
        f"{queue.entity.name}{suffix}",
        partition.destination_name(queue),
        queue.state.active,
        oldest.age_ms(partition, queue, now),
        forwards.forwarded[slot],
        forwards.set_aside[slot],
        _standstills(partition, queue, now),
    )


def _standstills(partition: PartitionState, queue: MessageQueue, now: Now) -> list[Standstill]:
    found: list[Standstill] = []
    whole = partition.forwards.standstill(queue.slot)
    if whole is not None:
        found.append(Standstill(None, whole.code, now.mono_ms - whole.since_mono_ms))
    for index, lane in sorted(partition.lanes.of(queue.slot).items()):
        reason, since_ms = _lane(lane)
        if since_ms is not None and (lane.parked or lane.in_flight):
            found.append(Standstill(index, reason, now.mono_ms - since_ms))
    return found


def _lane(lane: Lane) -> tuple[str, int | None]:
    if lane.unanswered_since_mono_ms is not None:
        return PEER_UNAVAILABLE, lane.unanswered_since_mono_ms
    if lane.bug_since_mono_ms is not None:
        return BusError.reason, lane.bug_since_mono_ms
    return "QuotaExceeded", lane.full_since_mono_ms
