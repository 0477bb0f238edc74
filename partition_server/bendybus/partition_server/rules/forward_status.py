"""How forwarding gets on: what waits in each queue that forwards, since when, and why."""

from typing import Final

from bendybus.domain.entity import DEAD_LETTER_SUFFIX, TRANSFER_SUFFIX
from bendybus.domain.errors import BusError
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state.answers import Forwarding, Standstill
from bendybus.partition_server.state.commands import Now
from bendybus.partition_server.state.lanes import Lane
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.store.records import COUNTER_MASK, State

PEER_UNAVAILABLE: Final = "PeerUnavailable"
_SUFFIXES: Final = {
    SubQueue.DEAD_LETTER: f"/{DEAD_LETTER_SUFFIX}",
    SubQueue.TRANSFER: f"/{TRANSFER_SUFFIX}",
}
# How many rows are looked at for the oldest message that waits.
LOOK_ROWS: Final = 100


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
        _oldest_age_ms(partition, queue, now),
        forwards.forwarded[slot],
        forwards.set_aside[slot],
        _standstills(partition, queue, now),
    )


def _oldest_age_ms(partition: PartitionState, queue: MessageQueue, now: Now) -> int | None:
    """Return how long the oldest active message has been there, None if none is found."""
    if not queue.state.active:
        return None
    found = partition.store.summaries(queue.slot, 0, COUNTER_MASK, LOOK_ROWS)
    times = (each.enqueued_ms for each in found if each.state == State.ACTIVE)
    oldest_ms = next(times, None)
    return None if oldest_ms is None else max(0, now.wall_ms - oldest_ms)


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
