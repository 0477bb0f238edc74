"""Reports and sessions, with real Spark and a real bus."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bendybus.client import ServiceBusMessage
from bendybus.spark.errors import OptionError
from bendybus.spark.jobs import reports
from bendybus.spark.jobs.reports import Report, Sessions, Usage
from tests.spark.live.queues import Queue, entity, sent

pytestmark = pytest.mark.requirement("R312")
NewQueue = Callable[..., Queue]


def test_dead_letters_are_counted_by_reason(new_queue: NewQueue) -> None:
    queue = new_queue()
    sent(queue, 6)
    with queue.bus.client() as client:
        receiver = client.get_queue_receiver(queue.name, max_wait_time=2)
        for message in receiver:
            number = int(str(message)[1:])
            receiver.dead_letter_message(message, reason="bad" if number < 4 else "late")

    rows = reports.dead_letters(queue.spark, Report([entity(queue)], ("reason",))).collect()

    assert [(row.reason, row.messages, row.sample) for row in rows] == [
        ("bad", 4, "m0"),
        ("late", 2, "m4"),
    ]
    by_property = Report([entity(queue)], ("properties.n",))
    assert len(reports.dead_letters(queue.spark, by_property).collect()) == 6
    none = Report([entity(queue)], since=datetime(2100, 1, 1, tzinfo=UTC).isoformat())
    assert reports.dead_letters(queue.spark, none).collect() == []


def test_a_group_that_is_unknown_is_named() -> None:
    with pytest.raises(OptionError, match="--group-by: 'colour' is unknown; known are reason"):
        reports.group("colour")


def test_usage_counts_messages_and_bytes(new_queue: NewQueue) -> None:
    queue = new_queue()
    sent(queue, 20)

    rows = reports.usage(queue.spark, Usage([entity(queue)], "1 hour")).collect()

    assert sum(row.messages for row in rows) == 20
    assert sum(row.bytes for row in rows) == 10 * 2 + 10 * 3
    assert {row.entity for row in rows} == {queue.name}


def test_a_session_is_totalled_once_it_is_silent(new_queue: NewQueue, tmp_path: Path) -> None:
    queue = new_queue(requires_session=True)

    def say(session: str, *bodies: str) -> None:
        with queue.bus.client() as client, client.get_queue_sender(queue.name) as sender:
            for body in bodies:
                sender.send_messages(ServiceBusMessage(body, session_id=session))

    say("a", "one", "two")
    say("b", "three")
    time.sleep(2.5)
    say("c", "still open")
    wanted = Sessions(
        {**entity(queue), "startingOffsets": "earliest"},
        str(tmp_path / "checkpoint"),
        "1 second",
        "0 seconds",
        str(tmp_path / "out"),
    )

    now: dict[str, Any] = {"availableNow": True}
    reports.start_sessions(queue.spark, wanted, now).awaitTermination()

    rows = queue.spark.read.parquet(wanted.out).collect()
    assert sorted((row.session_id, row.messages, row.bytes) for row in rows) == [
        ("a", 2, 6),
        ("b", 1, 5),
    ]


@pytest.mark.requirement("R305")
def test_sessions_of_a_backlog_are_whole_however_partitions_are_filled(
    new_queue: NewQueue, tmp_path: Path
) -> None:
    queue = new_queue(requires_session=True)
    with queue.bus.client() as client:
        partition_of = (
            client.get_partition_browser(queue_name=queue.name).describe_partitions().partition_of
        )
        others = (f"end {n}" for n in range(100))
        end = next(name for name in others if partition_of(name) != partition_of("long"))
        with client.get_queue_sender(queue.name) as sender:
            for _ in range(24):
                sender.send_messages(ServiceBusMessage("x", session_id="long"))
                time.sleep(0.25)
            time.sleep(2.5)
            sender.send_messages(ServiceBusMessage("x", session_id=end))
    source = {**entity(queue), "startingOffsets": "earliest", "maxMessagesPerTrigger": "6"}
    wanted = Sessions(
        source, str(tmp_path / "checkpoint"), "2 seconds", "0 seconds", str(tmp_path / "out")
    )

    reports.start_sessions(queue.spark, wanted, {"availableNow": True}).awaitTermination()

    rows = queue.spark.read.parquet(wanted.out).collect()
    assert [(row.session_id, row.messages) for row in rows] == [("long", 24)]


def test_dead_letters_of_any_bytes_are_counted_by_groups_of_any_name(new_queue: NewQueue) -> None:
    queue = new_queue()
    queue.send([b"\xff\xfe\x80abc"] * 3)  # type: ignore[list-item]
    with queue.bus.client() as client:
        receiver = client.get_queue_receiver(queue.name, max_wait_time=2)
        for message in receiver:
            receiver.dead_letter_message(message, reason="bad")
    groups = ("reason", "reason", "properties.a`b")

    for since in ("1764000000000", "20251101T000000Z", "2025-11-01T00:00+00:00"):
        report = Report([entity(queue)], groups, since)
        [row] = reports.dead_letters(queue.spark, report).collect()

        assert (row.reason, row["properties.a`b"], row.messages) == ("bad", None, 3)
        assert row.sample.endswith("abc")
