"""The part of a redrive on executors, without Spark: what is sent, then removed."""

from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.client.exceptions import DrainLeaseLostError, InvalidOperationError
from bendybus.spark.errors import PipelineError
from bendybus.spark.jobs import redrive_task
from bendybus.spark.jobs.redrive_task import Moved, Task
from bendybus.spark.options import Entity
from bendybus.v1 import message_pb2, pipeline_pb2
from bendybus.v1.message_pb2 import Message

BASE = 3 << 48


class Bus:
    """A dead-letter queue in one partition, and a queue of two that it goes back to."""

    def __init__(self, bodies: Sequence[str], *, detects_duplicates: bool = False) -> None:
        self.dead = {BASE + n: body for n, body in enumerate(bodies, 1)}
        self.detects_duplicates = detects_duplicates
        # (partition, ordinals, batch), in the order of the calls.
        self.sent: list[tuple[int, list[int], Any]] = []
        self.fence: dict[tuple[int, bytes], int] = {}
        self.log: list[str] = []
        self.lost = False
        self.changed = b""
        # Of all messages, if it is not a text of their own.
        self.body = self.head = b""
        # Of one frame.
        self.most = 1_000
        self.pipeline = self

    # What a client gives.

    def get_partition_browser(self, **_: Any) -> "Bus":
        return self

    def get_partition_sender(self, **_: Any) -> "Bus":
        return self

    def describe_partitions(self, **_: Any) -> Any:
        return SimpleNamespace(
            partitions=[SimpleNamespace(partition=0), SimpleNamespace(partition=1)],
            partition_of=lambda key: len(key) % 2,
            detects_duplicates=self.detects_duplicates,
        )

    def browse(self, partition: int, *, after: int, upto: int, max_messages: int, **_: Any) -> Any:
        numbers = sorted(n for n in self.dead if after < n <= upto)
        shown = numbers[:max_messages]
        batch = message_pb2.DeliveredBatch(partition=partition, sequence_numbers=shown)
        for number in shown:
            text = self.dead[number]
            batch.heads.append(self.head or Message(subject=text).SerializeToString())
            batch.messages.append(self.body or Message(data=[text.encode()]).SerializeToString())
            batch.formats.append(1)
            batch.message_ids.append(f"id-{text}")
            batch.partition_keys.append("kk" if text == "keyed" else "")
            batch.changed_properties.append(self.changed)
            batch.enqueued_time_ms.append(1)
        following = shown[-1] if len(shown) < len(numbers) else upto
        return SimpleNamespace(
            batch=batch, next_after=following, complete=len(shown) == len(numbers)
        )

    def send(
        self, partition: int, batch: Any, *, producer_id: bytes, ordinals: list[int], **_: Any
    ) -> Any:
        if len(ordinals) > self.most:
            raise InvalidOperationError(message="the batch makes too many copies")
        self.log.append("send")
        fence = self.fence.get((partition, producer_id), 0)
        new = [ordinal for ordinal in ordinals if ordinal > fence]
        self.fence[partition, producer_id] = max(fence, *ordinals)
        self.sent.append((partition, list(ordinals), batch))
        return SimpleNamespace(stored=len(new), repeated=len(ordinals) - len(new), duplicates=0)

    # What a lease calls.

    def _call(self, _: str, request: Any, __: Any) -> Any:
        self.log.append("settle")
        if self.lost:
            raise DrainLeaseLostError(message="lost")
        gone = [self.dead.pop(number, None) for number in request.numbers.values]
        return pipeline_pb2.SettleRangeResponse(deleted=sum(each is not None for each in gone))

    entity_path = "orders/$DeadLetterQueue"

    def bodies(self) -> list[str]:
        return [
            Message.FromString(body).data[0].decode()
            for _, _, batch in self.sent
            for body in batch.messages
        ]


def task(bus: Bus, *wanted: int, **properties: str) -> Task:
    numbers = [BASE + n for n in wanted] if wanted else sorted(bus.dead)
    return Task(
        "plan", Entity("orders", "", "deadletter"), "orders", 3, numbers, "me", 7, properties, 30
    )


def run(bus: Bus, wanted: Task, fix: Any = None) -> Moved:
    return redrive_task.move(bus, wanted, fix)  # type: ignore[arg-type]


@pytest.mark.requirement("R310")
def test_only_listed_numbers_are_moved() -> None:
    bus = Bus(["a", "b", "c", "d"])

    assert run(bus, task(bus, 1, 3)) == Moved(sent=2, removed=2)

    assert bus.bodies() == ["a", "c"]
    assert list(bus.dead.values()) == ["b", "d"]


@pytest.mark.requirement("R310")
def test_each_is_removed_only_after_all_frames_of_its_page_are_stored() -> None:
    bus = Bus(["a", "keyed"])

    run(bus, task(bus))

    # The key belongs to partition 0, the other goes where the source's partition leads: 3 mod 2.
    assert bus.log == ["send", "send", "settle"]
    assert [where for where, _, _ in bus.sent] == [0, 1]


@pytest.mark.requirement("R311")
def test_what_was_sent_and_not_removed_is_only_removed_by_the_next_attempt() -> None:
    bus = Bus(["a", "b"])
    bus.lost = True
    with pytest.raises(DrainLeaseLostError):
        run(bus, task(bus))
    assert len(bus.dead) == 2
    bus.lost = False

    assert run(bus, task(bus)) == Moved(sent=0, repeated=2, removed=2)
    assert bus.dead == {}


@pytest.mark.requirement("R311")
def test_what_was_removed_already_leaves_the_others_their_places() -> None:
    bus = Bus(["a", "b", "c"])
    plan = task(bus)
    del bus.dead[BASE + 1]

    run(bus, plan)

    assert [ordinals for _, ordinals, _ in bus.sent] == [[2, 3]]


def test_many_are_moved_page_by_page() -> None:
    bus = Bus([f"{n}" for n in range(2_500)])

    assert run(bus, task(bus)) == Moved(sent=2_500, removed=2_500)

    assert bus.log == ["send", "settle"] * 3
    assert [len(ordinals) for _, ordinals, _ in bus.sent] == [1_000, 1_000, 500]


def test_a_copy_is_byte_for_byte_what_was_sent() -> None:
    bus = Bus(["a"])

    run(bus, task(bus))

    [(_, _, batch)] = bus.sent
    assert list(batch.heads) == [Message(subject="a").SerializeToString()]
    assert list(batch.message_ids) == ["id-a"]


def test_properties_are_set_and_those_of_dead_lettering_go() -> None:
    bus = Bus(["a"])
    changes = message_pb2.ValueMap()
    changes.entries["DeadLetterReason"].string_value = "bad"
    changes.entries["kept"].long_value = 5
    bus.changed = changes.SerializeToString()

    run(bus, task(bus, try_="2"))

    [(_, _, batch)] = bus.sent
    found = Message.FromString(batch.heads[0]).application_properties
    assert set(found) == {"kept", "try_"}
    assert found["kept"].long_value == 5


def test_where_duplicates_are_detected_ids_are_new_and_always_the_same() -> None:
    ids = []
    for _ in range(2):
        bus = Bus(["a", "b"], detects_duplicates=True)
        run(bus, task(bus))
        ids.append([each for _, _, batch in bus.sent for each in batch.message_ids])
        head = Message.FromString(bus.sent[0][2].heads[0])
        assert head.application_properties["ResubmittedMessageId"].string_value in ("id-a", "id-b")

    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 2


def test_a_function_changes_body_and_properties() -> None:
    bus = Bus(["a"])

    def fix(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "body": row["body"] + b"!", "properties": {"fixed": "yes"}}

    run(bus, task(bus), fix)

    assert bus.bodies() == ["a!"]
    head = Message.FromString(bus.sent[0][2].heads[0])
    assert (head.subject, head.application_properties["fixed"].string_value) == ("a", "yes")


def test_what_a_function_clears_or_leaves_out_is_not_in_the_message() -> None:
    bus = Bus(["a"])
    bus.changed = message_pb2.ValueMap(
        entries={name: message_pb2.Value(int_value=1) for name in ("bad", "tries")}
    ).SerializeToString()

    def fix(row: dict[str, Any]) -> dict[str, Any]:
        row["subject"] = None
        del row["properties"]["bad"]
        row["time_to_live_ms"] = 5_000
        return row

    run(bus, task(bus), fix)

    [(_, _, batch)] = bus.sent
    head = Message.FromString(batch.heads[0])
    assert head.subject == ""
    assert {name: value.int_value for name, value in head.application_properties.items()} == {
        "tries": 1
    }
    assert batch.time_to_live_ms == [5_000]


def test_a_function_wins_over_the_properties_that_receivers_changed() -> None:
    bus = Bus(["a"])
    bus.changed = message_pb2.ValueMap(
        entries={"tries": message_pb2.Value(int_value=1)}
    ).SerializeToString()

    run(bus, task(bus), lambda row: {**row, "properties": {"tries": "0"}})

    head = Message.FromString(bus.sent[0][2].heads[0])
    assert head.application_properties["tries"].string_value == "0"


def test_a_body_that_a_function_leaves_alone_keeps_its_type() -> None:
    bus = Bus(["a"])
    value = Message(value=message_pb2.Value(string_value="a")).SerializeToString()
    bus.body = value

    run(bus, task(bus), lambda row: {**row, "subject": "b"})

    assert bus.sent[0][2].messages[0] == value


def test_a_function_sees_times_as_times_and_may_leave_a_message() -> None:
    bus = Bus(["a", "b"])

    def fix(row: dict[str, Any]) -> dict[str, Any] | None:
        assert row["enqueued_at"] == datetime(1970, 1, 1, 0, 0, 0, 1_000, UTC)
        return row if row["subject"] == "b" else None

    assert run(bus, task(bus), fix) == Moved(1, 0, 0, 1)
    assert list(bus.dead.values()) == ["a"]


@pytest.mark.parametrize(
    ("fix", "sentence"),
    [
        (lambda row: row["nope"], r"at dead letter \d+ the function failed with KeyError"),
        (lambda row: {**row, "subjct": "x"}, "the function returned subjct, which a message does"),
        (lambda row: {**row, "time_to_live_ms": 0}, "time_to_live_ms: must be positive"),
        (lambda row: {**row, "subject": 5}, r"at dead letter \d+: "),
    ],
)
def test_a_function_that_fails_names_the_message(fix: Any, sentence: str) -> None:
    bus = Bus(["a"])

    with pytest.raises(PipelineError, match=f"^--fix: .*{sentence}"):
        run(bus, task(bus), fix)
    assert list(bus.dead.values()) == ["a"]


@pytest.mark.requirement("R310")
def test_what_makes_too_many_copies_at_a_topic_is_sent_in_parts() -> None:
    bus = Bus([f"m{n}" for n in range(10)])
    bus.most = 3

    assert run(bus, task(bus)) == Moved(10, 0, 0, 10)
    assert sorted(bus.bodies()) == sorted(f"m{n}" for n in range(10))


def test_a_dead_letter_that_is_no_message_is_named() -> None:
    bus = Bus(["a"])
    bus.head = b"\xff no message"

    with pytest.raises(PipelineError, match=r"dead letter \d+: its sender .* --where 'sequence_nu"):
        run(bus, task(bus))
    assert list(bus.dead.values()) == ["a"]
