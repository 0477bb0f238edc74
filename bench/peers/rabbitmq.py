"""RabbitMQ: a classic and a quorum queue, pika with publisher confirms."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench import processes, row
from bench.loads import Loads
from bench.peers import peer
from bench.recorder import Recorder
from bench.row import Row

SYSTEMS: Final = {"RabbitMQ classic": "classic", "RabbitMQ quorum": "quorum"}
# Unconfirmed messages, and deliveries not yet acknowledged, at any time.
WINDOW: Final = 1_000
ACKNOWLEDGE_EACH: Final = 100
# The plain loop by how many messages may be on their way to it: each waits for its own delivery,
# or they come ahead.
LOOPS: Final = {1: "loop_unconfirmed", 100: "loop_unconfirmed_ahead"}
# Keys whose messages are received in order, as the sessions of Bendybus.
ORDERED: Final = 16
UNCONFIRMED: Final = "acknowledgements are unconfirmed"


def measure(load: Loads, folder: Path, emit: Callable[[Row], None]) -> None:
    """Measure both kinds of queue on one server."""
    if peer.missing(tuple(SYSTEMS), "rabbitmq-server", "pika", emit):
        return
    with server(folder, ["rabbitmq_consistent_hash_exchange"]) as (port, pids):
        for system, kind in SYSTEMS.items():
            recorder = Recorder(system, {"server": [pids]})
            _measure(load, system, kind, port, recorder, emit)
            _fan_out(load, kind, port, recorder, emit)
            _in_order(load, kind, port, recorder, emit)


@contextmanager
def server(
    folder: Path, plugins: Sequence[str], settings: Sequence[str] = ()
) -> Iterator[tuple[int, list[int]]]:
    """Run a server; give its port, and the processes that it consists of.

    `settings`: further lines of its configuration.
    """
    port, epmd_port = processes.free_port(), processes.free_port()
    log, enabled = folder / "rabbitmq.log", folder / "plugins"
    enabled.write_text(f"[{', '.join(plugins)}].", encoding="utf-8")
    config = folder / "rabbitmq.conf"
    lines = ["vm_memory_high_watermark.relative = 0.5", "disk_free_limit.absolute = 50MB"]
    config.write_text("\n".join([*lines, *settings, ""]), encoding="utf-8")
    own = {
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(epmd_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
        "RABBITMQ_CONFIG_FILE": str(config),
        "RABBITMQ_NODENAME": "bendybus-bench@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(processes.free_port()),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(enabled),
        # Signals go to the server itself, not to a script around it.
        "RUNNING_UNDER_SYSTEMD": "true",
    }
    epmd, server = peer.program("epmd"), "/usr/lib/rabbitmq/bin/rabbitmq-server"
    if epmd is None or not Path(server).exists():
        raise RuntimeError("rabbitmq-server is not laid out as Debian's package is.")
    # Started here: the one that the server would start by itself would outlive it.
    with (
        processes.running([epmd, "-port", str(epmd_port)], log=log, env=own),
        processes.running([server], log=folder / "out.log", env=own) as process,
    ):
        processes.wait_for_port(port, process, folder / "out.log", peer.START_S)
        yield port, processes.family(process.pid)


def _measure(
    load: Loads, system: str, kind: str, port: int, recorder: Recorder, emit: Callable[[Row], None]
) -> None:
    import pika

    name = declare(port, kind)
    where = pika.ConnectionParameters("127.0.0.1", port)
    for _ in range(load.repeats):
        _Publishing(where, [name], load.peer).run(recorder, "send")
        _Consuming(where, [name], load.peer).run(recorder, "receive_complete")
        for prefetch in LOOPS:
            _Publishing(where, [name], load.peer_loop).run(recorder, "fill")
            _loop(where, name, load.peer_loop, prefetch, recorder)
    emit(recorder.row("send", "send, confirmed", f"window {WINDOW}", "persistent"))
    emit(recorder.row("receive_complete", "receive + acknowledge",
                      f"prefetch {WINDOW}; {ACKNOWLEDGE_EACH} an acknowledgement"))  # fmt: skip
    for prefetch, what in LOOPS.items():
        title = f"for m in consume(prefetch {prefetch}): basic_ack(m)"
        emit(recorder.row(what, title, f"prefetch {prefetch}; 1 an acknowledgement", UNCONFIRMED))
    took = _one_by_one(where, name, load.peer_singles)
    for each in row.latency_rows(system, "single_send", "one confirmed publish at a time", took):
        emit(each)


def declare(port: int, kind: str, suffix: str = "") -> str:
    """Make a durable queue of a kind; return its name, which ends with `suffix`."""
    import pika

    name = f"{peer.NAME}-{kind}{suffix}"
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
        arguments = {"x-queue-type": kind}
        connection.channel().queue_declare(name, durable=True, arguments=arguments)
    return name


def _fan_out(
    load: Loads, kind: str, port: int, recorder: Recorder, emit: Callable[[Row], None]
) -> None:
    """Publish to an exchange with so many queues, each of which gets every message."""
    import pika

    where = pika.ConnectionParameters("127.0.0.1", port)
    for queues in load.subscriptions:
        exchange = f"fanout-{kind}-{queues}"
        names = [f"{exchange}-{number}" for number in range(queues)]
        with pika.BlockingConnection(where) as connection:
            channel = connection.channel()
            channel.exchange_declare(exchange, "fanout", durable=True)
            for name in names:
                channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
                channel.queue_bind(name, exchange)
        what = f"publish_{queues}"
        for _ in range(load.repeats):
            count = max(500, load.published // queues)
            _Publishing(where, [""], count, exchange).run(recorder, what)
        with pika.BlockingConnection(where) as connection:
            for name in names:
                connection.channel().queue_delete(name)
        emit(recorder.row(what, "publish to a fanout exchange, confirmed",
                          f"queues: {queues}; window {WINDOW}", "persistent"))  # fmt: skip


def _in_order(
    load: Loads, kind: str, port: int, recorder: Recorder, emit: Callable[[Row], None]
) -> None:
    """Order by key: a consistent-hash exchange with queues of one active consumer each."""
    import pika

    where, exchange = pika.ConnectionParameters("127.0.0.1", port), f"hash-{kind}"
    queues = [f"{exchange}-{number}" for number in range(ORDERED)]
    with pika.BlockingConnection(where) as connection:
        channel = connection.channel()
        channel.exchange_declare(exchange, "x-consistent-hash", durable=True)
        for name in queues:
            arguments = {"x-queue-type": kind, "x-single-active-consumer": True}
            channel.queue_declare(name, durable=True, arguments=arguments)
            channel.queue_bind(name, exchange, routing_key="1")
    keys = [f"s{number}" for number in range(ORDERED)]
    for _ in range(load.repeats):
        _Publishing(where, keys, load.in_sessions, exchange).run(recorder, "session_send")
        _Consuming(where, queues, load.in_sessions).run(recorder, "session_receive")
    where_to = f"consistent-hash exchange, {ORDERED} queues with one active consumer"
    emit(recorder.row("session_send", "send by key, confirmed", where_to, "persistent"))
    emit(recorder.row("session_receive", "receive in order + acknowledge", where_to))


def _loop(where: Any, name: str, count: int, prefetch: int, recorder: Recorder) -> None:
    """Take one message and acknowledge it, then the next, as pika's users write it."""
    import pika

    with pika.BlockingConnection(where) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=prefetch)
        with recorder.timing(LOOPS[prefetch], count):
            for gone, (method, _, _) in enumerate(channel.consume(name), 1):
                channel.basic_ack(method.delivery_tag)
                if gone == count:
                    break
            # The broker answers nothing to an acknowledgement; this answer comes after the last.
            channel.queue_declare(name, passive=True)


def _one_by_one(where: Any, name: str, count: int) -> list[float]:
    import pika

    took: list[float] = []
    with pika.BlockingConnection(where) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        properties = pika.BasicProperties(delivery_mode=2)
        for _ in range(count):
            began = time.perf_counter()
            channel.basic_publish("", name, peer.BODY, properties, mandatory=False)
            took.append(time.perf_counter() - began)
        channel.queue_purge(name)
    return took


class _Work(ABC):
    """A connection driven by callbacks: pika's fast way."""

    def __init__(self, where: Any, names: Sequence[str], count: int, exchange: str = "") -> None:
        """`names`: routing keys, in turn, or queues that are consumed together."""
        import pika

        self.names, self.count, self.exchange = names, count, exchange
        self.properties = pika.BasicProperties(delivery_mode=2)
        self.channel: Any = None
        self.connection = pika.SelectConnection(where, on_open_callback=self._opened)

    def run(self, recorder: Recorder, what: str) -> None:
        """Connect, then measure the work alone."""
        self.connection.ioloop.start()
        assert self.channel is not None, "closed before it was open"
        with recorder.timing(what, self.count):
            self.begin()
            self.connection.ioloop.start()
        self.connection.close()
        self.connection.ioloop.start()

    def _opened(self, connection: Any) -> None:
        connection.add_on_close_callback(lambda *_: connection.ioloop.stop())
        connection.channel(on_open_callback=self._ready)

    def _ready(self, channel: Any) -> None:
        self.channel = channel
        self.connection.ioloop.stop()

    @abstractmethod
    def begin(self) -> None:
        """Start what ends with `done`."""

    def done(self, *_: Any) -> None:
        """Stop the loop."""
        self.connection.ioloop.stop()


class _Publishing(_Work):
    def begin(self) -> None:
        """Publish until the window is full; go on as confirms come."""
        self.sent = self.all_up_to = 0
        # Confirms of single messages come out of order; one for many covers all up to its tag.
        self.ahead: set[int] = set()
        self.channel.confirm_delivery(self._confirm, callback=lambda _: self._fill())

    def _fill(self) -> None:
        publish, names, properties = self.channel.basic_publish, self.names, self.properties
        exchange = self.exchange
        room = WINDOW - (self.sent - self.all_up_to - len(self.ahead))
        for _ in range(min(room, self.count - self.sent)):
            publish(exchange, names[self.sent % len(names)], peer.BODY, properties)
            self.sent += 1

    def _confirm(self, frame: Any) -> None:
        assert frame.method.NAME == "Basic.Ack", "refused"
        tag = frame.method.delivery_tag
        if frame.method.multiple:
            self.all_up_to = tag
            self.ahead = {each for each in self.ahead if each > tag}
        else:
            self.ahead.add(tag)
        confirmed = self.all_up_to + len(self.ahead)
        if confirmed == self.count:
            self.done()
        elif self.sent - confirmed <= WINDOW // 2:
            self._fill()


class _Consuming(_Work):
    def begin(self) -> None:
        """Consume; acknowledge many at once."""
        self.gone = 0
        self.channel.basic_qos(prefetch_count=WINDOW, callback=self._consume)

    def _consume(self, _: Any) -> None:
        for name in self.names:
            self.channel.basic_consume(name, self._take)

    def _take(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.gone += 1
        if self.gone % ACKNOWLEDGE_EACH == 0 or self.gone == self.count:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if self.gone == self.count:
            # An answer to what follows an acknowledgement says that it arrived.
            channel.queue_declare(self.names[0], passive=True, callback=self.done)
