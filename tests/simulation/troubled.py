"""The simulated bus with more that can go wrong, and what must hold in the end.

Beside crashes, stalls and full disks of partitions (`bus.Bus`): a front end that stands still and
then finds what arrived meanwhile, a queue whose manifest goes and comes back (ORPHAN, ADOPT), a
disk that is full at the moment when a scheduled message is due or one expires, clocks that are set
wrong and set right again. `violations` names every rule that a world broke.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from bendybus.domain import partitioning
from bendybus.partition_server.state.answers import Appended, Done, Failed
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, ApplyEntity, EntityRef
from bendybus.partition_server.store.records import State
from tests import sequence_numbers
from tests.simulation.bus import Bus
from tests.simulation.partitions import PARTITIONS, START_MS, Node

# For longer than a partition holds expiry back after its clock jumped.
PEACE_MS: Final = 1_500_000
# The rule, however somebody breaks it in a test.
_partition_of = partitioning.partition_of


class TroubledBus(Bus):
    """A world with all kinds of trouble."""

    def __init__(self, seed: int, **options: Any) -> None:
        # Until then the front end stands still; what it would see waits here, in order.
        self.frozen_until = 0
        self._unseen: list[Callable[[], None]] = []
        # Payload → when it is due, or when its life ends; both of stored messages only.
        self.due: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        # Accepted while a clock was wrong.
        self.unsound: set[str] = set()
        self._wishes: dict[str, tuple[int, int, int]] = {}
        # Per partition: how often its clock was set.
        self._set = [0] * PARTITIONS
        super().__init__(seed, **options)

    # A front end that stands still

    def freeze(self, milliseconds: int) -> None:
        """Let the front end stand still."""
        if self.frozen_until > self.now:
            return
        self.frozen_until = self.now + milliseconds
        self.after(milliseconds, self._thaw)

    def _thaw(self) -> None:
        # What arrived is read before anything is judged by the time.
        unseen, self._unseen = self._unseen, []
        for each in unseen:
            each()

    def _seen(self, action: Callable[[], None]) -> None:
        if self.frozen_until > self.now:
            self._unseen.append(action)
        else:
            action()

    def _answered(self, index: int, to: Any, value: Any) -> None:
        if isinstance(to, tuple) and to[0] == "timed":
            self._timed(index, to[1], value)
        elif not isinstance(value, Done):
            answered = super()._answered
            self._seen(lambda: answered(index, to, value))

    def _lost(self, index: int) -> None:
        lost = super()._lost
        self._seen(lambda: lost(index))

    def _back(self, index: int, generation: int) -> None:
        back = super()._back
        self._seen(lambda: back(index, generation))

    def tick_front_end(self) -> None:
        """Look at the time, unless it stands still."""
        if self.frozen_until <= self.now:
            super().tick_front_end()

    # Manifests

    def orphan(self) -> None:
        """Let the manifest of the queue go; its data stay."""
        self._spread(replace(self.entity, orphaned=True))

    def adopt(self) -> None:
        """Let a manifest take the queue again."""
        self._spread(replace(self.entity, orphaned=False))

    def _spread(self, entity: Any) -> None:
        self.entity = replace(entity, generation=self.entity.generation + 1)
        for node in self.nodes:
            self._command(node.index, ApplyEntity("setup", [self.entity]))

    def _boot(self, node: Node) -> None:
        super()._boot(node)
        if hasattr(self, "nodes"):
            # A front end brings what the partition missed while it was away.
            self.after(
                self.line(), lambda: self._command(node.index, ApplyEntity("setup", [self.entity]))
            )

    # Messages with times

    def send_timed(self, payload: str, *, due_in_ms: int = 0, lives_ms: int = 0) -> None:
        """Store a message that is scheduled or ends by itself; its disk may be full just then."""
        node = self.random.choice(self.nodes)
        wall_ms = self.clocks(node).wall_ms
        due_ms = wall_ms + due_in_ms if due_in_ms else 0
        # A message accepted under a wrong clock keeps the times that this clock gave it.
        sound = -1 if self.skew[node.index] else self._set[node.index]
        self._wishes[payload] = due_in_ms, lives_ms, sound
        batch = Batch([payload.encode()], scheduled_ms=[due_ms], time_to_live_ms=[lives_ms])
        ref = EntityRef(self.entity.uid, self.entity.generation)
        self._command(node.index, Append(("timed", payload), ref, batch))
        if self.random.random() < 0.5:
            self.after(due_in_ms + lives_ms, lambda: self.fill_disk(node.index))

    def _timed(self, index: int, payload: str, value: Any) -> None:
        if isinstance(value, Failed) or not isinstance(value, Appended) or value.failures:
            return
        due_in_ms, lives_ms, sound = self._wishes[payload]
        self.acknowledged[payload] = value.numbers[0]
        if sound != self._set[index]:
            self.unsound.add(payload)
        if due_in_ms:
            self.due[payload] = self.now + due_in_ms
        if lives_ms:
            self.ends[payload] = self.now + due_in_ms + lives_ms

    # Clocks

    def jump_and_correct(self, index: int, milliseconds: int, after_ms: int) -> None:
        """Set a partition's clock wrong, and right again later."""
        self.skew[index] += milliseconds
        self._set[index] += 1

        def correct() -> None:
            self.skew[index] -= milliseconds
            self._set[index] += 1

        self.after(after_ms, correct)


def storm(bus: TroubledBus, steps: int = 200) -> None:
    """Do everything at once for a while."""
    receivers = [bus.add_receiver() for _ in range(3)]
    for step in range(steps):
        bus.run_until(bus.now + bus.random.randint(1, 60))
        match bus.random.randrange(12):
            case 0 | 1 | 2:
                bus.send([f"keyless-{step}.{n}" for n in range(bus.random.randint(1, 3))])
            case 3 | 4:
                key = f"key{bus.random.randrange(6)}"
                bus.send([f"{key}-{step}"], key)
            case 5:
                bus.send_timed(f"due-{step}", due_in_ms=bus.random.randint(1, 3_000))
            case 6:
                bus.send_timed(f"ends-{step}", lives_ms=bus.random.randint(1, 3_000))
            case 7 | 8:
                bus.receive(bus.random.choice(receivers), bus.random.choice([1, 3, 200]))
            case 9:
                bus.settle_some(bus.random.randint(1, 5))
            case 10:
                trouble(bus)
            case _:
                bus.tick()
    mend(bus)


def trouble(bus: TroubledBus) -> None:
    """Break something."""
    index = bus.random.randrange(PARTITIONS)
    match bus.random.randrange(6):
        case 0:
            if len(bus.down) < PARTITIONS - 1:
                bus.crash(index)
                bus.after(bus.random.randint(50, 4_000), lambda: bus.restart(index))
        case 1:
            bus.stall(index, bus.random.randint(100, 6_000))
        case 2:
            bus.fill_disk(index)
        case 3:
            jump_ms = bus.random.choice([-7_200_000, 7_200_000, 30 * 86_400_000])
            bus.jump_and_correct(index, jump_ms, bus.random.randint(100, 5_000))
        case 4:
            bus.freeze(bus.random.randint(100, 5_000))
        case _:
            bus.orphan()
            bus.after(bus.random.randint(100, 2_000), bus.adopt)


def mend(bus: TroubledBus) -> None:
    """Let all that is under way end, and the time pass that partitions distrust their clocks."""
    # Clients give a send up after 30 s; then the guards of clocks look on for long.
    for pause_ms in (*[100] * 450, *[PEACE_MS // 50] * 50):
        bus.run_until(bus.now + pause_ms)
        for _ in range(1 if pause_ms == 100 else 5):
            bus.tick()
        for index in range(PARTITIONS):
            bus.restart(index)


def violations(bus: TroubledBus) -> set[str]:
    """Return the names of the rules that this world broke, after `mend`."""
    held = bus.stored()
    there = set(held.values())
    found = {
        "lost": any(
            payload not in there and payload not in bus.delivered and payload not in bus.ends
            for payload in bus.acknowledged
        ),
        "returned": bool(bus.returned_after_complete) or bool(bus.completed_numbers & held.keys()),
        "doubled": any(
            count > 1 and payload.startswith("key") and not payload.startswith("keyless")
            for payload, count in Counter(held.values()).items()
        ),
        "misplaced": any(
            sequence_numbers.partition_of(number)
            != _partition_of(payload.split("-")[0], PARTITIONS)
            for payload, number in bus.acknowledged.items()
            if payload.startswith("key") and not payload.startswith("keyless")
        ),
        "stuck": any(
            row.state == State.SCHEDULED and row.scheduled_ms <= START_MS + bus.now
            for node in bus.nodes
            for row in node.store.browse(0, 0, 1 << 30, 1 << 60)
        ),
        "immortal": any(payload in bus.ends for payload in there - bus.unsound),
        "unfinished": len(bus.board) > 0,
    }
    return {name for name, broken in found.items() if broken}
