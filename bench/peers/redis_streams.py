"""Redis streams: every write on disk before its answer, redis-py with hiredis and pipelines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench import processes
from bench.loads import FRAME_MESSAGES, Loads
from bench.peers import peer
from bench.recorder import Recorder
from bench.row import Row

SYSTEM: Final = "Redis streams"


def measure(load: Loads, folder: Path, emit: Callable[[Row], None]) -> None:
    """Start a server and measure it."""
    if peer.missing((SYSTEM,), "redis-server", "redis", emit):
        return
    import redis

    port, log = processes.free_port(), folder / "redis.log"
    command = [peer.program("redis-server") or "", "--bind", "127.0.0.1", "--port", str(port)]
    command += ["--dir", str(folder), "--save", "", "--appendonly", "yes"]
    command += ["--appendfsync", "always", "--logfile", str(log)]
    with processes.running(command, log=log) as process:
        processes.wait_for_port(port, process, log, peer.START_S)
        recorder = Recorder(SYSTEM, {"server": [[process.pid]]})
        with redis.Redis("127.0.0.1", port) as client:
            client.xgroup_create(peer.NAME, peer.NAME, mkstream=True)
            for _ in range(load.repeats):
                with recorder.timing("send", load.peer):
                    _send(client, load.peer)
                with recorder.timing("receive_complete", load.peer):
                    _receive(client, load.peer)
                assert client.xlen(peer.NAME) == 0
    emit(
        recorder.row("send", "send (XADD)", f"pipelines of {FRAME_MESSAGES}", "appendfsync always")
    )
    emit(recorder.row("receive_complete", "receive + acknowledge + delete",
                      f"COUNT {FRAME_MESSAGES}; {FRAME_MESSAGES} a XACK and XDEL"))  # fmt: skip


def _send(client: Any, count: int) -> None:
    for begin in range(0, count, FRAME_MESSAGES):
        pipeline = client.pipeline(transaction=False)
        for _ in range(min(FRAME_MESSAGES, count - begin)):
            pipeline.xadd(peer.NAME, {"body": peer.BODY})
        pipeline.execute()


def _receive(client: Any, count: int) -> None:
    gone = 0
    while gone < count:
        found = client.xreadgroup(peer.NAME, "one", {peer.NAME: ">"}, count=FRAME_MESSAGES)
        streams = found.values() if isinstance(found, dict) else (entries for _, entries in found)
        for entries in streams:
            names = [entry[0] for entry in entries]
            if not names:
                continue
            pipeline = client.pipeline(transaction=False)
            pipeline.xack(peer.NAME, peer.NAME, *names)
            pipeline.xdel(peer.NAME, *names)
            pipeline.execute()
            gone += len(names)
