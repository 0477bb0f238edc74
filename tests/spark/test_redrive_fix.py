"""What the function of `--fix` may do to a dead letter, and to an interrupted redrive."""

from datetime import UTC, datetime
from typing import Any

import pytest

from bendybus.client.exceptions import DrainLeaseLostError
from bendybus.spark.errors import OptionError, PipelineError
from bendybus.spark.jobs import redrive
from bendybus.spark.jobs.redrive_task import Moved
from bendybus.v1 import message_pb2
from bendybus.v1.message_pb2 import Message
from tests.spark.dead_letter_bus import Bus, run, task


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
