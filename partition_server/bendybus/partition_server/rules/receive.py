"""The rules of receiving: asks are served in turn, and what they get is locked for them.

What is given for an ask is *reserved*: the front end has it, the client has not. It becomes
*delivered* when the front end reports it. A stream that ends gives back what was only reserved.

Messages that a front end holds in its cache: reserved for one stream, and how they come back.

`receive` reserves what it gives for an ask: the message is locked, so no other receiver gets it,
and no delivery is counted until the front end hands it to its client. A reservation ends uncounted
when it is released, when its stream ends, or with its lock (see `redeliver`). What the front end
does with its cache is in its `core/receive_cache.py`.

Source: "Service Bus caches the other messages and returns them when it receives more receive
requests"; messages that are "locked and cached in another front end" are received by nobody else.
"""

from operator import itemgetter
from typing import Final

from bendybus.domain import bounds, errors, limits
from bendybus.partition_server.rules import drain, locks, redeliver, session_locks
from bendybus.partition_server.state.answers import Held, Reserved, Withdrawn
from bendybus.partition_server.state.budget import ServeBudget
from bendybus.partition_server.state.commands import (
    Ask,
    Now,
    Release,
    StopDelivering,
    StreamEnded,
    Withdraw,
)
from bendybus.partition_server.state.entity_ref import Caller
from bendybus.partition_server.state.faults import RuleFailed
from bendybus.partition_server.state.message_lock import Lock, OpenAsk
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.session_lock import SessionLock, SessionMessageLock
from bendybus.partition_server.state.session_queue import SessionQueue
from bendybus.partition_server.state.stage import Answer
from bendybus.partition_server.state.turn import Turn

FRAME_ROWS: Final = 500


def ask(turn: Turn, command: Ask) -> None:
    """Open an ask; it is served at the end of the stage. Raises what refuses it."""
    partition = turn.partition
    queue = partition.find(command.entity, turn.now)
    drain.check_receives(partition, queue)
    bounds.check_number("max_messages", command.max_messages, bounds.ASK_MESSAGES_MAX, 1)
    bounds.check_number("max_bytes", command.max_bytes, bounds.BYTES_MAX, 1)
    session_locks.check_receive(queue, command.session_token)
    if len(queue.asks) >= limits.RECEIVERS_PER_ENTITY:
        raise errors.ServerBusy(
            f"{queue.entity.title}: too many pending receives (at most "
            f"{limits.RECEIVERS_PER_ENTITY}). Use fewer receivers.",
            retry_after_ms=1_000,
        )
    stream, ask_id = command.stream, command.ask_id
    if isinstance(queue, SessionQueue):
        session_locks.open_ask(turn, queue, command)
    else:
        queue.asks[stream, ask_id] = OpenAsk(
            stream, ask_id, command.delete, command.max_messages, command.max_bytes
        )
    partition.streams.ask_opened(stream, ask_id, queue.slot)
    turn.stage.served[queue.slot] = queue


def withdraw(turn: Turn, command: Withdraw) -> Withdrawn:
    """Close an ask, if it is still open."""
    partition, stream, ask_id = turn.partition, command.stream, command.ask_id
    slot = partition.streams.slot_of_ask(stream, ask_id)
    # It may have come with its ask: what is there is given first.
    serve(partition, slot, turn.stage.answers, turn.now, ServeBudget())
    partition.streams.ask_closed(stream, ask_id)
    queue = partition.queues.at(slot)
    if queue is not None:
        queue.close_ask((stream, ask_id), turn.now)
    return Withdrawn(ask_id)


def serve(
    partition: PartitionState, slot: int, answers: list[Answer], now: Now, budget: ServeBudget
) -> None:
    """Answer the asks of a queue; what does not fit into the budget goes on in the next turn."""
    queue = partition.queues.at(slot)
    stopped = not partition.delivers
    if queue is None or stopped or _serve(partition, queue, answers, now, budget):
        partition.unserved.pop(slot, None)
    else:
        partition.unserved[slot] = None


def stop(turn: Turn, _: StopDelivering) -> Held:
    """Give receivers no more messages; return how many they hold, and can still settle.

    Locks are not durable: what is handed out shortly before the end could not be settled any more.
    """
    turn.partition.delivers = False
    held = [lock for queue in turn.partition.queues for lock in queue.locks.values()]
    reserved = sum(lock.stream is not None and not lock.delivered for lock in held)
    return Held(sum(lock.delivered for lock in held), reserved)


def _serve(
    partition: PartitionState,
    queue: MessageQueue,
    answers: list[Answer],
    now: Now,
    budget: ServeBudget,
) -> bool:
    """Answer asks with what is there, in turn, each with one frame.

    Returns False when there is more to give or to look at than a turn may take.
    """
    if isinstance(queue, SessionQueue):
        return session_locks.serve(partition, queue, answers, now, budget)
    while queue.asks and len(queue.locks) < limits.LOCKS_PER_QUEUE:
        if budget.spent():
            return False
        key, open_ask = next(iter(queue.asks.items()))
        rows = queue.ready.take(
            min(open_ask.messages, FRAME_ROWS),
            min(open_ask.size_bytes, limits.FRAME_BYTES_MAX),
            now_ms=now.wall_ms,
            store=partition.store,
        )
        budget.passed += queue.ready.passed
        if not rows:
            return not queue.ready.has_ready()
        budget.rows += len(rows)
        budget.size_bytes += sum(row.delivered_bytes() for row in rows)
        try:
            delivery = locks.lock(partition, queue, rows, now, ask=open_ask)
            stream, ask_id = key
            lasts_ms = delivery.lock_remaining_ms
            more, until_ms = queue.ready.has_ready(), now.mono_ms + lasts_ms
            reserved = Reserved(ask_id, delivery, lasts_ms, until_ms, more)
            partition.streams.ask_closed(stream, ask_id)
            queue.close_ask(key, now)
            answers.append(Answer(stream, reserved))
        except Exception as error:
            locks.unlock(queue, [row.counter for row in rows])
            raise RuleFailed(open_ask, error) from error
    return True


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
    close_asks(partition, stream, turn.now)
    for slot in sorted(partition.streams.slots_of(stream)):
        queue = partition.queues.at(slot)
        if isinstance(queue, SessionQueue):
            session_locks.end_stream(turn, queue, stream)
        elif queue is not None:
            _release_reserved(turn, queue, stream)


def close_asks(partition: PartitionState, stream: Caller, now: Now) -> None:
    """Close what a stream asked for; that stays closed, whatever is taken back."""
    for ask_id, slot in partition.streams.asks_of(stream):
        queue = partition.queues.at(slot)
        if queue is not None:
            queue.close_ask((stream, ask_id), now)
        partition.streams.ask_closed(stream, ask_id)


def _release_reserved(turn: Turn, queue: MessageQueue, stream: object) -> None:
    held = [
        (counter, lock)
        for counter, lock in queue.locks.items()
        if lock.stream == stream and not lock.delivered
    ]
    for counter, lock in held:
        redeliver.end_lock(turn, queue, counter, lock)
