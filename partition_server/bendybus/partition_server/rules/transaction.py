"""Transactions: sends and settlements that are done in one commit, or not at all.

The front end collects a transaction and hands it over whole, under an id. It is decided after a
mark (see `state.journal`): one part that is refused takes back all of it, and nothing else of the
stage. Locks are checked, and numbers given, here, at its commit. The outcome is remembered
durably, like those of producers' frames: also that it was refused, so that a first try that comes
late does not do what its repeat was told is not done.

What may be otherwise in a moment (the entity's status and version, room on the disk, the deadline)
is raised before, and not remembered.
"""

from bendybus.domain import bounds, errors, limits, partitioning, transactions
from bendybus.domain.errors import BusError
from bendybus.domain.message_access import Access
from bendybus.partition_server.rules import (
    duplicates,
    locks,
    publications,
    publish,
    schedule,
    send,
    sessions,
    settle,
    transfer,
)
from bendybus.partition_server.rules.publish import Publisher
from bendybus.partition_server.state.answers import Transacted, TransactionPart
from bendybus.partition_server.state.commands import (
    Append,
    CancelPart,
    CancelScheduled,
    Part,
    Settle,
    StatePart,
    Transact,
    TransactAlone,
    Transfer,
)
from bendybus.partition_server.state.session_commands import SetSessionState
from bendybus.partition_server.state.session_lock import SessionMessageLock
from bendybus.partition_server.state.turn import Turn


def transact(turn: Turn, command: Transact) -> Transacted | None:
    """Do all parts of a transaction, or none; a repeat gets the first outcome.

    None: what it sends to a topic takes several turns. Raises what refuses it for now.
    """
    alone = isinstance(command, TransactAlone)
    return publications.decide(turn, command, _transact, alone=alone)


def _transact(turn: Turn, command: Transact) -> Transacted:
    transactions, stage, now = turn.partition.transactions, turn.stage, turn.now
    _check_name(command)
    known = transactions.find(command, now)
    if known is not None:
        return known
    _check_now(turn, command)
    mark = turn.mark()
    outcome = _decide(turn, command)
    if outcome.error is not None:
        turn.take_back_to(mark)
    transactions.remember(command, outcome, now, stage.changes)
    if stage.changes.producers_forgotten and not turn.expiry_held:
        # The next opening compares its clock with the one that says when this was forgotten.
        turn.partition.due.mark(stage.changes, now)
    return outcome


def _check_name(command: Transact) -> None:
    size = len(command.transaction_id)
    if size != limits.TRANSACTION_ID_BYTES:
        raise errors.InvalidArgument(
            "transaction_id", f"must be {limits.TRANSACTION_ID_BYTES} bytes (got {size})."
        )
    bounds.check_producer(command.transaction_id, 0, command.age_ms, command.deadline_mono_ms)


def _check_now(turn: Turn, command: Transact) -> None:
    """Raise what refuses a transaction before its parts are looked at."""
    found = turn.partition.find(command.entity, turn.now, Access.BROWSE)
    send.check_deadline(turn, command.deadline_mono_ms)
    if command.sends():
        send.check_sends(turn, send.target(turn, command.entity), command.deadline_mono_ms)
    for part in command.transfers():
        transfer.destination_of(turn, found, part)
        send.check_room(turn)
    transactions.check_allowed(turn.partition.fingerprint.tier)
    # A part without messages is refused as well, when it is its turn.
    messages = max(command.messages(), len(command.parts))
    transactions.check_size(messages, command.content_bytes())


def _decide(turn: Turn, command: Transact) -> Transacted:
    """Decide part by part, up to the first that is refused."""
    parts: list[TransactionPart] = []
    copies_left = limits.TRANSACTION_COPIES_MAX
    try:
        _check_keys(turn, command)
        _check_cancelled(command)
        for part in command.parts:
            if isinstance(part, Append):
                sent, copies_left = _send(turn, part, copies_left)
                parts.append(sent)
            else:
                parts.append(_do(turn, command, part))
    except BusError as error:
        return Transacted((), len(parts), error)
    return Transacted(parts)


def _do(turn: Turn, command: Transact, part: Part) -> TransactionPart:
    """Do a part other than a send to the transaction's entity."""
    if isinstance(part, Settle):
        return _settle(turn, part)
    if isinstance(part, Transfer):
        return _transfer(turn, command, part)
    if isinstance(part, CancelPart):
        schedule.cancel(turn, CancelScheduled(None, command.entity, part.counters))
    elif isinstance(part, StatePart):
        bounds.check_session_token(part.session_token)
        entity_uid = command.entity.uid
        sessions.set_state(turn, SetSessionState(None, part.session_token, part.state, entity_uid))
    return TransactionPart()


def _check_cancelled(command: Transact) -> None:
    """Raise InvalidOperation for a scheduled message that is cancelled twice: its row is there
    until the commit.
    """
    cancelled = [part.counters for part in command.parts if isinstance(part, CancelPart)]
    transactions.check_cancelled([counter for counters in cancelled for counter in counters])


def _check_keys(turn: Turn, command: Transact) -> None:
    found = turn.partition.find(command.entity, turn.now, Access.BROWSE)
    entity, sends = found.entity, command.sends()
    for part in sends:
        send.check_shape(part.batch, part.group_sizes)
    keys = [
        partitioning.effective_key(
            session_id=duplicates.session_of(part.batch, i),
            partition_key=part.batch.partition_keys[i] if part.batch.partition_keys else "",
            message_id=part.batch.message_ids[i] if part.batch.message_ids else "",
            detects_duplicates=entity.description.requires_duplicate_detection,
        )
        for part in sends
        for i in range(len(part.batch.payloads))
    ]
    transactions.check_keys(entity, keys)
    if entity.partitioned and entity.description.requires_session:
        # What is sent there has its session's id as its key.
        transactions.check_sessions(entity, _sessions(turn, command) | set(keys))


def _sessions(turn: Turn, command: Transact) -> set[str | None]:
    """Return the ids of sessions whose messages are settled; those of lost locks are not known."""
    return {
        lock.session.session_id
        for part in command.parts
        if isinstance(part, Settle)
        for _, _, lock in locks.find(turn.partition, part.tokens, turn.now, part.entity_uid)
        if isinstance(lock, SessionMessageLock)
    }


def _send(turn: Turn, part: Append, copies_left: int) -> tuple[TransactionPart, int]:
    """Return what a part did, and how many copies in subscriptions may follow."""
    appender = publish.appender(turn, send.target(turn, part.entity))
    if isinstance(appender, Publisher):
        appender.in_transaction, appender.copies_left = True, copies_left
    outcome = appender.run(part)
    if outcome.failures:
        raise outcome.failures[0][1]
    if isinstance(appender, Publisher):
        copies_left = appender.copies_left
    return TransactionPart(outcome.numbers, outcome.duplicates), copies_left


def _transfer(turn: Turn, command: Transact, part: Transfer) -> TransactionPart:
    transfer.transfer(turn, turn.partition.find(command.entity, turn.now, Access.BROWSE), part)
    # The messages get their numbers at their destination.
    return TransactionPart()


def _settle(turn: Turn, part: Settle) -> TransactionPart:
    transactions.check_disposition(part.disposition)
    bounds.check_settlement(
        part.tokens,
        len(part.changed_properties or b""),
        part.dead_letter_reason,
        part.dead_letter_error_description,
    )
    if part.session_token:
        bounds.check_session_token(part.session_token)
    settled = settle.settle_whole(turn, part)
    return TransactionPart((), (), settled.locked_until_ms, settled.lock_remaining_ms)
