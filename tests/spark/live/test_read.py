"""Batch reads: positions, columns, entities of every kind, and what is wrong with them."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from bendybus.client import ServiceBusMessage
from tests.integration.processes import Bus
from tests.spark.live.queues import Queue

NewQueue = Callable[..., Queue]
pytestmark = pytest.mark.requirement("R290")


def first_line(error: pytest.ExceptionInfo[BaseException]) -> str:
    return str(error.value).strip().splitlines()[0]


def test_positions_choose_what_is_read(new_queue: NewQueue) -> None:
    queue = new_queue()
    queue.send(["a", "b", "c"], partition_key="k")
    rows = queue.read(body="string").collect()
    numbers = sorted(row.sequence_number for row in rows)
    partition = str(rows[0].partition)

    after = queue.read(body="string", startingOffsets=json.dumps({partition: numbers[0]}))
    upto = queue.read(body="string", endingOffsets=json.dumps({partition: numbers[1]}))
    none = queue.read(startingOffsets="latest")

    assert sorted(row.body for row in after.collect()) == ["b", "c"]
    assert sorted(row.body for row in upto.collect()) == ["a", "b"]
    assert none.count() == 0


def test_times_choose_what_is_read(new_queue: NewQueue) -> None:
    queue = new_queue()
    queue.send(["early"])
    between = datetime.now(UTC)
    while datetime.now(UTC).timestamp() < between.timestamp() + 0.02:
        pass
    queue.send(["late"])

    since = queue.read(body="string", startingTime=between.isoformat()).collect()
    before = queue.read(body="string", endingTime=between.isoformat()).collect()

    assert [row.body for row in since] == ["late"]
    assert [row.body for row in before] == ["early"]


def test_columns_and_a_schema_of_the_user_prune_what_is_read(new_queue: NewQueue) -> None:
    queue = new_queue()
    queue.send(["a"], subject="s")

    pruned = queue.read(columns="subject,partition")
    typed = (
        queue.spark.read.format("bendybus")
        .schema("sequence_number bigint, body string")
        .options(**queue.options)
        .load()
    )

    assert pruned.columns == ["subject", "partition"]
    assert pruned.collect()[0].subject == "s"
    assert typed.collect()[0].body == "a"


def test_ranges_are_cut_into_more_tasks(new_queue: NewQueue) -> None:
    queue = new_queue()
    queue.send([f"m{n}" for n in range(40)])

    found = queue.read(minPartitions="9", body="string")

    assert found.rdd.getNumPartitions() >= 8
    assert sorted(row.body for row in found.collect()) == sorted(f"m{n}" for n in range(40))


def test_a_queue_without_messages_has_no_rows(new_queue: NewQueue) -> None:
    assert new_queue().read().collect() == []


def test_subscriptions_and_dead_letters_are_read(bus: Bus, new_queue: NewQueue, spark: Any) -> None:
    queue = new_queue()
    with bus.administration() as administration:
        administration.create_topic("topic-read")
        administration.create_subscription("topic-read", "sub")
    with bus.client() as client:
        with client.get_topic_sender("topic-read") as sender:
            sender.send_messages(ServiceBusMessage("published"))
        queue.send(["rejected"])
        with client.get_queue_receiver(queue.name, max_wait_time=10) as receiver:
            message = receiver.receive_messages(1)[0]
            receiver.dead_letter_message(message, reason="bad", error_description="very")

    dead = queue.read(subQueue="deadletter", body="string").collect()[0]
    connection = {"connectionStringFile": queue.options["connectionStringFile"]}
    subscribed = spark.read.format("bendybus").options(
        **connection, topic="topic-read", subscription="sub", body="string"
    )
    row = subscribed.load().collect()[0]

    assert (dead.body, dead.dead_letter_reason, dead.dead_letter_description) == (
        "rejected", "bad", "very",
    )  # fmt: skip
    assert dead.entity == f"{queue.name}/$DeadLetterQueue"
    assert (row.body, row.entity) == ("published", "topic-read/Subscriptions/sub")


def test_one_session_is_read_of_its_partition(new_queue: NewQueue) -> None:
    queue = new_queue(requires_session=True)
    for session in ("s1", "s2", "s3"):
        queue.send([f"{session}-{n}" for n in range(3)], session_id=session)

    found = queue.read(sessionId="s2", body="string")

    assert sorted(row.body for row in found.collect()) == ["s2-0", "s2-1", "s2-2"]
    assert found.rdd.getNumPartitions() == 1


def test_scheduled_messages_are_shown_if_they_are_asked_for(new_queue: NewQueue) -> None:
    queue = new_queue()
    queue.send(["later"], scheduled_enqueue_time_utc=datetime(2126, 1, 1, tzinfo=UTC))
    queue.send(["now"])

    found = queue.read(states="scheduled", body="string").collect()

    assert [(row.body, row.state) for row in found] == [("later", "scheduled")]
    assert found[0].scheduled_at.year == 2126
    assert [row.body for row in queue.read(body="string").collect()] == ["now"]


def test_filters_choose_ranges_where_that_is_switched_on(new_queue: NewQueue) -> None:
    queue = new_queue()
    queue.send([f"m{n}" for n in range(40)])
    rows = queue.read().collect()
    partition = rows[0].partition
    number = sorted(row.sequence_number for row in rows if row.partition == partition)[2]
    queue.spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        found = queue.read(pushFilters="true")
        one = found.where(f"partition = {partition}")
        after = one.where(f"sequence_number > {number}")
        recent = found.where("enqueued_at >= timestamp'2020-01-01 00:00:00'")
        old = found.where("enqueued_at < timestamp'2020-01-01 00:00:00'")

        assert one.rdd.getNumPartitions() == 1
        assert one.count() == sum(row.partition == partition for row in rows)
        assert after.count() == one.count() - 3
        assert (recent.count(), old.count()) == (40, 0)
    finally:
        queue.spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


@pytest.mark.requirement("R291")
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"startingOffset": "latest"},
            "option startingoffset: is unknown; did you mean startingOffsets",
        ),
        ({"maxMessagesPerTrigger": "5"}, "option maxMessagesPerTrigger: is not an option of a ba"),
        ({"startingOffsets": '{"9": -2}'}, "has no partition 9; it has 0, 1, 2, 3"),
        ({"connectionString": "Endpoint=x"}, "contradicts connectionStringFile"),
    ],
)
def test_the_first_line_of_an_error_says_which_option_is_wrong(
    new_queue: NewQueue, options: dict[str, str], sentence: str
) -> None:
    queue = new_queue()

    with pytest.raises(Exception, match="option") as error:
        queue.read(**options).collect()

    assert sentence in first_line(error)


@pytest.mark.requirement("R291")
def test_an_entity_that_does_not_exist_is_named_with_what_to_check(new_queue: NewQueue) -> None:
    queue = new_queue()
    queue.options["queue"] = "nowhere"

    with pytest.raises(Exception, match="nowhere") as error:
        queue.read().collect()

    assert "Check the options queue, topic and subscription" in first_line(error)


@pytest.mark.requirement("R291")
def test_a_file_that_is_not_there_is_named(new_queue: NewQueue) -> None:
    queue = new_queue()
    queue.options["connectionStringFile"] = "/nowhere/string"

    with pytest.raises(Exception, match="nowhere") as error:
        queue.read().collect()

    assert "option connectionStringFile: /nowhere/string cannot be read" in first_line(error)


@pytest.mark.requirement("R291")
def test_a_body_that_is_not_text_is_named(new_queue: NewQueue) -> None:
    queue = new_queue()
    with queue.bus.client() as client, client.get_queue_sender(queue.name) as sender:
        sender.send_messages(ServiceBusMessage(b"\xff\xfe"))

    with pytest.raises(Exception, match="is not UTF-8 text; read it with body=binary"):
        queue.read(body="string").collect()
