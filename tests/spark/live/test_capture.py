"""Capture: files hold each message once, through deaths at any moment, and the queue ends empty."""

import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bendybus.spark import columns
from bendybus.spark.commands.run import sentence_of
from bendybus.spark.jobs import capture
from bendybus.spark.jobs.capture import Batch, Capture
from bendybus.spark.jobs.file_store import Layout
from tests.spark.live.queues import Queue

NewQueue = Callable[..., Queue]
pytestmark = pytest.mark.requirement("R299")
BODIES = [f"m{n}" for n in range(60)]
NOW = {"availableNow": True}


def wanted(queue: Queue, layout: Layout | None = None, **source: str) -> Capture:
    return Capture(
        {**queue.options, **source},
        str(queue.folder / "files"),
        str(queue.folder / "checkpoint"),
        layout or Layout(),
    )


def run(queue: Queue, job: Capture) -> list[Batch]:
    done: list[Batch] = []
    query = capture.start(queue.spark, job, NOW, done.append)
    query.awaitTermination(90)
    return done


def files(queue: Queue) -> list[Path]:
    return sorted(path for path in (queue.folder / "files").rglob("*") if path.is_file())


def bodies(queue: Queue) -> Counter[str]:
    import pyarrow.parquet as pq

    return Counter(
        body.decode()
        for path in files(queue)
        if path.suffix == ".parquet"
        for body in pq.read_table(path, columns=["body"]).column("body").to_pylist()
    )


def test_messages_are_in_files_by_partition_and_hour_and_the_queue_is_empty(
    new_queue: NewQueue,
) -> None:
    queue = new_queue()
    queue.send(BODIES)

    done = run(queue, wanted(queue))

    assert bodies(queue) == Counter(BODIES)
    assert queue.active() == 0
    assert sum(batch.messages for batch in done) == 60
    folders = {path.relative_to(queue.folder / "files").parts[0] for path in files(queue)}
    assert folders == {"0", "1", "2", "3"}
    read = queue.spark.read.option("recursiveFileLookup", "true").parquet(
        str(queue.folder / "files")
    )
    assert read.count() == 60
    assert read.columns == queue.read().columns


def test_a_batch_that_is_repeated_publishes_nothing_twice(new_queue: NewQueue) -> None:
    queue = new_queue()
    queue.send(BODIES)
    died: list[int] = []

    def dies(batch: Batch) -> None:
        # After the files were published, before Spark commits the batch.
        if batch.messages:
            died.append(batch.files)
            raise RuntimeError("injected")

    query = capture.start(queue.spark, wanted(queue), NOW, dies)
    with pytest.raises(Exception, match="injected"):
        query.awaitTermination(90)
    before = {path: path.stat().st_mtime_ns for path in files(queue)}
    done = run(queue, wanted(queue))

    assert died
    assert queue.active() == 0
    assert {path: path.stat().st_mtime_ns for path in files(queue)} == before
    assert done[0].repeated == done[0].files == died[0]
    assert bodies(queue) == Counter(BODIES)


@pytest.mark.requirement("R361")
def test_a_repeat_with_other_columns_template_and_format_gives_the_files_that_were_begun(
    new_queue: NewQueue,
) -> None:
    queue = new_queue()
    queue.send(BODIES)

    def dies(batch: Batch) -> None:
        if batch.messages:
            raise RuntimeError("injected")

    with pytest.raises(Exception, match="injected"):
        capture.start(queue.spark, wanted(queue), NOW, dies).awaitTermination(90)
    before = files(queue)
    changed = wanted(queue, Layout("jsonl", folder="{partition}/{year}"), columns="subject")
    done = run(queue, changed)
    after = files(queue)
    queue.send(["later"])
    run(queue, changed)

    assert before == after
    assert done[0].repeated == done[0].files == len(before)
    assert bodies(queue) == Counter(BODIES)
    (later,) = set(files(queue)) - set(after)
    assert later.suffix == ".jsonl"
    assert queue.active() == 0


@pytest.mark.requirement("R446")
def test_a_repeat_with_another_case_of_the_queue_gives_the_folders_that_were_begun(
    new_queue: NewQueue,
) -> None:
    queue = new_queue()
    queue.send(BODIES)
    layout = Layout(folder="{entity}/{partition}")

    def dies(batch: Batch) -> None:
        if batch.messages:
            raise RuntimeError("injected")

    with pytest.raises(Exception, match="injected"):
        capture.start(queue.spark, wanted(queue, layout), NOW, dies).awaitTermination(90)
    before = files(queue)
    upper = {**queue.options, "queue": queue.name.upper()}
    run(queue, replace(wanted(queue, layout), source=upper))

    assert files(queue) == before
    assert bodies(queue) == Counter(BODIES)
    assert queue.active() == 0


@pytest.mark.requirement("R401")
def test_a_capture_goes_on_from_a_checkpoint_whose_tasks_were_given_messages(
    new_queue: NewQueue,
) -> None:
    queue = new_queue()
    queue.send(BODIES)
    job = wanted(queue)

    def begins(frame: Any, number: int) -> None:
        frame.count()
        if number:
            raise RuntimeError("injected")

    source = {"settle": "trailing", "columns": ",".join((*columns.DEFAULT, columns.RANGE))}
    query = (
        queue.stream(**source)
        .writeStream.foreachBatch(begins)
        .option("checkpointLocation", job.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(Exception, match="injected"):
        query.awaitTermination(90)
    done = run(queue, job)

    assert [batch.number for batch in done if batch.messages] == [1]
    assert bodies(queue) == Counter(BODIES)
    assert queue.active() == 0


@pytest.mark.requirement("R361")
def test_the_record_is_kept_where_spark_has_the_checkpoint(new_queue: NewQueue) -> None:
    queue = new_queue()
    jvm, home = queue.spark._jvm, queue.folder / "hadoop"
    path = jvm.org.apache.hadoop.fs.Path(str(home))
    system = path.getFileSystem(queue.spark._jsc.hadoopConfiguration())
    folder = capture.HadoopFolder(queue.spark, system, path)

    absent = folder.read("record")
    folder.write("record", b"one")
    folder.write("record", b"\x00other\xff")

    assert absent is None
    assert folder.read("record") == b"\x00other\xff"
    assert (home / "record").read_bytes() == b"\x00other\xff"


def test_json_lines_have_the_columns_that_were_chosen(new_queue: NewQueue) -> None:
    queue = new_queue()
    queue.send(["text"], application_properties={"a": "b"})
    layout = Layout("jsonl", "gzip", "day={year}-{month}-{day}/{partition}")

    run(queue, wanted(queue, layout, columns="body,properties,enqueued_at", body="string"))

    (path,) = files(queue)
    (line,) = gzip.decompress(path.read_bytes()).splitlines()
    row = json.loads(line)
    assert path.name.endswith(".jsonl.gz")
    assert row["body"] == "text"
    assert row["properties"] == {"a": "b"}
    assert row["enqueued_at"].endswith("Z")
    assert row.keys() == {"body", "properties", "enqueued_at"}


def test_a_tap_captures_without_removing(new_queue: NewQueue) -> None:
    queue = new_queue()
    queue.send(BODIES)

    run(queue, wanted(queue, settle="none"))
    queue.send(["more"])
    run(queue, wanted(queue, settle="none"))

    assert bodies(queue) == Counter([*BODIES, "more"])
    assert queue.active() == 61


def test_the_command_captures_what_is_there_and_ends(new_queue: NewQueue) -> None:
    queue = new_queue()
    queue.send(BODIES)

    ended = command(queue, "--format=jsonl", "--columns=body", "--now")

    lines = [json.loads(line) for path in files(queue) for line in path.read_text().splitlines()]
    assert ended.returncode == 0, ended.stderr[-2_000:]
    assert Counter(line["body"] for line in lines) == Counter(BODIES)
    assert queue.active() == 0


@pytest.mark.requirement("R592")
def test_the_command_says_what_it_left_behind(new_queue: NewQueue) -> None:
    queue = new_queue()
    queue.send(BODIES)
    with (
        queue.bus.client() as client,
        client.get_queue_receiver(queue.name, max_wait_time=5) as receiver,
    ):
        [held] = receiver.receive_messages(1)

        ended = command(queue, "--option=timeout=5s", "--now")

        receiver.complete_message(held)
    assert ended.returncode == 1
    assert "the run ends with messages left behind: partition " in ended.stderr
    assert "(1 message is locked by receivers)" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert sum(bodies(queue).values()) + queue.active() == len(BODIES) - 1


def test_a_command_that_cannot_be_done_says_why_before_spark_starts(new_queue: NewQueue) -> None:
    ended = command(new_queue(), "--format=csv")

    assert ended.returncode == 2
    assert ended.stderr.strip() == (
        "bendybus pipeline: --format: must be parquet or jsonl (got 'csv')"
    )


def command(queue: Queue, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    given = {
        "--source": queue.name,
        "--connection-string-file": queue.options["connectionStringFile"],
        "--out": str(queue.folder / "files"),
        "--checkpoint": str(queue.folder / "checkpoint"),
    }
    return subprocess.run(
        [
            sys.executable, "-m", "bendybus.spark", "capture",
            *(f"{name}={value}" for name, value in given.items()), *arguments,
        ],
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip


def test_an_object_store_is_written_to_like_a_folder(tmp_path: Path) -> None:
    from pyarrow import fs

    from bendybus.spark.jobs.file_store import RemoteStore

    store = RemoteStore(fs.LocalFileSystem(), str(tmp_path), "me")
    for text in (b"whole", b"less"):
        draft = store.draft("3/a")
        draft.file.write(text)
        draft.publish()
        draft.discard()
    store.draft("b").file.write(b"half")
    store.clear()

    found = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"a": b"whole"}


def test_files_that_cannot_be_written_are_named_in_one_sentence(new_queue: NewQueue) -> None:
    queue = new_queue()
    queue.send(BODIES)
    (queue.folder / "files").write_text("a file, and no folder")

    with pytest.raises(Exception, match="--out") as failed:
        run(queue, wanted(queue))

    out = queue.folder / "files"
    assert sentence_of(failed.value).startswith(f"--out: {out} cannot be written: ")
    assert "Not a directory" in sentence_of(failed.value)
    assert queue.active() == 60
