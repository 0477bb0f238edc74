"""Each operation of azure-servicebus: over TLS, with least rights, counted over gRPC after it.

The operations are in tests/azure_sdk/operations, the page of them is
docs/reference/azure-sdks.md. On plain entities and on ones of 16 partitions, for both clients of
the SDK.
"""

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from azure.servicebus import ServiceBusClient
from azure.servicebus.aio import ServiceBusClient as AsyncClient

from bendybus.client.management import ServiceBusAdministrationClient
from bendybus.domain import limits
from bendybus.domain.limits import Tier
from tests.azure_sdk import operations
from tests.azure_sdk.live_bus import AMQPS_PORT
from tests.azure_sdk.operation_table import SUBSCRIPTION, Blocking, Counts, Entity, Loop, Row
from tests.integration.secured import ROOT, SecuredBus, policy
from tests.ports import HOST, loopback_address

LAYOUTS: Final = ("plain", "partitioned")
CLIENTS: Final = ("sync", "aio")
AT_ONCE: Final = 12
# The SDK does not wait until its settlements are confirmed.
SETTLED_S: Final = 5.0

pytestmark = [
    pytest.mark.xdist_group("operations of the SDK"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def name_of(row: Row, layout: str, client: str) -> str:
    """Return the entity of a test: the policies that are good for it are known before it."""
    return f"{row.name}-{layout}-{client}"


def policies() -> list[Any]:
    """Return, for each entity, one policy that may send and one that may listen."""
    names = [name_of(*each) for each in itertools.product(operations.ROWS, LAYOUTS, CLIENTS)]
    return [
        policy(f"{right}-{name}", [right], [f"key-{name}"], name)
        for name in names
        for right in ("Send", "Listen")
    ]


class Place:
    """A bus whose AMQP listens where the SDK looks for it."""

    def __init__(self, folder: Path) -> None:
        self.address = loopback_address(AMQPS_PORT)
        self.bus = SecuredBus(
            folder,
            (ROOT, *policies()),
            addresses=(HOST, self.address),
            partitions=limits.STANDARD_PARTITION_COUNT,
            tier=Tier.STANDARD,
            front_end_options=(f"--amqps-listen={self.address}:{AMQPS_PORT}",),
        )
        self.administration = self.bus.administration()
        self.loop = Loop()

    def client(self, kind: str, name: str, right: str) -> Any:
        """Return a client that may do no more than `right` with an entity."""
        text = (
            f"Endpoint=sb://{self.address}/;SharedAccessKeyName={right}-{name};"
            f"SharedAccessKey=key-{name};EntityPath={name}"
        )
        of = AsyncClient if kind == "aio" else ServiceBusClient
        client = of.from_connection_string(text, connection_verify=str(self.bus.ca_file))
        return Blocking(self.loop, client) if kind == "aio" else client

    def create(self, row: Row, name: str, *, partitioned: bool) -> None:
        """Create what an operation needs."""
        options = {"requires_session": row.kind.has_sessions, **row.options}
        if not row.kind.has_topic:
            self.administration.create_queue(name, enable_partitioning=partitioned, **options)
            return
        self.administration.create_topic(name, enable_partitioning=partitioned)
        self.administration.create_subscription(name, SUBSCRIPTION, **options)

    def end(self) -> None:
        """End all of it."""
        self.administration.close()
        self.loop.close()
        self.bus.end()

    def perform(self, row: Row, layout: str, client: str) -> tuple[Counts, Counts]:
        """Do an operation; return what it says to be left, and what is."""
        name = name_of(row, layout, client)
        self.create(row, name, partitioned=layout == "partitioned")
        with (
            self.client(client, name, "Send") as sending,
            self.client(client, name, "Listen") as listening,
            ExitStack() as stack,
        ):
            left = row.perform(Entity(name, row.kind, sending, listening, stack))
        expected, deadline_s = left or Counts(), time.monotonic() + SETTLED_S
        while (found := counts(self.administration, row, name)) != expected:
            if time.monotonic() > deadline_s:
                break
            time.sleep(0.1)
        return expected, found


@pytest.fixture(scope="module")
def performed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[tuple[Counts, Counts]]]]:
    """Begin all operations that are to be tested: most of their time the SDK sleeps."""
    place = Place(tmp_path_factory.mktemp("operations"))
    pool = ThreadPoolExecutor(AT_ONCE)
    chosen = [each for each in request.session.items if each.path == request.path]
    try:
        yield {call.id: pool.submit(place.perform, **call.params) for call in map(_call, chosen)}
    finally:
        pool.shutdown(cancel_futures=True)
        place.end()


def _call(item: Any) -> Any:
    """Return the parameters of a test, and their id."""
    return item.callspec


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("row", operations.ROWS, ids=lambda row: row.name)
@pytest.mark.usefixtures("row", "layout", "client")
def test_an_operation_of_the_sdk(
    request: pytest.FixtureRequest, performed: dict[str, Future[tuple[Counts, Counts]]]
) -> None:
    expected, found = performed[request.node.callspec.id].result(120)

    assert found == expected


def counts(administration: ServiceBusAdministrationClient, row: Row, name: str) -> Counts:
    """Return what gRPC counts in an entity; what is scheduled is the topic's own."""
    if not row.kind.has_topic:
        queue = administration.get_queue_runtime_properties(name)
        return Counts(
            queue.active_message_count,
            queue.scheduled_message_count,
            queue.dead_letter_message_count,
        )
    topic = administration.get_topic_runtime_properties(name)
    found = administration.get_subscription_runtime_properties(name, SUBSCRIPTION)
    return Counts(
        found.active_message_count,
        topic.scheduled_message_count,
        found.dead_letter_message_count,
    )
