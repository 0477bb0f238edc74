"""The part of a redrive on executors, without Spark: what is fixed, sent, then removed."""

import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.client.exceptions import DrainLeaseLostError
from bendybus.domain import limits
from bendybus.spark.errors import OptionError, PipelineError
from bendybus.spark.jobs import redrive
from bendybus.spark.jobs.redrive import Plan
from bendybus.spark.jobs.redrive_task import Moved
from bendybus.v1 import message_pb2
from bendybus.v1.message_pb2 import Message
from tests.spark.dead_letter_bus import BASE, Bus, run, task

CONNECTION = "Endpoint=sb://localhost;SharedAccessKeyName=a;SharedAccessKey=b"


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


@pytest.mark.requirement("R595")
def test_a_copy_that_is_too_large_is_left_and_named_and_the_others_are_moved() -> None:
    bus = Bus(["a", "b", "large", "d", "e"])
    bus.too_large = "large"

    moved = run(bus, task(bus))

    assert (moved.sent, moved.removed) == (4, 4)
    assert moved.refused == ((BASE + 3, "the message has 9 bytes; at most 8"),)
    assert bus.dead == {BASE + 3: "large"}
    assert sorted(bus.stored) == ["a", "b", "d", "e"]


@pytest.mark.requirement("R310")
def test_nothing_is_moved_by_numbers_that_mean_other_messages_since_the_plan() -> None:
    bus = Bus(["a"])
    bus.incarnation = "restored"

    with pytest.raises(PipelineError, match="partition 3: was made again, or restored, since"):
        run(bus, task(bus))
    assert (bus.sent, list(bus.dead.values())) == ([], ["a"])


def test_many_are_moved_page_by_page() -> None:
    bus = Bus([f"{n}" for n in range(2_500)])

    assert run(bus, task(bus)) == Moved(sent=2_500, removed=2_500)

    assert bus.log == ["send", "settle"] * 5
    assert [len(ordinals) for _, ordinals, _ in bus.sent] == [500] * 5


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


@pytest.mark.parametrize(
    ("fix", "sentence"),
    [
        (lambda row: row["nope"], r"at dead letter \d+ the function failed with KeyError"),
        (lambda row: {**row, "subjct": "x"}, "the function returned subjct, which a message does"),
        (lambda row: {**row, "time_to_live_ms": 0}, "time_to_live_ms: must be positive"),
        (lambda row: {**row, "subject": 5}, r"at dead letter \d+: "),
        (lambda row: "", r"at dead letter \d+ the function returned '';.* or None to leave"),
        (lambda row: {**row, "properties": 5}, r"at dead letter \d+: "),
        (lambda row: {**row, "time_to_live_ms": 1.5}, r"at dead letter \d+: "),
        (lambda row: {**row, "scheduled_enqueue_time": "later"}, r"at dead letter \d+: "),
        (lambda row: {**row, "session_id": "\ud800"}, r"at dead letter \d+: "),
        (
            lambda row: {**row, "session_id": "s", "partition_key": "k"},
            r"at dead letter \d+: .* differs from SessionId",
        ),
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


def test_a_partition_that_did_not_answer_is_not_taken_for_one_made_again(tmp_path: Path) -> None:
    source = {"queue": "orders", "connectionString": CONNECTION}
    path = "orders/$DeadLetterQueue"
    redrive.write_plan(tmp_path, Plan(path, "orders", {0: [1], 1: [2]}, {0: "a", 1: ""}))
    away = [SimpleNamespace(partition=p, incarnation=of) for p, of in enumerate(("", "b"))]
    wanted = redrive.Redrive(source, checkpoint=tmp_path)

    bus: Any = SimpleNamespace(extents=lambda: away)
    plan, continued = redrive._plan(None, wanted, redrive._options(wanted), bus)

    assert (plan.count(), continued) == (2, True)


@pytest.mark.requirement("R311")
def test_a_run_is_not_continued_when_partitions_may_have_forgotten_what_it_sent(
    tmp_path: Path,
) -> None:
    # Planned 14 days ago, as long as a partition remembers a producer.
    at_ms = int(time.time() * 1_000) - limits.FENCE_MS
    plan = Plan("orders/$DeadLetterQueue", "orders", {0: [1]}, {0: "a"}, at_ms=at_ms)
    redrive.write_plan(tmp_path, plan)
    wanted = redrive.Redrive(
        {"queue": "orders", "connectionString": CONNECTION}, checkpoint=tmp_path
    )

    bus: Any = SimpleNamespace(extents=lambda: [SimpleNamespace(partition=0, incarnation="a")])
    with pytest.raises(OptionError, match=r"days ago.* sent twice.*redrive.json to begin again"):
        redrive._plan(None, wanted, redrive._options(wanted), bus)


def test_a_dead_letter_that_is_no_message_is_named() -> None:
    bus = Bus(["a"])
    bus.head = b"\xff no message"

    with pytest.raises(PipelineError, match=r"dead letter \d+: its sender .* --where 'sequence_nu"):
        run(bus, task(bus))
    assert list(bus.dead.values()) == ["a"]


def interrupted(bus: Bus, fix: Any) -> None:
    """Send all that a function keeps, and remove nothing."""
    bus.lost = True
    with pytest.raises(DrainLeaseLostError):
        run(bus, task(bus), fix)
    bus.lost = False


@pytest.mark.requirement("R311")
@pytest.mark.parametrize("many", [3, 1_200])
def test_what_the_function_left_is_not_lost_when_the_next_attempt_keeps_it(many: int) -> None:
    bus = Bus([f"{n}" for n in range(many)])
    interrupted(bus, lambda row: None if row["subject"] == "1" else row)

    run(bus, task(bus), lambda row: row)

    # It is left once more: this plan has passed over its place.
    assert list(bus.dead.values()) == ["1"]
    assert sorted(bus.stored) == sorted(f"{n}" for n in range(many) if n != 1)


@pytest.mark.requirement("R311")
def test_what_the_function_gives_another_key_in_the_next_attempt_is_not_sent_twice() -> None:
    bus = Bus(["a", "b", "c"])
    interrupted(bus, lambda row: None if row["subject"] == "c" else row)

    moved = run(bus, task(bus), lambda row: {**row, "partition_key": "kk"})

    assert moved == Moved(sent=1, repeated=2, removed=3)
    assert sorted(bus.stored) == ["a", "b", "c"]
    assert bus.dead == {}


@pytest.mark.requirement("R311")
def test_nothing_is_removed_that_another_attempt_stored_the_place_of_meanwhile() -> None:
    bus = Bus(["a", "b", "c"])
    other = Bus(["a", "b", "c"])
    interrupted(other, lambda row: None if row["subject"] == "b" else row)

    def fix(row: dict[str, Any]) -> dict[str, Any]:
        # The other one sends after this one looked.
        bus.fences.update(other.fences)
        return row

    with pytest.raises(PipelineError, match=r"another attempt .* start the command again"):
        run(bus, task(bus), fix)
    assert len(bus.dead) == 3


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


@pytest.mark.parametrize("named", [":f", ".a:f", "json:nope", "json", "json:__name__"])
def test_a_function_that_cannot_be_loaded_is_refused_with_what_to_name(named: str) -> None:
    with pytest.raises(OptionError, match=r"^--fix: .* cannot be loaded .*; name module:function"):
        redrive.fixer(named)
