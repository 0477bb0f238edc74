"""How much work each measurement does: bounded, so that a run ends by itself. Pure."""

from dataclasses import dataclass, field
from typing import Final

BODY_BYTES: Final = 256
PARTITIONS: Final = 4
FRAME_MESSAGES: Final = 500
WINDOW: Final = 16
TASKS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Loads:
    """Counts of messages, and how often each throughput is measured."""

    repeats: int = 3
    bare: dict[int, int] = field(
        default_factory=lambda: {1: 2_000, 20: 20_000, 100: 60_000, 500: 150_000}
    )
    """Messages for each number of messages a frame."""
    single_sends: int = 1_000
    """One awaited send after another."""
    batched: int = 100_000
    loop: int = 3_000
    """The plain loop: receive one, complete it."""
    receives: dict[int, int] = field(default_factory=lambda: {10: 5_000, 50: 15_000, 100: 20_000})
    """Messages for each size of small batches that are received one after the other."""
    tasks_each: int = 20
    """How many sends each of the tasks awaits."""
    transactions: int = 2_000
    sessions: int = 10_000
    """Sessions of one queue that have messages, beside those that are received."""
    in_sessions: int = 32_000
    """Messages of the sessions that are received."""
    accepts: int = 200
    """Single messages whose way to a waiting receiver is timed."""
    waiting_receivers: int = 1_000
    published: int = 30_000
    """Messages to a topic, divided by how many subscriptions want each."""
    subscriptions: tuple[int, ...] = (1, 10, 100)
    other_subscriptions: int = 2_000
    forwarded: int = 20_000
    idle_s: float = 10.0
    slow: int = 60_000
    """Messages through brokers that are held back."""
    amqp: int = 30_000
    """Messages of all AMQP clients together, each way."""
    amqp_s: float = 120.0
    """How long AMQP clients send, and then receive, to see whether that is flat."""
    many: tuple[int, ...] = (1, 4, 16, 64, 256)
    """Connections that each await one message at a time."""
    many_s: float = 3.0
    """How long they do, for each number of them and each thing that they do."""
    sdk_singles: int = 500
    """Sends of an official SDK, one after another."""
    sdk_senders_each: int = 150
    """How many sends each of its concurrent senders awaits."""
    listed: int = 10_000
    """Queues that the administration clients of official SDKs list."""
    peer: int = 30_000
    peer_singles: int = 500
    peer_loop: int = 1_000
    """The plain loop of a peer, which may wait for the disk at every message."""


QUICK: Final = Loads(
    repeats=1,
    bare={1: 500, 20: 10_000, 100: 30_000, 500: 100_000},
    single_sends=300,
    batched=50_000,
    loop=1_000,
    receives={10: 2_000, 50: 5_000, 100: 10_000},
    tasks_each=10,
    transactions=300,
    sessions=1_000,
    in_sessions=8_000,
    accepts=50,
    waiting_receivers=200,
    published=5_000,
    subscriptions=(1, 10),
    other_subscriptions=200,
    forwarded=5_000,
    idle_s=4.0,
    slow=20_000,
    amqp=9_000,
    listed=1_000,
    amqp_s=8.0,
    many=(1, 16, 64),
    many_s=2.0,
    sdk_singles=200,
    sdk_senders_each=50,
    peer=10_000,
    peer_singles=100,
    peer_loop=300,
)
