"""Messages that a front end holds in its cache: reserved for one stream, and how they come back.

`receive` reserves what it gives for an ask: the message is locked, so no other receiver gets it,
and no delivery is counted until the front end hands it to its client. A reservation ends uncounted
when it is released, when its stream ends, or with its lock (see `redeliver`). What the front end
does with its cache is in its `core/receive_cache.py`.

Source: "Service Bus caches the other messages and returns them when it receives more receive
requests"; messages that are "locked and cached in another front end" are received by nobody else.
"""

from operator import itemgetter
from typing import Any

from bendybus.domain import bounds
from bendybus.partition_server.rules import locks, redeliver, session_locks
from bendybus.partition_server.state.commands import Release, StreamEnded
from bendybus.partition_server.state.message_lock import Lock
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.session_lock import SessionLock, SessionMessageLock
from bendybus.partition_server.state.session_queue import SessionQueue
from bendybus.partition_server.state.turn import Turn


def release(turn: Turn, command: Release) -> None:
    """Give back what is still locked; no delivery is counted. Of a session, what follows, too."""
    bounds.check_tokens(command.tokens)
    first: dict[SessionLock, tuple[MessageQueue, int, Lock]] = {}
    for queue, counter, lock in locks.find(turn.partition, command.tokens, turn.now):
        if lock is not None:
            turn.stage.unlock(queue, counter)
            redeliver.give_back(turn, queue, counter, lock, lock.size_bytes)
            if isinstance(lock, SessionMessageLock):
                known = first.setdefault(lock.session, (queue, counter, lock))
                first[lock.session] = min(known, (queue, counter, lock), key=itemgetter(1))
    for queue, counter, lock in first.values():
        session_locks.recall(turn, queue, counter, lock)


def end_stream(turn: Turn, command: StreamEnded) -> None:
    """Close what a stream asked for, and give back what it had reserved."""
    partition, stage, stream = turn.partition, turn.stage, command.stream
    # Its asks of this very group would be opened after its end, and lock for no receiver.
    stage.after[:] = [other for other in stage.after if getattr(other, "stream", None) != stream]
    if stream in partition.watchers:
        partition.watchers.remove(stream)
    stage.ended.append(stream)
    close_asks(partition, stream)
    for slot in sorted(partition.streams.slots_of(stream)):
        queue = partition.queues.at(slot)
        if isinstance(queue, SessionQueue):
            session_locks.end_stream(turn, queue, stream)
        elif queue is not None:
            _release_reserved(turn, queue, stream)


def close_asks(partition: PartitionState, stream: Any) -> None:
    """Close what a stream asked for; that stays closed, whatever is taken back."""
    for ask_id, slot in partition.streams.asks_of(stream):
        queue = partition.queues.at(slot)
        if queue is not None:
            queue.close_ask((stream, ask_id))
        partition.streams.ask_closed(stream, ask_id)


def _release_reserved(turn: Turn, queue: MessageQueue, stream: object) -> None:
    held = [
        (counter, lock)
        for counter, lock in queue.locks.items()
        if lock.stream == stream and not lock.delivered
    ]
    for counter, lock in held:
        redeliver.end_lock(turn, queue, counter, lock)
