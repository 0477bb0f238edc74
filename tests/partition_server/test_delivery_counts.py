"""The delivery count after each disposition: in a queue, deferred, in a session, of dead letters.

As the live tests of SDKs say: see `rules.redeliver`.
"""

from typing import Any, Final

import pytest

from bendybus.domain.disposition import Disposition
from bendybus.domain.entity_settings import QueueDescription
from bendybus.partition_server.state.answers import Delivery
from bendybus.partition_server.state.commands import ReceiveDeferred
from tests.partition_server.driver import Driver, tokens_of
from tests.partition_server.session_driver import Sessions

ABANDON, DEFER = Disposition.ABANDON, Disposition.DEFER
RELEASE, DEAD_LETTER = Disposition.RELEASE, Disposition.DEAD_LETTER
LOCK_MS: Final = 60_000


class Holder:
    """A receiver of one message: of a queue, a session or dead letters, deferred or not."""

    def __init__(self, driver: Driver, where: str) -> None:
        self.driver, self.where = driver, where
        self.session = b""
        if where == "session":
            self.sessions = Sessions(driver, lock_duration_ms=LOCK_MS, max_delivery_count=10)
            self.sessions.send(("s", b"a"))
            self.session = self.sessions.accept("s")
        else:
            driver.put(QueueDescription(lock_duration_ms=LOCK_MS))
            driver.send(b"a")
        if where == "dead letters":
            [(_, token)] = driver.receive()
            driver.settle(DEAD_LETTER, token)

    def take(self) -> tuple[Any, bytes]:
        """Lock the message, in its place or as a deferred one."""
        deferred = [row for row in self.peek() if row.state]
        if deferred:
            return self._take_deferred(deferred[0])
        if self.where == "session":
            [pair] = self.sessions.receive(self.session)
        else:
            [pair] = self.driver.receive(dead_letter=self.where == "dead letters")
        return pair

    def _take_deferred(self, row: Any) -> tuple[Any, bytes]:
        ref = self.driver.ref(dead_letter=self.where == "dead letters")
        command = ReceiveDeferred("t", ref, False, [row.counter], session_token=self.session)
        [delivery] = self.driver.run(command)
        assert isinstance(delivery, Delivery), delivery
        answer: Any = type("Answer", (), {"delivery": delivery})
        return delivery.rows[0], tokens_of(answer, self.driver.partition.state.index)

    def peek(self, *, dead_letter: bool | None = None) -> list[Any]:
        """Return what is there."""
        aside = self.where == "dead letters" if dead_letter is None else dead_letter
        return self.driver.peek(dead_letter=aside)

    def settle(self, disposition: Disposition | None) -> int:
        """Take the message and settle it, or let its lock end; return its count on delivery."""
        row, token = self.take()
        if disposition is None:
            self.driver.advance(LOCK_MS + 1)
            if self.session:
                self.session = self.sessions.accept("s")
        else:
            assert not self.driver.settle(disposition, token).failures
        return int(row.delivery_count)


@pytest.mark.requirement("R335")
@pytest.mark.parametrize(
    ("where", "dispositions", "counts"),
    [
        ("queue", [ABANDON, ABANDON, ABANDON], [0, 1, 2]),
        ("queue", [DEFER, DEFER, DEFER], [0, 1, 2]),
        ("queue", [DEFER, ABANDON, DEFER], [0, 1, 2]),
        ("queue", [ABANDON, DEFER, ABANDON], [0, 1, 2]),
        ("queue", [None, DEFER, None], [0, 1, 2]),
        ("queue", [RELEASE, DEFER, RELEASE, ABANDON], [0, 0, 1, 1]),
        ("session", [ABANDON, ABANDON, ABANDON], [0, 1, 2]),
        ("session", [DEFER, DEFER, DEFER], [0, 1, 2]),
        ("session", [DEFER, ABANDON, DEFER], [0, 1, 2]),
        ("session", [None, DEFER, None], [0, 1, 2]),
        ("session", [RELEASE, DEFER, RELEASE, ABANDON], [0, 0, 1, 1]),
        ("dead letters", [ABANDON, ABANDON, ABANDON], [0, 1, 2]),
        ("dead letters", [ABANDON, DEFER, ABANDON], [0, 1, 2]),
        ("dead letters", [DEFER, DEFER, DEFER], [0, 1, 2]),
        ("dead letters", [None, RELEASE, None], [0, 1, 1]),
    ],
)
def test_what_counts_a_delivery(
    driver: Driver, where: str, dispositions: list[Disposition | None], counts: list[int]
) -> None:
    holder = Holder(driver, where)

    found = [holder.settle(each) for each in dispositions]

    assert found == counts


@pytest.mark.requirement("R335")
@pytest.mark.parametrize("where", ["queue", "session"])
@pytest.mark.parametrize("before", [ABANDON, DEFER])
def test_dead_lettering_does_not_count(driver: Driver, where: str, before: Disposition) -> None:
    holder = Holder(driver, where)
    holder.settle(before)

    holder.settle(DEAD_LETTER)

    [row] = holder.peek(dead_letter=True)
    assert (row.delivery_count, row.state) == (1, 0)
    assert holder.peek(dead_letter=False) == []


@pytest.mark.requirement("R335")
@pytest.mark.parametrize("where", ["queue", "session"])
@pytest.mark.parametrize("disposition", [ABANDON, DEFER])
def test_what_was_delivered_often_enough_is_dead_lettered(
    driver: Driver, where: str, disposition: Disposition
) -> None:
    holder = Holder(driver, where)

    found = [holder.settle(disposition) for _ in range(10)]

    assert found == list(range(10))
    assert holder.peek(dead_letter=False) == []
    [row] = holder.peek(dead_letter=True)
    assert (row.delivery_count, row.dead_letter_reason) == (10, "MaxDeliveryCountExceeded")
    counts = driver.counts()
    assert (counts.active, counts.deferred, counts.dead_letter) == (0, 0, 1)


@pytest.mark.requirement("R335")
def test_a_dead_letter_is_never_delivered_too_often(driver: Driver) -> None:
    holder = Holder(driver, "dead letters")

    found = [holder.settle(ABANDON) for _ in range(20)]

    assert found == list(range(20))
    assert len(holder.peek()) == 1
