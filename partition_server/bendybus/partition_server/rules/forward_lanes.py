"""Forwarding to a destination whose messages are in several partitions.

A look takes messages out of the queue and parks each in the lane of its partition, or sends what a
lane has parked: into this partition in the same commit, to another one as a frame, whose messages
stay locked until its outcome comes. See `lanes`.

Which partition: the key of a message decides, as in a send (`partition_of`). Without a key it goes
to the partition that it is in. If there is no room for it, which is a definite refusal, it goes on
to the next partition that answers and is not known to be full. That is stored before the first
attempt and changes only after the next definite refusal: until then a message may be stored where
it was sent.

In doubt (`in_doubt`) is what may be at its destination though it is still here: its frame was not
answered; or it was here when the file was opened, which may have been after its frame had left.
Such messages do not end here. They are sent again, also after their time to live: their destination
answers for those that it has, and takes the others, which end there.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from bendybus.domain import errors, limits, partitioning
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.partition_server.rules import forwarded, leaving
from bendybus.partition_server.rules.leaving import Leaving
from bendybus.partition_server.state import lanes
from bendybus.partition_server.state.answers import Done
from bendybus.partition_server.state.lanes import RETRY_MS, ForwardOutcome, Lane, Outgoing
from bendybus.partition_server.state.message_lock import Lock
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.ready_set import ReadyWindow
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import (
    COUNTER_MASK,
    ForwardSource,
    Row,
    State,
    row_id,
)

FRAME_ROWS: Final = 500
# Or one message that is larger.
FRAME_BYTES_MAX: Final = limits.MB
# A message in flight is locked until its outcome comes, however long that takes.
_NEVER_MS: Final = 2**62


def partition_of(turn: Turn, row: Row, destination: Entity) -> int:
    """Return the partition that a message belongs to at its destination.

    Without a key it stays here, if it can. Raises InvalidOperation for contradicting keys.
    """
    here = turn.partition.index
    key = partitioning.effective_key(
        session_id=row.session_id,
        partition_key=row.partition_key,
        message_id=row.message_id,
        detects_duplicates=destination.description.requires_duplicate_detection,
    )
    if key is not None:
        return destination.partition_of(key)
    partitions = destination.partitions()
    chosen = turn.partition.lanes.choices.get(row.id)
    if chosen is not None and chosen in partitions:
        return chosen
    return here if here in partitions else partitions[here % len(partitions)]


def park(turn: Turn, queue: MessageQueue, destination: Entity, rows: Sequence[Row]) -> None:
    """Put messages that were taken out of the queue into their lanes."""
    own, slot = turn.partition.lanes, queue.slot
    out = Leaving(turn, queue)
    parked: defaultdict[int, list[int]] = defaultdict(list)
    for row in rows:
        try:
            wanted = partition_of(turn, row, destination)
        except BusError as error:
            out.set_aside(row, leaving.aside_for(error))
            continue
        parked[wanted].append(row.counter)
    for wanted, counters in parked.items():
        turn.stage.journal.later(own.lane(slot, wanted).parked.extend, counters)


def room(turn: Turn, queue: MessageQueue) -> int:
    """Return how many messages may be taken: none if a lane is full, it may be the next needed."""
    partition = turn.partition
    share = lanes.PARKED_ALL // (partition.fingerprint.partition_count * partition.forwards.count())
    most = min(lanes.PARKED_MAX, max(lanes.PARKED_MIN, share))
    parked = [len(lane.parked) for lane in partition.lanes.of(queue.slot).values()]
    return most if all(count < most for count in parked) else 0


def next_lane(turn: Turn, queue: MessageQueue) -> int | None:
    """Return the partition of a lane that may send now, the one that waits longest first."""
    partition, now_ms = turn.partition, turn.now.mono_ms
    due = [
        (lane.next_mono_ms, index)
        for index, lane in partition.lanes.of(queue.slot).items()
        if lane.is_waiting() and lane.next_mono_ms <= now_ms
    ]
    return next((index for _, index in sorted(due) if _may_send(partition, index)), None)


def _may_send(partition: PartitionState, index: int) -> bool:
    if index == partition.index:
        return not partition.sends_refused
    return partition.lanes.may_depart(index)


def next_look_ms(turn: Turn, queue: MessageQueue) -> int | None:
    """Return when a lane may send next, None if none waits."""
    partition, times = turn.partition, []
    for index, lane in partition.lanes.of(queue.slot).items():
        if not lane.is_waiting():
            continue
        if _may_send(partition, index):
            times.append(lane.next_mono_ms)
        else:
            partition.lanes.wait(queue.slot, index)
            # Woken when a frame has arrived; this is for when nothing comes of that.
            times.append(turn.now.mono_ms + RETRY_MS)
    return min(times, default=None)


def send(turn: Turn, queue: MessageQueue, destination: Entity, index: int) -> None:
    """Send what a lane has parked: one frame."""
    lane, out = turn.partition.lanes.lane(queue.slot, index), Leaving(turn, queue)
    looked, rows = _next_rows(turn, queue, lane, destination, index)
    going: list[Row] = []
    for row in rows:
        aside = leaving.kept_from_going(row)
        if aside is None:
            going.append(row)
        else:
            out.set_aside(row, aside)
    overtake = _lasts(turn, lane) or _may_all_choose(going, destination)
    turn.stage.journal.later(_unpark, lane, looked)
    if going and index != turn.partition.index:
        _depart(turn, queue, destination, index, going, overtake=overtake)
    elif going:
        target = turn.partition.queues.main_of(destination.uid)
        batch = out.batch(going, stays=True)
        source = None if queue.state.destination else queue.entity
        done, failed = forwarded.append(turn, target, batch, source, overtake=overtake)
        done = _past_bug(turn, lane, done, failed)
        back, _ = _leave(turn, queue, lane, index, destination, going[:done], failed)
        back += [row.counter for row in going[done:]]
        turn.stage.journal.later(_ended, lane, back, failed, turn.now.mono_ms)


def _lasts(turn: Turn, lane: Lane) -> bool:
    """Whether the partition of a lane has had no room for the stated time."""
    since_ms = lane.full_since_mono_ms
    return (
        since_ms is not None and turn.now.mono_ms - since_ms >= turn.partition.forwards.refused_ms
    )


def _past_bug(turn: Turn, lane: Lane, done: int, failed: Mapping[int, BusError]) -> int:
    """Return how many messages are dealt with: one that meets a bug is, when that has lasted."""
    since_ms = lane.bug_since_mono_ms
    lasts = since_ms is not None and (
        turn.now.mono_ms - since_ms >= turn.partition.forwards.refused_ms
    )
    return done + (lasts and leaving.is_internal(failed.get(done)))


def _is_full(failed: Mapping[int, BusError]) -> bool:
    return any(isinstance(error, errors.QuotaExceeded) for error in failed.values())


def _next_rows(
    turn: Turn, queue: MessageQueue, lane: Lane, destination: Entity, index: int
) -> tuple[int, list[Row]]:
    """Return how many parked messages were looked at, and those that are there to be sent."""
    # A destination that was full, or did not answer, is tried with one message; unless others can
    # go elsewhere.
    full = lane.full_since_mono_ms is not None
    alone = lane.in_doubt or turn.careful or lane.bug_since_mono_ms is not None
    most = 1 if alone else FRAME_ROWS
    if index == turn.partition.index:
        target = turn.partition.queues.main_of(destination.uid)
        most = min(most, forwarded.messages_max(turn, target))
    rows: list[Row] = []
    elsewhere: list[int] = []
    looked = size_bytes = 0
    for counter in list(lane.parked)[:most]:
        found = turn.partition.store.rows([row_id(queue.slot, counter)])
        size = sum(row.delivered_bytes() for row in found)
        if rows and size_bytes + size > FRAME_BYTES_MAX:
            break
        if rows and full and not _may_all_choose([rows[0], *found], destination):
            break
        looked += 1
        size_bytes += size
        turn.budget.spend(size)
        if not found:
            forget(turn, row_id(queue.slot, counter))
        for row in found:
            # Otherwise purged, expired or received meanwhile: not for this lane any more.
            free = row.state == State.ACTIVE and counter not in queue.locks
            if free and is_to_go(turn, queue, row):
                here = _belongs(turn, row, destination, index)
                rows.append(row) if here else elsewhere.append(counter)
    if elsewhere:
        # The destination was made again, with other partitions.
        turn.stage.journal.later(_window(queue).put_back, elsewhere)
    return looked, rows


def _may_all_choose(rows: Sequence[Row], destination: Entity) -> bool:
    """Whether all of them may go to any partition: then there is no order to keep."""
    return all(may_choose(row, destination) for row in rows)


def _belongs(turn: Turn, row: Row, destination: Entity, index: int) -> bool:
    try:
        return partition_of(turn, row, destination) == index
    except BusError:
        return False


def give_back(partition: PartitionState, queue: MessageQueue) -> None:
    """Let what is parked be taken again: the queue forwards elsewhere now, or no more."""
    for lane in partition.lanes.of(queue.slot).values():
        _window(queue).put_back(list(lane.parked))
        lane.parked.clear()
    end_doubt(partition, queue)


def _window(queue: MessageQueue) -> ReadyWindow:
    assert isinstance(queue.ready, ReadyWindow), "a queue of sessions does not forward"
    return queue.ready


def _depart(
    turn: Turn,
    queue: MessageQueue,
    destination: Entity,
    index: int,
    rows: Sequence[Row],
    *,
    overtake: bool,
) -> None:
    """Lock messages and hand their frame to the shell, once what led to it is committed."""
    partition, lane = turn.partition, turn.partition.lanes.lane(queue.slot, index)
    state = queue.state
    first = partition.store.summaries(queue.slot, 0, COUNTER_MASK, 1)
    frame = Outgoing(
        queue.slot,
        partition.boot,
        lane.sequence + 1,
        index,
        ForwardSource(
            state.uid,
            state.sub_queue,
            partition.index,
            partition.fingerprint.incarnation,
            state.destination,
        ),
        destination.uid,
        destination.generation,
        [row.counter for row in rows],
        Leaving(turn, queue).batch(rows, stays=False),
        lane.settled,
        first[0].counter if first else state.counter + 1,
        overtake,
    )
    generation = partition.next_generation()

    def departed() -> None:
        size = sum(row.delivered_bytes() for row in rows)
        partition.lanes.departed(lane, index, frame.counters, size)
        for row in rows:
            queue.locks[row.counter] = Lock(
                generation, _NEVER_MS, None, False, False, False,
                row.delivery_count, row.size(), row.expires_ms, len(row.changed_properties or b""),
            )  # fmt: skip

    turn.stage.journal.later(departed)
    turn.stage.answer(partition.forward_link, frame)


def settle(turn: Turn, command: ForwardOutcome) -> Done:
    """Take out of the source what its destination has; try the rest again."""
    partition = turn.partition
    queue = partition.queues.at(command.slot)
    if queue is None:
        return Done()
    lane = partition.lanes.lane(command.slot, command.partition)
    expected = (partition.boot, lane.sequence)
    if not lane.in_flight or (command.boot, command.sequence) != expected:
        return Done()
    counters, taken = lane.in_flight, command.taken
    turn.stage.journal.later(_landed, partition, lane, command.partition)
    unlocked = [turn.stage.unlock(queue, n) for n in counters if n in queue.locks]
    expires_ms = [lock.expires_ms for lock in unlocked if lock.expires_ms is not None]
    if expires_ms:
        # Expiry may have passed over them meanwhile.
        partition.due.expires_at(min(expires_ms))
    if taken is None:
        turn.stage.journal.later(_again, lane, counters, turn.now.mono_ms)
        _look_soon(turn, queue)
        return Done()
    done = _past_bug(turn, lane, taken.done, taken.failures)
    found = partition.store.rows([row_id(queue.slot, n) for n in counters[:done]])
    at = {counter: i for i, counter in enumerate(counters)}
    failed = {i: taken.failures[at[row.counter]] for i, row in enumerate(found)
              if at[row.counter] in taken.failures}  # fmt: skip
    destination = partition.destination_of(queue)
    back, elsewhere = _leave(turn, queue, lane, command.partition, destination, found, failed)
    # Never what may come again: it would be forgotten when it is stored.
    stay = {*back, *elsewhere}
    settled = [n for n in counters[:done] if n not in stay]
    back += counters[done:]
    turn.stage.journal.later(
        _arrived, lane, counters[:done], settled, back, taken.failures, turn.now.mono_ms
    )
    _look_soon(turn, queue)
    return Done()


def _look_soon(turn: Turn, queue: MessageQueue) -> None:
    partition = turn.partition
    if queue.slot in partition.forwards.sources:
        turn.stage.journal.later(partition.forwards.due.add, 0, queue.slot)
    else:
        # It forwards no more: what is left can be received.
        turn.stage.journal.later(give_back, partition, queue)
        turn.stage.journal.later(turn.stage.served.__setitem__, queue.slot, queue)


def _leave(
    turn: Turn,
    queue: MessageQueue,
    lane: Lane,
    index: int,
    destination: Entity | None,
    rows: Sequence[Row],
    failed: Mapping[int, BusError],
) -> tuple[list[int], list[int]]:
    """Take messages out of the source; return those that stay in the lane, and go to another."""
    out = Leaving(turn, queue)
    back: list[int] = []
    elsewhere: list[int] = []
    forwarded = 0
    for i, row in enumerate(rows):
        error = failed.get(i)
        if error is None:
            turn.stage.remove(queue, row.id, row.state, row.size())
            forwarded += 1
        elif destination and send_on(turn, queue, destination, index, row, error):
            elsewhere.append(row.counter)
            continue
        elif isinstance(error, errors.QuotaExceeded) and not _lasts(turn, lane):
            back.append(row.counter)
            continue
        else:
            out.set_aside(row, leaving.aside_for(error))
        forget(turn, row.id)
    out.went_on(forwarded)
    return back, elsewhere


# What the journal does at the commit


def _unpark(lane: Lane, count: int) -> None:
    for _ in range(count):
        lane.parked.popleft()


def _ended(lane: Lane, back: Sequence[int], failed: Mapping[int, BusError], now_ms: int) -> None:
    lane.parked.extendleft(reversed(back))
    bug = any(map(leaving.is_internal, failed.values()))
    lane.note_answer(now_ms, full=_is_full(failed), bug=bug)
    lane.next_mono_ms = now_ms + (lane.pause_ms(now_ms) if back else 0)


def _landed(partition: PartitionState, lane: Lane, index: int) -> None:
    for slot in partition.lanes.landed(lane, index):
        if slot in partition.forwards.sources:
            partition.forwards.due.add(0, slot)


def _again(lane: Lane, counters: Sequence[int], now_ms: int) -> None:
    lane.in_doubt, lane.next_mono_ms = True, now_ms + RETRY_MS
    if lane.unanswered_since_mono_ms is None:
        lane.unanswered_since_mono_ms = now_ms
    lane.unanswered.update(counters)
    lane.parked.extendleft(reversed(counters))


def _arrived(
    lane: Lane,
    answered: Sequence[int],
    settled: Sequence[int],
    back: Sequence[int],
    failed: Mapping[int, BusError],
    now_ms: int,
) -> None:
    lane.in_doubt, lane.settled = False, settled
    lane.unanswered.difference_update(answered)
    lane.unanswered_since_mono_ms = None
    _ended(lane, back, failed, now_ms)


def may_choose(row: Row, destination: Entity) -> bool:
    """Whether a message may go to any partition of its destination."""
    detected = destination.description.requires_duplicate_detection and row.message_id
    keyed = row.session_id is not None or row.partition_key or detected
    return destination.partitioned and not keyed


def send_on(
    turn: Turn, queue: MessageQueue, destination: Entity, index: int, row: Row, error: BusError
) -> bool:
    """Choose another partition for a message that one refused; return whether there is one."""
    if not isinstance(error, errors.QuotaExceeded) or not may_choose(row, destination):
        return False
    lanes, partitions = turn.partition.lanes.of(queue.slot), destination.partitions()
    # Longer than a message waits: if all are full, it is set aside.
    since_ms = turn.now.mono_ms - 2 * turn.partition.forwards.refused_ms
    at = partitions.index(index) if index in partitions else 0
    for wanted in (*partitions[at + 1 :], *partitions[:at]):
        lane = lanes.get(wanted)
        if lane is None or lane.may_have_room(since_ms):
            break
    else:
        return False
    turn.stage.changes.forward_choices[row.id] = wanted
    turn.stage.journal.later(_chosen, turn, queue, row, wanted)
    return True


def forget(turn: Turn, id_: int) -> None:
    """Forget the choice for a message that has left, if there was one."""
    choices = turn.partition.lanes.choices
    if id_ in choices:
        turn.stage.changes.forward_choices[id_] = None
        turn.stage.journal.later(_forgotten, choices, id_)


def _forgotten(choices: dict[int, int], id_: int) -> None:
    choices.pop(id_, None)


def _chosen(turn: Turn, queue: MessageQueue, row: Row, wanted: int) -> None:
    turn.partition.lanes.choices[row.id] = wanted
    turn.partition.lanes.lane(queue.slot, wanted).parked.append(row.counter)


def in_doubt(partition: PartitionState, queue: MessageQueue, counter: int) -> bool:
    """Whether a message of a queue may be at its destination, in another partition."""
    if not _goes_across(partition, queue):
        return False
    if counter <= queue.opened_to:
        return True
    return any(counter in lane.unanswered for lane in partition.lanes.of(queue.slot).values())


def is_to_go(turn: Turn, queue: MessageQueue, row: Row) -> bool:
    """Whether a message is to be sent: it lives, or may be at its destination."""
    lives = row.expires_ms is None or row.expires_ms > turn.now.wall_ms
    return lives or in_doubt(turn.partition, queue, row.counter)


def end_doubt(partition: PartitionState, queue: MessageQueue) -> None:
    """End all doubts if the destination is gone, or the queue forwards there no more."""
    if _goes_across(partition, queue):
        return
    lanes = partition.lanes.of(queue.slot).values()
    if queue.opened_to or any(lane.unanswered for lane in lanes):
        queue.opened_to = 0
        for lane in lanes:
            lane.unanswered.clear()
        # Expiry has passed over them.
        partition.due.expires_at(1)


def _goes_across(partition: PartitionState, queue: MessageQueue) -> bool:
    if queue.slot not in partition.forwards.sources:
        return False
    destination = partition.destination_of(queue)
    return destination is not None and not partition.stays(queue, destination)
