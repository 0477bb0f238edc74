"""Each operation of azure-servicebus: over TLS, with least rights, counted over gRPC after it.

The operations are in tests/azure_sdk/operations, what they are in operations.toml. On plain
entities and on ones of 16 partitions, for both clients of the SDK.
"""

import functools
import itertools
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from azure.servicebus import ServiceBusClient
from azure.servicebus.aio import ServiceBusClient as AsyncClient
from azure.servicebus.aio.management import ServiceBusAdministrationClient as AsyncAdministration
from azure.servicebus.management import ServiceBusAdministrationClient

from tests.azure_sdk.operation_bus import OperationBus, name_of
from tests.azure_sdk.operation_table import Blocking, Counts, Entity, Loop, Row, cases, rows
from tests.azure_sdk.operations import PERFORMED

CLIENTS: Final = ("sync", "aio")
ROWS: Final = rows("python")
CASES: Final = cases("python")
AT_ONCE: Final = 12

pytestmark = [
    pytest.mark.xdist_group("operations of the SDK"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Place:
    """A bus, and clients of both kinds."""

    def __init__(self, folder: Path) -> None:
        names = (name_of(*case, client) for case, client in itertools.product(CASES, CLIENTS))
        self.bus = OperationBus(folder, names)
        self.loop = Loop()

    def client(self, kind: str, name: str, right: str) -> Any:
        """Return a client that may do no more than `right` with an entity."""
        text = self.bus.connection_string(name, right)
        of = AsyncClient if kind == "aio" else ServiceBusClient
        client = of.from_connection_string(text, connection_verify=self.bus.ca_file)
        return Blocking(self.loop, client) if kind == "aio" else client

    def administration(self, kind: str, name: str, right: str) -> Any:
        """Return an administration client that may do no more than `right`."""
        text = self.bus.connection_string(name, right).split(";EntityPath")[0]
        of = AsyncAdministration if kind == "aio" else ServiceBusAdministrationClient
        # Without this the SDK reads all of the environment, while pytest changes it between tests.
        client = of.from_connection_string(
            text, connection_verify=self.bus.ca_file, use_env_settings=False
        )
        return Blocking(self.loop, client) if kind == "aio" else client

    def perform(self, row: Row, layout: str, client: str) -> Counts:
        """Do an operation; return what is left."""
        name = name_of(row, layout, client)
        self.bus.create(row, name, layout)
        with (
            self.client(client, name, "Send") as sending,
            self.client(client, name, "Listen") as listening,
            ExitStack() as stack,
        ):
            administering = functools.partial(self.administration, client, name)
            PERFORMED[row.name](
                Entity(name, row.has_topic, sending, listening, administering, stack)
            )
        return self.bus.counts_after(row, name)

    def end(self) -> None:
        """End all of it."""
        self.loop.close()
        self.bus.end()


@pytest.fixture(scope="module")
def performed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Counts]]]:
    """Begin all operations that are to be tested: most of their time the SDK sleeps."""
    place = Place(tmp_path_factory.mktemp("operations"))
    pool = ThreadPoolExecutor(AT_ONCE)
    chosen = [each for each in request.session.items if each.path == request.path]
    calls = [call for call in map(_call, chosen) if call is not None]
    try:
        yield {call.id: pool.submit(place.perform, **call.params) for call in calls}
    finally:
        pool.shutdown(cancel_futures=True)
        place.end()


def _call(item: Any) -> Any:
    """Return the parameters of a test, and their id."""
    return getattr(item, "callspec", None)


def test_the_functions_are_those_of_the_table() -> None:
    assert sorted(PERFORMED) == sorted(row.name for row in ROWS)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("row", "layout"), CASES, ids=[f"{row.name}-{layout}" for row, layout in CASES]
)
@pytest.mark.usefixtures("layout", "client")
def test_an_operation_of_the_sdk(
    request: pytest.FixtureRequest, performed: dict[str, Future[Counts]], row: Row
) -> None:
    assert performed[request.node.callspec.id].result(120) == row.left
