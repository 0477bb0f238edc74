"""All ways by which messages come to the topic `news` of a partition, for tests."""

import itertools
from collections.abc import Callable
from typing import Any

from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, Command, TakeForwarded, Transact
from bendybus.partition_server.store.records import ForwardSource
from tests.partition_server.driver import Driver
from tests.partition_server.publishing import head, rows
from tests.partition_server.transacting import sending

RULES = 120
# More than a turn has time for, by a clock that goes on by 20 ms at each look.
TEXT = "x" * 30_000
SOURCE = ForwardSource("uid-far", SubQueue.MAIN, 3, b"i" * 8, "uid-news")

Way = Callable[[Driver, list[int]], list[Command]]


def columns(numbers: list[int]) -> dict[str, Any]:
    """Return what messages have beside their bodies."""
    return {"heads": [head(text=TEXT)] * len(numbers), "formats": [1] * len(numbers)}


def bodies(numbers: list[int]) -> list[bytes]:
    """Return the bodies of messages."""
    return [b"%d" % number for number in numbers]


def plain(driver: Driver, numbers: list[int]) -> list[Command]:
    """Send messages to the topic."""
    return [Append("plain", driver.ref("news"), Batch(bodies(numbers), **columns(numbers)))]


def transaction(driver: Driver, numbers: list[int]) -> list[Command]:
    """Send messages to the topic in a transaction, each in a part of its own."""
    ref = driver.ref("news")
    parts = [sending(ref, *bodies([number]), **columns([number])) for number in numbers]
    return [Transact("transaction", ref, b"transaction-%04d" % numbers[0], parts)]


def scheduled(driver: Driver, numbers: list[int]) -> list[Command]:
    """Let scheduled messages become due."""
    due = [driver.wall_ms + 10] * len(numbers)
    batch = Batch(bodies(numbers), scheduled_ms=due, **columns(numbers))
    command = Append("scheduled", driver.ref("news"), batch)
    while not any(to == "scheduled" for to, _ in driver.turn(command)[1]):
        command = other(driver)
    driver.wall_ms += 10
    driver.mono_ms += 10
    return []


def forwarded(driver: Driver, numbers: list[int]) -> list[Command]:
    """Let a queue of the same partition forward messages to the topic."""
    if all(each.name != "orders" for each in driver.partition.state.catalogue.existing()):
        driver.create("orders", forward_to="news")
    batch = Batch(bodies(numbers), **columns(numbers))
    return [Append("orders", driver.ref("orders"), batch)]


def from_afar(driver: Driver, numbers: list[int]) -> list[Command]:
    """Take messages that another partition forwards."""
    batch = Batch(bodies(numbers), **columns(numbers))
    sequence = next(SEQUENCES)
    ref = driver.ref("news")
    return [TakeForwarded("afar", ref, SOURCE, 1, sequence, numbers, batch)]


SEQUENCES = itertools.count(1)
WAYS = [plain, transaction, scheduled, forwarded, from_afar]


class News:
    """A partition with a topic of many filters, and what they cost."""

    def __init__(self, driver: Driver, looked: list[int]) -> None:
        self.driver = driver
        self._looked = looked

    def turn(self, *commands: Command) -> tuple[int, list[tuple[Any, Any]]]:
        """Do a turn; return how many filters were evaluated in it, and what was answered."""
        before = len(self._looked)
        _, answers = self.driver.turn(*commands)
        return len(self._looked) - before, [(each.to, each.value) for each in answers]

    def turns(self, *commands: Command) -> list[tuple[Any, Any]]:
        """Do turns until all messages are stored; return what is answered."""
        _, answers = self.turn(*commands)
        for _ in range(1_000):
            if not self.driver.partition.state.publications:
                return answers
            answers += self.turn()[1]
        raise AssertionError("it never ends")


def other(driver: Driver) -> Append:
    """Return a send to another queue of the partition."""
    return Append("other", driver.ref("other"), Batch([b"x"]))


def stored(driver: Driver) -> list[int]:
    """Return the messages that the subscription without filters has, in order."""
    return [int(row.payload) for row in rows(driver, "b")]
