"""A whole bus without network, threads or clocks: real rules, a seeded world.

Partitions (the real `Partition` on memory stores) and one front end (the real `SendAttempts` and
`Cache`s) exchange messages over lines that delay, and that break when a partition crashes. A
stalled partition takes nothing and says nothing, then goes on. Everything that happens is drawn
from one seed, so that a failure can be seen again.
"""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from bendybus.domain import errors, lock_token, sequence_number
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Entity, Fingerprint, Origin, QueueDescription
from bendybus.domain.limits import Tier
from bendybus.frontend.core import routing
from bendybus.frontend.core.receive_actions import (
    AskPartition,
    ClientAsk,
    GiveBack,
    HandOver,
    WithdrawAsk,
)
from bendybus.frontend.core.receive_cache import Cache
from bendybus.frontend.core.routing import Keys
from bendybus.frontend.core.send_attempts import (
    Finished,
    PartitionLate,
    SendAttempts,
    Transmit,
)
from bendybus.frontend.core.send_outcome import Frame
from bendybus.partition_server.broker.partition import Partition
from bendybus.partition_server.state.answers import (
    Appended,
    AskRefused,
    Failed,
    Reserved,
    Settled,
    Withdrawn,
)
from bendybus.partition_server.state.commands import (
    Append,
    ApplyEntity,
    Ask,
    Batch,
    Command,
    Deliver,
    EntityRef,
    Now,
    Release,
    Settle,
    StreamEnded,
    Withdraw,
)
from bendybus.partition_server.state.stage import Answer
from bendybus.partition_server.store.errors import StoreFull
from bendybus.partition_server.store.memory_store import MemoryStore

PARTITIONS = 4
START_MS = 1_700_000_000_000
LOCK_MS = 5_000
ECHO_MS = 1_000


@dataclass
class Node:
    """One partition process: up, crashed or standing still."""

    index: int
    store: MemoryStore
    rules: Partition | None = None
    stalled_until: int = 0
    waiting: list[Command] = field(default_factory=list)
    generation: int = 0
    # The front end's stream: what belongs to an older one is never seen.
    stream: int = 0
    # Lines keep their order: nothing arrives before what was sent earlier.
    arrives_there: int = 0
    arrives_here: int = 0


@dataclass
class Lease:
    """A message that a receiver got."""

    payload: str
    number: int
    token: bytes


@dataclass
class Sent:
    """A unit that a client sends, and where it was in the frame of its first try."""

    payloads: list[str]
    key: str
    position: int


class Bus:
    """The simulated world; time in ms."""

    def __init__(self, seed: int, *, silent_crashes: float = 0.002) -> None:
        self.random = Random(seed)
        self._silent_crashes = 0.0
        self.abandoned = 0.1
        self.now = 1_000_000
        self.skew = dict.fromkeys(range(PARTITIONS), 0)
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._ids = itertools.count(1)
        description = QueueDescription(enable_partitioning=True, lock_duration_ms=LOCK_MS)
        self.entity = Entity("orders", "uid", 1, Origin.CLIENT, description, PARTITIONS, 0, 0, 0)
        self.down: set[int] = set()
        self.nodes = [self._node(index) for index in range(PARTITIONS)]
        self.board = SendAttempts(lambda partition: partition not in self.down)
        self.links: list[Cache] = []
        self.asks: dict[int, Cache] = {}
        self.acknowledged: dict[str, int] = {}
        # Told to callers: nothing is stored; or, it may be.
        self.failed: set[str] = set()
        self.unknown: set[str] = set()
        self.possible_duplicates: set[str] = set()
        self.delivered: dict[str, int] = {}
        # Under which numbers a message was delivered: more than one, and it was stored twice.
        self.numbers: dict[str, set[int]] = {}
        self.completed: set[str] = set()
        self.completed_numbers: set[int] = set()
        self.leases: list[Lease] = []
        self.returned_after_complete: list[Lease] = []
        self._frames = 0
        self._silent_crashes = silent_crashes

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
        node = Node(index, MemoryStore(fingerprint))
        self._boot(node)
        self._turn(node, [ApplyEntity("setup", self.entity)])
        return node

    def clocks(self, node: Node) -> Now:
        """Return a partition's clocks; its wall clock may be wrong."""
        return Now(START_MS + self.now + self.skew[node.index], self.now)

    def _boot(self, node: Node) -> None:
        node.generation += 1
        # A clock that goes on while a turn lasts: what can be divided over turns is.
        clock_ms = itertools.count(0, 20).__next__
        node.rules = Partition(node.store.open(), node.store, self.clocks(node), clock_ms=clock_ms)
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
        """Let a partition stand still; its echo is late after a while."""
        node = self.nodes[index]
        if node.rules is None or node.stalled_until > self.now:
            return
        until = node.stalled_until = self.now + milliseconds
        generation = node.generation

        def late() -> None:
            if node.generation == generation and node.stalled_until > self.now:
                self.down.add(index)
                self._perform_sends(self.board.stalled(index, "its echo is late", self.now))

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
        for link in self.links:
            self._perform_link(link, link.partition_back(index, self.now))

    def _lost(self, index: int) -> None:
        self._perform_sends(self.board.lost(index, "gone", self.now))
        for link in self.links:
            self._perform_link(link, link.partition_lost(index))

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
        """Let a partition work, unless it stands still."""
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

    def tick(self) -> None:
        """Let every partition and the front end look at the time."""
        for node in self.nodes:
            self._step(node)
        self.tick_front_end()

    def tick_front_end(self) -> None:
        """Let the front end look at the time."""
        self._perform_sends(self.board.due(self.now))
        for link in self.links:
            self._perform_link(link, link.due(self.now))
            following = link.next_due()
            assert following is None or following > self.now, "an alarm that rings for ever"

    def _turn(self, node: Node, commands: list[Command]) -> None:
        for group in Partition.grouped(commands):
            if node.rules is None:
                return
            self._commit(node, node.rules.decide(group, self.clocks(node)))

    def _commit(self, node: Node, stage: Any) -> None:
        rules, now = node.rules, self.clocks(node)
        assert rules is not None
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

    # The front end

    def _stream(self, index: int) -> str:
        return f"fe-{self.nodes[index].stream}"

    def _answered(self, index: int, to: Any, value: Any) -> None:
        if isinstance(value, Appended):
            actions = self.board.answered(
                to, value.numbers, value.duplicates, value.failures, self.now
            )
            self._perform_sends(actions)
        elif isinstance(value, Failed):
            self._perform_sends(self.board.refused(to, value.error, self.now))
        elif isinstance(value, Reserved):
            self._reserved(index, value)
        elif isinstance(value, Withdrawn | AskRefused):
            link = self.asks.pop(value.ask_id, None)
            if link is not None:
                self._perform_link(link, link.ask_ended(value.ask_id, index, self.now))
        elif isinstance(value, Settled):
            _, (lease, disposition) = to
            if not value.failures and disposition is Disposition.COMPLETE:
                self.completed.add(lease.payload)
                self.completed_numbers.add(lease.number)

    def _reserved(self, index: int, value: Reserved) -> None:
        tokens = lock_token.pack(
            index,
            value.delivery.slot,
            value.delivery.boot & lock_token.BOOT_MASK,
            [
                (row.counter, generation)
                for row, generation in zip(
                    value.delivery.rows, value.delivery.generations, strict=True
                )
            ],
        )
        data = [
            Lease(
                row.payload.decode(),
                sequence_number.compose(index, row.counter),
                tokens[i * 16 : i * 16 + 16],
            )
            for i, row in enumerate(value.delivery.rows)
        ]
        link = self.asks.get(value.ask_id)
        if link is None:
            self._command(
                index, Release(self._stream(index), b"".join(lease.token for lease in data))
            )
            return
        del self.asks[value.ask_id]
        actions = link.reserved(
            value.ask_id,
            index,
            data,
            [1] * len(data),
            locked_until_ms=self.now + value.lock_remaining_ms,
            lock_ms=value.lock_remaining_ms,
            more=value.more,
            now_ms=self.now,
        )
        self._perform_link(link, actions)

    def _late(self, index: int) -> None:
        """Open the partition's breaker; the next probe may close it."""
        self.down.add(index)
        self._perform_sends(self.board.stalled(index, "late", self.now))
        node = self.nodes[index]
        if node.rules is not None and node.stalled_until <= self.now:
            self.after(250, partial(self._back, index, node.generation))

    def _perform_sends(self, actions: list[Any]) -> None:
        for action in actions:
            if isinstance(action, PartitionLate):
                # In a turn of its own, as in the front end.
                self.after(0, partial(self._late, action.partition))
            elif isinstance(action, Finished):
                self._finished(action.frame)
            else:
                assert isinstance(action, Transmit)
                self._command(action.attempt.partition, self._append(action.attempt))

    def _append(self, attempt: Any) -> Append:
        frame, part = attempt.frame, attempt.part
        messages = [i for start, end in part.spans for i in range(start, end)]
        offsets = frame.offsets or [0] * frame.count
        spans = [n for u in part.units for n in (u.start + offsets[u.group], u.end - u.start)]
        payloads, keys = frame.data
        return Append(
            attempt.attempt_id,
            EntityRef(self.entity.uid, self.entity.generation),
            Batch(
                [payloads[i] for i in messages],
                partition_keys=[keys[i] for i in messages] if keys else (),
            ),
            [unit.end - unit.start for unit in part.units],
            frame.producer_id,
            frame.producer_sequence,
            spans,
            frame.age_ms,
            attempt.deadline_ms,
        )

    def _perform_link(self, link: Cache, actions: list[Any]) -> None:
        for action in actions:
            if isinstance(action, AskPartition):
                self.asks[action.ask_id] = link
                ref = EntityRef(self.entity.uid, self.entity.generation)
                stream = self._stream(action.partition)
                ask = Ask(stream, action.ask_id, ref, False, action.messages, action.size_bytes)
                self._command(action.partition, ask)
            elif isinstance(action, WithdrawAsk):
                self._command(
                    action.partition, Withdraw(self._stream(action.partition), action.ask_id)
                )
            elif isinstance(action, GiveBack):
                tokens = b"".join(lease.token for lease in action.data[action.start : action.end])
                self._command(action.partition, Release(self._stream(action.partition), tokens))
            else:
                assert isinstance(action, HandOver)
                for data, start, end, partition, _ in action.slices:
                    leases = data[start:end]
                    tokens = b"".join(lease.token for lease in leases)
                    self._command(partition, Deliver(self._stream(partition), 0, tokens))
                    for lease in leases:
                        self._got(lease)

    # Clients

    def send(self, payloads: list[str], key: str = "") -> None:
        """Send one atomic unit; try again what failed in a way that may be tried again."""
        self.send_units([(payloads, key)])

    def send_units(self, units: list[tuple[list[str], str]]) -> None:
        """Send units of several tasks, with and without keys, that share a frame."""
        positions = itertools.accumulate((len(payloads) for payloads, _ in units), initial=0)
        self._frames += 1
        named = [Sent(*unit, at) for unit, at in zip(units, positions, strict=False)]
        self._try_send(named, self._frames, self.now, again=False)

    def _try_send(self, units: list["Sent"], sequence: int, began: int, *, again: bool) -> None:
        payloads = [payload for unit in units for payload in unit.payloads]
        keys = [unit.key for unit in units for _ in unit.payloads]
        keys = keys if any(keys) else []
        sizes = [len(unit.payloads) for unit in units]
        positions = [unit.position for unit in units] if again else []
        offsets = routing.offsets_of(positions, len(payloads), sizes)
        frame = Frame(
            (units, sequence, began),
            self.entity,
            ([p.encode() for p in payloads], keys),
            len(payloads),
            self.now + 8_000,
            max(1, self.now - began) if again else 0,
            b"producer",
            sequence,
            offsets=offsets,
        )
        routed = routing.route(
            self.entity,
            Keys(len(payloads), partition_keys=keys),
            sizes,
            lane=routing.first_choice(self.entity, b"producer", sequence),
            split=False,
            offsets=offsets,
        )
        self._perform_sends(self.board.submit(frame, routed, self.now))

    def _finished(self, frame: Frame) -> None:
        units, sequence, began = frame.tag
        at, unknown, refused = 0, [], []
        for group, unit in enumerate(units):
            end = at + len(unit.payloads)
            error = frame.failures.get(group)
            if error is None:
                for payload, number in zip(unit.payloads, frame.numbers[at:end], strict=True):
                    self.acknowledged[payload] = number
                if group in frame.possible_duplicates:
                    self.possible_duplicates.update(unit.payloads)
            elif isinstance(error, errors.OutcomeUnknown):
                unknown.append(unit)
            else:
                refused.append(unit)
            at = end
        # As the client library does: what may be stored again by the same name, what is not in a
        # new frame.
        late = self.now - began >= 30_000
        for unit in (*unknown, *refused) if late else ():
            (self.unknown if unit in unknown else self.failed).update(unit.payloads)
        if unknown and not late:
            self.after(200, lambda: self._try_send(unknown, sequence, began, again=True))
        if refused and not late:
            pairs = [(unit.payloads, unit.key) for unit in refused]
            self.after(200, lambda: self._send_refused(pairs, began))

    def _send_refused(self, units: list[tuple[list[str], str]], began: int) -> None:
        positions = itertools.accumulate((len(payloads) for payloads, _ in units), initial=0)
        self._frames += 1
        named = [Sent(*unit, at) for unit, at in zip(units, positions, strict=False)]
        self._try_send(named, self._frames, began, again=False)

    def add_receiver(self) -> Cache:
        """Open a receiver."""
        link = Cache(
            range(PARTITIONS),
            lambda partition: partition not in self.down,
            lambda: next(self._ids),
            self.now,
        )
        self.links.append(link)
        return link

    def receive(self, link: Cache, messages: int) -> None:
        """Ask for messages."""
        ask = ClientAsk(next(self._ids), messages, 1 << 20, self.now + 2_000)
        self._perform_link(link, link.ask(ask, self.now))

    def _got(self, lease: Lease) -> None:
        self.delivered[lease.payload] = self.delivered.get(lease.payload, 0) + 1
        self.numbers.setdefault(lease.payload, set()).add(lease.number)
        if lease.number in self.completed_numbers:
            self.returned_after_complete.append(lease)
        self.leases.append(lease)

    def settle_some(self, count: int) -> None:
        """Complete or abandon some of what was received."""
        self.random.shuffle(self.leases)
        for _ in range(min(count, len(self.leases))):
            lease = self.leases.pop()
            abandon = self.random.random() < self.abandoned
            disposition = Disposition.ABANDON if abandon else Disposition.COMPLETE
            partition = lock_token.partition_of(lease.token)
            if partition not in self.down:
                tag = (lease, disposition)
                self._command(partition, Settle(("settle", tag), 0, disposition, lease.token))

    def close_receiver(self, link: Cache) -> None:
        """End a receiver."""
        self.links.remove(link)
        self._perform_link(link, link.close())
        self.links.append(link)

    def end_streams(self, index: int) -> None:
        """Let the front end's stream to a partition break and open again."""
        node = self.nodes[index]
        self._command(index, StreamEnded(self._stream(index)))
        node.stream += 1
        for link in self.links:
            self._perform_link(link, link.partition_lost(index))

    def stored(self) -> dict[int, str]:
        """Return what the queue holds in all partitions, by sequence number."""
        return {
            sequence_number.compose(node.index, row.counter): row.payload.decode()
            for node in self.nodes
            for row in node.store.browse(0, 0, 1 << 30, 1 << 60)
        }
