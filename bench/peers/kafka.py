"""Kafka 4: one topic of one partition as a queue for a share group; confluent-kafka.

Measured twice: with `flush.messages=1` on every topic, the share group's own state included, so
that sends and acknowledgements are on disk when they are confirmed, and as shipped, where the
operating system writes to the disk later.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from bench import processes, row
from bench.loads import FRAME_MESSAGES, Loads
from bench.peers import jvm, peer
from bench.recorder import Recorder
from bench.row import Row

FLUSHED: Final = "log.flush.interval.messages=1"
SYSTEMS: Final = {"Kafka, flush.messages=1": FLUSHED, "Kafka, as shipped": ""}
NOTES: Final = {FLUSHED: "", "": "confirms before the disk has it"}
# Records that the producer holds; it makes batches of them by itself.
QUEUED: Final = 10_000
# The plain loop by whether it waits for the answer to each acknowledgement.
LOOPS: Final = {True: "loop", False: "loop_unconfirmed"}
WAIT_S: Final = 60.0
_POLL_S: Final = 1.0
_ERRORS: Final = 3
_TURN_S: Final = 0.001
_CLUSTER: Final = "bendybusBenchAAAAAAAAA"
_PROPERTIES: Final = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller_port}
log.dirs={folder}/data
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
{durability}
"""


def measure(load: Loads, folder: Path, emit: Callable[[Row], None]) -> None:
    """Measure both ways of writing, each on a server of its own."""
    for number, (system, durability) in enumerate(SYSTEMS.items()):
        own = folder / str(number)
        own.mkdir()
        with peer.skipping([system], emit):
            peer.require_client("confluent_kafka")
            with _server(own, durability) as (port, pid):
                recorder = Recorder(system, {"server": [[pid]]})
                _measure(load, system, f"127.0.0.1:{port}", recorder, emit)


def properties(folder: Path, port: int, controller_port: int, durability: str) -> str:
    """Return the configuration of a server that is alone."""
    return _PROPERTIES.format(
        folder=folder, port=port, controller_port=controller_port, durability=durability
    )


@contextlib.contextmanager
def _server(folder: Path, durability: str) -> Iterator[tuple[int, int]]:
    port, log, config = processes.free_port(), folder / "kafka.log", folder / "server.properties"
    text = properties(folder, port, processes.free_port(), durability)
    config.write_text(text, encoding="utf-8")
    jvm.run("kafka", ["kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(config)], log)
    with jvm.server("kafka", ["kafka.Kafka", str(config)], port=port, log=log) as process:
        yield port, process.pid


def _measure(
    load: Loads, system: str, address: str, recorder: Recorder, emit: Callable[[Row], None]
) -> None:
    note = NOTES[SYSTEMS[system]]
    with contextlib.closing(_Queue(address)) as queue:
        # A JVM compiles what runs often, for some thousand calls; brokers run for weeks.
        for _ in range(load.repeats):
            queue.send(load.peer)
            queue.receive(load.peer)
            queue.send(load.peer_loop)
            queue.loop(load.peer_loop, confirmed=True)
        for _ in range(load.repeats):
            with recorder.timing("send", load.peer):
                queue.send(load.peer)
            with recorder.timing("receive_complete", load.peer):
                queue.receive(load.peer)
            for confirmed, what in LOOPS.items():
                queue.send(load.peer_loop)
                with recorder.timing(what, load.peer_loop):
                    queue.loop(load.peer_loop, confirmed=confirmed)
        took = queue.one_by_one(load.peer_singles)
    emit(recorder.row("send", "send, confirmed", f"window {QUEUED}", note))
    emit(recorder.row("receive_complete", "receive + acknowledge, confirmed",
                      f"polls of ≤ {FRAME_MESSAGES}; 1 commit a poll", note))  # fmt: skip
    for confirmed, what in LOOPS.items():
        call = "commit_sync" if confirmed else "commit_async"
        said = note if confirmed else "acknowledgements are unconfirmed"
        title = f"for m in poll(): acknowledge(m); {call}()"
        emit(recorder.row(what, title, "delivered ahead; 1 an acknowledgement", said))
    for each in row.latency_rows(system, "single_send", "one confirmed send at a time", took, note):
        emit(each)


class _Queue:
    """A topic, a producer and the only member of a share group."""

    def __init__(self, address: str) -> None:
        import confluent_kafka
        from confluent_kafka import admin

        client = admin.AdminClient({"bootstrap.servers": address})
        for future in client.create_topics([admin.NewTopic(peer.NAME, 1, 1)]).values():
            future.result(WAIT_S)
        # Errors only: the client warns that share groups are a preview in it.
        shared = {"bootstrap.servers": address, "log_level": _ERRORS}
        producer = confluent_kafka.Producer
        self._batching = producer({**shared, "acks": "all", "queue.buffering.max.messages": QUEUED})
        # No waiting for more to send with it.
        self._single = producer({**shared, "acks": "all", "linger.ms": 0})
        self._consumer = confluent_kafka.ShareConsumer(
            {**shared, "group.id": peer.NAME, "share.acknowledgement.mode": "explicit"}
        )
        self._confirmed = self._acknowledged = 0
        self._consumer.set_acknowledgement_commit_callback(self._committed)
        self._consumer.subscribe([peer.NAME])
        self._join()

    def close(self) -> None:
        """Leave the group, and close the producers before their server is stopped."""
        self._consumer.close()
        self._batching.close()
        self._single.close()

    def send(self, count: int) -> None:
        """Send; return when all are confirmed."""
        self._confirmed = 0
        for _ in range(count):
            while True:
                try:
                    self._batching.produce(peer.NAME, peer.BODY, on_delivery=self._delivered)
                    break
                except BufferError:
                    self._batching.poll(WAIT_S)
            self._batching.poll(0)
        self._batching.flush(WAIT_S)
        assert self._confirmed == count, f"{self._confirmed} of {count} sends were confirmed"

    def one_by_one(self, count: int) -> list[float]:
        """Send one after another; return how long each took."""
        took: list[float] = []
        for _ in range(count):
            began = time.perf_counter()
            self._single.produce(peer.NAME, peer.BODY, on_delivery=self._delivered)
            self._single.flush(WAIT_S)
            took.append(time.perf_counter() - began)
        return took

    def receive(self, count: int) -> None:
        """Receive and acknowledge, confirmed once for all of a poll."""
        self._acknowledged = 0
        for messages in self._polls(count):
            for message in messages:
                self._consumer.acknowledge(message)
            self._consumer.commit_sync(WAIT_S)
        self._await_acknowledgements(count)

    def loop(self, count: int, *, confirmed: bool) -> None:
        """Take one message and acknowledge it, then the next."""
        self._acknowledged = 0
        for messages in self._polls(count):
            for message in messages:
                self._consumer.acknowledge(message)
                if confirmed:
                    self._consumer.commit_sync(WAIT_S)
                else:
                    self._consumer.commit_async()
        self._await_acknowledgements(count)

    def _await_acknowledgements(self, count: int) -> None:
        """Return when the broker has answered to every acknowledgement."""
        deadline = time.monotonic() + WAIT_S
        while self._acknowledged < count and time.monotonic() < deadline:
            # Answers are handed over by calls like this one.
            self._consumer.commit_async()
            time.sleep(_TURN_S)
        assert self._acknowledged == count, f"{self._acknowledged} of {count} acknowledged"

    def _polls(self, count: int) -> Iterator[list[Any]]:
        """Yield what each poll returns, until it is so many messages."""
        deadline = time.monotonic() + WAIT_S
        while count > 0:
            messages = list(self._consumer.poll(_POLL_S))
            for message in messages:
                assert message.error() is None, message.error()
            if messages:
                deadline = time.monotonic() + WAIT_S
                count -= len(messages)
                yield messages
            elif time.monotonic() > deadline:
                raise TimeoutError(f"no message for {WAIT_S:.0f} s")

    def _join(self) -> None:
        """Send until a message arrives: a new group starts with what is sent after it joined."""
        deadline = time.monotonic() + peer.START_S
        arrived = 0
        # To the end of what was sent: nothing of it may be among what is measured.
        while not arrived or self._take():
            if time.monotonic() > deadline:
                raise peer.UnavailableError(f"no delivery in {peer.START_S:.0f} s")
            if not arrived:
                self.send(1)
                arrived = self._take()

    def _take(self) -> int:
        messages = list(self._consumer.poll(_POLL_S))
        for message in messages:
            self._consumer.acknowledge(message)
        self._consumer.commit_sync(WAIT_S)
        return len(messages)

    def _delivered(self, error: Any, message: Any) -> None:
        assert error is None, error
        self._confirmed += 1

    def _committed(self, offsets: Any, error: Any) -> None:
        assert error is None, error
        self._acknowledged += sum(len(each) for each in offsets.values())
