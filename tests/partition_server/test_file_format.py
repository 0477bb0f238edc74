"""Files of version 0.7.0 are opened; older and newer formats are refused, and left as they are."""

import subprocess
import sys
import textwrap
from io import BytesIO
from pathlib import Path
from typing import Any

import apsw
import pytest

from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_settings import QueueDescription
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.offline import backup_copy
from bendybus.partition_server.store import file_format
from bendybus.partition_server.store.errors import FileRefused
from bendybus.partition_server.store.records import row_id
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server.driver import START_MS, Driver, fingerprint

# The tables of 0.7.0 are those of 0.6.0.
V0_7_0 = 12
QUEUES = 3
SCHEMA = Path(__file__).with_name("schema_of_0_6.sql")
KILL = textwrap.dedent(
    """
    import os, sys
    from pathlib import Path
    import apsw
    from bendybus.partition_server.store import file_format
    from bendybus.partition_server.store.sqlite_store import SqliteStore
    from tests.partition_server.driver import fingerprint

    make = file_format.make

    def killed(db):
        left = int(sys.argv[2])

        def at_statement(*_):
            nonlocal left
            left -= 1
            return os.kill(os.getpid(), 9) if left < 0 else True

        db.exec_trace = at_statement
        make(db)

    file_format.make = killed
    SqliteStore(Path(sys.argv[1]), fingerprint()).open()
    """
)


def entity(number: int) -> Entity:
    """Return the entry of a queue."""
    name = f"queue-{number:04}" if number else "orders"
    return Entity(name, f"uid-{name}", number + 1, Origin.CLIENT, QueueDescription(), 1, 0, 0, 0)


def old_file(folder: Path, version: int = V0_7_0) -> Path:
    """Write a file as 0.7.0 left it, with rows that it had from versions before it."""
    path = folder / "partition-00.db"
    db = apsw.Connection(str(path))
    db.pragma("auto_vacuum", "INCREMENTAL")
    db.execute(SCHEMA.read_text("utf-8"))
    db.pragma("application_id", file_format.APPLICATION_ID)
    db.pragma("user_version", version)
    with db:
        header = "namespace_name, namespace_uid, tier, partition_count, partition_index, boot"
        db.execute(
            f"INSERT INTO header (id, {header}) VALUES (1, 'test', 'ns-1', 'Premium', 4, 0, 7)"
        )
        for number in range(QUEUES):
            own = entity(number)
            entry = (own.key, own.generation, file_format.entity_to_json(own))
            db.execute("INSERT INTO entities VALUES (?, ?, 0, ?, 1)", entry)
            for slot, counter in ((2 * number, 2), (2 * number + 1, 1)):
                figures = (slot, own.uid, counter, counter, 0, 0, 67 * counter, START_MS, 0)
                marks = (*figures, 1 + slot % 2, "", 0)
                db.execute(f"INSERT INTO slots VALUES ({', '.join('?' * 12)})", marks)
                for n in range(1, counter + 1):
                    add(db, row_id(slot, n))
        # Poison: texts with NUL, a time to live beyond all times, a body that cannot be parsed.
        add(db, row_id(0, 3), message_id="m\0", time_to_live_ms=2**63 - 1, payload=b"\xff\xff")
        db.execute("UPDATE slots SET counter = 3, active = 3, size_bytes = 202 WHERE slot = 0")
    db.close()
    return path


def add(db: apsw.Connection, id_: int, **columns: Any) -> None:
    """Insert a message."""
    values = {
        "id": id_,
        "state": 0,
        "enqueued_ms": START_MS,
        "scheduled_ms": 0,
        "time_to_live_ms": 0,
        "delivery_count": 0,
        "message_id": "",
        "partition_key": "",
        "payload": b"abc",
        **columns,
    }
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    db.execute(f"INSERT INTO messages ({names}) VALUES ({marks})", tuple(values.values()))


def check_served(folder: Path) -> None:
    """Open the file and use what it holds."""
    store = SqliteStore(folder, fingerprint())
    driver = Driver(store)

    state = driver.partition.state
    assert len(state.queues.uids_after("", QUEUES + 1)) == QUEUES
    for number in range(QUEUES):
        uid = entity(number).uid
        for sub_queue, slot in (
            (SubQueue.MAIN, 2 * number),
            (SubQueue.DEAD_LETTER, 2 * number + 1),
        ):
            queue = state.queues.of(uid, sub_queue)
            assert queue is not None
            assert queue.slot == slot
    received = driver.receive(5)
    assert [row.payload for row, _ in received] == [b"abc", b"abc", b"\xff\xff"]
    # What was there is whole, and not converted; what comes in may have a head.
    assert {(row.format, row.head) for row, _ in received} == {(0, b"")}
    driver.settle(Disposition.DEAD_LETTER, received[0][1], dead_letter_reason="r")
    driver.settle(Disposition.COMPLETE, *[token for _, token in received[1:]])
    assert [row.counter for row in driver.peek(dead_letter=True)] == [1, 2]
    assert list(driver.send(b"new", heads=[b"head"], formats=[1]).numbers) == [4]
    [row] = driver.peek(4)
    assert (row.format, row.head, row.payload) == (1, b"head", b"new")
    store.close()


def test_a_file_of_0_7_0_is_opened_and_served(tmp_path: Path) -> None:
    old_file(tmp_path)

    check_served(tmp_path)


@pytest.mark.parametrize("version", range(V0_7_0))
def test_a_file_of_an_older_format_names_the_version_to_go_through_and_stays_as_it_is(
    tmp_path: Path, version: int
) -> None:
    path = old_file(tmp_path, version)
    before = path.read_bytes()
    store = SqliteStore(tmp_path, fingerprint())
    sentence = f"has format {version}; .* Open it with version 0\\.7\\.0 first"

    with pytest.raises(FileRefused, match=sentence):
        store.open()
    with pytest.raises(FileRefused, match=sentence), backup_copy.opened(path):
        pass
    with pytest.raises(FileRefused, match=sentence):
        backup_copy.back_up(path, BytesIO())

    assert path.read_bytes() == before


@pytest.mark.parametrize("statements", [1, 10, 20])
def test_a_file_whose_making_is_killed_is_made_at_the_next_opening(
    tmp_path: Path, statements: int
) -> None:
    command = [sys.executable, "-c", KILL, str(tmp_path), str(statements)]

    killed = subprocess.run(command, timeout=60, check=False)

    assert killed.returncode == -9
    store = SqliteStore(tmp_path, fingerprint())
    driver = Driver(store)
    driver.create()
    assert list(driver.send(b"new").numbers) == [1]
    store.close()


def test_a_new_entity_in_an_old_file_gets_slots_that_nothing_uses(tmp_path: Path) -> None:
    old_file(tmp_path)
    store = SqliteStore(tmp_path, fingerprint())
    driver = Driver(store)

    driver.create("new")
    driver.restart()

    slots = [queue.slot for queue in driver.partition.state.queues]
    assert len(set(slots)) == 8
    store.close()


def test_a_file_keeps_its_incarnation_and_each_restore_of_a_copy_has_another(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path, fingerprint())
    first = store.open().fingerprint.incarnation
    again = store.open().fingerprint.incarnation
    copied = BytesIO()
    backup_copy.back_up(store.path, copied)
    store.close()

    restores = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / store.path.name).write_bytes(copied.getvalue())
        other = SqliteStore(tmp_path / name, fingerprint())
        restores.append(other.open().fingerprint.incarnation)
        other.close()

    assert again == first
    assert {len(each) for each in (first, *restores)} == {file_format.INCARNATION_BYTES}
    assert len({first, *restores}) == 3


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("UPDATE entities SET version = 7", "entries of the catalogue of version 7"),
        (
            "INSERT INTO producers (producer_id, sequence, position, outcome, at_ms, version)"
            " VALUES (x'00', 1, 0, 'new', 0, 7)",
            "outcomes of sends of version 7",
        ),
        ("UPDATE slots SET sub_queue = 5 WHERE slot = 1", "sub-queues of kind 5"),
        ("PRAGMA user_version = 13", "has format 13; this version reads up to 12"),
    ],
)
def test_what_a_newer_version_wrote_is_refused_and_left_as_it_is(
    tmp_path: Path, statement: str, sentence: str
) -> None:
    path = old_file(tmp_path)
    store = SqliteStore(tmp_path, fingerprint())
    store.open()
    store.checkpoint()
    store.close()
    db = apsw.Connection(str(path))
    db.execute(statement)
    db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    db.close()
    before = path.read_bytes()

    with pytest.raises(FileRefused, match=sentence):
        store.open()
    # Nor is it shown, checked or exported as something else.
    with pytest.raises(FileRefused, match=sentence), backup_copy.opened(path):
        pass

    assert path.read_bytes() == before
