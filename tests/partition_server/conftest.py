"""Fixtures: every test of behaviour runs on the memory store and on SQLite."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bendybus.domain.entity import Fingerprint
from bendybus.partition_server.store.memory_store import MemoryStore
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server.driver import Driver, fingerprint

MakeStore = Callable[..., Any]


@pytest.fixture(params=["memory", "sqlite"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeStore]:
    """Return a function that makes a store for a fingerprint."""
    made: list[SqliteStore] = []

    def make(own: Fingerprint | None = None) -> Any:
        own = own or fingerprint()
        if request.param == "memory":
            return MemoryStore(own)
        store = SqliteStore(tmp_path, own)
        made.append(store)
        return store

    yield make
    for store in made:
        store.close()


@pytest.fixture
def driver(make_store: MakeStore) -> Driver:
    """Return a partition with an open, empty store."""
    return Driver(make_store())


@pytest.fixture
def queue(driver: Driver) -> Driver:
    """Return a partition with one queue, `orders`."""
    driver.create()
    return driver
