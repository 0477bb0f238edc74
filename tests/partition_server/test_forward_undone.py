"""Forwarding looks whose commit failed: what they took goes on once, and counts are exact."""

from typing import Any

import pytest

from bendybus.domain import errors, limits
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.ready_set import ReadyWindow
from tests.partition_server import guard_picture
from tests.partition_server.driver import Driver
from tests.partition_server.forwarding_driver import bodies, send

LARGE = [each * 400 for each in (b"1", b"2", b"3")]


@pytest.fixture
def pair(driver: Driver) -> Driver:
    """Return a partition where `orders` forwards to `audit`."""
    driver.create("audit")
    driver.create("orders", forward_to="audit")
    return driver


def fails_to_look(driver: Driver) -> Any:
    """Look at what is to be forwarded; the commit fails. Return the stage."""
    stage = driver.partition.sweep(driver.now)
    assert stage is not None, "it is due"
    driver.partition.abandon(stage, errors.PartitionUnavailable("no room"), driver.now)
    return stage


@pytest.mark.requirement("R435")
def test_what_a_full_destination_left_is_forwarded_once_after_a_commit_that_failed(
    pair: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(pair, "orders", *LARGE)
    with monkeypatch.context() as patched:
        # For two of the three.
        patched.setattr(limits, "MB", 1)
        assert len(fails_to_look(pair).changes.inserts) == 2

    pair.advance(60_000)

    assert bodies(pair, "audit") == LARGE
    counts = pair.counts_of("orders")
    assert (counts.active, counts.size_bytes) == (0, 0)
    assert guard_picture.amiss(pair) == []


@pytest.mark.requirement("R435")
def test_a_message_that_was_put_back_twice_is_taken_once(pair: Driver) -> None:
    pair.create("plain")
    send(pair, "plain", b"a", b"b", b"c")
    queue = pair.partition.state.queues.main_of(pair.ref("plain").uid)
    [first] = taken(pair, queue, 1)

    for _ in range(3):
        window(queue).put_back([first])

    assert taken(pair, queue, 9) == [1, 2, 3]


def window(queue: MessageQueue) -> ReadyWindow:
    assert isinstance(queue.ready, ReadyWindow), queue
    return queue.ready


def taken(driver: Driver, queue: MessageQueue, count: int) -> list[int]:
    """Take messages without locking them; return their numbers."""
    rows = window(queue).take(count, 1 << 20, now_ms=driver.wall_ms, store=driver.store)
    return [row.counter for row in rows]
