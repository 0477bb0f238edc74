"""The bus on which official SDKs do their operations: a Standard one of 16 partitions, with TLS."""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from bendybus.domain import limits
from bendybus.domain.limits import Tier
from tests.azure_sdk.live_bus import AMQPS_PORT, HTTPS_PORT
from tests.azure_sdk.operation_table import SUBSCRIPTION, Counts, Row
from tests.integration.secured import ROOT, SecuredBus, policy
from tests.ports import HOST, loopback_address

SETTLED_S: Final = 5.0
# Each entity has a policy for each of them.
RIGHTS: Final = ("Send", "Listen")
_MANAGE_KEY: Final = "key-of-who-manages"
MANAGE: Final = policy("Manage", ["Manage"], [_MANAGE_KEY])


def name_of(row: Row, layout: str, client: str) -> str:
    """Return the entity of a test: the policies that are good for it are known before it."""
    return f"{row.name.replace('_', '-')}-{layout}-{client}"


class OperationBus:
    """A bus whose AMQP listens where SDKs look for it."""

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self.address = loopback_address(AMQPS_PORT, HTTPS_PORT)
        self.secured = SecuredBus(
            folder,
            (ROOT, MANAGE, *(each for name in names for each in _policies(name))),
            addresses=(HOST, self.address),
            partitions=limits.STANDARD_PARTITION_COUNT,
            tier=Tier.STANDARD,
            front_end_options=(
                f"--amqps-listen={self.address}:{AMQPS_PORT}",
                f"--http-listen={self.address}:{HTTPS_PORT}",
            ),
        )
        self.administration = self.secured.administration()

    @property
    def ca_file(self) -> str:
        """What clients must trust."""
        return str(self.secured.ca_file)

    def connection_string(self, name: str, right: str) -> str:
        """Return the connection string of who may do no more than `right` with an entity.

        Who may manage may do so in the whole namespace, since only there are entities created.
        """
        if right == "Manage":
            return (
                f"Endpoint=sb://{self.address}/;SharedAccessKeyName={right};"
                f"SharedAccessKey={_MANAGE_KEY}"
            )
        return (
            f"Endpoint=sb://{self.address}/;SharedAccessKeyName={right}-{name};"
            f"SharedAccessKey=key-{name};EntityPath={name}"
        )

    def create(self, row: Row, name: str, layout: str) -> None:
        """Create what an operation needs."""
        partitioned = layout == "partitioned"
        options = {"requires_session": row.has_sessions, **row.options}
        if not row.has_topic:
            self.administration.create_queue(name, enable_partitioning=partitioned, **options)
            return
        self.administration.create_topic(name, enable_partitioning=partitioned)
        self.administration.create_subscription(name, SUBSCRIPTION, **options)

    def delete(self, row: Row, name: str) -> None:
        """Delete it: a Standard bus has room for 100 partitioned entities."""
        if row.has_topic:
            self.administration.delete_topic(name)
        else:
            self.administration.delete_queue(name)

    def counts_after(self, row: Row, name: str) -> Counts:
        """Return what is left after an operation: SDKs do not wait until what they settle is."""
        deadline_s = time.monotonic() + SETTLED_S
        while (found := self.counts(row, name)) != row.left and time.monotonic() < deadline_s:
            time.sleep(0.1)
        return found

    def counts(self, row: Row, name: str) -> Counts:
        """Return what gRPC counts in an entity; what is scheduled is the topic's own."""
        ask = self.administration
        if not row.has_topic:
            queue = ask.get_queue_runtime_properties(name)
            return Counts(
                queue.active_message_count,
                queue.scheduled_message_count,
                queue.dead_letter_message_count,
            )
        topic = ask.get_topic_runtime_properties(name)
        found = ask.get_subscription_runtime_properties(name, SUBSCRIPTION)
        return Counts(
            found.active_message_count,
            topic.scheduled_message_count,
            found.dead_letter_message_count,
        )

    def end(self) -> None:
        """End all of it."""
        self.administration.close()
        self.secured.end()


def _policies(name: str) -> Sequence[Any]:
    return [policy(f"{right}-{name}", [right], [f"key-{name}"], name) for right in RIGHTS]
