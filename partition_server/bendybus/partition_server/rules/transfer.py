"""Messages that a transaction sends to other entities: kept where it settles, forwarded after it.

    transaction ──one commit──► settlements, and the transfer queue of each destination
                                        └── `forward` ──► destination, by the key of each message

Each entity has a transfer queue for every other one that was sent to through it, so that a
destination that takes nothing delays only what is for it. What a message is like is checked here,
against its destination as this partition knows it; whether that exists still, is enabled and has
room is seen when the message gets there.
"""

from collections.abc import Iterator, Sequence

from bendybus.domain import partitioning, transactions
from bendybus.domain.entity import Entity
from bendybus.domain.message_access import Access, check
from bendybus.partition_server.rules import duplicates, room, send
from bendybus.partition_server.rules.send import Appender
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, Transfer
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.records import Row, State

_STATE, _EXPIRES = Row._fields.index("state"), Row._fields.index("expires_ms")
_LIFE = Row._fields.index("time_to_live_ms")
_NUMBER = Row._fields.index("enqueued_sequence_number")


def destination_of(turn: Turn, via: MessageQueue, part: Transfer) -> Entity:
    """Return where messages go.

    Raises EntityNotFound, GenerationMismatch, InvalidOperation, ServerBusy.
    """
    destination = turn.partition.catalogue.resolve(part.destination)
    check(destination, Access.SEND)
    turn.partition.check_fence(destination, turn.now)
    transactions.check_transfers(via.entity, destination)
    return destination


def transfer(turn: Turn, via: MessageQueue, part: Transfer) -> None:
    """Store messages for another entity. Raises what refuses one of them."""
    destination = destination_of(turn, via, part)
    send.check_shape(part.batch, part.group_sizes)
    _check_keys(part.batch)
    queue = _queue(turn, via, destination)
    command = Append(None, part.destination, part.batch, part.group_sizes, measured=part.measured)
    size_bytes = part.batch.content_bytes()
    outcome = _TransferAppender(turn, queue, destination, size_bytes).run(command)
    if outcome.failures:
        raise outcome.failures[0][1]


def _queue(turn: Turn, via: MessageQueue, destination: Entity) -> MessageQueue:
    """Return where messages for a destination are kept."""
    partition, uid = turn.partition, via.entity.uid
    found = partition.queues.transfer_to(uid, destination)
    if found is not None:
        return found
    spare = [known for known in partition.queues.transfers_of(uid) if _is_spare(partition, known)]
    queue = partition.queues.make_transfer(via, destination, spare=len(spare))
    turn.stage.journal.note(_forget, partition, queue)
    partition.watch_forwarding(queue)
    turn.stage.journal.later(_drop_spare, partition, spare)
    return queue


def _is_spare(partition: PartitionState, queue: MessageQueue) -> bool:
    """Whether a transfer queue is empty, and nothing is sent there again.

    Never one that may be sent to again: its numbers would begin again and be taken for known.
    """
    gone = partition.catalogue.by_uid(queue.state.destination) is None
    return gone and not queue.state.size_bytes and not queue.locks


def _drop_spare(partition: PartitionState, spare: Sequence[MessageQueue]) -> None:
    """Let transfer queues go. At the commit: until then one may not be empty yet."""
    for queue in spare:
        if partition.queues.at(queue.slot) is queue and _is_spare(partition, queue):
            partition.queues.drop_transfer(queue)
            _forget(partition, queue)


def _forget(partition: PartitionState, queue: MessageQueue) -> None:
    partition.forwards.drop(queue.slot)
    partition.lanes.drop(queue.slot)


def _check_keys(batch: Batch) -> None:
    """Raise InvalidOperation for keys that contradict each other."""
    for i in range(len(batch.payloads)) if batch.partition_keys else ():
        partitioning.effective_key(
            session_id=duplicates.session_of(batch, i),
            partition_key=batch.partition_keys[i],
            message_id="",
            detects_duplicates=False,
        )


class _TransferAppender(Appender):
    """Appends to a transfer queue: with the room of its entity, and the bounds of the destination.

    Nothing there expires, is a duplicate, or waits for its time: that is for the destination. The
    number that is reserved for a message there is kept as the first that it had.
    """

    def __init__(
        self, turn: Turn, queue: MessageQueue, destination: Entity, size_bytes: int
    ) -> None:
        super().__init__(turn, queue)
        payer = room.payer_of(turn.partition, queue)
        self._payer = payer.entity
        self._room = room.left(turn.partition, payer, turn.now, size_bytes)
        room.grown(turn.partition, payer, size_bytes)
        self._entity = destination
        self._history = None

    def _history_bytes(self, batch: Batch, start: int, end: int) -> int:
        return 0

    def _columns(self, batch: Batch, start: int, end: int, first_id: int) -> Iterator[tuple]:  # type: ignore[type-arg]
        lives = batch.time_to_live_ms[start:end] or [0] * (end - start)
        rows = super()._columns(batch, start, end, first_id)
        numbers = batch.reserved[start:end] or [0] * (end - start)
        for life, number, row in zip(lives, numbers, rows, strict=True):
            columns = list(row)
            columns[_STATE], columns[_EXPIRES], columns[_LIFE] = State.ACTIVE, None, life
            columns[_NUMBER] = number
            yield tuple(columns)
