"""Transactions, between listeners and partitions: bounded while they are open, handed over whole.

A transaction is kept here until its commit, and by nothing else: when its stream ends before that,
it is rolled back by being forgotten, and what it was to settle stays locked as before. The commit
is one call to one partition. If its answer is lost, the caller repeats it, through any front end,
with all operations and the same id.

What can be said before the commit is said with each operation: which entity, which partition, which
key, how much. One that is refused is not collected, and the transaction goes on as it was.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bendybus.domain import (
    bounds,
    errors,
    lifecycle,
    limits,
    lock_token,
    message_access,
    partitioning,
    transactions,
)
from bendybus.domain.directory import Directory
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError, GenerationMismatch, Outcome
from bendybus.domain.message_access import Access
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import by_number, columns, routing
from bendybus.frontend.core.metrics import Metrics
from bendybus.frontend.core.quota.quota import Quota
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.settle import SettleRequest
from bendybus.frontend.upstreams import unary_calls
from bendybus.frontend.upstreams.unary_calls import (
    Answer,
    CancelPart,
    Part,
    Result,
    SendPart,
    SettlePart,
    StatePart,
    TransferPart,
)
from bendybus.frontend.upstreams.upstream import Upstream, now_ms

# Parts that make their entity the one that the transaction goes through.
_OF_RECEIVERS: Final = (SettlePart, StatePart)
# How soon a commit is repeated that met another version of the entity at its partition.
RETRY_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Operation:
    """Messages of an entity that are sent as one unit, settled or cancelled, or a session state."""

    entity: str
    sub_queue: SubQueue
    part: Part
    # Whether others of its transaction may be about another queue or topic.
    spans: bool = True


def settle_part(request: SettleRequest) -> SettlePart:
    """Return a settlement as a part of a transaction."""
    return SettlePart(
        request.disposition,
        request.lock_tokens,
        request.changed_properties,
        request.dead_letter_reason,
        request.dead_letter_error_description,
        request.session_token,
    )


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the operations so far have in common, and how much they are."""

    entity: Entity | None = None
    partitions: frozenset[int] = frozenset()
    # Of what is sent to partitioned entities, whichever they are.
    keys: frozenset[str | None] = frozenset()
    # Lock tokens that are settled; a lock may be renewed before that.
    settled: frozenset[bytes] = frozenset()
    # Scheduled messages that are cancelled.
    cancelled: tuple[int, ...] = ()
    # Tokens of the sessions whose messages are settled, or whose state is set.
    sessions: frozenset[bytes] = frozenset()
    messages: int = 0
    content_bytes: int = 0
    # Of all that is kept for it.
    size_bytes: int = 0


class Transaction:
    """One transaction. `began_ms`: when its first operation was, on the caller's clock."""

    def __init__(self, transaction_id: bytes, began_ms: int) -> None:
        size = len(transaction_id)
        if size != limits.TRANSACTION_ID_BYTES:
            raise errors.InvalidArgument(
                "transaction_id", f"must be {limits.TRANSACTION_ID_BYTES} bytes (got {size})."
            )
        self.transaction_id = transaction_id
        self.began_ms = began_ms
        self.operations: list[Operation] = []
        self._facts = _Facts()

    @property
    def entity(self) -> Entity | None:
        """The entity that it is about; None: it has no operations."""
        return self._facts.entity

    @property
    def partition(self) -> int:
        """The partition that has to do it. Only of one with operations."""
        (partition,) = self._facts.partitions
        return partition

    @property
    def size_bytes(self) -> int:
        """How many bytes of operations it holds."""
        return self._facts.size_bytes

    def check_age(self, now_ms: int) -> None:
        """Raise InvalidOperation when its time is over."""
        transactions.check_age(now_ms - self.began_ms)

    def check_size(self) -> None:
        """Raise InvalidOperation unless it can be committed: it holds at least one message."""
        transactions.check_size(self._facts.messages, self._facts.content_bytes)

    def collect(self, operations: Sequence[Operation], directory: Directory) -> None:
        """Add operations, all of them or none. Raises the domain error of the first refused one."""
        facts, taken = self._facts, list(self.operations)
        for operation in operations:
            if facts.entity is not None and not operation.spans:
                other = directory.find(operation.entity)
                transactions.check_top_level(facts.entity, other)
            facts, taken = _led(facts, taken, operation, directory)
            facts, part = _with(facts, operation, directory)
            taken.append(replace(operation, part=part))
        self.operations, self._facts = taken, facts


def _led(
    facts: _Facts, taken: list[Operation], operation: Operation, directory: Directory
) -> tuple[_Facts, list[Operation]]:
    """Let the first settlement decide which entity the transaction is about.

    Programs that process a message in a transaction send what follows from it, then settle it: what
    they sent before goes through its entity, too. Raises what refuses that.
    """
    if facts.entity is None or not isinstance(operation.part, _OF_RECEIVERS):
        return facts, taken
    entity, bound = directory.find(operation.entity), (*_OF_RECEIVERS, CancelPart)
    if entity.uid == facts.entity.uid or any(isinstance(each.part, bound) for each in taken):
        return facts, taken
    facts, again = _Facts(entity), []
    for each in taken:
        if isinstance(each.part, TransferPart):
            each = replace(each, part=SendPart(*each.part[1:]))
        facts, part = _with(facts, each, directory)
        again.append(replace(each, part=part))
    return facts, again


def _with(facts: _Facts, operation: Operation, directory: Directory) -> tuple[_Facts, Part]:
    """Return the facts with one operation more, and what that is. Raises what refuses it."""
    entity = directory.find(operation.entity)
    sends = isinstance(operation.part, SendPart | CancelPart)
    message_access.check(entity, Access.SEND if sends else Access.RECEIVE)
    fingerprint = directory.fingerprint
    assert fingerprint is not None, "entities are known"
    transactions.check_allowed(fingerprint.tier)
    via, part = facts.entity or entity, operation.part
    facts = replace(facts, entity=via)
    if isinstance(part, SendPart):
        _check_target(entity, operation.sub_queue)
        if via.uid == entity.uid:
            facts = _with_send(facts, entity, part.messages)
        else:
            transactions.check_transfers(via, entity)
            facts = _with_messages(facts, entity, part.messages, part.via_keys)
            part = TransferPart(entity, *part)
    elif not isinstance(part, TransferPart):
        transactions.check_settles(via, entity)
        facts = _with_bound(facts, entity, part)
    transactions.check_partitions(via, facts.partitions)
    transactions.check_size(facts.messages, facts.content_bytes)
    return facts, part


def _check_target(entity: Entity, sub_queue: SubQueue) -> None:
    if sub_queue is not SubQueue.MAIN:
        raise errors.InvalidOperation(
            f"{entity.title}: messages cannot be sent to a dead-letter sub-queue. Send to the "
            "queue itself.",
            metadata={"entity": entity.name},
        )
    if entity.orphaned:
        raise lifecycle.refuse_sends(entity.name, entity.kind)


def _with_messages(
    facts: _Facts, entity: Entity, messages: columns.MessageBatch, via_keys: Sequence[str] = ()
) -> _Facts:
    """Add messages that are sent to an entity, whichever it is. Raises what refuses them."""
    count = columns.count(messages)
    if facts.messages + count > limits.TRANSACTION_MESSAGES_MAX:
        # Before the columns are walked.
        transactions.check_size(facts.messages + count, facts.content_bytes)
    for fault in columns.faults(messages).values():
        raise fault
    if not count:
        raise errors.InvalidArgument("messages", "the send is empty; send at least one message.")
    if entity.description.requires_session and not columns.all_in_sessions(messages):
        raise message_access.missing_session(entity)
    # Checked also on a plain entity: what contradicts itself is refused whatever it is sent to.
    effective = routing.effective_keys(entity, columns.keys(messages))
    if via_keys:
        effective = [via or key for via, key in zip(via_keys, effective, strict=True)]
    keys = facts.keys | set(effective) if entity.partitioned else facts.keys
    transactions.check_keys(entity, keys)
    return replace(
        facts,
        keys=keys,
        messages=facts.messages + count,
        content_bytes=facts.content_bytes + sum(columns.content_sizes(messages)),
        size_bytes=facts.size_bytes + messages.ByteSize(),
    )


def _with_send(facts: _Facts, entity: Entity, messages: columns.MessageBatch) -> _Facts:
    facts = _with_messages(facts, entity, messages)
    partitions = {entity.home_partition}
    if entity.partitioned:
        found = (key for key in facts.keys if key is not None)
        partitions = {partitioning.partition_of(key, entity.partition_count) for key in found}
    return replace(facts, partitions=facts.partitions | partitions)


def _with_bound(facts: _Facts, entity: Entity, part: SettlePart | CancelPart | StatePart) -> _Facts:
    """Add an operation that only the entity of the transaction can do. Raises its refusal."""
    if isinstance(part, SettlePart):
        return _with_settle(facts, entity, part)
    if isinstance(part, CancelPart):
        numbers = part.sequence_numbers
        bounds.check_numbers("sequence_numbers", numbers)
        cancelled = (*facts.cancelled, *numbers)
        transactions.check_cancelled(cancelled)
        return replace(
            facts,
            cancelled=cancelled,
            partitions=facts.partitions | {by_number.partition_of(entity, n) for n in numbers},
            messages=facts.messages + len(numbers),
            size_bytes=facts.size_bytes + 8 * len(numbers),
        )
    length = len(part.state or b"")
    return replace(
        facts,
        sessions=_with_session(facts, entity, part.session_token),
        partitions=facts.partitions | {lock_token.partition_of(part.session_token)},
        messages=facts.messages + 1,
        content_bytes=facts.content_bytes + length,
        size_bytes=facts.size_bytes + length + len(part.session_token),
    )


def _with_session(facts: _Facts, entity: Entity, token: bytes) -> frozenset[bytes]:
    bounds.check_session_token(token)
    sessions = facts.sessions | {token}
    transactions.check_sessions(entity, sessions)
    return sessions


def _with_settle(facts: _Facts, entity: Entity, settle: SettlePart) -> _Facts:
    transactions.check_disposition(settle.disposition)
    sessions = facts.sessions
    if settle.session_token:
        sessions = _with_session(facts, entity, settle.session_token)
    changed = settle.changed_properties
    changed_bytes = 0 if changed is None else changed.ByteSize()
    bounds.check_settlement(
        settle.lock_tokens,
        changed_bytes,
        settle.dead_letter_reason,
        settle.dead_letter_error_description,
    )
    if changed is not None:
        columns.check_properties(changed)
    tokens = list(_tokens(settle.lock_tokens))
    settled = facts.settled
    if not settled.isdisjoint(tokens) or len(set(tokens)) < len(tokens):
        raise errors.InvalidOperation(
            f"{entity.title}: a message can be settled only once in a transaction. Leave out "
            "the second settlement.",
            metadata={"entity": entity.name},
        )
    if settle.disposition is not Disposition.RENEW_LOCK:
        settled = settled.union(tokens)
    texts = len(settle.dead_letter_reason) + len(settle.dead_letter_error_description)
    return replace(
        facts,
        settled=settled,
        sessions=sessions,
        partitions=facts.partitions | {lock_token.partition_of(token) for token in tokens},
        messages=facts.messages + len(tokens),
        size_bytes=facts.size_bytes + len(settle.lock_tokens) + changed_bytes + texts,
    )


def _tokens(tokens: bytes) -> Iterable[bytes]:
    size = lock_token.TOKEN_BYTES
    return (tokens[at : at + size] for at in range(0, len(tokens), size))


@dataclass(slots=True, eq=False)
class Open:
    """An open transaction of a connection. Closed by `commit`, by `forget`, and after its time."""

    holder: Holder
    transaction: Transaction
    size_bytes: int = 0
    # The reason if the front end closed it.
    ended: BusError | None = None
    closed: bool = False
    timer: asyncio.TimerHandle | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """How a transaction is committed."""

    # To be collected before.
    operations: Sequence[Operation] = ()
    # What is left of the caller's time; 0: the default.
    timeout_ms: int = 0
    # Since the first commit under its id that may have been done; 0: none was. A repeat brings all
    # operations, and is not late: the first try was in time.
    age_ms: int = 0


class TransactionDispatcher:
    """All transactions of this front end."""

    def __init__(
        self,
        upstreams: dict[int, Upstream],
        directory: Directory,
        metrics: Metrics,
        quota: Quota | None = None,
    ) -> None:
        self._upstreams = upstreams
        self._directory = directory
        self._metrics = metrics
        self._quota = quota or Quota()

    def begin(self, transaction_id: bytes, holder: Holder, *, age_ms: int = 0) -> Open:
        """Open a transaction.

        `age_ms`: since its first operation, on another stream. Raises InvalidArgument, ServerBusy.
        """
        bounds.check_number("age_ms", age_ms, bounds.TIME_MS_MAX)
        opened = Open(holder, Transaction(transaction_id, now_ms() - age_ms))
        if not self._quota.transactions.take(holder, 1):
            raise errors.ServerBusy(
                "too many transactions are open, of this connection, of this policy or of all. "
                "Commit or roll back some, and retry.",
                retry_after_ms=500,
            )
        left_s = max(0.0, (limits.TRANSACTION_MS_MAX - age_ms) / 1000)
        loop = asyncio.get_running_loop()
        opened.timer = loop.call_later(left_s, self._time_out, opened)
        return opened

    def collect(self, opened: Open, operations: Sequence[Operation]) -> None:
        """Add operations, all or none. Raises why not; the transaction then stays as it was."""
        if opened.ended is None:
            opened.transaction.check_age(now_ms())
        self._collect(opened, operations)

    async def commit(self, opened: Open, asked: Commit) -> list[Result]:
        """Have the partition do all of it; return a result for each operation.

        The transaction is closed, whatever the outcome. Raises why nothing of it is done, or
        OutcomeUnknown.
        """
        try:
            answer = await self._commit(opened, asked)
            if answer.refusal is not None:
                raise answer.refusal
        except BusError as error:
            self.forget(opened, "unknown" if error.outcome is Outcome.UNKNOWN else "refused")
            raise
        except BaseException:
            # Its caller is gone.
            self.forget(opened, "unknown")
            raise
        self.forget(opened, "committed")
        self._count(opened.transaction)
        return answer.results

    def forget(self, opened: Open, outcome: str = "rolled-back") -> None:
        """Close a transaction: nothing of it is kept. `outcome`: of the metric."""
        if opened.closed:
            return
        opened.closed = True
        if opened.timer is not None:
            opened.timer.cancel()
        self._quota.transactions.give(opened.holder, 1)
        self._quota.transaction_bytes.give(opened.holder, opened.size_bytes)
        self._metrics.transactions.counts[outcome] += 1

    def open(self) -> int:
        """Return how many transactions are open."""
        return self._quota.transactions.held

    def _collect(self, opened: Open, operations: Sequence[Operation]) -> None:
        if opened.ended is not None:
            # What it would keep now would never be given back.
            raise opened.ended
        transaction = opened.transaction
        self._check_room(opened, operations)
        transaction.collect(operations, self._directory)
        grown = transaction.size_bytes - opened.size_bytes
        opened.size_bytes += grown
        self._quota.transaction_bytes.hold(opened.holder, grown)

    async def _commit(self, opened: Open, asked: Commit) -> Answer:
        bounds.check_number("timeout_ms", asked.timeout_ms, bounds.TIME_MS_MAX)
        bounds.check_number("age_ms", asked.age_ms, bounds.TIME_MS_MAX)
        if not asked.age_ms:
            self.collect(opened, asked.operations)
            return await self._hand_over(opened, asked)
        try:
            self._collect(opened, asked.operations)
            return await self._hand_over(opened, asked)
        except BusError as error:
            raise in_doubt(error) from error

    async def _hand_over(self, opened: Open, asked: Commit) -> Answer:
        if opened.timer is not None:
            # In time; the commit itself may take longer.
            opened.timer.cancel()
        opened.transaction.check_size()
        deadline_ms = now_ms() + (asked.timeout_ms or limits.SEND_TIMEOUT_MS_DEFAULT)
        while True:
            try:
                return await self._ask(opened.transaction, deadline_ms, asked.age_ms)
            except GenerationMismatch:
                # The watch brings the version that the partition has.
                if now_ms() + RETRY_S * 1000 >= deadline_ms:
                    raise
                await asyncio.sleep(RETRY_S)

    async def _ask(self, transaction: Transaction, deadline_ms: int, age_ms: int) -> Answer:
        collected = transaction.entity
        assert collected is not None, "it has operations"
        upstream = self._upstreams.get(transaction.partition)
        if upstream is None:
            raise errors.MessageLockLost(
                f"invalid lock token: this namespace has no partition {transaction.partition}.",
                metadata={"partition": str(transaction.partition)},
            )
        return await unary_calls.transact(
            upstream,
            self._directory.by_uid(collected.uid) or collected,
            [self._as_known_now(operation.part) for operation in transaction.operations],
            transaction_id=transaction.transaction_id,
            age_ms=age_ms,
            deadline_ms=deadline_ms,
        )

    def _as_known_now(self, part: Part) -> Part:
        if not isinstance(part, TransferPart):
            return part
        found = self._directory.by_uid(part.destination.uid)
        return part if found is None else part._replace(destination=found)

    def _check_room(self, opened: Open, operations: Sequence[Operation]) -> None:
        size_bytes = sum(_content_bytes(each.part) for each in operations)
        if not self._quota.transaction_bytes.has(opened.holder, size_bytes):
            raise errors.ServerBusy(
                "open transactions hold too many bytes of messages, those of this connection, of "
                "this policy or of all. Commit or roll back some, and retry.",
                retry_after_ms=500,
            )

    def _count(self, transaction: Transaction) -> None:
        entity = transaction.entity
        for part in (operation.part for operation in transaction.operations):
            if isinstance(part, TransferPart):
                self._metrics.incoming.counts[part.destination.name] += columns.count(part.messages)
            elif isinstance(part, SettlePart):
                count = len(part.lock_tokens) // lock_token.TOKEN_BYTES
                self._metrics.settled.counts[part.disposition.name.lower()] += count
            elif isinstance(part, SendPart) and entity is not None:
                self._metrics.incoming.counts[entity.name] += columns.count(part.messages)

    def _time_out(self, opened: Open) -> None:
        """Let go of what a transaction holds that was not committed in time."""
        try:
            opened.transaction.check_age(now_ms() + limits.TRANSACTION_MS_MAX)
        except BusError as error:
            opened.ended = error
        self.forget(opened, "timed-out")


def in_doubt(error: BusError) -> BusError:
    """Return the error of a repeated commit: only its partition knows what became of the first."""
    return errors.OutcomeUnknown(
        f"{error.message} An earlier commit of the transaction may have been done.",
        metadata={**error.metadata, "cause": error.reason},
    )


def _content_bytes(part: Part) -> int:
    """Return the bytes of messages, or of a session's state, that a part has."""
    if isinstance(part, SendPart | TransferPart):
        return part.messages.ByteSize()
    return len(part.state or b"") if isinstance(part, StatePart) else 0
