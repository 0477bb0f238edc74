"""A transaction that is being collected: its operations, and the rules that they keep. Pure.

The partition does it whole at the commit (`transactions` hands it over). What can be said before is
said here, with each operation: which entity, which partition, which key, how much. An operation
that is refused is not collected, and the transaction goes on as it was.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bendybus.domain import (
    bounds,
    errors,
    lifecycle,
    limits,
    lock_token,
    message_access,
    partitioning,
    session_access,
    transactions,
)
from bendybus.domain.directory import Directory
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Entity
from bendybus.domain.message_access import Access
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import columns, routing
from bendybus.frontend.upstreams.transaction_calls import (
    Part,
    SendPart,
    SettlePart,
    TransferPart,
)


@dataclass(frozen=True, slots=True)
class Operation:
    """Messages of an entity that are sent as one unit, or settled."""

    entity: str
    sub_queue: SubQueue
    part: Part


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the operations so far have in common, and how much they are."""

    entity: Entity | None = None
    partitions: frozenset[int] = frozenset()
    # Of what is sent to partitioned entities, whichever they are.
    keys: frozenset[str | None] = frozenset()
    # Lock tokens that are settled; a lock may be renewed before that.
    settled: frozenset[bytes] = frozenset()
    # Tokens of the sessions whose messages are settled.
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
        facts = self._facts
        taken: list[Operation] = []
        for operation in operations:
            facts, part = _with(facts, operation, directory)
            taken.append(replace(operation, part=part))
        self.operations.extend(taken)
        self._facts = facts


def _with(facts: _Facts, operation: Operation, directory: Directory) -> tuple[_Facts, Part]:
    """Return the facts with one operation more, and what that is. Raises what refuses it."""
    entity = directory.find(operation.entity)
    sends = isinstance(operation.part, SendPart)
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
            facts = _with_messages(facts, entity, part.messages)
            part = TransferPart(entity, part.messages)
    elif isinstance(part, SettlePart):
        transactions.check_settles(via, entity)
        facts = _with_settle(facts, entity, part)
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


def _with_messages(facts: _Facts, entity: Entity, messages: columns.MessageBatch) -> _Facts:
    """Add messages that are sent to an entity, whichever it is. Raises what refuses them."""
    for fault in columns.faults(messages).values():
        raise fault
    count = columns.count(messages)
    if not count:
        raise errors.InvalidArgument("messages", "the send is empty; send at least one message.")
    if entity.description.requires_session and not columns.all_in_sessions(messages):
        raise session_access.missing(entity)
    # Checked also on a plain entity: what contradicts itself is refused whatever it is sent to.
    effective = set(routing.effective_keys(entity, columns.keys(messages)))
    keys = facts.keys | effective if entity.partitioned else facts.keys
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


def _with_settle(facts: _Facts, entity: Entity, settle: SettlePart) -> _Facts:
    transactions.check_disposition(settle.disposition)
    sessions = facts.sessions
    if settle.session_token:
        bounds.check_session_token(settle.session_token)
        sessions |= {settle.session_token}
        transactions.check_sessions(entity, sessions)
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
