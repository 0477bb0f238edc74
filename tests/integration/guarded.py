"""An AMQP bus without TLS but with access policies, and clients with tokens of these policies."""

import json
import time
from pathlib import Path
from typing import Any

from azure.servicebus import ServiceBusClient as SdkClient

from bendybus.domain import shared_access
from tests.certificates import mount_files
from tests.integration.amqp import AmqpBus
from tests.integration.raw_amqp import RawAmqp
from tests.integration.secured import POLICIES, ROOT_KEY, ROOT_POLICY
from tests.ports import free_port


class Guarded(AmqpBus):
    """A bus with policies, in plain text, with queues that every test may use."""

    def __init__(self, folder: Path, policies: Any = POLICIES, **options: Any) -> None:
        self.policies = folder / "policies"
        folder.mkdir(parents=True, exist_ok=True)
        self.grant(policies)
        self.metrics_port = free_port()
        front_end = (
            f"--access-policies={self.policies / 'policies.json'}",
            f"--metrics-port={self.metrics_port}",
            *options.pop("front_end_options", ()),
        )
        super().__init__(folder / "data", partitions=1, front_end_options=front_end, **options)
        with self.administration() as administration:
            for name in ("orders", "bills"):
                administration.create_queue(name)
            administration.create_queue("sessions", requires_session=True)
            administration.create_topic("topic")
            administration.create_subscription("topic", "all")

    def grant(self, policies: Any) -> None:
        """Write the file of policies, as a Secret's change arrives."""
        text = json.dumps({"policies": list(policies)})
        mount_files(self.policies, {"policies.json": text.encode()})

    def string(self, name: str, key: str) -> str:
        """Return the connection string of a policy, for official SDKs."""
        return (
            f"Endpoint=sb://{self.amqp_address};SharedAccessKeyName={name};SharedAccessKey={key};"
            "UseDevelopmentEmulator=true"
        )

    @property
    def connection_string(self) -> str:
        """What the client of this project needs."""
        return (
            f"Endpoint=sb://{self.front_end_address};SharedAccessKeyName={ROOT_POLICY};"
            f"SharedAccessKey={ROOT_KEY};UseDevelopmentEmulator=true"
        )

    def sdk_of(self, name: str, key: str, **options: Any) -> SdkClient:
        """Return a client of azure-servicebus with the key of a policy."""
        return SdkClient.from_connection_string(self.string(name, key), **options)

    def uri(self, path: str = "") -> str:
        """Return the URI of a path, as a token names it."""
        return f"amqp://{self.amqp_address}/{path}"

    def token(self, name: str, key: str, path: str = "", lives_s: float = 600) -> str:
        """Return a token that is good for so long from now on, skew included."""
        ends_s = int(time.time() + lives_s - shared_access.CLOCK_SKEW_S)
        return shared_access.sign(self.uri(path), name, key, ends_s)

    def raw(self) -> RawAmqp:
        """Return a client that writes frames."""
        return RawAmqp(self.amqp_address)

    def held_by(self, name: str, key: str, path: str = "orders") -> RawAmqp:
        """Return an open connection with a token of a policy."""
        made = self.raw().open()
        assert made.put_token(self.token(name, key), self.uri(path)) == 202
        return made
