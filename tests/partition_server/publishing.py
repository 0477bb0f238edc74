"""Publishes to the topic `news` of a partition, and looks into its subscriptions, for tests."""

from typing import Any

from bendybus.domain.entity_settings import EntityStatus
from bendybus.domain.filters import values
from bendybus.domain.filters.rule import Rule
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state.answers import Appended, Failed, Peeked, Reserved
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, Ask, Deliver, EntityRef, Peek, Withdraw
from bendybus.partition_server.store.records import Row
from bendybus.v1 import message_pb2
from bendybus.wire import message_properties
from tests.partition_server.driver import Driver
from tests.partition_server.topic_changes import UPDATE, subscription

BODY = b"b" * 100


def head(**properties: values.Value) -> bytes:
    """Return a head with application properties."""
    made = message_pb2.Message()
    for name, value in properties.items():
        made.application_properties[name].CopyFrom(message_properties.to_value(value))
    return made.SerializeToString()


def properties_of(row: Row) -> dict[str, values.Value]:
    """Return the application properties of a message."""
    found = message_pb2.Message.FromString(row.head).application_properties
    return {name: message_properties.from_value(value) for name, value in found.items()}


def publish(
    driver: Driver, *heads: bytes, name: str = "news", body: bytes = BODY, **columns: Any
) -> Appended:
    """Publish one message for each head; raise what refuses the frame, or its first group."""
    columns.setdefault("formats", [1] * len(heads))
    batch = Batch([body] * len(heads), heads=list(heads), **columns)
    [value] = driver.run(Append("t", driver.ref(name), batch))
    if isinstance(value, Failed):
        raise value.error
    if value.failures:
        raise value.failures[0][1]
    return value


def ref(driver: Driver, name: str, *, dead_letter: bool = False) -> EntityRef:
    """Return a reference to a subscription of `news`."""
    return driver.ref(f"news/Subscriptions/{name}", dead_letter=dead_letter)


def rows(driver: Driver, name: str, *, dead_letter: bool = False, of: str = "news") -> list[Row]:
    """Return what is in a subscription of a topic."""
    within = driver.ref(f"{of}/Subscriptions/{name}", dead_letter=dead_letter)
    [peeked] = driver.run(Peek("t", within, 0, 1_000, 1 << 30))
    assert isinstance(peeked, Peeked), peeked
    return list(peeked.delivery.rows)


def receive(
    driver: Driver, name: str, count: int = 1, *, dead_letter: bool = False
) -> list[tuple[Row, bytes]]:
    """Receive from a subscription of `news`; return (row, token) pairs."""
    of = ref(driver, name, dead_letter=dead_letter)
    answers = driver.run(Ask("s", 77, of, False, count, 1 << 24))
    driver.run(Withdraw("s", 77))
    pairs = [pair for each in answers if isinstance(each, Reserved) for pair in driver.tokens(each)]
    if pairs:
        driver.run(Deliver("s", 1, b"".join(token for _, token in pairs)))
    return pairs


def set_rules(driver: Driver, name: str, *rules: Rule) -> None:
    """Give a subscription of `news` these rules."""
    subscription(driver, f"news/Subscriptions/{name}", UPDATE, changes={"rules": rules})


def set_status(driver: Driver, name: str, status: EntityStatus) -> None:
    """Change the status of a subscription of `news`."""
    subscription(driver, f"news/Subscriptions/{name}", UPDATE, changes={"status": status})


def topic_bytes(driver: Driver) -> int:
    """Return what the topic `news` holds itself: shared bodies, and what is scheduled."""
    queue = driver.partition.state.queues.of(driver.ref("news").uid, SubQueue.MAIN)
    assert queue is not None
    return queue.state.size_bytes


def collect(driver: Driver) -> None:
    """Let the time pass after which shared bodies are removed that no message has."""
    driver.sweep()
    driver.advance(1_000)
