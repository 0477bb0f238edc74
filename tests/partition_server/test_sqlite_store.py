"""The file of a partition: whose it is, how it is locked, what happens when it breaks."""

import os
import re
import sqlite3
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from bendybus.domain import lock_token
from bendybus.domain.disposition import Disposition
from bendybus.domain.limits import Tier
from bendybus.partition_server.broker.partition import Partition
from bendybus.partition_server.offline import backup_copy
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append
from bendybus.partition_server.store import file_format
from bendybus.partition_server.store.errors import FileRefused, StoreFailed, StoreFull
from bendybus.partition_server.store.records import Changes, Row, row_id
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server.driver import Driver, fingerprint


def rows(count: int, *, slot: int = 0, size: int = 10, first: int = 1) -> list[Row]:
    """Return rows as appended."""
    return [
        Row(row_id(slot, n), 0, 5, None, 0, 0, 0, f"m{n}", "", None, b"x" * size)
        for n in range(first, first + count)
    ]


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """Return an open store."""
    store = SqliteStore(tmp_path, fingerprint(), reserve_bytes=65_536)
    store.open()
    yield store
    store.close()


@pytest.mark.requirement("R07")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("namespace_uid", "other"),
        ("partition_count", 8),
        ("namespace_name", "other"),
        ("tier", Tier.STANDARD),
    ],
)
def test_a_file_of_another_namespace_is_refused(tmp_path: Path, field: str, value: Any) -> None:
    own = SqliteStore(tmp_path, fingerprint())
    own.open()
    own.close()
    other = SqliteStore(tmp_path, replace(fingerprint(), **{field: value}))

    with pytest.raises(FileRefused, match=field):
        other.open()


@pytest.mark.requirement("R07")
def test_a_file_moved_to_another_partition_is_refused(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path, fingerprint(0))
    first.open()
    first.close()
    first.path.rename(tmp_path / "partition-01.db")

    with pytest.raises(FileRefused, match="partition 0 instead of 1"):
        SqliteStore(tmp_path, fingerprint(1)).open()


def test_a_token_of_before_a_restore_fits_no_lock_of_after_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, fingerprint())
    queue = Driver(store)
    queue.create()
    queue.send(b"a")
    backup = tmp_path / "backup.db"
    with backup.open("wb") as out:
        backup_copy.back_up(store.path, out)
    queue.restart()
    [(_, held)] = queue.receive()
    store.close()

    backup.rename(store.path)
    queue.wall_ms += 60_000
    queue.restart()
    [(_, given)] = queue.receive()

    assert next(lock_token.unpack(held)).boot == next(lock_token.unpack(given)).boot
    assert queue.settle(Disposition.COMPLETE, held).failures
    assert not queue.settle(Disposition.COMPLETE, given).failures


def test_every_opening_raises_the_boot_number(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, fingerprint())

    boots = [store.open().boot for _ in range(3)]

    assert boots == [1, 2, 3]


def test_a_second_process_is_refused_and_told_who_has_the_file(store: SqliteStore) -> None:
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from bendybus.partition_server.store.errors import FileRefused
        from bendybus.partition_server.store.sqlite_store import SqliteStore
        from tests.partition_server.driver import fingerprint
        try:
            SqliteStore(Path(sys.argv[1]), fingerprint()).open()
        except FileRefused as error:
            print(error)
        """
    )

    done = subprocess.run(
        [sys.executable, "-c", script, str(store.path.parent)],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )

    assert f"in use by process {os.getpid()}" in done.stdout


def test_a_file_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "partition-00.db"
    foreign = sqlite3.connect(path)
    foreign.execute("create table theirs (x)")
    foreign.commit()
    foreign.close()
    before = path.read_bytes()

    with pytest.raises(FileRefused, match="another program"):
        SqliteStore(tmp_path, fingerprint()).open()

    assert path.read_bytes() == before


def test_a_damaged_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "partition-00.db").write_bytes(b"not a database at all" * 1_000)

    with pytest.raises(FileRefused, match="Restore a backup"):
        SqliteStore(tmp_path, fingerprint()).open()


def test_a_file_of_a_later_format_is_refused(store: SqliteStore) -> None:
    path = store.path
    store.close()
    db = apsw.Connection(str(path))
    db.pragma("user_version", 99)
    db.close()

    with pytest.raises(FileRefused, match="later one"):
        store.open()


def test_a_file_that_is_gone_is_not_begun_anew(store: SqliteStore) -> None:
    store.close()
    store.path.unlink()

    with pytest.raises(FileRefused, match=r"Restore it from a backup"):
        store.open()


def test_a_file_deleted_while_it_is_open_fails_the_commit(store: SqliteStore) -> None:
    store.path.unlink()

    with pytest.raises(StoreFailed, match="deleted"):
        store.commit(Changes(inserts=rows(1)))


def test_a_full_file_takes_the_whole_transaction_back(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, fingerprint(), page_count_max=40)
    store.open()

    with pytest.raises(StoreFull):
        store.commit(Changes(inserts=rows(300, size=1_000)))

    assert store.browse(0, 0, 10, 1 << 30) == []
    store.commit(Changes(inserts=rows(2)))
    assert len(store.browse(0, 0, 10, 1 << 30)) == 2
    store.close()


def test_a_failed_commit_writes_nothing_of_it(store: SqliteStore) -> None:
    store.commit(Changes(inserts=rows(1)))

    with pytest.raises(StoreFailed):
        store.commit(Changes(deletes=[row_id(0, 1)], inserts=[*rows(1), *rows(1)]))

    assert len(store.rows([row_id(0, 1)])) == 1


def shape(db: apsw.Connection) -> list[tuple[str, str, str]]:
    """Return tables and indexes without comments and line breaks: ALTER TABLE has none."""
    found = db.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql <> '' ORDER BY name")
    return [
        (str(kind), str(name), re.sub(r"\s*--[^\n]*|\s+", "", str(sql)))
        for kind, name, sql in found
    ]


def test_every_query_has_one_caller() -> None:
    from importlib import resources

    folder = resources.files("bendybus.partition_server.store")
    modules = (
        "sqlite_store.py",
        "sqlite_appends.py",
        "sqlite_features.py",
        "sqlite_producers.py",
        "file_format.py",
    )
    text = "".join((folder / module).read_text("utf-8") for module in modules)

    callers = {name: text.count(f'"{name}"') for name in file_format.load()}
    assert {name: count for name, count in callers.items() if count != 1} == {
        "browse": 2,
        "forward_forget_choices": 2,
        "forward_forget_messages_at": 2,
        "forward_forget_sources_at": 2,
        "read_header": 2,
        "session_places": 2,
        "write_mark": 3,
    }


def test_the_log_is_checkpointed_by_the_writer_and_stays_bounded(store: SqliteStore) -> None:
    from bendybus.partition_server.store.file_format import WAL_PAGES_MAX

    for n in range(60):
        store.commit(Changes(inserts=rows(500, size=1_000, first=n * 500 + 1)))

    assert store.wal_bytes() < 3 * WAL_PAGES_MAX * 4096


def test_a_commit_of_any_number_of_rows_keeps_them_all(store: SqliteStore) -> None:
    count = 256 + 128 + 7

    store.commit(Changes(inserts=rows(count)))

    assert [row.counter for row in store.browse(0, 0, 1_000, 1 << 30)] == list(range(1, count + 1))


def test_a_killed_process_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import os, sys
        from pathlib import Path
        from bendybus.partition_server.store.sqlite_store import SqliteStore
        from tests.partition_server.driver import Driver, fingerprint
        driver = Driver(SqliteStore(Path(sys.argv[1]), fingerprint()))
        driver.create()
        for n in range(50):
            driver.send(b"%d" % n)
        [(_, token)] = driver.receive()
        from bendybus.domain.disposition import Disposition
        driver.settle(Disposition.COMPLETE, token)
        os.kill(os.getpid(), 9)
        """
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], timeout=60, check=False)

    store = SqliteStore(tmp_path, fingerprint())
    driver = Driver(store)

    assert [row.payload for row in driver.peek()] == [b"%d" % n for n in range(1, 50)]
    assert list(driver.send(b"new").numbers) == [51]
    store.close()


def test_the_figures_of_a_slot_are_those_of_its_messages(store: SqliteStore) -> None:
    driver = Driver(store)
    driver.create()
    driver.send(*[b"x"] * 10)
    driver.receive(4, delete=True)
    reopened: Partition = Driver(store).partition

    held = reopened.state.queues.at(0)

    assert held is not None
    found = store.browse(0, 0, 100, 1 << 30)
    assert held.state.active == len(found)
    assert held.state.size_bytes == sum(row.size() for row in found)
    assert isinstance(driver.run(Append("t", driver.ref(), Batch([b"y"])))[0].numbers[0], int)


@pytest.mark.parametrize("how", ["empty", "without its log"])
def test_an_empty_file_beside_its_reserve_is_not_begun_anew(store: SqliteStore, how: str) -> None:
    if how == "empty":
        store.close()
        store.path.write_bytes(b"")
    else:
        # As after a kill, copied without the write-ahead log.
        fresh = store.path.read_bytes()
        store.close()
        store.path.write_bytes(fresh[:4096])

    with pytest.raises(FileRefused, match=r"Restore it from a backup"):
        store.open()


def test_a_full_volume_does_not_keep_a_file_from_being_opened(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.commit(Changes(inserts=rows(1)))
    store.close()
    assert store.guard.reserve_path.stat().st_size == 65_536
    open_file = store._open

    def without_room() -> Any:
        if store.guard.reserve_path.stat().st_size:
            raise StoreFull("no room")
        return open_file()

    monkeypatch.setattr(store, "_open", without_room)

    opened = store.open()

    assert opened.boot == 2
    assert len(store.browse(0, 0, 10, 1 << 20)) == 1
