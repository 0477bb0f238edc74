"""Drives forwarding inside one partition, for tests."""

from typing import Any

from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state.answers import Failed, Reserved
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, Ask, Deliver, Peek
from tests.partition_server.driver import Driver, tokens_of


def send(driver: Driver, name: str, *payloads: bytes, **columns: Any) -> None:
    """Send messages, each as a unit of its own."""
    command = Append("t", driver.ref(name), Batch(list(payloads), **columns), [1] * len(payloads))
    [value] = driver.run(command)
    assert not isinstance(value, Failed), value
    assert not value.failures, value


def held(driver: Driver, name: str, sub_queue: SubQueue = SubQueue.MAIN) -> list[Any]:
    """Return all messages of a (sub-)queue."""
    ref = driver.ref(name)._replace(sub_queue=sub_queue)
    [peeked] = driver.run(Peek("t", ref, 0, 1_000, 1 << 30))
    return list(peeked.delivery.rows)


def bodies(driver: Driver, name: str, sub_queue: SubQueue = SubQueue.MAIN) -> list[bytes]:
    """Return the bodies of all messages of a (sub-)queue."""
    return [row.payload for row in held(driver, name, sub_queue)]


def locked(driver: Driver, name: str, count: int, sub_queue: SubQueue = SubQueue.MAIN) -> bytes:
    """Receive messages; return their tokens, one after the other."""
    ref = driver.ref(name)._replace(sub_queue=sub_queue)
    values = driver.run(Ask("s", 1, ref, False, count, 1 << 24))
    [reserved] = [value for value in values if isinstance(value, Reserved)]
    tokens = tokens_of(reserved, driver.partition.state.index)
    driver.run(Deliver("s", 1, tokens))
    return tokens
