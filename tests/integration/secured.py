"""A bus of real processes with TLS on every hop and access policies, as the operator makes it."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc

from bendybus.client import ServiceBusClient
from bendybus.client.management import ServiceBusAdministrationClient
from bendybus.domain import shared_access
from tests.certificates import BUS, Authority, mount, mount_files
from tests.integration.processes import Bus
from tests.ports import HOST

ROOT_POLICY = "RootManageSharedAccessKey"
ROOT_KEY = "root-primary-key-that-is-a-secret"
ROOT_KEY_2 = "root-secondary-key-that-is-a-secret"


def policy(name: str, rights: Sequence[str], keys: Sequence[str], entity: str = "") -> Any:
    """Return an entry of the file of policies."""
    return {"name": name, "rights": list(rights), "entity": entity, "keys": list(keys)}


ROOT = policy(ROOT_POLICY, ["Manage", "Send", "Listen"], [ROOT_KEY, ROOT_KEY_2])

SEND_KEY, LISTEN_KEY, MANAGE_KEY, OTHER_KEY = "send-key", "listen-key", "manage-key", "orders-key"
POLICIES = (
    ROOT,
    policy("sender", ["Send"], [SEND_KEY]),
    policy("listener", ["Listen"], [LISTEN_KEY]),
    policy("manager", ["Manage"], [MANAGE_KEY]),
    policy("orders-only", ["Send", "Listen"], [OTHER_KEY], "orders"),
)


class SecuredBus:
    """A bus with its authority, its mounted certificates and its mounted policies."""

    def __init__(self, folder: Path, policies: Sequence[Any] = (ROOT,), **options: Any) -> None:
        self.folder = folder
        self.authority = Authority()
        self.bundle = self.authority.pem
        self.partition_tls = folder / "partition-tls"
        self.frontend_tls = folder / "frontend-tls"
        # What partitions trust beside the bus's root: the operator's.
        self.partition_trust: bytes = options.pop("partition_trust", b"")
        # Where certificates are good.
        self._addresses: Sequence[str] = options.pop("addresses", (HOST,))
        self._names: Sequence[str] = options.pop("names", ("localhost",))
        self.policies = folder / "policies"
        self.ca_file = folder / "ca.crt"
        folder.mkdir(parents=True, exist_ok=True)
        self.issue("partition")
        self.issue("frontend")
        self.grant(policies)
        self.trust(self.bundle)
        front_end = options.pop("front_end_options", ())
        self.bus = Bus(
            folder / "data",
            partitions=options.pop("partitions", 2),
            partition_options=(
                f"--tls-directory={self.partition_tls}",
                f"--bus-identity={BUS}",
                *options.pop("partition_options", ()),
            ),
            front_end_options=(
                f"--tls-directory={self.frontend_tls}",
                f"--bus-identity={BUS}",
                f"--access-policies={self.policies / 'policies.json'}",
                *front_end,
            ),
            **options,
        )

    def issue(self, role: str) -> None:
        """Write a new certificate of a role, as a Secret's change arrives."""
        pair = self.authority.issue(f"{BUS}/{role}", names=self._names, addresses=self._addresses)
        if role == "partition":
            mount(self.partition_tls, *pair, self.bundle + self.partition_trust)
        else:
            mount(self.frontend_tls, *pair, self.bundle)

    def grant(self, policies: Sequence[Any]) -> None:
        """Write the file of policies, as a Secret's change arrives."""
        text = json.dumps({"policies": list(policies)})
        mount_files(self.policies, {"policies.json": text.encode()})

    def trust(self, bundle: bytes) -> None:
        """Write what clients trust."""
        self.ca_file.write_bytes(bundle)

    def connection_string(self, key: str = ROOT_KEY, name: str = ROOT_POLICY) -> str:
        """What the Secret of a policy holds."""
        return (
            f"Endpoint=sb://{self.bus.front_end_address};SharedAccessKeyName={name};"
            f"SharedAccessKey={key}"
        )

    def client(
        self, key: str = ROOT_KEY, name: str = ROOT_POLICY, **options: Any
    ) -> ServiceBusClient:
        """Return a client that trusts this bus."""
        options.setdefault("connection_verify", str(self.ca_file))
        return ServiceBusClient.from_connection_string(self.connection_string(key, name), **options)

    def client_with(self, credential: Any, **options: Any) -> ServiceBusClient:
        """Return a client with a credential object."""
        options.setdefault("connection_verify", str(self.ca_file))
        return ServiceBusClient(self.bus.front_end_address, credential, **options)

    def administration(
        self, key: str = ROOT_KEY, name: str = ROOT_POLICY, **options: Any
    ) -> ServiceBusAdministrationClient:
        """Return an administration client that trusts this bus."""
        options.setdefault("connection_verify", str(self.ca_file))
        return ServiceBusAdministrationClient.from_connection_string(
            self.connection_string(key, name), **options
        )

    def token(self, lives_s: float, key: str = ROOT_KEY, name: str = ROOT_POLICY) -> str:
        """Return a token that is good for so long from now on, skew included."""
        ends_s = int(time.time() + lives_s - shared_access.CLOCK_SKEW_S)
        return shared_access.sign(f"sb://{self.bus.front_end_address}/", name, key, ends_s)

    def partition_channel(self, pair: tuple[bytes, bytes] | None) -> grpc.Channel:
        """Return a channel to partition 0 with a certificate, or with none."""
        certificate, key = pair or (None, None)
        credentials = grpc.ssl_channel_credentials(self.bundle, key, certificate)
        return grpc.secure_channel(self.bus.partitions[0].address, credentials)

    def end(self) -> None:
        """End all processes."""
        self.bus.end()
