"""Fixtures: every test of behaviour runs on the memory store and on SQLite."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Fingerprint
from bendybus.domain.lifecycle import EntityAction
from bendybus.partition_server.broker import partition_thread
from bendybus.partition_server.store.sqlite_store import SqliteStore
from bendybus.v1 import message_pb2
from tests.partition_server import manifest_changes
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.memory_store import MemoryStore
from tests.partition_server.running_partition import Runner
from tests.partition_server.session_driver import Sessions

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
def faulty(driver: Driver) -> Driver:
    """Return a partition where rules are made to raise."""
    driver.expects_faults = True
    return driver


@pytest.fixture
def queue(driver: Driver) -> Driver:
    """Return a partition with one queue, `orders`."""
    driver.create()
    return driver


@pytest.fixture
def sessions(driver: Driver) -> Sessions:
    """Return a session-aware queue, `orders`."""
    return Sessions(driver)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path, fingerprint())
    yield store
    store.close()


@pytest.fixture
def busy(store: SqliteStore) -> Driver:
    """Return a queue with messages of every kind; its file stays open."""
    driver = Driver(store)
    driver.create(requires_duplicate_detection=True, default_message_time_to_live_ms=3_600_000)
    payload = message_pb2.Message(
        data=[b"caf\xc3\xa9"],
        subject="greeting",
        application_properties={
            "n": message_pb2.Value(long_value=7),
            "who": message_pb2.Value(uuid_value=bytes(range(16))),
            "raw": message_pb2.Value(binary_value=b"\xff"),
        },
    ).SerializeToString()
    driver.send(payload, *[b""] * 4, message_ids=["a", "ä", "c", "d", "e"], groups=(1,) * 5)
    later = [driver.wall_ms + 60_000]
    driver.send(b"", message_ids=["later"], scheduled_ms=later)
    (_, deferred), (_, doomed) = driver.receive(2)[:2]
    driver.settle(Disposition.DEFER, deferred)
    driver.settle(Disposition.DEAD_LETTER, doomed, dead_letter_reason="Bad")
    return driver


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """A running partition."""
    monkeypatch.setattr(partition_thread, "REOPEN_S", 0.01)
    made = Runner(tmp_path)
    yield made
    made.thread.stop()


@pytest.fixture
def orphan(driver: Driver) -> Driver:
    """Return a partition whose queue `orders` holds `a`, `b`, `c` and is orphaned."""
    manifest_changes.create(driver)
    driver.send(b"a", b"b", b"c")
    manifest_changes.commit(driver, EntityAction.ORPHAN)
    return driver
