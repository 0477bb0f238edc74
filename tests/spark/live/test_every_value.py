"""A value of any AMQP type goes through Spark: read, written, captured, redriven."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from bendybus.amqp.sections import Message
from bendybus.spark.jobs import capture, redrive
from bendybus.spark.jobs.capture import Capture
from bendybus.spark.jobs.redrive import Redrive
from tests.integration import every_value
from tests.integration.amqp import AmqpBus
from tests.spark.live.queues import Queue

pytestmark = pytest.mark.requirement("R599")
ONE: Final = settings(
    max_examples=1,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


@pytest.fixture(scope="module")
def amqp_bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpBus]:
    made = AmqpBus(tmp_path_factory.mktemp("bus"), partitions=2)
    yield made
    made.end()


def queue_of(bus: AmqpBus, spark: Any, name: str, folder: Path) -> Queue:
    made = Queue(bus, spark, name, folder)
    made.create()
    return made


@ONE
@given(every_value.batches())
def test_every_value_is_copied_and_captured(
    amqp_bus: AmqpBus, spark: Any, tmp_path: Path, messages: list[Message]
) -> None:
    source = queue_of(amqp_bus, spark, "source", tmp_path)
    target = queue_of(amqp_bus, spark, "target", tmp_path)
    every_value.send(amqp_bus, source.name, messages)

    frame = source.read(columns="body,head,properties,message_id", body="binary")
    target.write(frame)
    job = Capture(source.options, str(tmp_path / "files"), str(tmp_path / "checkpoint"))
    capture.start(spark, job, {"availableNow": True}).awaitTermination(90)

    sent = every_value.facts(messages)
    back = every_value.facts(every_value.received(amqp_bus, target.name, len(messages)))
    # A body that is a value of AMQP is text for Spark.
    assert {key: facts[0] for key, facts in back.items()} == {
        key: facts[0] for key, facts in sent.items()
    }
    assert all(back[key][1] == facts[1] for key, facts in sent.items() if facts[1])
    captured = spark.read.option("recursiveFileLookup", "true").parquet(str(tmp_path / "files"))
    assert sorted(row.message_id for row in captured.collect()) == sorted(sent)
    assert source.active() == 0


@ONE
@given(every_value.batches())
def test_every_value_is_redriven_as_it_was(
    amqp_bus: AmqpBus, spark: Any, tmp_path: Path, messages: list[Message]
) -> None:
    queue = queue_of(amqp_bus, spark, "letters", tmp_path)
    every_value.send(amqp_bus, queue.name, messages)
    with (
        amqp_bus.client() as client,
        client.get_queue_receiver(queue.name, max_wait_time=10) as receiver,
    ):
        left = len(messages)
        while left:
            for each in receiver.receive_messages(left):
                receiver.dead_letter_message(each, reason="a test")
                left -= 1

    done = redrive.redrive(spark, Redrive(queue.options))

    back = every_value.received(amqp_bus, queue.name, len(messages))
    assert done.moved.removed == len(messages)
    assert every_value.facts(back) == every_value.facts(messages)
