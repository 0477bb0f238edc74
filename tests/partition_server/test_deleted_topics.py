"""What is left of a deleted topic goes in an order that fits together at each moment."""

from pathlib import Path

import pytest

from bendybus.partition_server.state import budget
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server import topic_changes
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.test_store_command import run


def filled(driver: Driver) -> None:
    """Publish messages whose bodies two subscriptions share, and delete the topic."""
    topic_changes.make_news(driver)
    for _ in range(6):
        batch = Batch([b"x" * 3_000], heads=[b""], formats=[1])
        driver.run(Append("t", driver.ref("news"), batch))
    topic_changes.topic(driver, action=topic_changes.DELETE)


@pytest.mark.requirement("R347")
@pytest.mark.parametrize("restarted", [False, True])
def test_a_backup_amid_the_deletion_of_a_topic_is_sound(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    restarted: bool,
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 4)
    store = SqliteStore(tmp_path, fingerprint())
    driver = Driver(store)
    filled(driver)
    if restarted:
        driver.restart()
    steps = 0
    while (stage := driver.partition.sweep(driver.now)) is not None:
        store.commit(stage.changes)
        driver.partition.apply(stage, driver.now)
        assert run("check", store.path) == 0, capsys.readouterr().out
        [(dangling,)] = store._connection().execute(
            "SELECT count(*) FROM messages WHERE format >= 16 AND NOT EXISTS (SELECT 1 FROM bodies)"
        )
        assert not dangling
        steps += 1
        driver.wall_ms += 600
        driver.mono_ms += 600

    assert steps > 3
    assert not driver.partition.state.queues.dropped
    assert store._connection().execute("SELECT count(*) FROM bodies").fetchall() == [(0,)]
    store.close()


@pytest.mark.requirement("R347")
def test_the_slot_of_a_topic_goes_after_those_of_its_subscriptions(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 4)
    topic_changes.make_news(driver)
    topic = driver.partition.state.queues.main_of(driver.ref("news").uid).slot
    for _ in range(6):
        batch = Batch([b"x" * 3_000], heads=[b""], formats=[1])
        driver.run(Append("t", driver.ref("news"), batch))
    topic_changes.topic(driver, action=topic_changes.DELETE)
    driver.restart()
    with_messages = {
        slot
        for slot in driver.partition.state.queues.dropped
        if driver.store.summaries(slot, 0, 1 << 40, 1)
    }
    gone: list[int] = []
    while (stage := driver.partition.sweep(driver.now)) is not None:
        gone += stage.changes.slots_removed
        driver.store.commit(stage.changes)
        driver.partition.apply(stage, driver.now)
        if driver.store.bodies.of_slot(topic, 1):
            assert topic in driver.partition.state.queues.dropped
        driver.wall_ms += 600
        driver.mono_ms += 600

    assert len(with_messages) == 2
    assert all(gone.index(slot) < gone.index(topic) for slot in with_messages)
