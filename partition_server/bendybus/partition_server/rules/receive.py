"""The rules of receiving: asks are served in turn, and what they get is locked for them.

What is given for an ask is *reserved*: the front end has it, the client has not. It becomes
*delivered* when the front end says so. A stream that ends gives back what was only reserved.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from bendybus.domain import bounds, errors, limits, lock_token, sequence_number
from bendybus.partition_server.rules.settle import Place, Places
from bendybus.partition_server.state.commands import (
    Ask,
    Delivery,
    EntityRef,
    Now,
    ReceiveDeferred,
    Reserved,
    Withdraw,
)
from bendybus.partition_server.state.message_queue import Lock, MessageQueue, OpenAsk
from bendybus.partition_server.state.operation_memory import Operations
from bendybus.partition_server.state.stage import Answer, Stage
from bendybus.partition_server.store.records import COUNTER_MASK, Row, State, row_id

FRAME_ROWS: Final = 500
# Deferred messages of one call, which are one answer.
DEFERRED_MAX: Final = 1_000
DEFERRED_BYTES_MAX: Final = 64 * limits.MB
# What all queues give in one turn; the rest follows in the next, with other work between them.
SERVE_ROWS: Final = 20_000
SERVE_BYTES: Final = 16 * limits.MB


class Serving:
    """What is given in a turn, by all queues together."""

    __slots__ = ("rows", "size_bytes")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin a turn."""
        self.rows = self.size_bytes = 0

    def spent(self) -> bool:
        """Whether the rest must wait for the next turn."""
        return self.rows >= SERVE_ROWS or self.size_bytes >= SERVE_BYTES


class Keeper(Places, Protocol):
    """What reserving needs to know of the partition."""

    lock_generation: int
    operations: Operations
    # Where an open ask waits: (stream, ask id) → slot.
    asks_at: dict[tuple[Any, int], int]

    def find(self, ref: EntityRef, now: Now) -> Place:
        """Return the place that a call is about."""


def open_ask(keeper: Keeper, command: Ask, now: Now) -> Place:
    """Put an ask in the queue's row. Raises the domain error that refuses it."""
    place = keeper.find(command.entity, now)
    status = place.entity.queue.status
    if not status.receives:
        raise errors.EntityDisabled(
            f"queue {place.entity.name!r} is {status}: receiving is disabled. Set its status to "
            "Active.",
            metadata={"entity": place.entity.name, "status": status},
        )
    bounds.check_number("max_messages", command.max_messages, bounds.ASK_MESSAGES_MAX, 1)
    bounds.check_number("max_bytes", command.max_bytes, bounds.BYTES_MAX, 1)
    if len(place.queue.asks) >= limits.RECEIVERS_PER_ENTITY:
        raise errors.ServerBusy(
            f"queue {place.entity.name!r}: {limits.RECEIVERS_PER_ENTITY} receives are waiting "
            "already. Use fewer receivers.",
            retry_after_ms=1_000,
        )
    place.queue.asks[command.stream, command.ask_id] = OpenAsk(
        command.stream, command.ask_id, command.delete, command.max_messages, command.max_bytes
    )
    keeper.asks_at[command.stream, command.ask_id] = place.queue.state.slot
    return place


def withdraw(keeper: Keeper, command: Withdraw) -> None:
    """Forget an ask, if it is still open."""
    slot = keeper.asks_at.pop((command.stream, command.ask_id), None)
    place = None if slot is None else keeper.place(slot)
    if place is not None:
        place.queue.asks.pop((command.stream, command.ask_id), None)


def serve(keeper: Keeper, place: Place, answers: list[Answer], now: Now, serving: Serving) -> bool:
    """Answer the asks of a queue with what is there, in turn, each with one frame.

    Returns False when there is more to give or to look at than a turn may take: serve it again.
    """
    queue = place.queue
    while queue.asks and len(queue.locks) < limits.LOCKS_PER_QUEUE:
        if serving.spent():
            return False
        key, ask = next(iter(queue.asks.items()))
        rows = queue.take(
            min(ask.messages, FRAME_ROWS),
            min(ask.size_bytes, limits.FRAME_BYTES_MAX),
            now_ms=now.wall_ms,
            page=keeper.store.active,
            rows=keeper.store.rows,
        )
        if not rows:
            return not queue.has_ready()
        serving.rows += len(rows)
        serving.size_bytes += sum(len(row.payload) for row in rows)
        del queue.asks[key]
        keeper.asks_at.pop(key, None)
        delivery = _lock(keeper, place, rows, now, ask=ask)
        lasts_ms = place.entity.queue.lock_duration_ms
        more, until_ms = queue.has_ready(), now.mono_ms + lasts_ms
        answers.append(Answer(ask.stream, Reserved(ask.ask_id, delivery, lasts_ms, until_ms, more)))
    return True


def check_counters(keeper: Keeper, counters: Sequence[int], count_max: int) -> None:
    """Raise unless these are numbers that a queue can have given."""
    bounds.check_numbers("sequence_numbers", counters, count_max)
    if max(counters) > COUNTER_MASK:
        # A row's id has no room for it: it would be one of another queue.
        number = sequence_number.compose(keeper.partition, max(counters))
        raise errors.MessageNotFound(f"no message has the sequence number {number}.")


def not_found(
    keeper: Keeper, place: Place, counter: int, state: str, advice: str
) -> errors.MessageNotFound:
    """Return the error for a message that is not there, by the number that its caller knows."""
    number = sequence_number.compose(keeper.partition, counter)
    return errors.MessageNotFound(
        f"queue {place.entity.name!r}: no {state} message has the sequence number {number} "
        f"(partition {keeper.partition}); {advice}.",
        metadata={"entity": place.entity.name, "sequence_number": str(number)},
    )


def receive_deferred_once(
    keeper: Keeper, command: ReceiveDeferred, stage: Stage, now: Now
) -> Delivery:
    """Receive deferred messages; a repeat gets the first delivery while its locks last."""
    known: Delivery | None = keeper.operations.outcome_of(command.operation_id, command.age_ms, now)
    # Locks that ended since then gave the messages back: they are received anew.
    delivery = None if known is None else still_locked(keeper, known, now)
    if delivery is None:
        delivery = receive_deferred(keeper, command, stage, now)
        stage.remember_operation(command.operation_id, delivery)
    return delivery


def receive_deferred(keeper: Keeper, command: ReceiveDeferred, stage: Stage, now: Now) -> Delivery:
    """Lock deferred messages, or delete them; all or none.

    Raises MessageNotFound when a number is none, not deferred, or locked.
    """
    place = keeper.find(command.entity, now)
    if not place.entity.queue.status.receives:
        raise errors.EntityDisabled(
            f"queue {place.entity.name!r} is {place.entity.queue.status}: receiving is disabled. "
            "Set its status to Active.",
            metadata={"entity": place.entity.name},
        )
    check_counters(keeper, command.counters, DEFERRED_MAX)
    queue = place.queue
    rows = _deferred_rows(keeper, queue.state.slot, command.counters)
    found = {
        row.counter
        for row in rows
        if row.state == State.DEFERRED and row.counter not in queue.locks
    }
    missing = [counter for counter in command.counters if counter not in found]
    if missing:
        raise not_found(
            *(keeper, place, missing[0], "deferred", "it may be locked by another receiver")
        )
    if command.delete:
        for row in rows:
            stage.remove_row(queue, row)
        return Delivery(queue.state.slot, rows)
    return _lock(keeper, place, rows, now, ask=None)


def _deferred_rows(keeper: Keeper, slot: int, counters: Sequence[int]) -> list[Row]:
    rows: list[Row] = []
    left_bytes = DEFERRED_BYTES_MAX
    for counter in sorted(set(counters)):
        found = keeper.store.rows([row_id(slot, counter)])
        rows += found
        left_bytes -= sum(len(row.payload) for row in found)
        if left_bytes < 0 and len(rows) > 1:
            raise errors.InvalidArgument(
                "sequence_numbers",
                f"the messages are larger than {DEFERRED_BYTES_MAX // limits.MB} MB together. "
                "Receive fewer at a time.",
            )
    return rows


def still_locked(keeper: Keeper, delivery: Delivery, now: Now) -> Delivery | None:
    """Return a delivery as it is now; None if a lock of it is over."""
    if not delivery.generations:
        return delivery
    place = keeper.place(delivery.slot)
    if place is None:
        return None
    left_ms = place.entity.queue.lock_duration_ms
    for row, generation in zip(delivery.rows, delivery.generations, strict=True):
        lock = place.queue.locks.get(row.id & COUNTER_MASK)
        if lock is None or lock.generation != generation or lock.until_mono_ms <= now.mono_ms:
            return None
        left_ms = min(left_ms, lock.until_mono_ms - now.mono_ms)
    return replace(delivery, locked_until_ms=now.wall_ms + left_ms, lock_remaining_ms=left_ms)


def _lock(
    keeper: Keeper, place: Place, rows: Sequence[Row], now: Now, *, ask: OpenAsk | None
) -> Delivery:
    queue: MessageQueue = place.queue
    until_ms = now.mono_ms + place.entity.queue.lock_duration_ms
    generation, locks = keeper.lock_generation, queue.locks
    generations: list[int] = []
    stream = ask.stream if ask else None
    delete, deferred = bool(ask and ask.delete), ask is None
    counters = [row.id & COUNTER_MASK for row in rows]
    for row, counter in zip(rows, counters, strict=True):
        generation = generation + 1 & lock_token.GENERATION_MASK
        generations.append(generation)
        locks[counter] = Lock(
            generation,
            until_ms,
            stream,
            delete,
            deferred,
            deferred,
            row.delivery_count,
            row.size(),
            row.expires_ms,
            row.changed_properties,
        )
    keeper.lock_generation = generation
    queue.watch_lock(until_ms, list(zip(counters, generations, strict=True)))
    keeper.lock_ends_at(until_ms, queue.state.slot)
    lasts_ms = place.entity.queue.lock_duration_ms
    return Delivery(
        queue.state.slot, rows, generations, now.wall_ms + lasts_ms, lasts_ms, keeper.boot
    )
