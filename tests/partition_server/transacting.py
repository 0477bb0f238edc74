"""Transactions of tests: their parts, and what a queue holds before and after."""

from typing import Any

from bendybus.domain.disposition import Disposition
from bendybus.partition_server.state.answers import Failed, Transacted
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, EntityRef, Settle, Transact
from tests.partition_server.driver import Driver

ID = b"transaction-0001"
KEY = "k"


def sending(ref: EntityRef, *payloads: bytes, key: str = KEY, **columns: Any) -> Append:
    """Return a part that sends messages with one partition key."""
    keys = [key] * len(payloads)
    return Append(None, ref, Batch(list(payloads), partition_keys=keys, **columns))


def settling(disposition: Disposition, *tokens: bytes, **options: Any) -> Settle:
    """Return a part that settles messages of `orders`."""
    return Settle(None, 0, disposition, b"".join(tokens), entity_uid="uid-orders", **options)


def transact(driver: Driver, *parts: Append | Settle, id_: bytes = ID, **options: Any) -> Any:
    """Run a transaction; return its answer, raise what refused it before its parts."""
    [value] = driver.run(Transact("t", driver.ref(), id_, parts, **options))
    if isinstance(value, Failed):
        raise value.error
    assert isinstance(value, Transacted), value
    return value


def locked(driver: Driver, count: int) -> list[bytes]:
    """Send and receive messages; return their tokens."""
    driver.send(*[b"old"] * count, partition_keys=[KEY] * count)
    return [token for _, token in driver.receive(count)]


def held(driver: Driver) -> tuple[Any, ...]:
    """Return what the queue holds."""
    counts = driver.counts()
    shown = (counts.active, counts.locked, counts.deferred, counts.dead_letter, counts.size_bytes)
    return (*shown, driver.peek(), driver.peek(dead_letter=True))
