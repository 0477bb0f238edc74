"""Messages without a key that their partition has no room for: another one of the destination.

Without a key a message goes to the partition that it is in. If there is no room for it, which is a
definite refusal, it goes on to the next partition that answers and is not known to be full. That is
stored before the first attempt and changes only after the next definite refusal: until then a
message may be stored where it was sent.
"""

from bendybus.domain import errors
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import Row


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
