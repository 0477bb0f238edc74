"""A bus on a cluster: its selection, its keys, and the connection to its front end."""

import base64
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bendybus.cli import endpoint
from bendybus.cli.cluster import port_forward
from bendybus.cli.cluster.kubectl import Absent, Forbidden, Kubectl
from bendybus.cli.errors import CliError, NotFound

_BUSES: Final = "busnamespaces.bendybus.io"
_SECRET: Final = "{name}-rootmanagesharedaccesskey"
_STRING: Final = "primaryConnectionString"
_AUTHORITIES: Final = "ca.crt"
_IN_POD: Final = "KUBERNETES_SERVICE_HOST"


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
        with port_forward.forwarded(kubectl, f"{bus.name}-frontend", int(port)) as local:
            address = f"{port_forward.HOST}:{local}"
            yield moved(access.connection_string, address), trusted


def find(kubectl: Kubectl, wanted: str) -> BusKey:
    """Return the bus that is meant: the named one, or the only one. Raises CliError."""
    if wanted:
        try:
            return _key_of(kubectl.json("get", _BUSES, wanted))
        except Absent as error:
            raise NotFound(
                f"There is no BusNamespace {wanted!r} in namespace {kubectl.namespace_name()!r} of "
                f"{kubectl.where}. kubectl get busnamespaces -A lists them."
            ) from error
    found = kubectl.json("get", _BUSES)["items"]
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
