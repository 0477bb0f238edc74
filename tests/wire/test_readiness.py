"""The line by which a server reports whether it serves."""

import asyncio
import errno
import socket
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from bendybus.wire import readiness, serving
from bendybus.wire.readiness import CannotListen, Readiness

# Far more than any machine needs: it ends a test that would wait for ever.
WITHIN_S = 60.0


def test_what_a_server_prints_is_what_its_parent_reads(capsys: pytest.CaptureFixture[str]) -> None:
    readiness.print_ready(address="127.0.0.1:7480", partitions=[0])
    status = readiness.print_failure(CannotListen("cannot listen at x: taken"))
    readiness.print_failure(ValueError("the file is of another bus"))

    shown = capsys.readouterr()
    assert [readiness.read(line.encode()) for line in shown.out.splitlines()] == [
        Readiness(True, "127.0.0.1:7480"),
        Readiness(False, error="cannot listen at x: taken", cannot_listen=True),
        Readiness(False, error="the file is of another bus"),
    ]
    assert status == 1
    assert "error: the file is of another bus" in shown.err


def test_a_server_whose_parent_is_gone_before_it_serves_ends_in_order(tmp_path: Path) -> None:
    options = ["--namespace-name=test", "--namespace-uid=uid", "--tier=Premium"]
    options += ["--partition-count=1", "--partitions=0", "--listen=127.0.0.1:0"]
    command = [sys.executable, "-m", "bendybus.partition_server", "serve", f"--data={tmp_path}"]
    with subprocess.Popen(
        [*command, *options, "--exit-with-parent"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        try:
            server.stdout.close()
            # It has opened its file, and is about to say that it serves.
            while '"action": "open"' not in (line := server.stderr.readline()):
                assert line
            server.stdin.close()
            code = server.wait(WITHIN_S)
        finally:
            server.kill()

    assert code == 0


@pytest.mark.parametrize("line", [b"", b"ready", b"[]", b"{}", b'{"ready": 1}', b"\xff"])
def test_another_line_says_nothing(line: bytes) -> None:
    assert readiness.read(line) is None


async def test_a_port_that_is_taken_is_named() -> None:
    server = grpc.aio.server(options=serving.OPTIONS)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"

        with pytest.raises(CannotListen, match=listen):
            serving.open_port(server, listen, None, demand_client_certificate=False)


async def test_a_port_that_is_taken_is_named_from_inside_a_task_group() -> None:
    async def serve(stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(stop.wait(), name="beside")
            with readiness.listening("127.0.0.1:5672"):
                raise OSError(errno.EADDRINUSE, "error while attempting to bind on address")

    with pytest.raises(CannotListen, match=r"at 127\.0\.0\.1:5672: Address already in use"):
        await serving.run_until_signal(serve)


@pytest.mark.requirement("R388")
def test_kubernetes_is_told_why_a_server_does_not_serve_where_it_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "termination-log"
    monkeypatch.setattr(readiness, "TERMINATION_LOG", log)

    readiness.print_failure(ValueError("nobody listens"))
    assert not log.exists()
    log.touch()
    readiness.print_failure(ValueError("the file has format 13" + "!" * 5_000))

    assert log.read_text(encoding="utf-8").startswith("the file has format 13!")
    assert len(log.read_text(encoding="utf-8")) == readiness.TERMINATION_CHARS_MAX
