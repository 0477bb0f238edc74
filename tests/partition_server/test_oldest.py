"""How long the oldest message of a queue has been active."""

from typing import Any

import pytest

from bendybus.domain.disposition import Disposition
from bendybus.partition_server.rules import oldest
from bendybus.partition_server.state.commands import Counts
from tests.partition_server.driver import Driver

pytestmark = pytest.mark.requirement("R654")


def age_ms(queue: Driver) -> int | None:
    """Return the age that a partition reports."""
    [[counts]] = queue.run(Counts("t", [queue.ref().uid], oldest=True))
    found: int | None = counts.oldest_active_ms
    return found


def test_the_first_message_counts_until_it_is_settled(queue: Driver) -> None:
    assert age_ms(queue) is None
    queue.send(b"a")
    queue.advance(5_000)
    queue.send(b"b")
    queue.advance(2_000)

    assert age_ms(queue) == 7_000
    [(_, token)] = queue.receive()
    assert age_ms(queue) == 7_000
    queue.settle(Disposition.COMPLETE, token)
    assert age_ms(queue) == 2_000
    queue.restart()
    assert age_ms(queue) == 2_000


def test_one_that_comes_back_keeps_its_age(queue: Driver) -> None:
    queue.send(b"a")
    queue.advance(1_000)
    [(_, token)] = queue.receive()
    queue.settle(Disposition.ABANDON, token)
    queue.advance(1_000)

    assert age_ms(queue) == 2_000


def test_scheduled_and_deferred_messages_are_not_active(queue: Driver) -> None:
    queue.send(b"later", scheduled_ms=[queue.wall_ms + 10_000])
    queue.send(b"deferred")
    [(_, token)] = queue.receive()
    queue.settle(Disposition.DEFER, token)
    queue.advance(5_000)
    assert age_ms(queue) is None

    queue.advance(6_000)

    # It has been active since it was due.
    assert 0 <= (age_ms(queue) or 0) <= 1_100


def test_many_that_are_not_active_are_passed_once_and_in_steps(queue: Driver) -> None:
    count = 2 * oldest.LOOK_ROWS + 10
    queue.send(*[b"x"] * count, scheduled_ms=[queue.wall_ms + 10**9] * count)
    queue.send(b"a")
    queue.advance(1_000)

    found: list[Any] = [age_ms(queue) for _ in range(3)]

    assert found == [None, None, 1_000]
    assert age_ms(queue) == 1_000


def test_it_is_not_looked_for_unless_asked(queue: Driver) -> None:
    queue.send(b"a")

    [[counts]] = queue.run(Counts("t", [queue.ref().uid]))

    assert counts.oldest_active_ms is None
