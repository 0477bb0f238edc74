"""The rules of settling: what becomes of a locked message.

locked ──complete──► gone                       (delete mode: ──deliver──► gone)
       ──abandon──► see `redeliver`
       ──release──► ready, uncounted
       ──defer──► deferred (received by number only)
       ──dead-letter──► dead-letter sub-queue, with a number of its own there
       ──renew──► locked for a whole lock duration more

A frame that does not fit into one turn goes on in later ones; see `state.unfinished_work`.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from bendybus.domain import bounds, errors, lock_token
from bendybus.domain.disposition import Disposition
from bendybus.domain.errors import BusError
from bendybus.partition_server.rules import (
    application_properties,
    dead_letter,
    defer,
    delays,
    expire,
    locks,
    redeliver,
    session_locks,
)
from bendybus.partition_server.state import faults
from bendybus.partition_server.state.answers import Delivered, Settled
from bendybus.partition_server.state.commands import Deliver, Settle
from bendybus.partition_server.state.due_times import Sweep
from bendybus.partition_server.state.message_lock import Lock
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.session_lock import SessionMessageLock
from bendybus.partition_server.state.session_queue import SessionQueue
from bendybus.partition_server.state.stage import check_numbers
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.state.unfinished_work import Unsettled
from bendybus.partition_server.store.records import row_id

Failures = list[tuple[int, BusError]]


def settle(turn: Turn, command: Settle) -> Settled | None:
    """Settle token by token; those that cannot be are failures, by index.

    Returns None where the turn may do no more: the rest is answered in a later one.
    """
    bounds.check_settlement(
        command.tokens,
        len(command.changed_properties or b""),
        command.dead_letter_reason,
        command.dead_letter_error_description,
    )
    if command.delay_ms:
        delays.check(command)
    if command.sub_queue and _is_elsewhere(turn, command):
        return refused(command, locks.lost())
    if command.disposition is Disposition.COMPLETE:
        # Frees pages and writes none, so that the size of messages does not matter.
        count, lost = _complete(turn, command.tokens, command.entity_uid)
        gone = _gone(turn, command) if lost else locks.lost()
        failures: Failures = [(index, gone) for index in lost]
        if command.settler_id:
            failures = _remember(turn, command, failures, gone)
        return Settled(command.settle_id, count, failures)
    if command.disposition is Disposition.RENEW_LOCK:
        return _renew(turn, command)
    return _go_on(turn, Unsettled(command, count=_count(command)))


def settle_whole(turn: Turn, command: Settle) -> Settled:
    """Settle every token, as part of a unit; what is done until one cannot be is to be taken back.

    Raises MessageLockLost, SessionLockLost, or what refuses a token.
    """
    count = _count(command)
    if command.disposition is Disposition.COMPLETE:
        _, lost = _complete(turn, command.tokens, command.entity_uid)
        if lost:
            raise _gone(turn, command)
    elif command.disposition is Disposition.RENEW_LOCK:
        renewed = _renew(turn, command)
        if renewed.failures:
            raise renewed.failures[0][1]
        return renewed
    else:
        perform = DISPOSITIONS[command.disposition]
        found = locks.find(turn.partition, command.tokens, turn.now, command.entity_uid)
        for queue, counter, lock in found:
            if lock is None:
                raise _gone(turn, command)
            perform(turn, command, queue, counter, lock)
    return Settled(command.settle_id, count)


def refused(command: Settle, error: BusError) -> Settled:
    """Return the answer to a settlement that fails as a whole."""
    count = _count(command) or 1
    return Settled(command.settle_id, count, [(i, error) for i in range(count)])


def deliver(turn: Turn, command: Deliver) -> Delivered | None:
    """Mark reserved messages as delivered; in delete mode, delete them."""
    lost: list[int] = []
    bounds.check_tokens(command.tokens)
    for index, (_, _, lock) in enumerate(locks.find(turn.partition, command.tokens, turn.now)):
        if lock is None:
            lost.append(index)
        elif lock.delete:
            # A receiver has one mode: all of them are to be deleted.
            _, lost = _complete(turn, command.tokens)
            return Delivered(command.deliver_id, lost)
        else:
            lock.delivered = True
    answered = False
    if command.deliver_id:
        # The receiver of a session may wait for this: what was recalled comes again, in order.
        queue, _, _ = next(locks.find(turn.partition, command.tokens, turn.now))
        answered = isinstance(queue, SessionQueue)
    return Delivered(command.deliver_id, lost) if lost or answered else None


def sweep(turn: Turn) -> None:
    """End expired messages that came back, then go on with settlements."""
    unfinished, budget, least = turn.partition.unfinished, turn.budget, 1
    for id_ in unfinished.expired(budget.rows_left):
        if budget.spent() and not least:
            return
        again = partial(expire.expire_returned, turn, id_)
        if turn.attempt(Sweep.UNFINISHED.name, "", again):
            # Found with all that has expired, after a while.
            turn.partition.faults.skip(Sweep.EXPIRY, 0, turn.now.mono_ms)
        unfinished.looked(turn.stage, id_)
        budget.spend()
        least = 0
    for unsettled in unfinished.settlements():
        if budget.spent() and not least:
            return
        if turn.careful:
            settled = _go_on_careful(turn, unsettled, least=least)
        else:
            settled = _go_on(turn, unsettled, least=least)
        if settled is not None:
            turn.stage.answer(unsettled.command.stream, settled)
        least = 0


def _go_on_careful(turn: Turn, unsettled: Unsettled, *, least: int) -> Settled | None:
    """Go on with a settlement; if that raises, it ends here."""
    outcomes: list[Settled | None] = []
    failed = turn.attempt(
        Sweep.UNFINISHED.name, "", lambda: outcomes.append(_go_on(turn, unsettled, least=least))
    )
    if failed is None:
        return outcomes[0]
    error = faults.internal_error(turn.partition.index, Settle.__name__, "")
    rest = [(i, error) for i in range(unsettled.start, unsettled.count)]
    turn.partition.unfinished.ended(turn.stage, unsettled)
    return Settled(unsettled.command.settle_id, unsettled.count, [*unsettled.failures, *rest])


def _go_on(turn: Turn, unsettled: Unsettled, *, least: int = 0) -> Settled | None:
    """Settle what is left of a frame; None if the turn may do no more before its end.

    `least`: this many are settled whatever the budget says.
    """
    size, start, budget = lock_token.TOKEN_BYTES, unsettled.start, turn.budget
    command = unsettled.command
    rest = replace(command, tokens=command.tokens[start * size :]) if start else command
    # One error for all of them: a frame may have many.
    gone = _gone(turn, command)
    failures: Failures = []
    index, stopped = -1, False
    found = locks.find(turn.partition, rest.tokens, turn.now, rest.entity_uid)
    perform = DISPOSITIONS[command.disposition]
    for index, (queue, counter, lock) in enumerate(found):
        if lock is None:
            failures.append((index, gone))
            continue
        if least <= 0 and budget.spent():
            stopped = True
            break
        least -= 1
        try:
            perform(turn, rest, queue, counter, lock)
        except BusError as error:
            failures.append((index, error))
        budget.spend()
    done = index if stopped else index + 1
    if command.settler_id:
        part = replace(rest, tokens=rest.tokens[: done * size]) if stopped else rest
        failures = _remember(turn, part, failures, gone)
    failures = [*unsettled.failures, *((start + i, error) for i, error in failures)]
    if not stopped:
        if unsettled.waiting:
            turn.partition.unfinished.ended(turn.stage, unsettled)
        return Settled(command.settle_id, unsettled.count, failures, begun=start)
    if not unsettled.waiting:
        _keep(turn, rest.tokens[done * size :], rest.entity_uid)
    return turn.partition.unfinished.stop(turn.stage, unsettled, start + done, failures)


def _is_elsewhere(turn: Turn, command: Settle) -> bool:
    """Whether a lock is not of the sub-queue, or not of the message, that the caller names."""
    found = locks.find(turn.partition, command.tokens, turn.now, command.entity_uid)
    for queue, counter, lock in found:
        if lock is None:
            continue
        if queue.state.sub_queue != command.sub_queue:
            return True
        if command.message_id:
            envelope = turn.partition.store.envelope(row_id(queue.slot, counter))
            if envelope is None or envelope.row.message_id != command.message_id:
                return True
    return False


def _keep(turn: Turn, tokens: bytes, entity_uid: str) -> None:
    """Let the locks of what is settled in a later turn not end before it."""
    for queue, counter, lock in locks.find(turn.partition, tokens, turn.now, entity_uid):
        if lock is None:
            continue
        until_ms = turn.now.mono_ms + queue.entity.description.lock_duration_ms
        if isinstance(lock, SessionMessageLock) and isinstance(queue, SessionQueue):
            if until_ms > lock.session.until_mono_ms:
                queue.extend_session(lock.session, until_ms)
        elif until_ms > lock.until_mono_ms:
            queue.extend_lock(counter, lock, until_ms)


def _remember(turn: Turn, command: Settle, failures: Failures, gone: BusError) -> Failures:
    """Note what is settled now; return the failures without what was settled before."""
    tokens, size, stage = command.tokens, lock_token.TOKEN_BYTES, turn.stage
    done = tokens
    if failures:
        failed = {index for index, _ in failures}
        rest = (i for i in range(len(tokens) // size) if i not in failed)
        done = b"".join([tokens[i * size : i * size + size] for i in rest])
    if command.repeat and failures:
        lost = {tokens[i * size : i * size + size] for i, error in failures if error is gone}
        settlers = turn.partition.settlers
        before = settlers.among(command.settler_id, command.disposition, lost)
        for settler_id, disposition, settled in stage.settled:
            if (settler_id, disposition) == (command.settler_id, command.disposition):
                before.update(settled[i : i + size] for i in range(0, len(settled), size))
        failures = [
            (index, error)
            for index, error in failures
            if error is not gone or tokens[index * size : index * size + size] not in before
        ]
    if not stage.settled:
        stage.journal.later(_be_remembered, turn)
    stage.settled.append((command.settler_id, command.disposition, done))
    return failures


def _be_remembered(turn: Turn) -> None:
    remember, mono_ms = turn.partition.settlers.remember, turn.now.mono_ms
    for settler_id, disposition, tokens in turn.stage.settled:
        remember(settler_id, disposition, tokens, mono_ms)


def _gone(turn: Turn, command: Settle) -> BusError:
    """Return the error for tokens that lead to no lock: what the caller lost."""
    token = command.session_token
    if token and session_locks.is_lost(turn.partition, token, command.entity_uid, turn.now):
        return session_locks.lost()
    return locks.lost()


def _renewed_alone() -> BusError:
    return errors.InvalidOperation(
        "the message belongs to a session, whose lock is that of all its messages. Renew the "
        "session."
    )


def _count(command: Settle) -> int:
    return len(command.tokens) // lock_token.TOKEN_BYTES


# One disposition each: (turn, command, queue, counter, lock).


def _complete(turn: Turn, tokens: bytes, entity_uid: str = "") -> tuple[int, list[int]]:
    """Delete locked messages; return how many tokens there were, and which were lost."""
    stage = turn.stage
    lost: list[int] = []
    index, at, touched = -1, locks.NO_QUEUE, None
    ids: list[int] = []
    deferred = size_bytes = 0
    found = locks.find(turn.partition, tokens, turn.now, entity_uid)
    for index, (queue, counter, lock) in enumerate(found):
        if lock is None:
            lost.append(index)
            continue
        if queue is not at or touched is None:
            if touched is not None:
                stage.remove_many(touched, ids, deferred, size_bytes)
            at, touched, ids, deferred, size_bytes = queue, stage.touch(queue), [], 0, 0
        touched.unlocked.append((counter, lock))
        del queue.locks[counter]
        ids.append(row_id(queue.slot, counter))
        deferred += lock.deferred
        size_bytes += lock.size_bytes
    if touched is not None:
        stage.remove_many(touched, ids, deferred, size_bytes)
    return index + 1, lost


def _renew(turn: Turn, command: Settle) -> Settled:
    partition, now = turn.partition, turn.now
    gone = _gone(turn, command)
    failures: Failures = []
    index, lasts_ms = -1, 0
    found = locks.find(partition, command.tokens, now, command.entity_uid)
    for index, (queue, counter, lock) in enumerate(found):
        if lock is None:
            failures.append((index, gone))
            continue
        if isinstance(lock, SessionMessageLock):
            failures.append((index, _renewed_alone()))
            continue
        lasts_ms = queue.entity.description.lock_duration_ms
        queue.extend_lock(counter, lock, now.mono_ms + lasts_ms)
        partition.due.lock_ends.add(lock.until_mono_ms, queue.slot)
    until_ms = now.wall_ms + lasts_ms if lasts_ms else 0
    return Settled(command.settle_id, index + 1, failures, until_ms, lasts_ms)


def _abandon(turn: Turn, command: Settle, queue: MessageQueue, counter: int, lock: Lock) -> None:
    if command.delay_ms:
        delays.check_message(turn, queue, lock)
    if not queue.is_dead_letter:
        # It may have been delivered often enough.
        check_numbers(turn.partition.queues.dead_letters_of(queue))
    before = application_properties.of_locked(turn, queue, counter, lock)
    changed = application_properties.merged(turn, queue, before, command.changed_properties)
    turn.stage.unlock(queue, counter)
    redeliver.count_delivery(turn, queue, counter, lock, changed, delay_ms=command.delay_ms)
    session_locks.recall(turn, queue, counter, lock)


def _release(turn: Turn, command: Settle, queue: MessageQueue, counter: int, lock: Lock) -> None:
    turn.stage.unlock(queue, counter)
    redeliver.give_back(turn, queue, counter, lock, lock.size_bytes)
    session_locks.recall(turn, queue, counter, lock)


def _defer(turn: Turn, command: Settle, queue: MessageQueue, counter: int, lock: Lock) -> None:
    defer.defer(turn, queue, counter, lock, command.changed_properties)


def _dead_letter(
    turn: Turn, command: Settle, queue: MessageQueue, counter: int, lock: Lock
) -> None:
    dead_letter.dead_letter(turn, queue, counter, command)


DISPOSITIONS: Final[dict[Disposition, Callable[[Turn, Settle, MessageQueue, int, Lock], None]]] = {
    Disposition.ABANDON: _abandon,
    Disposition.DEFER: _defer,
    Disposition.DEAD_LETTER: _dead_letter,
    Disposition.RELEASE: _release,
}
