"""One bus of four partitions for the tests that only use it; breaking ones make their own."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bendybus.client import ServiceBusClient
from tests.integration.processes import Bus

_names = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here is an integration test."""
    for item in items:
        if "integration" in item.path.parts or "faults" in item.path.parts:
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    """A bus that stays whole."""
    made = Bus(tmp_path_factory.mktemp("bus"))
    yield made
    made.end()


@pytest.fixture(scope="session")
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
