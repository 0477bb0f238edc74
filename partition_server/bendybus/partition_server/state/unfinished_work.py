"""Settlements and releases still in progress, in order: what did not fit into one turn.

A settlement is answered at its end, token by token; what its earlier turns committed stays,
whatever becomes of the rest. Expired messages that were given back when the budget was spent are
processed in a later turn; a restart forgets them here, and the sweep of expired messages finds
them.

Batch deletes that did not fit into one turn are here as well; the rule is `rules.batch_delete`.
"""

from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final

from bendybus.domain import errors, limits, lock_token
from bendybus.domain.errors import BusError
from bendybus.partition_server.state.answers import Done, Failed, Settled
from bendybus.partition_server.state.commands import Now, Settle
from bendybus.partition_server.state.entity_ref import Caller
from bendybus.partition_server.state.outcomes import Operations
from bendybus.partition_server.state.shares import Shares
from bendybus.partition_server.state.stage import Answer, Stage, failure_of
from bendybus.partition_server.store.records import State

# What all settlements that wait may take: their tokens, changed properties and texts.
BYTES_MAX: Final = 32 * limits.MB
# What a settlement takes beside these, roughly.
ENTRY_BYTES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A settlement on its way."""

    command: Settle
    # How many tokens it has.
    count: int
    # Those before this one are settled, or failed, and committed.
    start: int = 0
    # Of those before.
    failures: tuple[tuple[int, BusError], ...] = ()
    # It was stopped before.
    waiting: bool = False


class Unfinished:
    """The work in progress, in order."""

    def __init__(self) -> None:
        self._settlements: deque[Unsettled] = deque()
        # By slot.
        self._sizes: Shares[int] = Shares()
        # Row ids of expired messages that are no longer locked.
        self._expired: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._settlements) + len(self._expired)

    def callers(self) -> list[Caller]:
        """Return who waits for the end of a settlement."""
        return [unsettled.command.stream for unsettled in self._settlements]

    def settlements(self) -> list[Unsettled]:
        """Return what goes on, in its order."""
        return list(self._settlements)

    def expired(self, limit: int) -> list[int]:
        """Return row ids of messages that may have expired."""
        return list(islice(self._expired, limit))

    def stop(
        self, stage: Stage, before: Unsettled, settled: int, failures: list[tuple[int, BusError]]
    ) -> Settled | None:
        """Let a settlement go on in a later turn, from token `settled` on.

        Returns None, or its end if too many wait already.
        """
        added_bytes = 0 if before.waiting else size_bytes(before.command)
        slot = lock_token.slot_of(before.command.tokens)
        if added_bytes and not self._sizes.has_room(slot, added_bytes, BYTES_MAX):
            busy = errors.ServerBusy(
                "too many settlements of this entity are waiting in the partition. Repeat this "
                "one.",
                retry_after_ms=1_000,
            )
            rest = [(i, busy) for i in range(settled, before.count)]
            return Settled(before.command.settle_id, before.count, [*failures, *rest])
        # What a repeat of the same frame settles meanwhile is done, not lost.
        command = replace(before.command, repeat=bool(before.command.settler_id))
        after = Unsettled(command, before.count, settled, tuple(failures), waiting=True)
        self._step(stage, before, after)
        if added_bytes:
            stage.journal.note(self._sizes.put, slot, self._sizes.of(slot), self._sizes.total)
            self._sizes.add(slot, added_bytes)
        return None

    def ended(self, stage: Stage, before: Unsettled) -> None:
        """Note that a stage ends a settlement that waited."""
        self._step(stage, before, None)

    def expire_later(self, stage: Stage, id_: int) -> None:
        """Look again at an expired message that came back, in a turn that has room for it."""
        stage.journal.later(self._expired.__setitem__, id_, None)

    def looked(self, stage: Stage, id_: int) -> None:
        """Note that a stage has processed it."""
        stage.journal.later(self._expired.pop, id_, None)

    def _step(self, stage: Stage, before: Unsettled, after: Unsettled | None) -> None:
        stage.steps.append(partial(self._failed, before, after))
        stage.journal.later(self._replace, before, after)

    def _failed(
        self, before: Unsettled, after: Unsettled | None, error: BusError, _: Now
    ) -> Answer | None:
        """Forget a settlement whose step could not be written."""
        self._replace(before, None)
        if after is None:
            return None
        command, failures = before.command, before.failures
        value = Settled(command.settle_id, before.count, failures, begun=before.start)
        return Answer(command.stream, failure_of(value, error))

    def _replace(self, before: Unsettled, after: Unsettled | None) -> None:
        if before.waiting:
            self._settlements.remove(before)
        if after is not None:
            self._settlements.append(after)
        elif before.waiting:
            slot = lock_token.slot_of(before.command.tokens)
            self._sizes.add(slot, -size_bytes(before.command))


def size_bytes(command: Settle) -> int:
    """Return what a settlement that waits takes in memory, roughly."""
    texts = len(command.dead_letter_reason) + len(command.dead_letter_error_description)
    return ENTRY_BYTES + len(command.tokens) + len(command.changed_properties or b"") + texts


# Batch deletes of one partition that are under way.
DELETIONS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Deletion:
    """A batch delete on its way through a queue: what does not fit in one turn goes on in the next.

    Only its end is answered, so that fewer than were asked for means that there are no more.
    """

    reply_to: Caller
    slot: int
    uid: str
    left: int
    before_ms: int
    states: frozenset[State]
    start: int = 0
    deleted: int = 0
    # See `outcomes.name_of`.
    name: bytes = b""

    def stopped(self, operations: Operations, now: Now) -> None:
        """Let a repeat get what was deleted until a step failed: it must not delete more."""
        if self.name and self.deleted:
            operations.remember(self.name, Done(self.deleted), now)


class Deletions:
    """The batch deletes that wait for their next step."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._waiting: deque[Deletion] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def has_room(self, uid: str) -> bool:
        """Whether another batch delete of an entity may begin."""
        places: Shares[str] = Shares()
        for deletion in self._waiting:
            places.add(deletion.uid, 1)
        return places.has_room(uid, 1, DELETIONS_MAX)

    def first(self) -> Deletion:
        """Return the one whose turn it is."""
        return self._waiting[0]

    def callers(self) -> list[Caller]:
        """Return who waits for the end of a batch delete."""
        return [deletion.reply_to for deletion in self._waiting]

    def take_over(self, name: bytes, reply_to: Caller) -> bool:
        """Answer a repeat at the end of what is under way; return False if nothing is."""
        for index, deletion in enumerate(self._waiting):
            if name and deletion.name == name:
                # The caller that repeats it does not wait for the first answer any more.
                self._waiting[index] = replace(deletion, reply_to=reply_to)
                return True
        return False

    def step(self, stage: Stage, before: Deletion, after: Deletion | None) -> None:
        """Note that a stage is a step of a batch delete; None: its last one, which answers."""
        stage.steps.append(partial(self._failed, before, after))
        stage.journal.later(self._replace, before, after)

    def _failed(
        self, before: Deletion, after: Deletion | None, error: BusError, now: Now
    ) -> Answer | None:
        """Forget a batch delete whose step could not be written."""
        self._replace(before, None)
        before.stopped(self._operations, now)
        return None if after is None else Answer(before.reply_to, Failed(error))

    def _replace(self, before: Deletion, after: Deletion | None) -> None:
        if self._waiting and self._waiting[0] is before:
            self._waiting.popleft()
        if after is not None:
            self._waiting.append(after)
