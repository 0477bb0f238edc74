"""Every test here breaks something, so each has a bus of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.processes import Bus


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here is an integration test."""
    for item in items:
        if "faults" in item.path.parts:
            item.add_marker(pytest.mark.integration)


@pytest.fixture
def make_bus(tmp_path: Path) -> Iterator[Callable[..., Bus]]:
    """Return a function that starts a bus; it is ended with the test."""
    made: list[Bus] = []

    def make(**options: Any) -> Bus:
        bus = Bus(tmp_path / f"bus-{len(made)}", **options)
        made.append(bus)
        return bus

    yield make
    for bus in made:
        bus.end()


@pytest.fixture
def bus(make_bus: Callable[..., Bus]) -> Bus:
    """A bus of four partitions with the queue `orders`."""
    bus = make_bus()
    with bus.administration() as administration:
        administration.create_queue("orders")
    return bus
