"""The rules of receiving: asks are served in turn, and what they get is locked for them.

What is given for an ask is *reserved*: the front end has it, the client has not. It becomes
*delivered* when the front end reports it. A stream that ends gives back what was only reserved.
"""

from typing import Final

from bendybus.domain import bounds, errors, limits
from bendybus.partition_server.rules import drain, locks, session_receive
from bendybus.partition_server.state.answers import Reserved, Withdrawn
from bendybus.partition_server.state.budget import ServeBudget
from bendybus.partition_server.state.commands import Ask, Now, Withdraw
from bendybus.partition_server.state.faults import RuleFailed
from bendybus.partition_server.state.message_lock import OpenAsk
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.partition_state import PartitionState
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
    session_receive.check(queue, command.session_token)
    if len(queue.asks) >= limits.RECEIVERS_PER_ENTITY:
        raise errors.ServerBusy(
            f"{queue.entity.title}: too many pending receives (at most "
            f"{limits.RECEIVERS_PER_ENTITY}). Use fewer receivers.",
            retry_after_ms=1_000,
        )
    stream, ask_id = command.stream, command.ask_id
    if isinstance(queue, SessionQueue):
        session_receive.open_ask(turn, queue, command)
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
        queue.close_ask((stream, ask_id))
    return Withdrawn(ask_id)


def serve(
    partition: PartitionState, slot: int, answers: list[Answer], now: Now, budget: ServeBudget
) -> None:
    """Answer the asks of a queue; what does not fit into the budget goes on in the next turn."""
    queue = partition.queues.at(slot)
    if queue is None or _serve(partition, queue, answers, now, budget):
        partition.unserved.pop(slot, None)
    else:
        partition.unserved[slot] = None


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
        return session_receive.serve(partition, queue, answers, now, budget)
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
            del queue.asks[key]
            answers.append(Answer(stream, reserved))
        except Exception as error:
            locks.unlock(queue, [row.counter for row in rows])
            raise RuleFailed(open_ask, error) from error
    return True
