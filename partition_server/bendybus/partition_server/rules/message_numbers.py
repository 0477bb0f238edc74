"""Sequence numbers that callers name messages by."""

from collections.abc import Sequence

from bendybus.domain import bounds, errors, sequence_number
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.store.records import COUNTER_MASK


def check(partition: PartitionState, counters: Sequence[int], count_max: int) -> None:
    """Raise unless these are numbers that a queue can have given."""
    bounds.check_numbers("sequence_numbers", counters, count_max)
    if max(counters) > COUNTER_MASK:
        # A row's id has no room for it: it would be one of another queue.
        number = sequence_number.compose(partition.index, max(counters))
        raise errors.MessageNotFound(f"no message has the sequence number {number}.")


def not_found(
    partition: PartitionState, queue: MessageQueue, counter: int, state: str, advice: str
) -> errors.MessageNotFound:
    """Return the error for a message that is not there, by the number that its caller knows."""
    number = sequence_number.compose(partition.index, counter)
    return errors.MessageNotFound(
        f"{queue.entity.title}: no {state} message has the sequence number {number} "
        f"(partition {partition.index}); {advice}.",
        metadata={"entity": queue.entity.name, "sequence_number": str(number)},
    )
