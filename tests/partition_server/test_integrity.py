"""Checks of a partition's file."""

import sqlite3

import pytest

from bendybus.domain.entity import Origin
from bendybus.domain.lifecycle import EntityAction
from bendybus.partition_server.state.commands import CommitEntity
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server.driver import Driver
from tests.partition_server.test_store_command import lines_of, run

# Check


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            "UPDATE slots SET active = active + 1 WHERE slot = 0",
            "active is recorded as 4, but is 3",
        ),
        ("UPDATE slots SET size_bytes = 1 WHERE slot = 1", "size_bytes is recorded as 1"),
        ("UPDATE slots SET counter = 2 WHERE slot = 0", "highest assigned number is recorded as 2"),
        ("UPDATE slots SET last_enqueued_ms = 1 WHERE slot = 0", "newer than the last enqueued"),
        ("UPDATE slots SET uid = 'nobody' WHERE slot = 1", "not in the catalogue"),
        ("DELETE FROM slots WHERE slot = 1", "slot 1 has messages or keys but no counters"),
        ("UPDATE messages SET format = 9", "messages are of a format that this version"),
        ("CREATE TABLE notes (x)", "table notes was not created by this program"),
        ("DROP INDEX messages_expiring", "index messages_expiring is missing"),
    ],
)
def test_check_finds_what_does_not_fit(
    busy: Driver,
    store: SqliteStore,
    capsys: pytest.CaptureFixture[str],
    statement: str,
    sentence: str,
) -> None:
    store.checkpoint()
    store.close()
    with sqlite3.connect(store.path) as database:
        database.execute(statement)
    database.close()

    code = run("check", store.path, "--json")

    [found] = lines_of(capsys)
    assert code == 1
    assert any(sentence in finding for finding in found["findings"]), found


def test_a_deleted_queue_whose_messages_are_being_removed_is_fine(
    busy: Driver, store: SqliteStore, capsys: pytest.CaptureFixture[str]
) -> None:
    busy.run(CommitEntity("t", EntityAction.DELETE, "orders", Origin.CLIENT))

    assert run("check", store.path) == 0
    assert "all fine" in capsys.readouterr().out


def test_check_finds_damaged_pages(
    busy: Driver, store: SqliteStore, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(50):
        busy.send(*[b"x" * 1_000] * 20, groups=(20,))
    store.checkpoint()
    store.close()
    data = bytearray(store.path.read_bytes())
    for page in range(20, len(data) // 4096 - 1, 7):
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    store.path.write_bytes(data)

    assert run("check", store.path) == 1

    said = capsys.readouterr()
    assert "SQLite finds" in said.out or "damaged" in said.err
