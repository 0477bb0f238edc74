"""A bus of each kind for the tests that only use it; breaking ones make their own.

A process that has no more of these tests ends its buses: even idle ones take processor time.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bendybus.client import ServiceBusClient
from tests.integration.processes import Bus
from tests.integration.secured import POLICIES, SecuredBus
from tests.ports import free_port

_names = itertools.count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here is an integration test."""
    for item in items:
        if "integration" in item.path.parts or "faults" in item.path.parts:
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="package")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    """A bus that stays whole."""
    made = Bus(tmp_path_factory.mktemp("bus"))
    yield made
    made.end()


@pytest.fixture(scope="package")
def standard_bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    """A Standard namespace: 16 partitions, partitioned and plain queues."""
    from bendybus.domain.limits import Tier

    made = Bus(tmp_path_factory.mktemp("standard"), partitions=16, tier=Tier.STANDARD)
    yield made
    made.end()


@pytest.fixture
def client(bus: Bus) -> Iterator[ServiceBusClient]:
    """A client of the whole bus."""
    with bus.client() as made:
        yield made


@pytest.fixture
def new_queue(bus: Bus) -> Callable[..., str]:
    """Return a function that creates a queue of a fresh name."""

    def create(**options: Any) -> str:
        name = f"queue-{next(_names)}"
        with bus.administration() as administration:
            administration.create_queue(name, **options)
        return name

    return create


@pytest.fixture(scope="package")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBus]:
    """A bus with policies of every kind and two queues, that no test breaks."""
    port = free_port()
    made = SecuredBus(
        tmp_path_factory.mktemp("secured"), POLICIES, front_end_options=(f"--metrics-port={port}",)
    )
    made.bus.metrics_port = port  # type: ignore[attr-defined]
    with made.administration() as administration:
        administration.create_queue("orders")
        administration.create_queue("bills")
    yield made
    made.end()


@pytest.fixture
def make_secured(tmp_path: Path) -> Iterator[Callable[..., SecuredBus]]:
    """Return a function that starts a bus with the queue `orders`; it is ended with the test."""
    made: list[SecuredBus] = []

    def make(**options: Any) -> SecuredBus:
        bus = SecuredBus(tmp_path / f"bus-{len(made)}", **options)
        made.append(bus)
        with bus.administration() as administration:
            administration.create_queue("orders")
        return bus

    yield make
    for bus in made:
        bus.end()
