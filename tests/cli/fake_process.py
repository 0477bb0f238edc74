"""`python -m tests.cli.fake_process ROLE …`: stands for a server when `up` itself is tested.

Takes the real servers' options, prints their ready line, ends when its stdin or SIGTERM says so.
Behaviours for tests, by files in --data's folder: `fail` (die before serving), `die` (die soon
after serving), `stubborn` (ignore SIGTERM), `taken-ROLE` (its port is taken so many times),
`taken-amqp` (so many times it waits until the AMQP port is taken), `away` (the partition in it does
not serve, and the log says why).
"""

import argparse
import fcntl
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

from bendybus.wire import readiness
from bendybus.wire.readiness import CannotListen
from tests.cli import fake_management


def _is_taken(times: Path) -> bool:
    """Take one off the number in a file, which several processes do at once; False at 0."""
    if not times.exists():
        return False
    with times.open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        left = int(file.read())
        file.seek(0)
        file.truncate()
        file.write(str(max(left - 1, 0)))
    return left > 0


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("role", choices=("partition-server", "frontend"))
    parser.add_argument("--behaviour", type=Path, default=Path("/nonexistent"))
    parser.add_argument("--listen", required=True)
    parser.add_argument("--shared-listen", default="")
    parser.add_argument("--shared-tls-directory", default="")
    parser.add_argument("--health-listen", default="")
    parser.add_argument("--partitions", default="")
    parser.add_argument("--exit-with-parent", action="store_true")
    options, _ = parser.parse_known_args()
    if (options.behaviour / f"fail-{options.role}").exists():
        print("a line before", file=sys.stderr)
        return readiness.print_failure(RuntimeError("the file belongs to another bus"))
    with (options.behaviour / "asked").open("a", encoding="utf-8") as asked:
        asked.write(f"{options.role} {options.listen}\n")
        for name, address in (("amqp", options.shared_listen), ("health", options.health_listen)):
            asked.write(f"{name} {address}\n" * bool(address))
    if options.shared_listen and _is_taken(options.behaviour / "taken-amqp"):
        _wait_until_bound(options.shared_listen)
        return readiness.print_failure(CannotListen(f"cannot listen at {options.shared_listen}"))
    if _is_taken(options.behaviour / f"taken-{options.role}"):
        return readiness.print_failure(CannotListen(f"cannot listen at {options.listen}: taken"))
    if (options.behaviour / "stubborn").exists():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    path = options.behaviour / "away"
    away = [int(path.read_text(encoding="utf-8"))] if path.exists() else []
    keep: object
    if options.role == "frontend":
        fake = fake_management.FakeManagement(unreached=tuple(away))  # type: ignore[abstract]
        keep, address = fake_management.serve(fake, options.listen)
    else:
        keep, address = _listen(options.listen)
    partitions = [int(each) for each in options.partitions.split(",") if each]
    for partition in {*partitions} & {*away}:
        entry = {
            "level": "error",
            "message": f"partition {partition}: store failed: its format is new",
        }
        print(json.dumps(entry | {"partition": partition}), file=sys.stderr, flush=True)
    readiness.print_ready(address=address, partitions=partitions)
    if options.exit_with_parent:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if (options.behaviour / f"die-{options.role}").exists():
            os._exit(7)
        time.sleep(0.02)
    assert keep
    return 0


def _wait_until_bound(listen: str) -> None:
    host, _, port = listen.rpartition(":")
    while True:
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                return
        time.sleep(0.02)


def _listen(listen: str) -> tuple[socket.socket, str]:
    host, _, port = listen.rpartition(":")
    server = socket.create_server((host, int(port)))
    return server, f"{host}:{server.getsockname()[1]}"


def _end_with_stdin() -> None:
    while sys.stdin.buffer.read(1):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
