"""The partitions of the simulated world, its time and its lines.

Partitions (the real `Partition` on memory stores) take commands and answer over lines that delay,
and that break when a partition crashes. A stalled partition takes nothing and says nothing, then
goes on. What is on the other end of the lines is a subclass: `bus`.
"""

import heapq
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bendybus.domain import errors
from bendybus.domain.entity import Entity, Fingerprint, Origin
from bendybus.domain.entity_settings import QueueDescription
from bendybus.domain.limits import Tier
from bendybus.partition_server.broker.partition import Partition
from bendybus.partition_server.state.commands import ApplyEntity, Command, Now
from bendybus.partition_server.state.stage import Answer
from bendybus.partition_server.store.errors import StoreFull
from tests import sequence_numbers
from tests.partition_server.driver import seeded_ids
from tests.partition_server.memory_store import MemoryStore
from tests.simulation.turn_work import DECIDE_US_MAX, MeteredStore

PARTITIONS = 4
START_MS = 1_700_000_000_000
LOCK_MS = 5_000
ECHO_MS = 1_000


@dataclass
class Node:
    """One partition process: up, crashed or suspended."""

    index: int
    store: MemoryStore
    meter: MeteredStore
    rules: Partition | None = None
    stalled_until: int = 0
    waiting: list[Command] = field(default_factory=list)
    generation: int = 0
    # The front end's stream: what belongs to an older one is never seen.
    stream: int = 0
    # Lines keep their order: nothing arrives before what was sent earlier.
    arrives_there: int = 0
    arrives_here: int = 0


class Partitions(ABC):
    """The partitions, which crash, stall and come back; time in ms."""

    # Of the queue that they hold.
    description = QueueDescription(enable_partitioning=True, lock_duration_ms=LOCK_MS)

    def __init__(self, seed: int, silent_crashes: float) -> None:
        self.random = Random(seed)
        self._new_id = seeded_ids(seed)
        self._silent_crashes = 0.0
        self.now = 1_000_000
        # Rules are made to raise; and how often they did.
        self.expects_faults = False
        self.faults = 0
        self.skew = dict.fromkeys(range(PARTITIONS), 0)
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        description = self.description
        self.entity = Entity("orders", "uid", 1, Origin.CLIENT, description, PARTITIONS, 0, 0, 0)
        self.down: set[int] = set()
        self.nodes = [self._node(index) for index in range(PARTITIONS)]
        self._silent_crashes = silent_crashes

    # What the other end of the lines learns

    @abstractmethod
    def _answered(self, index: int, to: Any, value: Any) -> None:
        """Take an answer of a partition."""

    @abstractmethod
    def _lost(self, index: int) -> None:
        """Learn that a partition is gone."""

    @abstractmethod
    def _returned(self, index: int) -> None:
        """Learn that a partition is back."""

    @abstractmethod
    def _stalled(self, index: int, why: str) -> None:
        """Learn that a partition does not answer in time."""

    # World

    def after(self, milliseconds: int, action: Callable[[], None]) -> None:
        """Let something happen later."""
        heapq.heappush(self._events, (self.now + milliseconds, next(self._order), action))

    def run_until(self, time: int) -> None:
        """Let everything happen that is due by `time`."""
        while self._events and self._events[0][0] <= time:
            self.now, _, action = heapq.heappop(self._events)
            action()
        self.now = time

    def line(self) -> int:
        """Return how long one message takes."""
        return self.random.randint(0, 5)

    # Partitions

    def _node(self, index: int) -> Node:
        fingerprint = Fingerprint("sim", "ns", Tier.PREMIUM, PARTITIONS, index)
        store = MemoryStore(fingerprint)
        node = Node(index, store, MeteredStore(store))
        self._boot(node)
        self._turn(node, [ApplyEntity("setup", [self.entity])])
        return node

    def clocks(self, node: Node) -> Now:
        """Return a partition's clocks; its wall clock may be wrong."""
        return Now(START_MS + self.now + self.skew[node.index], self.now)

    def _boot(self, node: Node) -> None:
        node.generation += 1
        # A clock that goes on while a turn lasts: what can be divided over turns is.
        clock_ms = itertools.count(0, 20).__next__
        node.rules = Partition(
            node.store.open(),
            node.meter,
            self.clocks(node),
            new_id=self._new_id,
            clock_ms=clock_ms,
        )
        node.waiting.clear()

    def crash(self, index: int) -> None:
        """Kill a partition: what it had not stored is gone, its lines break."""
        node = self.nodes[index]
        node.rules = None
        node.generation += 1
        node.stalled_until = 0
        self.down.add(index)
        self.after(self.line(), lambda: self._lost(index))

    def restart(self, index: int) -> None:
        """Start a crashed partition again."""
        node = self.nodes[index]
        if node.rules is None:
            self._boot(node)
            self.after(self.line() + 50, lambda: self._back(index, node.generation))

    def stall(self, index: int, milliseconds: int) -> None:
        """Suspend a partition; its echo is late after a while."""
        node = self.nodes[index]
        if node.rules is None or node.stalled_until > self.now:
            return
        until = node.stalled_until = self.now + milliseconds
        generation = node.generation

        def late() -> None:
            if node.generation == generation and node.stalled_until > self.now:
                self.down.add(index)
                self._stalled(index, "its echo is late")

        def wake() -> None:
            if node.generation == generation:
                self._back(index, generation)
                self._step(node)

        self.after(ECHO_MS, late)
        self.after(until - self.now + 1, wake)

    def fill_disk(self, index: int) -> None:
        """Let the partition's next commit find no room."""
        self.nodes[index].store.fail_next = StoreFull("no room")

    def jump_clock(self, index: int, milliseconds: int) -> None:
        """Set a partition's wall clock off."""
        self.skew[index] += milliseconds

    def _back(self, index: int, generation: int) -> None:
        node = self.nodes[index]
        if node.rules is None or node.generation != generation:
            return
        self.down.discard(index)
        self._returned(index)

    def _command(self, index: int, command: Command) -> None:
        """Send a command to a partition over its line."""
        node = self.nodes[index]
        generation = node.generation

        def arrive() -> None:
            if node.generation == generation and node.rules is not None:
                node.waiting.append(command)
                self._step(node)

        node.arrives_there = max(node.arrives_there, self.now + self.line())
        self.after(node.arrives_there - self.now, arrive)

    def _step(self, node: Node) -> None:
        """Let a partition work, unless it is suspended."""
        if node.rules is None or node.stalled_until > self.now:
            return
        now = self.clocks(node)
        gap = node.rules.state.clock.observe(now)
        if gap:
            node.rules.state.extend_locks(gap)
        node.rules.state.clock.waiting(self.now, self.now + 500)
        commands, node.waiting = node.waiting, []
        self._turn(node, commands)
        for _ in range(3):
            # A commit may have been the last thing that the process did.
            rules: Partition | None = node.rules
            stage = rules.sweep(self.clocks(node)) if rules is not None else None
            if stage is None:
                break
            self._commit(node, stage)
        rules = node.rules
        if rules is not None:
            self._tell(node, rules.go_on(self.clocks(node)))
            for fault in rules.state.faults.take():
                self.faults += 1
                if not self.expects_faults:
                    raise fault.error

    def _turn(self, node: Node, commands: list[Command]) -> None:
        for group in Partition.grouped(commands):
            if node.rules is None:
                return
            for stage, _ in node.rules.stages(group, self.clocks(node)):
                self._commit(node, stage)
                # The commit may have been the last thing that the process did.
                if node.rules is None:
                    return

    def _commit(self, node: Node, stage: Any) -> None:
        rules, now = node.rules, self.clocks(node)
        assert rules is not None
        assert node.meter.end(stage.changes) <= DECIDE_US_MAX, "a turn decided for too long"
        # A crash between the commit and the answers: stored, but nobody is told.
        silent = bool(stage.changes) and self.random.random() < self._silent_crashes
        try:
            if stage.changes:
                node.store.commit(stage.changes)
            answers = rules.apply(stage, now)
        except StoreFull:
            answers = rules.abandon(stage, errors.PartitionUnavailable("no room"), now)
        if silent:
            self.crash(node.index)
            self.after(self.random.randint(100, 3_000), lambda: self.restart(node.index))
            return
        self._tell(node, answers)

    def _tell(self, node: Node, answers: list[Answer]) -> None:
        generation = node.generation
        for to, value in answers:
            if to != "setup":
                node.arrives_here = max(node.arrives_here, self.now + self.line())
                self.after(node.arrives_here - self.now, self._answer(node, generation, to, value))

    def _answer(self, node: Node, generation: int, to: Any, value: Any) -> Callable[[], None]:
        def arrive() -> None:
            broken = isinstance(to, str) and to != self._stream(node.index)
            if node.generation == generation and not broken:
                self._answered(node.index, to, value)

        return arrive

    def _stream(self, index: int) -> str:
        return f"fe-{self.nodes[index].stream}"

    def stored(self) -> dict[int, str]:
        """Return what the queue holds in all partitions, by sequence number."""
        return {
            sequence_numbers.of(node.index, row.counter): row.payload.decode()
            for node in self.nodes
            for row in node.store.browse(0, 0, 1 << 30, 1 << 60)
        }
