"""A simulated bus that forwards: across partitions, out of subscriptions, and of dead letters.

`inbox` (plain, in partition 0) forwards to `target` (in all); the subscription `news/.../all`
(partition 1) forwards to `inbox`, so that its messages take two hops; dead letters of `letters`
go to `target`. Frames between partitions are delayed, held up for seconds, lost, and answered
late; each gets exactly one outcome, as `service.forward_link` promises. Partitions crash before
and after commits, are suspended, and find their disk full.
"""

from collections import Counter
from functools import partial
from typing import Any, Final

from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_settings import (
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state.answers import Appended, Failed, ForwardedTaken
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    ApplyEntity,
    EntityRef,
    TakeForwarded,
)
from bendybus.partition_server.state.lanes import ForwardOutcome, Outgoing
from tests.simulation.partitions import PARTITIONS, Node, Partitions

ANSWER_MS: Final = 10_000
AGAIN_MS: Final = 500
INBOX: Final = 0
TOPIC: Final = 1


class Link:
    """Where a partition hands its frames over; for one opening of its file."""

    def __init__(self, index: int, generation: int) -> None:
        self.index = index
        self.generation = generation


class Forwarding(Partitions):
    """The simulated world; time in ms."""

    def __init__(self, seed: int, *, silent_crashes: float = 0.01) -> None:
        self.acknowledged: set[str] = set()
        # Of each message: where it was sent.
        self.ways: dict[str, str] = {}
        self.sent = 0
        # Frames whose outcome is still to be handed in.
        self._open: dict[int, Outgoing] = {}
        self._frames = 0
        self.lossy = 0.0
        self.entities = _entities()
        super().__init__(seed, silent_crashes)

    # Partitions

    def _boot(self, node: Node) -> None:
        super()._boot(node)
        assert node.rules is not None
        node.rules.state.forward_link = Link(node.index, node.generation)
        self._turn(node, [ApplyEntity("setup", self.entities)])

    def _answer(self, node: Node, generation: int, to: Any, value: Any) -> Any:
        if isinstance(to, Link):
            return lambda: self._frame(to, value)
        return super()._answer(node, generation, to, value)

    def _answered(self, index: int, to: Any, value: Any) -> None:
        kind, *rest = to
        if kind == "sent" and isinstance(value, Appended) and not value.failures:
            self.acknowledged.update(rest[0])
        elif kind == "forward":
            number, link = rest
            self._later(lambda: self._landed(number, link, value), lost=self.lossy)
        elif kind == "outcome" and isinstance(value, Failed):
            self.after(AGAIN_MS, lambda: self._hand_in(*rest))

    def _lost(self, index: int) -> None:
        """Nothing that is here learns it."""

    def _returned(self, index: int) -> None:
        """Nothing that is here learns it."""

    def _stalled(self, index: int, why: str) -> None:
        """Nothing that is here learns it."""

    # Frames

    def _later(self, action: Any, *, lost: float) -> None:
        """Let something cross the network: soon, after seconds, or never."""
        if self.random.random() < lost:
            return
        held = self.random.random() < 2 * lost
        self.after(self.random.randint(1_000, 15_000) if held else self.line(), action)

    def _frame(self, link: Link, frame: Any) -> None:
        """Send a frame; whatever becomes of it, its outcome is handed in by a certain time."""
        if isinstance(frame, Failed):
            return
        self._frames += 1
        number = self._frames
        self._open[number] = frame
        to = ("forward", number, link)
        command = TakeForwarded(
            to, EntityRef(frame.uid, frame.generation), frame.source, frame.boot, frame.sequence,
            frame.counters, frame.batch, frame.settled, frame.settled_below, frame.overtake,
        )  # fmt: skip
        self._later(lambda: self._command(frame.partition, command), lost=self.lossy)
        self.after(ANSWER_MS, lambda: self._landed(number, link, None))

    def _landed(self, number: int, link: Link, value: Any) -> None:
        frame = self._open.pop(number, None)
        if frame is not None:
            taken = value if isinstance(value, ForwardedTaken) else None
            outcome = ForwardOutcome(
                None, frame.slot, frame.boot, frame.sequence, frame.partition, taken
            )
            self._hand_in(link, outcome)

    def _hand_in(self, link: Link, outcome: ForwardOutcome) -> None:
        node = self.nodes[link.index]
        # Its process ended: the next one reads what is left from its file.
        if node.generation == link.generation:
            outcome.reply_to = ("outcome", link, outcome)
            self._command(link.index, outcome)

    # Clients

    def send(self, name: str, index: int, count: int, *, keyed: bool, dead: bool = False) -> None:
        """Send messages that no other has the name of, once."""
        names = [f"m{self.sent + i}" for i in range(count)]
        self.sent += count
        self.ways.update(dict.fromkeys(names, name))
        entity = next(each for each in self.entities if each.name == name)
        batch = Batch(
            [each.encode() for each in names],
            partition_keys=[f"k{self.random.randrange(12)}" if keyed else "" for _ in names],
            heads=[b""] * count,
            formats=[1] * count,
            # Gone at once, which makes it a dead letter.
            time_to_live_ms=[1] * count if dead else (),
        )
        ref = EntityRef(entity.uid, entity.generation)
        self._command(index, Append(("sent", names), ref, batch, [1] * count))

    def tick(self) -> None:
        """Let every partition look at the time."""
        for node in self.nodes:
            self._step(node)

    # What there is

    def found(self) -> Counter[str]:
        """Return where messages ended, by name, in whatever partition and sub-queue."""
        return Counter(
            row.payload.decode()
            for node in self.nodes
            for slot in node.store.open().slots
            if slot.uid == "target" or slot.sub_queue is SubQueue.TRANSFER_DEAD_LETTER
            for row in node.store.browse(slot.slot, 0, 1 << 30, 1 << 60)
        )

    def waiting(self) -> int:
        """Return how many messages are not there yet."""
        return sum(
            queue.state.active
            for node in self.nodes
            if node.rules is not None
            for queue in node.rules.state.queues
            if queue.slot in node.rules.state.forwards.sources
        )


def _entities() -> list[Entity]:
    every = QueueDescription(enable_partitioning=True)
    letters = QueueDescription(
        enable_partitioning=True,
        dead_lettering_on_message_expiration=True,
        forward_dead_lettered_messages_to="target",
    )
    return [
        Entity("target", "target", 1, Origin.CLIENT, every, PARTITIONS, 0, 0, 0),
        Entity(
            "inbox", "inbox", 1, Origin.CLIENT,
            QueueDescription(forward_to="target"), 1, INBOX, 0, 0,
        ),
        Entity("letters", "letters", 1, Origin.CLIENT, letters, PARTITIONS, 0, 0, 0),
        Entity("news", "news", 1, Origin.CLIENT, TopicDescription(), 1, TOPIC, 0, 0),
        Entity(
            "news/Subscriptions/all", "all", 1, Origin.CLIENT,
            SubscriptionDescription(forward_to="inbox"), 1, TOPIC, 0, 0,
        ),
    ]  # fmt: skip


def storm(world: Forwarding, steps: int = 300) -> None:
    """Send and break things for a while, then let everything get to its end."""
    world.lossy = 0.1
    for _ in range(steps):
        world.run_until(world.now + world.random.randint(1, 200))
        index, keyed = world.random.randrange(PARTITIONS), world.random.random() < 0.6
        match world.random.randrange(16):
            case 0 | 1 | 2 | 3:
                world.send("inbox", INBOX, world.random.choice([1, 3, 40]), keyed=keyed)
            case 4 | 5:
                world.send("news", TOPIC, world.random.choice([1, 3]), keyed=keyed)
            case 6 | 7:
                world.send("letters", index, 2, keyed=False, dead=True)
            case 8:
                world.crash(index)
                world.after(world.random.randint(50, 6_000), partial(world.restart, index))
            case 9:
                world.stall(index, world.random.randint(100, 15_000))
            case 10:
                world.fill_disk(index)
            case _:
                world.tick()
    world.lossy = world._silent_crashes = 0.0
    for _ in range(2_000):
        for index in range(PARTITIONS):
            world.restart(index)
        world.run_until(world.now + 100)
        world.tick()
        if not world.waiting() and not world._events:
            return
