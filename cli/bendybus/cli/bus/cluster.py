"""A bus on a cluster: its selection, its keys, and the connection to its front end.

The connection is a port of this machine that leads to a Service, as long as a command runs.
`kubectl port-forward` leads to one pod of the Service and ends when that pod does; then another is
started on the same port, so that the client only reconnects.
"""

import base64
import re
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bendybus.cli import ending, endpoint
from bendybus.cli.bus.kubectl import Absent, Forbidden, Kubectl
from bendybus.cli.errors import CliError, NotFound, Unreachable
from bendybus.domain.backoff import Backoff

BUSES: Final = "busnamespaces.bendybus.io"
_SECRET: Final = "{name}-rootmanagesharedaccesskey"
_STRING: Final = "primaryConnectionString"
_AUTHORITIES: Final = "ca.crt"
_IN_POD: Final = "KUBERNETES_SERVICE_HOST"
HOST: Final = "127.0.0.1"
READY_S: Final = 20.0
STOP_S: Final = 2.0
_BACKOFF: Final = Backoff(0.2, 5.0)
_READY: Final = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ->")
_LOST: Final = "lost connection to pod"
_SAID_CHARS_MAX: Final = 4_096


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    """Which cluster and bus; "" where nothing was said."""

    context: str = ""
    namespace: str = ""
    bus: str = ""

    @property
    def kubectl(self) -> Kubectl:
        """Return kubectl for it."""
        return Kubectl(self.context, self.namespace)


@dataclass(frozen=True, slots=True)
class BusKey:
    """Kubernetes namespace and name of a bus."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Access:
    """The content of the Secret of a bus. Never printed."""

    connection_string: str
    authorities: str

    def __repr__(self) -> str:
        return "Access(…)"


@contextmanager
def reached(
    choice: ClusterChoice, environment: Mapping[str, str]
) -> Iterator[tuple[str, Path | None]]:
    """Yield a connection string that works on this machine, and the CA certificates.

    In a pod the front end is reached by its name, elsewhere through a port-forward that ends with
    the block. Raises CliError.
    """
    kubectl = choice.kubectl
    bus = find(kubectl, choice.bus)
    kubectl = Kubectl(choice.context, bus.namespace)
    access = read_access(kubectl, bus)
    with tempfile.TemporaryDirectory(prefix="bendybus-") as folder:
        trusted = None
        if access.authorities:
            trusted = Path(folder) / _AUTHORITIES
            trusted.write_text(access.authorities, encoding="utf-8")
        host, _, port = endpoint.parse(access.connection_string).address.rpartition(":")
        if not choice.context and _IN_POD in environment and _resolves(host):
            yield access.connection_string, trusted
            return
        with forwarded(kubectl, f"{bus.name}-frontend", int(port)) as local:
            address = f"{HOST}:{local}"
            yield moved(access.connection_string, address), trusted


def find(kubectl: Kubectl, wanted: str) -> BusKey:
    """Return the bus that is meant: the named one, or the only one. Raises CliError."""
    if wanted:
        try:
            return _key_of(kubectl.json("get", BUSES, wanted))
        except Absent as error:
            raise NotFound(
                f"There is no BusNamespace {wanted!r} in namespace {kubectl.namespace_name()!r} of "
                f"{kubectl.where}. kubectl get busnamespaces -A lists them."
            ) from error
    found = kubectl.json("get", BUSES)["items"]
    if not found:
        raise NotFound(
            f"There is no BusNamespace in namespace {kubectl.namespace_name()!r} of "
            f"{kubectl.where}. Choose another with --namespace; kubectl get busnamespaces -A lists "
            "them."
        )
    return only([_key_of(each) for each in found])


def only(found: Sequence[BusKey]) -> BusKey:
    """Return the one bus. Raises CliError that names them if there are several."""
    if len(found) > 1:
        names = ", ".join(bus.name for bus in found)
        raise CliError(
            f"Several buses are in namespace {found[0].namespace!r}: {names}. Choose one with "
            "--bus NAME."
        )
    return found[0]


def read_access(kubectl: Kubectl, bus: BusKey) -> Access:
    """Return connection string and authorities from the bus's Secret. Raises CliError."""
    name = _SECRET.format(name=bus.name)
    try:
        data = kubectl.json("get", "secret", name).get("data") or {}
    except Absent as error:
        raise NotFound(
            f"Secret {bus.namespace}/{name} does not exist yet; the operator creates it. Check "
            f"kubectl describe busnamespace {bus.name} -n {bus.namespace}."
        ) from error
    except Forbidden as error:
        raise CliError(
            f"You may not read Secret {bus.namespace}/{name}, which holds the keys. Ask for the "
            "right to get it, or use a connection string that you have, with --connection-string."
        ) from error
    if _STRING not in data:
        raise CliError(
            f"Secret {bus.namespace}/{name} has no {_STRING}. Delete it; the operator then "
            "recreates it with new keys."
        )
    return Access(_text(data, _STRING), _text(data, _AUTHORITIES))


def moved(connection_string: str, address: str) -> str:
    """Return the connection string with another address."""
    parts = [part for part in connection_string.split(";") if part]
    kept = [part for part in parts if not part.strip().lower().startswith("endpoint=")]
    return ";".join([f"Endpoint=sb://{address}", *kept])


def _key_of(body: Mapping[str, Any]) -> BusKey:
    metadata = body["metadata"]
    return BusKey(metadata["namespace"], metadata["name"])


def _text(data: Mapping[str, str], name: str) -> str:
    return base64.b64decode(data.get(name, "")).decode()


def _resolves(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return False
    return True


@contextmanager
def forwarded(
    kubectl: Kubectl, service: str, port: int, *, ready_s: float = READY_S
) -> Iterator[int]:
    """Give the local port that leads to `port` of the Service. Raises CliError."""
    forward = Forward(kubectl, service, port)
    try:
        with ending.in_order():
            yield forward.start(ready_s)
    finally:
        forward.stop()


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
