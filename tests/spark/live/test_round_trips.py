"""Messages go to files and come back: as they were, and in their order. Real Spark, real bus."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bendybus.client import ServiceBusMessage
from bendybus.spark.jobs import capture, files
from bendybus.spark.jobs.capture import Capture
from bendybus.spark.jobs.file_store import Layout
from bendybus.spark.jobs.files import Export, Load, Replay
from tests.spark.live.queues import Queue, entity, sent

pytestmark = pytest.mark.requirement("R307")
NewQueue = Callable[..., Queue]
BODIES = [b"\xff\xfe\x00", b"", "h\u00e9\u2713\U0001d11e\x00".encode(), b'{"a": "b\\n"}', b"text"]


def captured(
    queue: Queue, out: str, checkpoint: str, form: str = "parquet", **options: str
) -> None:
    """Capture all that is there."""
    wanted = Capture({**queue.options, **options}, out, checkpoint, Layout(form))
    capture.start(queue.spark, wanted, {"availableNow": True}).awaitTermination(90)


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_types_of_properties_are_kept_by_a_copy_with_heads(
    new_queue: NewQueue, tmp_path: Path, form: str
) -> None:
    queue, other = new_queue(), new_queue()
    sent(queue, 3)
    out = str(tmp_path / "out")

    files.export(queue.spark, Export(entity(queue), out, form, columns="all"))
    files.replay(queue.spark, Replay(out, entity(other), form))

    assert other.ids_and_numbers() == [("id-0", 0), ("id-1", 1), ("id-2", 2)]


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_what_was_captured_with_all_columns_is_replayed_with_its_types(
    new_queue: NewQueue, tmp_path: Path, form: str
) -> None:
    queue, other = new_queue(), new_queue()
    sent(queue, 3)
    out = str(tmp_path / "out")
    captured(queue, out, str(tmp_path / "checkpoint"), form, columns="all")

    assert files.replay(queue.spark, Replay(out, entity(other), form)) == 3

    assert other.ids_and_numbers() == [("id-0", 0), ("id-1", 1), ("id-2", 2)]


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
@pytest.mark.parametrize("job", ["export", "capture"])
def test_bodies_of_any_bytes_come_back(
    new_queue: NewQueue, tmp_path: Path, job: str, form: str
) -> None:
    queue, other = new_queue(), new_queue()
    queue.send(BODIES)  # type: ignore[arg-type]
    out = str(tmp_path / "out")

    if job == "export":
        files.export(queue.spark, Export(entity(queue), out, form))
    else:
        captured(queue, out, str(tmp_path / "checkpoint"), form)
    files.replay(queue.spark, Replay(out, entity(other), form))

    assert sorted(bytes(row.body) for row in other.read().collect()) == sorted(BODIES)


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_copies_of_other_columns_in_one_folder_are_replayed_with_all_that_they_have(
    new_queue: NewQueue, tmp_path: Path, form: str
) -> None:
    queue, other, target = new_queue(), new_queue(), new_queue()
    sent(queue, 3)
    other.send([f"o{number}" for number in range(40)])
    out = str(tmp_path / "out")
    captured(other, out, str(tmp_path / "of-other"), form, columns="message_id,body")
    captured(queue, out, str(tmp_path / "of-queue"), form, columns="all")

    assert files.replay(queue.spark, Replay(out, entity(target), form)) == 43

    rows = target.read().where("subject IS NOT NULL").collect()
    assert sorted((row.message_id, row.properties["n"]) for row in rows) == [
        ("id-0", "0"),
        ("id-1", "1"),
        ("id-2", "2"),
    ]


@pytest.mark.parametrize(
    "tap",
    [{"sessionId": "s0"}, {"columns": "message_id,body"}, {"body": "string"}],
    ids=["session", "columns", "body"],
)
def test_a_capture_is_whole_beside_a_tap_that_took_less_into_the_same_folder(
    new_queue: NewQueue, tmp_path: Path, tap: dict[str, str]
) -> None:
    queue = new_queue(requires_session=True)
    with queue.bus.client() as client, client.get_queue_sender(queue.name) as sender:
        made = [ServiceBusMessage(f"m{n}", session_id=f"s{n % 2}") for n in range(12)]
        sender.send_messages(made, split_by_partition_key=True)
    out = tmp_path / "out"
    captured(queue, str(out), str(tmp_path / "tap"), settle="none", **tap)
    taken = set(out.rglob("*.parquet"))

    captured(queue, str(out), str(tmp_path / "checkpoint"))

    written = [str(path) for path in set(out.rglob("*.parquet")) - taken]
    rows = queue.spark.read.parquet(*written).collect()
    assert sorted((bytes(row.body).decode(), row.session_id) for row in rows) == sorted(
        (f"m{n}", f"s{n % 2}") for n in range(12)
    )
    assert queue.active() == 0


def test_a_replay_keeps_the_order_of_each_session(new_queue: NewQueue, tmp_path: Path) -> None:
    queue, other = new_queue(requires_session=True), new_queue(requires_session=True)
    texts = [f"{n:03}".ljust(3 + n * 7919 % 2_000) for n in range(120)]
    with queue.bus.client() as client, client.get_queue_sender(queue.name) as sender:
        made = [ServiceBusMessage(text, session_id=f"s{n % 3}") for n, text in enumerate(texts)]
        sender.send_messages(made, split_by_partition_key=True)
    out = str(tmp_path / "out")
    # Many files of many sizes.
    captured(queue, out, str(tmp_path / "checkpoint"), maxMessagesPerTrigger="40")

    files.replay(queue.spark, Replay(out, entity(other)))

    assert in_sessions(other) == [texts[number::3] for number in range(3)]


def test_a_load_keeps_the_order_of_each_session(new_queue: NewQueue, tmp_path: Path) -> None:
    queue = new_queue(requires_session=True)
    folder = tmp_path / "rows"
    folder.mkdir()
    # The first file is read in two pieces.
    texts = [f"{n:04}".ljust(20_000 + n) for n in range(450)]
    for part, first, until in (("01", 0, 350), ("02", 350, 400), ("03", 400, 450)):
        lines = (
            json.dumps({"text": texts[number], "who is it": f"s{number % 3}"}) + "\n"
            for number in range(first, until)
        )
        (folder / f"{part}.jsonl").write_text("".join(lines))

    wanted = Load(str(folder), entity(queue), "jsonl", "text", {"session_id": "who is it"})
    files.load(queue.spark, wanted)

    assert in_sessions(queue) == [texts[number::3] for number in range(3)]


def in_sessions(queue: Queue) -> list[list[str]]:
    """Receive the sessions s0, s1 and s2."""
    found = []
    with queue.bus.client() as client:
        for number in range(3):
            with client.get_queue_receiver(
                queue.name,
                session_id=f"s{number}",
                receive_mode="receiveanddelete",
                max_wait_time=2,
            ) as receiver:
                found.append([str(message) for message in receiver])
    return found
