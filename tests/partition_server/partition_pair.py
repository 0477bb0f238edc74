"""Two partitions, of which one forwards to the other, for tests."""

from typing import Any

from bendybus.domain import limits
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_settings import QueueDescription
from bendybus.partition_server.state.answers import ForwardedTaken
from bendybus.partition_server.state.commands import ApplyEntity, EntityRef, TakeForwarded
from bendybus.partition_server.state.lanes import ForwardOutcome, Outgoing
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.forwarding_driver import bodies, send
from tests.partition_server.memory_store import MemoryStore

NAMES = [f"k{i}" for i in range(20)]


FULL_BYTES = 1_024 * limits.MB


def fill(driver: Driver, name: str) -> None:
    """Leave no room in a queue."""
    driver.partition.state.queues.main_of(driver.ref(name).uid).state.size_bytes += FULL_BYTES


def give_room(driver: Driver, name: str) -> None:
    """Take `fill` back, also from figures that were written and read again."""
    state = driver.partition.state.queues.main_of(driver.ref(name).uid).state
    if state.size_bytes >= FULL_BYTES:
        state.size_bytes -= FULL_BYTES


class Pair:
    """Two partitions: `source` in partition 0 forwards to `target`, which is in both."""

    def __init__(self) -> None:
        self.drivers = [Driver(MemoryStore(fingerprint(index, count=2))) for index in (0, 1)]
        self.describe("target")
        for driver in self.drivers:
            driver.partition.state.forward_link = "link"

    def describe(self, forward_to: str, generation: int = 5, **changes: Any) -> None:
        """Give `source` its destination, and other properties."""
        ends = QueueDescription(dead_lettering_on_message_expiration=True)
        for driver in self.drivers:
            target = Entity("target", "t", 1, Origin.CLIENT, ends, 2, 0, 0, 0)
            described = QueueDescription(forward_to=forward_to, **changes)
            source = Entity("source", "s", generation, Origin.CLIENT, described, 1, 0, 0, 0)
            driver.run(ApplyEntity("t", [target, source]))

    def delete_target(self) -> None:
        """Delete the destination in both partitions."""
        for driver in self.drivers:
            gone = Entity("target", "t", 9, Origin.CLIENT, QueueDescription(), 2, 0, 0, 0, True)
            driver.run(ApplyEntity("t", [gone]))

    @property
    def source(self) -> Driver:
        return self.drivers[0]

    def sent(self, *bodies: str, keyed: bool = True, lives_ms: int = 0) -> None:
        """Send messages to the source; the body is the key."""
        columns = {"partition_keys": list(bodies) if keyed else []}
        lives = [lives_ms] * len(bodies)
        send(self.source, "source", *[b.encode() for b in bodies], time_to_live_ms=lives, **columns)

    def frames(self) -> list[Outgoing]:
        """Let the source do all that is due; return its frames."""
        return [value for value in self.source.sweep() if isinstance(value, Outgoing)]

    def deliver(self, frame: Outgoing) -> Any:
        """Hand a frame to its partition; return the outcome for the source."""
        command = TakeForwarded(
            "t",
            EntityRef(frame.uid, frame.generation),
            frame.source,
            frame.boot,
            frame.sequence,
            frame.counters,
            frame.batch,
            frame.settled,
            frame.settled_below,
            frame.overtake,
        )
        [value] = self.drivers[frame.partition].run(command)
        return value

    def answer(self, frame: Outgoing, value: Any) -> None:
        """Tell the source what became of a frame; None: its answer was lost."""
        taken = value if isinstance(value, ForwardedTaken) else None
        outcome = ForwardOutcome(
            None, frame.slot, frame.boot, frame.sequence, frame.partition, taken
        )
        self.source.run(outcome)

    def restart(self, index: int) -> None:
        """Lose all that is not stored."""
        mono_ms = self.drivers[index].mono_ms
        self.drivers[index].restart()
        self.drivers[index].mono_ms = mono_ms
        self.drivers[index].partition.state.forward_link = "link"

    def finish(self) -> None:
        """Let everything get to its end."""
        for _ in range(50):
            frames = self.frames()
            for frame in frames:
                self.answer(frame, self.deliver(frame))
            if not frames:
                self.source.mono_ms += 1_000

    def stored(self) -> list[str]:
        """Return what both partitions of the target hold."""
        found = [body for driver in self.drivers for body in bodies(driver, "target")]
        return [body.decode() for body in found]
