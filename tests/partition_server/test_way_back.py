"""A file that this version wrote is one of v0.6.0: it goes back to it, and comes again.

What v0.6.0 does with a file is written down here as it was, so that no change can move it.
"""

import json
import re
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition as D
from bendybus.partition_server.offline import backup_copy, file_contents
from bendybus.partition_server.state import producer_memory
from bendybus.partition_server.state.answers import Failed
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, Transact
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server import publishing, topic_changes
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.draining import send_fenced
from tests.partition_server.driver import Driver
from tests.partition_server.test_awaiting_room import LARGE, capacity, schedule
from tests.partition_server.test_sqlite_store import shape

FORMAT: Final = 12
SCHEMA: Final = Path(__file__).with_name("schema_of_0_6.sql")
# What v0.6.0 reads inside columns.
ENTRY_VERSION: Final = 3
OUTCOME_VERSION: Final = 1
SUB_QUEUE_MAX: Final = 4
MESSAGE_STATES: Final = {0, 1, 2}
MESSAGE_FORMATS: Final = {0, 1, 16, 17}
ENTRY_FIELDS: Final = (
    "name uid generation origin partition_count home_partition created_at_ms updated_at_ms deleted "
    "orphaned manifest_uid auto_deleted manifest_rules kind queue description"
)
DESCRIPTION_FIELDS: Final = (
    "enable_partitioning lock_duration_ms max_size_in_megabytes max_message_size_in_kilobytes "
    "requires_duplicate_detection duplicate_detection_history_time_window_ms requires_session "
    "default_message_time_to_live_ms dead_lettering_on_message_expiration max_delivery_count "
    "dead_lettering_on_filter_evaluation_exceptions auto_delete_on_idle_ms status forward_to "
    "forward_dead_lettered_messages_to user_metadata rules"
)
_MARK: Final = "producers_forgotten_until_ms"
PRODUCER: Final = b"p" * 16


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let partitions remember few frames."""
    monkeypatch.setattr(producer_memory, "ENTRIES_MAX", 20)
    monkeypatch.setattr(producer_memory, "FORGET_STEP", 4)


def send(driver: Driver, name: str, sequence: int, age_ms: int = 0) -> Any:
    """Send a frame of one message, or repeat it."""
    batch, producer_id = Batch([b"m"]), PRODUCER + name.encode()
    [value] = driver.run(
        Append("t", driver.ref(name), batch, (), producer_id, sequence, age_ms=age_ms)
    )
    return value


def fill(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use everything that v0.7 has and v0.6.0 had not, as far as it is in the file."""
    driver.create()
    driver.create("other")
    driver.create("gone")
    topic_changes.make_news(driver)
    # Repeats are remembered by entity, those of transactions too.
    for sequence in range(60):
        driver.advance(10)
        send(driver, "orders", sequence)
    send(driver, "gone", 1)
    part = Append(None, driver.ref(), Batch([b"m"], partition_keys=["k"]))
    driver.run(Transact("t", driver.ref(), b"%016d" % 1, [part]))
    # A fence that moves without messages, and one that is set back.
    send_fenced(driver, ordinals=[7], mark=b"tasks=4", producer_id=b"claim".ljust(16))
    send_fenced(driver, b"a", b"b")
    send_fenced(driver, ordinals=[0], replace=True)
    commit(driver, topic_changes.DELETE, "gone")
    # A dead letter with texts from the reserve, a delay, a shared body; a due message without room.
    [(_, token), (_, other)] = driver.receive(2)
    driver.settle(D.DEAD_LETTER, token, dead_letter_reason="r" * 100)
    driver.settle(D.ABANDON, other)
    publishing.publish(driver, LARGE)
    capacity(monkeypatch, 3 * driver.counts_of("news").size_bytes)
    schedule(driver, b"s1", b"s2", b"s3", b"s4")
    driver.advance(10_000)


@pytest.mark.requirement("R392")
@pytest.mark.usefixtures("small")
def test_a_file_with_everything_of_this_version_has_the_tables_of_v0_6_0(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(store)

    fill(driver, monkeypatch)

    then = apsw.Connection(":memory:")
    then.execute(SCHEMA.read_text("utf-8"))
    db = store._connection()
    assert db.pragma("user_version") == FORMAT
    assert shape(db) == shape(then)


@pytest.mark.requirement("R392")
@pytest.mark.usefixtures("small")
def test_what_is_inside_its_columns_is_what_v0_6_0_reads(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(store)

    fill(driver, monkeypatch)

    def read(sql: str) -> list[Any]:
        return [row[0] if len(row) == 1 else row for row in store._connection().execute(sql)]

    assert max(read("SELECT version FROM entities")) <= ENTRY_VERSION
    for entry in map(json.loads, read("SELECT entry FROM entities")):
        assert set(entry) <= set(ENTRY_FIELDS.split())
        described = entry.get("queue") or entry["description"]
        assert set(described) <= set(DESCRIPTION_FIELDS.split())
    assert max(read("SELECT version FROM producers")) <= OUTCOME_VERSION
    # NUMBER+COUNT@UID, or facts of which it reads those it knows by name.
    for outcome in read("SELECT outcome FROM producers"):
        facts = json.loads(outcome) if outcome.startswith("{") else {}
        assert facts.get("entity") == "a transaction" or re.fullmatch(r"\d+\+\d+@.+", outcome)
    # One time for all entities, by its name alone; it covers that of each.
    marks = dict(read("SELECT name, value FROM marks"))
    times = [value for name, value in marks.items() if name.startswith(f"{_MARK}/uid-")]
    assert times
    assert marks[_MARK] >= max(times)
    assert max(read("SELECT sub_queue FROM slots")) <= SUB_QUEUE_MAX
    assert set(read("SELECT state FROM messages")) <= MESSAGE_STATES
    assert set(read("SELECT format FROM messages")) <= MESSAGE_FORMATS
    # What waits for room is scheduled, and due: v0.6.0 publishes it.
    due = f"SELECT count(*) FROM messages WHERE state = 2 AND scheduled_ms <= {driver.wall_ms}"
    assert read(due) > [0]
    with backup_copy.opened(store.path) as database:
        assert file_contents.findings(database) == []


class Older:
    """What v0.6.0 did to a file: its statements, as they were."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store

    def opens_and_forgets(self, count: int) -> None:
        """Open the file, forget the oldest frames, whichever entity they are of, and end."""
        self.store.close()
        db = apsw.Connection(str(self.store.path))
        db.execute("UPDATE header SET boot = boot + 1")
        [(known,)] = db.execute(
            "SELECT coalesce(max(value), 0) FROM marks WHERE name = ?", (_MARK,)
        )
        oldest = "SELECT id FROM producers ORDER BY id LIMIT ?"
        [(newest,)] = db.execute(
            f"SELECT coalesce(max(at_ms), 0) FROM producers WHERE id IN ({oldest})", (count,)
        )
        db.execute(f"DELETE FROM producers WHERE id IN ({oldest})", (count,))
        if count:
            db.execute(
                "INSERT INTO marks (name, value) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (_MARK, max(known, newest)),
            )
        db.close()


@pytest.mark.requirement("R392")
@pytest.mark.usefixtures("small")
def test_what_v0_6_0_forgot_in_between_is_unknown_of_every_entity(store: SqliteStore) -> None:
    driver = Driver(store)
    driver.create()
    driver.create("other")
    send(driver, "other", 1)
    for sequence in range(60):
        driver.advance(10)
        send(driver, "orders", sequence)

    # The frame of `other` is older than what this version forgot of `orders`: the one time that
    # v0.6.0 writes for all of them stays what it was.
    Older(store).opens_and_forgets(1)
    driver.wall_ms += 100
    driver.restart()

    assert isinstance(send(driver, "other", 1, age_ms=750).error, errors.OutcomeUnknown)
    assert not isinstance(send(driver, "other", 2, age_ms=50), Failed)
    driver.restart()
    assert isinstance(send(driver, "other", 1, age_ms=750).error, errors.OutcomeUnknown)


@pytest.mark.requirement("R392")
@pytest.mark.usefixtures("small")
def test_without_an_older_version_in_between_the_windows_of_others_stay_long(
    store: SqliteStore,
) -> None:
    driver = Driver(store)
    driver.create()
    driver.create("other")
    first = send(driver, "other", 1)
    for sequence in range(60):
        driver.advance(10)
        send(driver, "orders", sequence)

    for _ in range(2):
        driver.restart()
        assert list(send(driver, "other", 1, age_ms=600).numbers) == list(first.numbers)
        assert not isinstance(send(driver, "other", 2, age_ms=500), Failed)
