"""How many tasks a write under an idempotencyKey has, as its entity keeps it.

    first task ──► claim: as many as the option says ──► rows        the option may be wrong
    driver, at the end ──► correct: as many as there were, if the claim is of this write

Rows are known by task, so those of another number of tasks would be stored again. Only the driver
knows how many there are, and only when they have ended.
"""

from typing import Final

from bendybus.spark.errors import RowsChangedError
from bendybus.spark.sink.attempt import Attempt, Sender
from bendybus.spark.sink.lane import Fence
from bendybus.spark.sink.routing import Target

_BETWEEN: Final = b" "


def claim(attempt: Attempt, sender: Sender, target: Target) -> None:
    """Have the entity keep how many tasks there are. Raises RowsChangedError for another number.

    STRICTLY BEFORE anything is stored in the entity.
    """
    producer_id, partition = attempt.claim_id(target.path), target.partitions[0]
    wanted = Fence(attempt.epoch, 1, _mark(attempt, attempt.tasks))
    found = sender.fence(partition, producer_id)
    if found.epoch != attempt.epoch or not found.mark:
        # Without a mark, `pipeline fences` took the claim back.
        sender.move(partition, producer_id, wanted, replace=found.epoch == attempt.epoch)
        # Another task may have been first.
        found = sender.fence(partition, producer_id)
    known = tasks_of(found)
    if known != attempt.tasks:
        raise RowsChangedError(
            f"option tasks: {target.path} knows this idempotencyKey from a write of {known} tasks "
            f"(got {attempt.tasks}), and rows would be stored twice; repeat it with as many, or "
            "use another key for another write"
        )


def correct(attempt: Attempt, sender: Sender, tasks: int) -> bool:
    """Have the entity keep how many tasks this write had; return whether it does.

    Only if the claim is of this write, so that all that is stored under the key was dealt to so
    many tasks. STRICTLY AFTER its tasks have ended.
    """
    target = sender.target()
    producer_id, partition = attempt.claim_id(target.path), target.partitions[0]
    if sender.fence(partition, producer_id).mark != _mark(attempt, attempt.tasks):
        return False
    fence = Fence(attempt.epoch, 1, _mark(attempt, tasks))
    sender.move(partition, producer_id, fence, replace=True)
    return True


def tasks_of(fence: Fence) -> int:
    """Return how many tasks a claim says; 0: it was taken back."""
    return int(fence.mark.split(_BETWEEN)[0] or 0)


def _mark(attempt: Attempt, tasks: int) -> bytes:
    return str(tasks).encode() + _BETWEEN + attempt.write.encode()
