"""Drives the rules of one partition without threads: time is passed in, answers are returned."""

from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

from bendybus.domain import lock_token
from bendybus.domain.descriptions import AnyDescription
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Entity, Fingerprint, Origin
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.limits import Tier
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.broker.partition import Partition
from bendybus.partition_server.state.answers import (
    Appended,
    EntityCounts,
    Failed,
    Peeked,
    Reserved,
    Settled,
)
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    Ask,
    Command,
    CommitEntity,
    Counts,
    Deliver,
    EntityRef,
    Now,
    Peek,
    Settle,
)
from bendybus.partition_server.state.stage import Answer, Stage
from bendybus.partition_server.store.errors import Unwritable
from bendybus.partition_server.store.store import Store

START_MS = 1_700_000_000_000


def fingerprint(
    partition: int = 0, *, count: int = 4, tier: Tier = Tier.PREMIUM, uid: str = "ns-1"
) -> Fingerprint:
    """Return the header of a test's file."""
    return Fingerprint("test", uid, tier, count, partition)


def seeded_ids(seed: int) -> Callable[[], UUID]:
    """Return what gives the same ids in each run of a test."""
    random = Random(seed)
    return lambda: UUID(int=random.getrandbits(128), version=4)


class Driver:
    """One partition under test, with a clock that only the test moves."""

    def __init__(self, store: Store, reopen: Callable[[], Store] | None = None) -> None:
        self.store = store
        self._reopen = reopen
        self.wall_ms = START_MS
        self.mono_ms = 1_000_000
        self._new_id = seeded_ids(0)
        self.partition = self._open()
        self.streams: dict[str, list[Any]] = {}
        # A rule is made to raise: what it raises is answered, and not the end of the test.
        self.expects_faults = False
        self._ids = 0

    def _open(self) -> Partition:
        return Partition(
            self.store.open(), self.store, self.now, new_id=self._new_id, clock_hold_ms=300_000
        )

    @property
    def now(self) -> Now:
        """Both clocks."""
        return Now(self.wall_ms, self.mono_ms)

    # Turning the wheel

    def run(self, *commands: Command) -> list[Any]:
        """Run commands as one turn; return the values answered, in order."""
        answers = []
        for group in self.partition.grouped(commands):
            for stage, _ in self.partition.stages(group, self.now):
                if stage.changes:
                    self.store.commit(stage.changes)
                answers += self.partition.apply(stage, self.now)
        answers += self.partition.go_on(self.now)
        while self.partition.state.unserved:
            answers += self.partition.go_on(self.now)
        self._check_faults()
        return [value for _, value in answers]

    def _check_faults(self) -> None:
        """Raise what a rule raised, unless that is expected."""
        faults = self.partition.state.faults.noted
        if faults and not self.expects_faults:
            raise faults[0].error

    def turn(self, *commands: Command) -> tuple[list[Stage], list[Answer]]:
        """Do one turn as a partition's thread does; return its stages and what is answered."""
        partition, stages, answers = self.partition, list[Stage](), list[Answer]()
        for group in partition.grouped(commands):
            stages.append(partition.decide(group, self.now))
            self.store.commit(stages[-1].changes)
            answers += partition.apply(stages[-1], self.now)
        answers += partition.go_on(self.now)
        swept = partition.sweep(self.now)
        if swept is not None:
            stages.append(swept)
            self.store.commit(swept.changes)
            answers += partition.apply(swept, self.now)
        return stages, answers

    def sweep(self) -> list[Any]:
        """Let time do all that is due."""
        answers = []
        for _ in range(1_000):
            stage = self.partition.sweep(self.now)
            if stage is None:
                break
            try:
                if stage.changes:
                    self.store.commit(stage.changes)
            except Unwritable as error:
                self.partition.cannot_write(error, self.now)
                continue
            answers += self.partition.apply(stage, self.now)
        while self.partition.state.unserved:
            answers += self.partition.go_on(self.now)
        self._check_faults()
        return [value for _, value in answers]

    def advance(self, milliseconds: int, *, wall_only: bool = False) -> list[Any]:
        """Move the clocks and sweep."""
        self.wall_ms += milliseconds
        if not wall_only:
            self.mono_ms += milliseconds
            self.partition.state.clock.waiting(self.mono_ms - milliseconds, self.mono_ms)
        self.partition.state.clock.observe(self.now)
        return self.sweep()

    def restart(self) -> None:
        """Lose all that is not stored."""
        if self._reopen is not None:
            self.store = self._reopen()
        self.mono_ms = 5_000
        self.partition = self._open()

    # What clients do

    def create(
        self, name: str = "orders", *, origin: Origin = Origin.CLIENT, **changes: Any
    ) -> Entity:
        """Create a queue; raise what refuses it."""
        action = EntityAction.CREATE
        command = CommitEntity("t", action, name, origin, changes, uid=f"uid-{name}")
        [value] = self.run(command)
        if isinstance(value, Failed):
            raise value.error
        return value

    def put(self, description: AnyDescription, name: str = "orders") -> Entity:
        """Put a queue into the catalogue past the checks of its description."""
        from bendybus.partition_server.state.commands import ApplyEntity

        count = self.partition.state.fingerprint.partition_count
        home = self.partition.state.index
        entity = Entity(name, f"uid-{name}", 1, Origin.CLIENT, description, count, home, 0, 0)
        self.run(ApplyEntity("t", [entity]))
        return entity

    def ref(self, name: str = "orders", *, dead_letter: bool = False) -> EntityRef:
        """Return a reference to a queue as it is now."""
        entity = next(e for e in self.partition.state.catalogue.existing() if e.name == name)
        sub_queue = SubQueue.DEAD_LETTER if dead_letter else SubQueue.MAIN
        return EntityRef(entity.uid, entity.generation, sub_queue)

    def send(self, *payloads: bytes, groups: tuple[int, ...] = (), **columns: Any) -> Appended:
        """Send messages; raise what refuses the frame, or its first failed group."""
        extra = {name: columns.pop(name) for name in list(columns) if name in _APPEND_FIELDS}
        batch = Batch(list(payloads), **columns)
        [value] = self.run(Append("t", self.ref(), batch, groups, **extra))
        if isinstance(value, Failed):
            raise value.error
        if value.failures and not groups:
            raise value.failures[0][1]
        return value

    def reserve(
        self,
        count: int = 1,
        *,
        stream: str = "s",
        delete: bool = False,
        dead_letter: bool = False,
        size_bytes: int = 1 << 24,
    ) -> list[Any]:
        """Ask for messages and return the answers."""
        self._ids += 1
        ref = self.ref(dead_letter=dead_letter)
        return self.run(Ask(stream, self._ids, ref, delete, count, size_bytes))

    def receive(self, count: int = 1, **options: Any) -> list[tuple[Any, bytes]]:
        """Receive and deliver; return (row, token) pairs. What is still asked is withdrawn."""
        from bendybus.partition_server.state.commands import Withdraw

        answers = self.reserve(count, **options)
        stream = options.get("stream", "s")
        self.run(Withdraw(stream, self._ids))
        pairs = [pair for r in answers if isinstance(r, Reserved) for pair in self.tokens(r)]
        if pairs:
            self.run(Deliver(stream, 1, b"".join(token for _, token in pairs)))
        return pairs

    def tokens(self, reserved: Reserved) -> list[tuple[Any, bytes]]:
        """Return (row, token) pairs of a reservation."""
        packed = tokens_of(reserved, self.partition.state.index)
        rows = reserved.delivery.rows
        return [(row, packed[i * 16 : i * 16 + 16]) for i, row in enumerate(rows)]

    def settle(self, disposition: Disposition, *tokens: bytes, **options: Any) -> Settled:
        """Settle; failures are in the answer."""
        [value] = self.run(Settle("s", 1, disposition, b"".join(tokens), **options))
        return value

    def counts(self) -> EntityCounts:
        """Return what the first queue holds."""
        [[counts]] = self.run(Counts("t"))
        return counts

    def counts_of(self, name: str) -> EntityCounts:
        """Return what a queue holds."""
        [[counts]] = self.run(Counts("t", [self.ref(name).uid]))
        return counts

    def peek(self, start: int = 0, count: int = 100, *, dead_letter: bool = False) -> list[Any]:
        """Return rows from a counter on."""
        [peeked] = self.run(Peek("t", self.ref(dead_letter=dead_letter), start, count, 1 << 30))
        assert isinstance(peeked, Peeked), peeked
        return list(peeked.delivery.rows)


_APPEND_FIELDS = ("producer_id", "producer_sequence", "spans", "age_ms", "deadline_mono_ms")


def tokens_of(reserved: Reserved, partition: int = 0) -> bytes:
    """Return the tokens of a reservation, one after the other."""
    delivery = reserved.delivery
    pairs = zip([row.counter for row in delivery.rows], delivery.generations, strict=True)
    return lock_token.pack(partition, delivery.slot, delivery.boot & lock_token.BOOT_MASK, pairs)
