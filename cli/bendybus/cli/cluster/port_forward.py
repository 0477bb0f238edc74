"""A port of this machine that leads to a Service of a cluster, as long as a command runs.

`kubectl port-forward` leads to one pod of the Service and ends when that pod does; then another is
started on the same port, so that the client only reconnects.
"""

import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from bendybus.cli.cluster.kubectl import Kubectl
from bendybus.cli.errors import CliError, Unreachable
from bendybus.domain.backoff import Backoff

HOST: Final = "127.0.0.1"
READY_S: Final = 20.0
STOP_S: Final = 2.0
_BACKOFF: Final = Backoff(0.2, 5.0)
_READY: Final = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ->")
# Windows has no SIGHUP.
_SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)
_LOST: Final = "lost connection to pod"
_SAID_CHARS_MAX: Final = 4_096


@contextmanager
def forwarded(
    kubectl: Kubectl, service: str, port: int, *, ready_s: float = READY_S
) -> Iterator[int]:
    """Give the local port that leads to `port` of the Service. Raises CliError."""
    forward = Forward(kubectl, service, port)
    try:
        with _ending_in_order():
            yield forward.start(ready_s)
    finally:
        forward.stop()


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Turn signals that would end this process at once into an exit that cleans up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _leave) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


class Forward:
    """One port-forward and its successors; a thread of its own watches them."""

    def __init__(self, kubectl: Kubectl, service: str, port: int) -> None:
        self._kubectl = kubectl
        self._service = service
        self._port = port
        self._local = 0
        self._process: subprocess.Popen[str] | None = None
        self._said = ""
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._ending = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="port-forward", daemon=True)

    def start(self, ready_s: float) -> int:
        """Return the local port as soon as it is open. Raises CliError."""
        # Here, so that a missing kubectl is said by the command, not by a thread.
        self._kubectl.command()
        self._watcher.start()
        if not self._ready.wait(ready_s):
            raise Unreachable(
                f"kubectl port-forward to service/{self._service} was not ready within "
                f"{ready_s:.0f} s. Is a front-end pod ready? kubectl get pods shows it."
            )
        if not self._local:
            raise self._why_not()
        return self._local

    def stop(self) -> None:
        """End the process that runs, and start no other."""
        self._ending.set()
        with self._lock:
            process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._watcher.ident is not None:
            self._watcher.join(STOP_S)

    def _watch(self) -> None:
        failures = 0
        while not self._ending.is_set():
            self._one_life()
            if not self._local:
                # It never worked: the caller says why.
                self._ready.set()
                return
            failures += 1
            self._ending.wait(_BACKOFF.delay_s(failures))

    def _one_life(self) -> None:
        ports = f"{self._local or ''}:{self._port}"
        command = self._kubectl.command(
            "port-forward", f"service/{self._service}", ports, f"--address={HOST}"
        )
        with self._lock:
            if self._ending.is_set():
                return
            # A session of its own: Ctrl-C is for the command, which then ends this.
            process = self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                found = _READY.search(line)
                if found:
                    self._local = int(found.group(1))
                    self._ready.set()
                elif not line.startswith("Handling connection"):
                    self._said = (self._said + line)[-_SAID_CHARS_MAX:]
                if _LOST in line:
                    # Some versions say so and stay.
                    with suppress(ProcessLookupError):
                        process.terminate()
        process.wait()

    def _why_not(self) -> CliError:
        error = self._kubectl.explained(self._said)
        return Unreachable(f"No way to service/{self._service}: {error}")
