"""The loops of servers and of the I/O thread."""

import asyncio
import collections
import logging
import socket
import sys
import types
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from bendybus.wire import event_loop
from bendybus.wire.event_loop import EventLoopError


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(event_loop.VARIABLE, raising=False)


@pytest.fixture
def uvloop(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    installed = types.ModuleType("uvloop")
    installed.new_event_loop = asyncio.SelectorEventLoop  # type: ignore[attr-defined]
    installed.__version__ = "0.21.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "uvloop", installed)
    return installed


def test_without_uvloop_it_is_the_loop_of_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    # None in sys.modules: what is not installed.
    monkeypatch.setitem(sys.modules, "uvloop", None)

    assert kind() is asyncio.SelectorEventLoop
    assert event_loop.name().startswith("asyncio of Python 3.")


@pytest.mark.usefixtures("uvloop")
def test_with_uvloop_it_is_that_one_and_the_policy_stays() -> None:
    policy = asyncio.get_event_loop_policy()

    assert kind() is asyncio.SelectorEventLoop
    assert event_loop.name() == "uvloop 0.21.0"
    assert asyncio.get_event_loop_policy() is policy


@pytest.mark.usefixtures("uvloop")
def test_it_can_be_done_without_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(event_loop.VARIABLE, " AsyncIO ")

    assert kind() is asyncio.SelectorEventLoop


def test_what_the_environment_names_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    monkeypatch.setenv(event_loop.VARIABLE, "uvloop")

    with pytest.raises(EventLoopError, match="install the extra 'speed'"):
        event_loop.factory()


def test_another_name_in_the_environment_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        raise AssertionError("not reached")

    monkeypatch.setenv(event_loop.VARIABLE, "trio")

    with pytest.raises(EventLoopError, match=r"must be uvloop or asyncio \(got 'trio'\)"):
        event_loop.run(main())


def test_a_server_runs_to_its_end_and_logs_its_loop(caplog: pytest.LogCaptureFixture) -> None:
    done = []

    async def main() -> None:
        done.append(asyncio.get_running_loop())

    with caplog.at_level(logging.INFO):
        event_loop.run(main())

    assert done
    assert done[0].is_closed()
    assert caplog.messages == [f"event loop: {event_loop.name()}"]


def kind() -> type[asyncio.AbstractEventLoop]:
    """Return the kind of the loops that are made."""
    loop = event_loop.factory()()
    loop.close()
    return type(loop)


class PollerCompletionQueue:
    """As gRPC's: it is woken by a byte for each operation, and handles all of them.

    It fails at one of a loop that is closed, and handles nothing where another loop got the byte.
    """

    __slots__ = ("_waker", "_woken", "closed", "handled", "waiting")

    def __init__(self) -> None:
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self.waiting: collections.deque[str] = collections.deque()
        self.handled: list[int] = []

    def complete(self, *operations: str) -> None:
        """Complete operations, as gRPC's thread does."""
        self.waiting += operations
        self._waker.send(b"x" * len(operations))

    def bind(self) -> None:
        """Let the running loop read."""
        asyncio.get_running_loop().add_reader(self._woken, self._handle_events)

    def close(self) -> None:
        """Close the sockets; BlockingIOError where all bytes are read."""
        with self._woken, self._waker:
            self._woken.recv(1)

    def _handle_events(self) -> None:
        assert self._woken.recv(1)
        self.handled.append(0)
        while self.waiting:
            if self.waiting.popleft() == "closed":
                raise RuntimeError("Event loop is closed")
            self.handled[-1] += 1


@pytest.mark.requirement("R634")
def test_all_wake_ups_of_grpc_are_read_in_one_iteration() -> None:
    queue = PollerCompletionQueue()

    async def run() -> None:
        queue.bind()
        queue.complete(*["ours"] * 200)
        await asyncio.sleep(0.05)

    with asyncio.Runner(loop_factory=event_loop.factory()) as runner:
        runner.run(run())
    with pytest.raises(BlockingIOError):
        queue.close()

    assert queue.handled == [200]


@pytest.mark.requirement("R646")
def test_operations_behind_one_of_a_closed_loop_are_handled() -> None:
    queue = PollerCompletionQueue()
    failures = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
        queue.bind()
        queue.complete("ours", "closed", "closed", "ours", "ours")
        await asyncio.sleep(0.05)

    with asyncio.Runner(loop_factory=event_loop.factory()) as runner:
        runner.run(run())
    with pytest.raises(BlockingIOError):
        queue.close()

    assert queue.handled == [1, 0, 2]
    assert [str(failure) for failure in failures] == ["Event loop is closed"] * 2


@pytest.mark.requirement("R646")
def test_of_grpcs_own_queue_the_socket_is_found_that_its_thread_writes_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = []

    class Recording(asyncio.SelectorEventLoop):
        def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
            found.append(type(callback).__name__)
            super().add_reader(fd, callback, *args)

    async def run() -> None:
        await grpc.aio.insecure_channel("127.0.0.1:1").close()

    monkeypatch.setenv(event_loop.VARIABLE, "asyncio")
    monkeypatch.setattr(asyncio, "new_event_loop", Recording)
    with asyncio.Runner(loop_factory=event_loop.factory()) as runner:
        runner.run(run())

    assert "_Wakes" in found
