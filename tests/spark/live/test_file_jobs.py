"""Export, replay and load, with real Spark and a real bus."""

import csv
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bendybus.spark.commands.run import sentence_of
from bendybus.spark.errors import OptionError
from bendybus.spark.jobs import files
from bendybus.spark.jobs.files import Export, Load, Replay
from tests.spark.live.queues import Queue, entity, sent

pytestmark = pytest.mark.requirement("R312")
NewQueue = Callable[..., Queue]


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


def test_columns_of_files_may_have_any_name(new_queue: NewQueue, tmp_path: Path) -> None:
    queue = new_queue()
    path = tmp_path / "rows.csv"
    path.write_text("the.body,a`b,\u00c9 t\u00e9\nb,k,s\n")
    named = {"partition_key": "a`b", "subject": "\u00c9 t\u00e9"}

    files.load(queue.spark, Load(str(path), entity(queue), "csv", "the.body", named))

    [row] = queue.read(body="string").collect()
    assert (row.body, row.partition_key, row.subject) == ("b", "k", "s")


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


def test_quoted_values_of_csv_are_what_was_written(new_queue: NewQueue, tmp_path: Path) -> None:
    queue = new_queue()
    path = tmp_path / "notes.csv"
    notes = ['say "hi" now', 'a, "b", c', "C:\\dir,\\", "C:\\new\\", '"', "two\nlines", "plain"]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["text"], *([note] for note in notes)])

    assert files.load(queue.spark, Load(str(path), entity(queue), "csv", "text")) == len(notes)

    assert sorted(row.body for row in queue.read(body="string").collect()) == sorted(notes)


def test_other_json_lines_are_not_replayed(new_queue: NewQueue, tmp_path: Path) -> None:
    queue = new_queue()
    path = tmp_path / "flights.jsonl"
    path.write_text('{"carrier": "UA", "subject": "x"}\n')

    (tmp_path / "empty").mkdir()

    with pytest.raises(OptionError, match=r"--in: .* has the field 'carrier', which no message"):
        files.replay(queue.spark, Replay(str(path), entity(queue), "jsonl"))
    with pytest.raises(OptionError, match="--in: no files of --format jsonl there"):
        files.replay(queue.spark, Replay(str(tmp_path / "empty"), entity(queue), "jsonl"))
    assert queue.active() == 0


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

    assert sentence_of(failed.value) or isinstance(failed.value, OptionError)
    assert not any("_corrupt" in body for body in queue.received())


def test_a_line_that_cannot_be_read_is_not_replayed(new_queue: NewQueue, tmp_path: Path) -> None:
    queue = new_queue()
    path = tmp_path / "rows.jsonl"
    path.write_text('{"body": "a"}\n{"body": "b", \n')

    with pytest.raises(Exception, match=r"(?i)malformed") as failed:
        files.replay(queue.spark, Replay(str(path), entity(queue), "jsonl"))

    assert sentence_of(failed.value)
    assert set(queue.received()) <= {"a"}


def test_a_load_with_a_key_is_cut_into_the_same_tasks_with_any_number_of_cores(
    new_queue: NewQueue, tmp_path: Path
) -> None:
    queue = new_queue()
    path = tmp_path / "rows.jsonl"
    rows = 6_000
    path.write_text("".join(f'{{"text": "{n}{"x" * 1_000}"}}\n' for n in range(rows)))
    job = Load(str(path), {**entity(queue), "idempotencyKey": "once"}, "jsonl", "text")
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
            "--in: no files of --format parquet there",
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

    assert (sentence_of(failed.value) or str(failed.value)).startswith(sentence)
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
