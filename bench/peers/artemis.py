"""ActiveMQ Artemis: a durable anycast queue, stomp.py with receipts.

STOMP, not AMQP 1.0, because there an acknowledgement can be confirmed, too: a receipt of `ACK`
comes after the journal is on disk.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from bench import processes, row
from bench.loads import Loads
from bench.peers import artemis_routing, jvm, peer, stomp_session
from bench.peers.stomp_session import ACKNOWLEDGE_EACH, BATCHED_BYTES, WINDOW, StompSession, timing
from bench.recorder import Recorder
from bench.row import Row

SYSTEM: Final = "ActiveMQ Artemis"
# What may be delivered and not yet acknowledged: the default.
DELIVERED_BYTES: Final = 10 * 1024
# The plain loop by whether it waits for the receipt of each acknowledgement.
LOOPS: Final = {True: "loop", False: "loop_unconfirmed"}
_CLASS: Final = "org.apache.activemq.artemis.core.server.embedded.Main"
_BLOCK_BYTES: Final = 4096
_BLOCKS: Final = 40
_TRIES: Final = 5
_CONFIGURATION: Final = """\
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>bench</name>
    <security-enabled>false</security-enabled>
    <persistence-enabled>true</persistence-enabled>
    <journal-type>NIO</journal-type>
    <journal-datasync>true</journal-datasync>
    <journal-pool-files>10</journal-pool-files>
    <journal-buffer-timeout>{sync_ns}</journal-buffer-timeout>
    <journal-directory>{data}/journal</journal-directory>
    <bindings-directory>{data}/bindings</bindings-directory>
    <large-messages-directory>{data}/large</large-messages-directory>
    <paging-directory>{data}/paging</paging-directory>
    <acceptors>
      <acceptor name="{protocol}">tcp://127.0.0.1:{port}?protocols={protocol}</acceptor>
    </acceptors>
    <addresses>
      <address name="{name}">
        <anycast><queue name="{name}"><durable>true</durable></queue></anycast>
      </address>
      <address name="{name}-replies">
        <anycast><queue name="{name}-replies"><durable>true</durable></queue></anycast>
      </address>
{addresses}
    </addresses>
    <diverts>{divert}</diverts>
  </core>
</configuration>
"""


def measure(load: Loads, folder: Path, emit: Callable[[Row], None]) -> None:
    """Start a server and measure it."""
    with peer.skipping([SYSTEM], emit):
        peer.require_client("stomp")
        with server(load, folder) as (port, pid):
            recorder = Recorder(SYSTEM, {"server": [[pid]]})
            _measure(load, port, recorder, emit)
            artemis_routing.measure(load, port, recorder, emit)


def configuration(
    load: Loads, folder: Path, port: int, sync_ns: int, protocol: str = "STOMP"
) -> str:
    """Return the broker.xml of a server that keeps its data in a folder."""
    return _CONFIGURATION.format(
        data=escape(str(folder / "data")),
        port=port,
        sync_ns=sync_ns,
        protocol=protocol,
        name=peer.NAME,
        addresses=artemis_routing.addresses(load),
        divert=artemis_routing.divert(),
    )


@contextmanager
def server(load: Loads, folder: Path, protocol: str = "STOMP") -> Iterator[tuple[int, int]]:
    """Run a server; give the port where it speaks the protocol, and its pid."""
    port, log = processes.free_port(), folder / "artemis.log"
    etc = folder / "etc"
    etc.mkdir()
    text = configuration(load, folder, port, sync_ns(folder), protocol)
    (etc / "broker.xml").write_text(text, encoding="utf-8")
    with jvm.server("artemis", [_CLASS, str(folder)], port=port, log=log) as process:
        yield port, process.pid


def sync_ns(folder: Path) -> int:
    """Return how long a write takes to be on disk, the fastest of some tries.

    The broker gathers writes for so long before it syncs them: its own installer measures the
    disk like this and writes what it finds into broker.xml.
    """
    block = bytes(_BLOCK_BYTES)
    path = folder / "sync"
    file = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.pwrite(file, block * _BLOCKS, 0)
        os.fsync(file)
        tries: list[int] = []
        for _ in range(_TRIES):
            began = time.perf_counter_ns()
            for number in range(_BLOCKS):
                os.pwrite(file, block, number * _BLOCK_BYTES)
                os.fdatasync(file)
            tries.append((time.perf_counter_ns() - began) // _BLOCKS)
        return min(tries)
    finally:
        os.close(file)
        path.unlink()


def _measure(load: Loads, port: int, recorder: Recorder, emit: Callable[[Row], None]) -> None:
    # A JVM compiles what runs often, for some thousand calls; brokers run for weeks.
    for _ in range(load.repeats):
        _send(port, load.peer)
        _receive(port, load.peer)
        _send(port, load.peer_loop)
        _loop(port, load.peer_loop, confirmed=True)
    for _ in range(load.repeats):
        _send(port, load.peer, recorder)
        _receive(port, load.peer, recorder)
        for confirmed in LOOPS:
            _send(port, load.peer_loop)
            _loop(port, load.peer_loop, recorder, confirmed=confirmed)
    emit(recorder.row("send", "send, confirmed", f"window {WINDOW}", "persistent"))
    frames = f"window {BATCHED_BYTES} bytes; {ACKNOWLEDGE_EACH} an acknowledgement"
    emit(recorder.row("receive_complete", "receive + acknowledge, confirmed", frames))
    for confirmed, what in LOOPS.items():
        title = "for m in deliveries: ack(m), " + ("awaits receipt" if confirmed else "no receipt")
        said = "" if confirmed else "acknowledgements are unconfirmed"
        emit(recorder.row(what, title, "delivered ahead; 1 an acknowledgement", said))
    took = _one_by_one(port, load.peer_singles)
    for each in row.latency_rows(SYSTEM, "single_send", "one confirmed send at a time", took):
        emit(each)


def _send(port: int, count: int, recorder: Recorder | None = None) -> None:
    with timing(recorder, "send", count):
        stomp_session.send_all(port, peer.NAME, count)


def _one_by_one(port: int, count: int) -> list[float]:
    took: list[float] = []
    with StompSession(port) as session:
        for number in range(count):
            began = time.perf_counter()
            session.send(peer.NAME, f"send-{number}")
            session.wait_for(number + 1)
            took.append(time.perf_counter() - began)
    _receive(port, count)
    return took


def _receive(port: int, count: int, recorder: Recorder | None = None) -> None:
    with timing(recorder, "receive_complete", count):
        stomp_session.receive_all(port, peer.NAME, count)


def _loop(port: int, count: int, recorder: Recorder | None = None, *, confirmed: bool) -> None:
    """Take one message and acknowledge it, then the next."""
    with StompSession(port) as session, timing(recorder, LOOPS[confirmed], count):
        session.subscribe(peer.NAME, "client-individual", DELIVERED_BYTES)
        for gone in range(1, count + 1):
            message = session.next()
            # The last receipt of the unconfirmed loop comes after all acknowledgements.
            session.acknowledge(message, f"ack-{gone}" if confirmed or gone == count else None)
            if confirmed:
                session.wait_for(gone)
        session.wait_for(count if confirmed else 1)
