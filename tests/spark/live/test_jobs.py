"""Export, replay, load, reports and sessions, with real Spark and a real bus."""

import dataclasses
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bendybus.client import ServiceBusMessage
from bendybus.spark.commands.run import sentence_of
from bendybus.spark.errors import OptionError
from bendybus.spark.jobs import files, reports, session_totals
from bendybus.spark.jobs.files import Export, Load, Replay
from bendybus.spark.jobs.reports import Report, Usage
from bendybus.spark.jobs.session_totals import Sessions
from tests.spark.live.queues import Queue

pytestmark = pytest.mark.requirement("R312")
NewQueue = Callable[..., Queue]


def entity(queue: Queue) -> dict[str, str]:
    """Return the options of a queue as commands make them."""
    given = {name: value for name, value in queue.options.items() if name != "queue"}
    return {**given, "entity": queue.name}


def sent(queue: Queue, count: int = 20) -> list[str]:
    """Fill a queue with messages that have a bit of everything."""
    with queue.bus.client() as client, client.get_queue_sender(queue.name) as sender:
        for number in range(count):
            sender.send_messages(
                ServiceBusMessage(
                    f"m{number}",
                    subject=f"s{number % 2}",
                    message_id=f"id-{number}",
                    partition_key=f"k{number % 3}",
                    application_properties={"n": number},
                )
            )
    return sorted(f"m{number}" for number in range(count))


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_what_was_exported_is_replayed_as_it_was(
    new_queue: NewQueue, tmp_path: Path, form: str
) -> None:
    queue, other = new_queue(), new_queue()
    bodies = sent(queue)
    out = str(tmp_path / "out")

    assert files.export(queue.spark, Export(entity(queue), out, form)) == 20
    assert queue.active() == 20
    assert files.replay(queue.spark, Replay(out, entity(other), form)) == 20

    rows = other.read(body="string").collect()
    assert sorted(row.body for row in rows) == bodies
    [first] = [row for row in rows if row.body == "m7"]
    assert (first.subject, first.message_id, first.partition_key) == ("s1", "id-7", "k1")
    assert first.properties == {"n": "7"}


def test_an_export_is_of_some_rows_and_columns_and_replaces_nothing(
    new_queue: NewQueue, tmp_path: Path
) -> None:
    queue = new_queue()
    sent(queue)
    wanted = Export(
        entity(queue), str(tmp_path / "out"), where="subject = 's1'", columns="subject,message_id"
    )

    assert files.export(queue.spark, wanted) == 10
    assert queue.spark.read.parquet(wanted.out).columns == ["subject", "message_id"]
    with pytest.raises(Exception, match="PATH_ALREADY_EXISTS"):
        files.export(queue.spark, wanted)


def test_a_replay_gives_new_ids_and_repeats_the_distances_in_time(
    new_queue: NewQueue, tmp_path: Path
) -> None:
    queue, other = new_queue(), new_queue()
    sent(queue, 2)
    time.sleep(0.2)
    sent(queue, 2)
    out = str(tmp_path / "out")
    files.export(queue.spark, Export(entity(queue), out))
    times = sorted(row.enqueued_at for row in queue.read().collect())

    files.replay(queue.spark, Replay(out, entity(other), new_ids=True, shift_time=True))

    rows = other.read(states="active,scheduled").collect()
    assert len({row.message_id for row in rows}) == 4
    assert not any(row.message_id.startswith("id-") for row in rows)
    assert (times[-1] - times[0]).total_seconds() > 0.19


def test_rows_of_files_become_messages(new_queue: NewQueue, tmp_path: Path) -> None:
    queue = new_queue()
    path = tmp_path / "flights.csv"
    path.write_text("carrier,flight,delay\nUA,1,5\nAA,2,-3\n")

    wanted = Load(str(path), entity(queue), "csv", named={"partition_key": "carrier"})
    assert files.load(queue.spark, wanted) == 2

    rows = queue.read(body="string").collect()
    assert sorted(json.loads(row.body)["delay"] for row in rows) == ["-3", "5"]
    assert {row.partition_key for row in rows} == {"UA", "AA"}
    assert {row.content_type for row in rows} == {"application/json"}


def test_a_load_with_a_key_stores_nothing_twice(new_queue: NewQueue, tmp_path: Path) -> None:
    queue = new_queue()
    path = tmp_path / "rows"
    path.mkdir()
    for part in range(5):
        text = "".join(f"t{n}\n" for n in range(part * 10, part * 10 + 10))
        (path / f"{part}.csv").write_text(f"text\n{text}")
    target = {**entity(queue), "idempotencyKey": "rows of today"}
    wanted = Load(str(path), target, "csv", body_column="text")

    # The rate is no matter of what is stored.
    for rate in (0, 1_000, 0):
        assert files.load(queue.spark, dataclasses.replace(wanted, rate=rate)) == 50

    assert sorted(queue.received()) == sorted(f"t{n}" for n in range(50))


def test_a_rate_bounds_how_fast_messages_are_sent(new_queue: NewQueue, tmp_path: Path) -> None:
    queue = new_queue()
    path = tmp_path / "rows.csv"
    path.write_text("text\n" + "".join(f"t{n}\n" for n in range(40)))

    began = time.monotonic()
    files.load(queue.spark, Load(str(path), entity(queue), "csv", "text", rate=20))

    assert time.monotonic() - began >= 1
    assert queue.active() == 40


def test_a_column_that_is_not_there_is_named(new_queue: NewQueue, tmp_path: Path) -> None:
    queue = new_queue()
    path = tmp_path / "rows.csv"
    path.write_text("text\na\n")

    with pytest.raises(OptionError, match=r"--body-column: .* has no column 'body'; it has text"):
        files.load(queue.spark, Load(str(path), entity(queue), "csv", "body"))


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
    session_totals.start(queue.spark, wanted, now).awaitTermination()

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

    session_totals.start(queue.spark, wanted, {"availableNow": True}).awaitTermination()

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

    for since in ("1764000000000", "20251101T000000Z", "2025-11-01"):
        report = Report([entity(queue)], groups, since)
        [row] = reports.dead_letters(queue.spark, report).collect()

        assert (row.reason, row["properties.a`b"], row.messages) == ("bad", None, 3)
        assert row.sample.endswith("abc")


@pytest.mark.parametrize(
    ("form", "text"),
    [("jsonl", '{"a":1}\n{bad\n'), ("csv", "a,b\n1,2\n3\n"), ("csv", "a,b\n1,2\n4,5,6\n")],
)
def test_a_line_that_cannot_be_read_becomes_no_message(
    new_queue: NewQueue, tmp_path: Path, form: str, text: str
) -> None:
    queue = new_queue()
    path = tmp_path / f"rows.{form}"
    path.write_text(text)

    with pytest.raises(Exception, match=r"(?i)malformed") as failed:
        files.load(queue.spark, Load(str(path), entity(queue), form))

    assert sentence_of(failed.value)
    assert not any("_corrupt" in body for body in queue.received())


def test_a_load_with_a_key_is_cut_into_the_same_tasks_with_any_number_of_cores(
    new_queue: NewQueue, tmp_path: Path
) -> None:
    queue = new_queue()
    path = tmp_path / "rows.csv"
    rows = 6_000
    path.write_text("text\n" + "".join(f"{n}{'x' * 1_000}\n" for n in range(rows)))
    job = Load(str(path), {**entity(queue), "idempotencyKey": "once"}, "csv", "text")
    files.load(queue.spark, job)
    setting = "spark.sql.leafNodeDefaultParallelism"

    for cores in ("1", "4"):
        queue.spark.conf.set(setting, cores)
        try:
            files.load(queue.spark, job)
        finally:
            queue.spark.conf.unset(setting)

    assert queue.active() == rows


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        (lambda spark, to, path: files.export(spark, Export(to, str(path))), "--out: "),
        (
            lambda spark, to, path: files.replay(spark, Replay(str(path / "none"), to)),
            "--in: ",
        ),
        (
            lambda spark, to, path: files.load(spark, Load(str(path / "empty"), to)),
            "--in: no files of --format Parquet there",
        ),
        (
            lambda spark, to, path: files.export(
                spark, Export(to, str(path / "out"), where="nope = 1")
            ),
            "[UNRESOLVED_COLUMN",
        ),
        (
            lambda spark, to, path: files.export(
                spark, Export(to, str(path / "out"), where="subject = = 1")
            ),
            "[PARSE_SYNTAX_ERROR] Syntax error at or near '='",
        ),
    ],
    ids=["out exists", "no in", "empty in", "no such column", "no condition"],
)
def test_errors_of_spark_become_a_sentence(
    new_queue: NewQueue, tmp_path: Path, job: Any, sentence: str
) -> None:
    queue = new_queue()
    sent(queue)
    (tmp_path / "empty").mkdir()

    with pytest.raises(Exception, match=r"\w") as failed:
        job(queue.spark, entity(queue), tmp_path)

    assert sentence_of(failed.value).startswith(sentence)
    assert queue.active() == 20


def test_a_replay_with_a_key_has_the_times_of_the_files(new_queue: NewQueue) -> None:
    queue = new_queue()
    target = {**entity(queue), "idempotencyKey": "once"}

    with pytest.raises(OptionError, match="--shift-time: gives other times in each run"):
        files.replay(queue.spark, Replay("files", target, shift_time=True))


def test_a_column_that_files_do_not_have_is_named_with_its_option(
    new_queue: NewQueue, tmp_path: Path
) -> None:
    queue = new_queue()
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,2\n")

    for name, option in (("partition_key", "key"), ("session_id", "session")):
        job = Load(str(path), entity(queue), "csv", named={name: "nope"})
        with pytest.raises(OptionError, match=f"--{option}-column: .* no column 'nope'.* a, b"):
            files.load(queue.spark, job)
