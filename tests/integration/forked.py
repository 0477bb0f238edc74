"""Processes of servers and commands that are forked from one that has imported their modules.

Importing takes two thirds of the processor time of a start, and tests start hundreds of them.
What is forked is a process like any other: it has its own number, files, environment and end.

    test process -- JSON, 4 files --> parent -- fork --> keeper -- fork --> server
                 <-- number, exit code ------------------ keeper
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from typing import IO, Final

IMPORTED: Final = (
    "bendybus.partition_server.__main__",
    "bendybus.frontend.__main__",
    "bendybus.cli.commands.run_command",
)
RUN_S_MAX: Final = 120.0
_REQUEST_BYTES_MAX: Final = 1 << 20


class Process:
    """One process; its methods are those of `subprocess.Popen`."""

    def __init__(self, arguments: tuple[str, ...], errors: int) -> None:
        their_input, stdin = os.pipe()
        stdout, their_output = os.pipe()
        status, their_status = os.pipe()
        theirs = [their_input, their_output, errors, their_status]
        facts = json.dumps([arguments, dict(os.environ), os.getcwd()]).encode()
        socket.send_fds(_parent(), [facts], theirs)
        for each in (their_input, their_output, their_status):
            os.close(each)
        self.stdin: IO[bytes] = os.fdopen(stdin, "wb")
        self.stdout: IO[bytes] = os.fdopen(stdout, "rb")
        self._status: IO[bytes] = os.fdopen(status, "rb", buffering=0)
        self.pid: Final = int(self._status.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return its exit code, or None while it runs."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self._ended()
        return self.returncode

    def wait(self, within_s: float) -> int:
        """Wait for its end; return its exit code. Raises subprocess.TimeoutExpired."""
        if self.returncode is None and not select.select([self._status], [], [], within_s)[0]:
            raise subprocess.TimeoutExpired(str(self.pid), within_s)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal; nothing when it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as a power cut would."""
        self.send_signal(signal.SIGKILL)

    def _ended(self) -> None:
        self.returncode = int(self._status.readline())
        self._status.close()


def run(*arguments: str, said: str | None = None) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, as `subprocess.run` does."""
    with tempfile.TemporaryFile() as errors:
        command = Process(arguments, errors.fileno())
        with command.stdout, command.stdin:
            with contextlib.suppress(BrokenPipeError):
                command.stdin.write((said or "").encode())
                command.stdin.close()
            printed = command.stdout.read().decode()
        code = command.wait(RUN_S_MAX)
        errors.seek(0)
        return subprocess.CompletedProcess(arguments, code, printed, errors.read().decode())


@functools.cache
def _parent() -> socket.socket:
    """Return the line to the process that forks servers; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    number = theirs.fileno()
    command = [sys.executable, "-m", "tests.integration.forked", str(number)]
    process = subprocess.Popen(command, pass_fds=[number], stdin=subprocess.DEVNULL)
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _fork_for(line: socket.socket) -> None:
    for name in IMPORTED:
        importlib.import_module(name)
        if name.endswith("__main__"):
            # It is run as `python -m` does; what it imports is there.
            del sys.modules[name]
    gc.freeze()
    keepers: set[int] = set()
    while True:
        facts, files, _, _ = socket.recv_fds(line, _REQUEST_BYTES_MAX, 4)
        if not facts:
            return
        keepers = {each for each in keepers if os.waitpid(each, os.WNOHANG) == (0, 0)}
        arguments, environment, folder = json.loads(facts)
        keeper = os.fork()
        if keeper:
            keepers.add(keeper)
        else:
            line.close()
            if _keep(files):
                os._exit(0)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            sys.argv = list(arguments)
            runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
            return
        for each in files:
            os.close(each)


def _keep(files: list[int]) -> bool:
    """Fork the server, where this returns False; tell its number, and its code at its end."""
    *standard, status = files
    server = os.fork()
    if not server:
        for number, each in enumerate(standard):
            os.dup2(each, number)
        for each in files:
            os.close(each)
        return False
    for each in standard:
        os.close(each)
    os.write(status, f"{server}\n".encode())
    ended = os.waitid(os.P_PID, server, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    killed = ended.si_code != os.CLD_EXITED
    os.write(status, f"{-ended.si_status if killed else ended.si_status}\n".encode())
    # Its number stays its own until the test has read this: a signal meant for it reaches no other.
    read = select.poll()
    read.register(status, 0)
    read.poll()
    os.waitpid(server, 0)
    return True


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _fork_for(socket.socket(fileno=int(sys.argv[1])))
