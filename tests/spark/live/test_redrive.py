"""Dead letters go back: each that is wanted is sent once, then removed."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bendybus.client import ServiceBusMessage, ServiceBusSubQueue
from bendybus.spark import bus, options
from bendybus.spark.errors import OptionError, PipelineError
from bendybus.spark.jobs import redrive
from bendybus.spark.jobs.redrive import Redrive
from bendybus.spark.jobs.redrive_task import Task, move
from bendybus.spark.option_table import Use
from bendybus.spark.source.drain import Drain
from tests.spark.live.queues import Queue

pytestmark = pytest.mark.requirement("R310")


@pytest.fixture
def orders(new_queue: Callable[..., Queue]) -> Queue:
    """A queue whose 30 messages are dead letters: 10 of them bad, 20 late."""
    queue = new_queue()
    fail(queue, [str(number) for number in range(30)])
    return queue


def fail(queue: Queue, bodies: Sequence[str]) -> None:
    """Send messages and dead-letter them; every third is bad."""
    with queue.bus.client() as client, client.get_queue_sender(queue.name) as sender:
        for body in bodies:
            message = ServiceBusMessage(body, subject=f"s{body}", application_properties={"n": 1})
            sender.send_messages(message)
        with client.get_queue_receiver(queue.name, max_wait_time=2) as receiver:
            left = len(bodies)
            while left:
                for received in receiver.receive_messages(left, max_wait_time=10):
                    bad = int(str(received)) % 3 == 0
                    reason = "bad" if bad else "late"
                    receiver.dead_letter_message(received, reason=reason)
                    left -= 1


def dead(queue: Queue) -> list[str]:
    """Return the bodies of the dead letters."""
    frame = queue.read(subQueue="deadletter", body="string").select("body")
    return sorted((row.body for row in frame.collect()), key=int)


def messages(queue: Queue) -> list[Any]:
    """Return the messages of the queue, in the order of their bodies."""
    rows = queue.read(body="string").collect()
    return sorted(rows, key=lambda row: int(row.body))


def test_all_dead_letters_go_back_once(orders: Queue) -> None:
    done = redrive.redrive(orders.spark, Redrive(orders.options))

    assert (done.planned, done.moved.sent, done.moved.removed) == (30, 30, 30)
    assert dead(orders) == []
    assert [row.body for row in messages(orders)] == [str(number) for number in range(30)]
    [first, *_] = messages(orders)
    assert (first.subject, first.properties) == ("s0", {"n": "1"})


def test_only_those_of_the_condition_go(orders: Queue) -> None:
    done = redrive.redrive(
        orders.spark, Redrive(orders.options, where="dead_letter_reason = 'late'")
    )

    assert done.moved.removed == 20
    assert dead(orders) == [str(number) for number in range(0, 30, 3)]
    assert len(messages(orders)) == 20
    # Those that stayed are not lost to a later run.
    assert redrive.redrive(orders.spark, Redrive(orders.options)).moved.sent == 10
    assert len(messages(orders)) == 30


def test_at_most_so_many_go_and_to_another_queue(
    orders: Queue, new_queue: Callable[..., Queue]
) -> None:
    other = new_queue()

    done = redrive.redrive(
        orders.spark,
        Redrive(orders.options, to=other.name, most=7, properties={"redriven": "yes"}),
    )

    assert (done.planned, done.moved.sent) == (7, 7)
    assert len(dead(orders)) == 23
    assert [row.properties for row in messages(other)] == [{"n": "1", "redriven": "yes"}] * 7


def test_a_preview_moves_nothing(orders: Queue) -> None:
    shown = redrive.preview(orders.spark, Redrive(orders.options, where="subject = 's4'"))

    assert [bytes(row.body) for row in shown.collect()] == [b"4"]
    assert len(dead(orders)) == 30


def corrected(message: dict[str, Any]) -> dict[str, Any] | None:
    """Leave odd ones; correct the others."""
    number = int(bytes(message["body"]))
    if number % 2:
        return None
    return {**message, "body": str(number + 100).encode(), "subject": "corrected"}


def test_a_function_corrects_messages_or_leaves_them(orders: Queue) -> None:
    done = redrive.redrive(
        orders.spark, Redrive(orders.options, fix=f"{__name__}:{corrected.__name__}")
    )

    assert done.moved.sent == 15
    assert [row.body for row in messages(orders)] == [str(n) for n in range(100, 130, 2)]
    assert {row.subject for row in messages(orders)} == {"corrected"}
    assert dead(orders) == [str(number) for number in range(1, 30, 2)]


@pytest.mark.requirement("R311")
def test_an_interrupted_run_is_continued_and_nothing_is_sent_twice(
    orders: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = Redrive(orders.options, checkpoint=tmp_path)
    interrupted(orders, wanted, monkeypatch)
    plan = json.loads((tmp_path / redrive.PLAN_FILE).read_text())
    # One partition's messages were sent, and none of them was removed.
    send_without_removing(orders, plan)
    sent = len(messages(orders))
    assert sent > 0
    assert len(dead(orders)) == 30

    done = redrive.redrive(orders.spark, wanted)

    assert done.continued
    assert (done.moved.repeated, done.moved.sent, done.moved.removed) == (sent, 30 - sent, 30)
    assert [row.body for row in messages(orders)] == [str(number) for number in range(30)]
    assert dead(orders) == []
    assert not (tmp_path / redrive.PLAN_FILE).exists()


def interrupted(orders: Queue, wanted: Redrive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run until the plan is kept, and die."""
    with monkeypatch.context() as patch:

        def die(*_: Any) -> None:
            raise KeyboardInterrupt

        patch.setattr(redrive, "_move", die)
        with pytest.raises(KeyboardInterrupt):
            redrive.redrive(orders.spark, wanted)


@pytest.mark.requirement("R311")
def test_a_run_takes_over_the_lease_of_one_that_was_killed(
    orders: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = Redrive(orders.options, checkpoint=tmp_path)
    with monkeypatch.context() as patch:
        # A killed process releases nothing.
        patch.setattr(Drain, "release", lambda drain: drain._ended.set())
        interrupted(orders, wanted, monkeypatch)

        with pytest.raises(Exception, match=r"is drained by the data pipeline 'redrive-\w+'"):
            redrive.redrive(orders.spark, Redrive({**orders.options, "timeout": "2s"}))

    assert redrive.redrive(orders.spark, wanted).moved.sent == 30


def send_without_removing(orders: Queue, plan: Any) -> None:
    """Do what a task does for the first partition, up to the removal."""
    found = options.of_read({**orders.options, "subQueue": "deadletter"}, Use.BATCH_READ)
    partition, numbers = next((int(each), numbers) for each, numbers in plan["numbers"].items())
    task = Task(
        plan["name"],
        found.entity,
        plan["destination"],
        partition,
        plan["incarnations"][str(partition)],
        numbers,
        "a lease that nobody has",
        99,
        {},
        30,
    )
    with pytest.raises(Exception, match="lease of this drain"):
        move(bus.client(found.connection), task)


def test_where_duplicates_are_detected_each_copy_has_an_id_of_its_own(
    new_queue: Callable[..., Queue],
) -> None:
    queue = new_queue(requires_duplicate_detection=True)
    fail(queue, ["1", "2"])

    done = redrive.redrive(queue.spark, Redrive(queue.options))

    assert (done.moved.sent, done.moved.duplicates) == (2, 0)
    for row in messages(queue):
        assert row.message_id.startswith("redrive-")
        assert row.properties["ResubmittedMessageId"]


def test_dead_letters_that_a_receiver_has_locked_are_waited_for(orders: Queue) -> None:
    with orders.bus.client() as client:
        receiver = client.get_queue_receiver(orders.name, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
        assert receiver.receive_messages(1, max_wait_time=10)
        with pytest.raises(PipelineError, match=r"locked by receivers.*Close its receivers"):
            redrive.redrive(orders.spark, Redrive({**orders.options, "timeout": "2s"}))
        receiver.close()

    assert len(dead(orders)) == 30


def test_a_plan_of_another_queue_is_refused(
    orders: Queue, new_queue: Callable[..., Queue], tmp_path: Path
) -> None:
    redrive.write_plan(tmp_path, redrive.Plan("a", "b", {0: [1]}, {0: "x"}))

    with pytest.raises(OptionError, match="interrupted run from a to b"):
        redrive.redrive(orders.spark, Redrive(orders.options, checkpoint=tmp_path))


def test_a_function_that_is_not_there_is_named(orders: Queue) -> None:
    with pytest.raises(OptionError, match="--fix: 'nowhere:fix' cannot be loaded"):
        redrive.redrive(orders.spark, Redrive(orders.options, fix="nowhere:fix"))
