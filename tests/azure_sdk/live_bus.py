"""The bus that tests and samples run against; test processes read a file with its addresses.

With TLS the SDK ignores the port of an endpoint, so AMQP is on 5671 and WebSockets on 443 of a
loopback address of its own. The tests append a suffix to the name of their namespace: it is the
last byte of that address, so that names of other namespaces do not resolve to the bus.
"""

import fcntl
import functools
import json
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import certifi

from bendybus.client.management import ServiceBusAdministrationClient
from bendybus.domain import limits, partitioning, shared_access
from bendybus.domain.limits import Tier
from tests.certificates import mount_files
from tests.integration.secured import ROOT, ROOT_KEY, ROOT_POLICY, SecuredBus, policy
from tests.ports import loopback_address

AMQPS_PORT: Final = 5671
HTTPS_PORT: Final = 443
# The namespace of the tests is a Standard one.
PARTITIONS: Final = limits.STANDARD_PARTITION_COUNT
# The environment variable with the path of that file.
VARIABLE: Final = "BENDYBUS_AZURE_SDK_BUS"
# Time until front ends have read a changed policy file.
_RELOADED_S: Final = 2.5


class CannotListen(Exception):
    """Raised when the ports of the SDK cannot be used."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the processes know of the bus."""

    address: str
    administration_string: str
    ca_file: str
    # Our authority, and those that the SDK trusts.
    trusted: str
    policies: str

    @property
    def namespace(self) -> str:
        """The address without its suffix."""
        return self.address.rpartition(".")[0]

    @property
    def suffix(self) -> str:
        """What the tests put after the name of a namespace."""
        return f".{self.address.rpartition('.')[2]}"

    def token(self, ends_s: int) -> str:
        """Return a token of the root policy for all of the namespace."""
        return shared_access.sign(f"sb://{self.address}/", ROOT_POLICY, ROOT_KEY, ends_s)

    def connection_string(self, name: str = ROOT_POLICY, key: str = ROOT_KEY) -> str:
        """Return the connection string of a policy."""
        return f"Endpoint=sb://{self.address}/;SharedAccessKeyName={name};SharedAccessKey={key}"

    def administration(self) -> ServiceBusAdministrationClient:
        """Return a client that makes entities."""
        return ServiceBusAdministrationClient.from_connection_string(
            self.administration_string, connection_verify=self.ca_file
        )

    def add_policy(self, name: str, rights: Sequence[str], entity: str = "") -> str:
        """Add a policy, whose key is its name; return the key when the bus knows it."""
        file = Path(self.policies)
        with (file.parent.parent / "policies.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known: list[Any] = json.loads(file.read_text(encoding="utf-8"))["policies"]
            known.append(policy(name, rights, [name], entity))
            content = json.dumps({"policies": known})
            mount_files(file.parent, {file.name: content.encode()})
        time.sleep(_RELOADED_S)
        return name


def name_with(prefix: str) -> str:
    """Return a new name of an entity, whose sequence numbers begin with 1 unless partitioned.

    Tests expect that. Numbers have the partition in their upper bits, and an entity that is not
    partitioned lies in that of its name.
    """
    while True:
        name = f"{prefix}{secrets.token_hex(6)}"
        if partitioning.home_partition(name, PARTITIONS) == 0:
            return name


@functools.cache
def facts() -> Facts:
    """Return what this process was told of the bus."""
    return read(Path(os.environ[VARIABLE]))


def read(file: Path) -> Facts:
    """Return what a file says of a bus."""
    return Facts(**json.loads(file.read_text(encoding="utf-8")))


@contextmanager
def started(folder: Path) -> Iterator[Path]:
    """Run a bus; yield the file with its facts. Raises CannotListen."""
    address = _own_address()
    bus = SecuredBus(
        folder / "bus",
        (ROOT,),
        addresses=("127.0.0.1", address),
        partitions=PARTITIONS,
        tier=Tier.STANDARD,
        front_end_options=(
            f"--amqps-listen={address}:{AMQPS_PORT}",
            f"--http-listen={address}:{HTTPS_PORT}",
        ),
    )
    try:
        trusted = folder / "trusted.pem"
        trusted.write_bytes(Path(certifi.where()).read_bytes() + b"\n" + bus.bundle)
        known = Facts(
            address,
            bus.connection_string(),
            str(bus.ca_file),
            str(trusted),
            str(bus.policies / "policies.json"),
        )
        file = folder / "bus.json"
        file.write_text(json.dumps(asdict(known)), encoding="utf-8")
        yield file
    finally:
        bus.end()


def _own_address() -> str:
    """Return a loopback address on which no program listens. Raises CannotListen."""
    try:
        return loopback_address(AMQPS_PORT, HTTPS_PORT)
    except OSError as error:
        raise CannotListen(
            f"ports {AMQPS_PORT} and {HTTPS_PORT} of a loopback address cannot be used: {error}. "
            "The SDK takes no other ports over TLS: run this as root, or lower "
            "net.ipv4.ip_unprivileged_port_start, on Linux."
        ) from error
