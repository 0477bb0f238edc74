"""On call: which queue does not forward, to which partition, why, and for how long."""

import logging
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from bendybus.domain.entity_status import EntityStatus
from bendybus.domain.lifecycle import EntityAction
from bendybus.partition_server import metrics
from bendybus.partition_server.state.answers import EntityCounts, Standstill
from bendybus.partition_server.state.commands import Counts
from bendybus.wire.refusals import Refusals
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.driver import Driver
from tests.partition_server.forwarding_driver import send
from tests.partition_server.partition_pair import NAMES, Pair, fill


def forwarding_of(driver: Driver, name: str) -> Any:
    """Return how forwarding from a queue gets on."""
    [found] = driver.run(Counts("t", [driver.ref(name).uid], forwarding=True))
    [one] = found[0].forwarding
    return one


@pytest.mark.requirement("R252")
def test_what_waits_why_and_since_when_is_known_of_each_queue_that_forwards(
    driver: Driver,
) -> None:
    driver.create("audit")
    driver.create("orders", forward_to="audit")
    send(driver, "orders", b"one", b"two")
    driver.sweep()
    commit(driver, EntityAction.UPDATE, "audit", changes={"status": EntityStatus.DISABLED})

    send(driver, "orders", b"three")
    driver.sweep()
    driver.advance(5_000)
    send(driver, "orders", b"four")
    status = forwarding_of(driver, "orders")

    assert (status.source, status.to) == ("orders", "audit")
    assert (status.waiting, status.oldest_age_ms) == (2, 5_000)
    assert (status.forwarded, status.set_aside) == (2, 0)
    assert status.standstills == [Standstill(None, "EntityDisabled", 5_000)]

    commit(driver, EntityAction.UPDATE, "audit", changes={"status": EntityStatus.ACTIVE})
    driver.advance(5_000)
    status = forwarding_of(driver, "orders")

    assert (status.waiting, status.oldest_age_ms, status.forwarded) == (0, None, 4)
    assert status.standstills == []


@pytest.mark.requirement("R252")
def test_messages_that_are_set_aside_are_counted(driver: Driver) -> None:
    driver.create("audit")
    driver.create("orders", forward_to="audit")
    commit(driver, EntityAction.DELETE, "audit")
    send(driver, "orders", b"one", b"two")

    for _ in range(200):
        driver.advance(1_000)

    status = forwarding_of(driver, "orders")
    assert (status.waiting, status.set_aside) == (0, 2)
    assert driver.counts_of("orders").transfer_dead_letter == 2


@pytest.mark.requirement("R252")
def test_a_destination_without_a_way_there_is_waited_for_and_that_is_seen() -> None:
    pair = Pair()
    pair.source.partition.state.forward_link = None
    pair.sent(*NAMES)
    assert pair.frames() == []

    pair.source.advance(3_000)

    status = forwarding_of(pair.source, "source")
    assert status.standstills == [Standstill(None, "PartitionUnavailable", 3_000)]


@pytest.mark.requirement("R252")
def test_a_lane_whose_partition_does_not_answer_says_so_until_it_does() -> None:
    pair = Pair()
    pair.sent(*NAMES)
    [frame] = pair.frames()
    pair.answer(frame, None)
    pair.source.mono_ms += 20_000

    status = forwarding_of(pair.source, "source")

    assert status.standstills == [Standstill(1, "PeerUnavailable", 20_000)]
    assert status.waiting == len(frame.counters)

    pair.finish()

    status = forwarding_of(pair.source, "source")
    assert (status.waiting, status.forwarded, status.standstills) == (0, len(NAMES), [])


@pytest.mark.requirement("R252")
def test_a_lane_whose_partition_is_full_says_so() -> None:
    pair = Pair()
    fill(pair.drivers[1], "target")
    pair.sent(*NAMES)
    [frame] = pair.frames()
    pair.answer(frame, pair.deliver(frame))
    pair.source.mono_ms += 700

    [standstill] = forwarding_of(pair.source, "source").standstills

    assert standstill == Standstill(1, "QuotaExceeded", 700)


@pytest.mark.requirement("R252")
def test_counts_without_forwarding_look_at_nothing_of_it(driver: Driver) -> None:
    driver.create("audit")
    driver.create("orders", forward_to="audit")

    [found] = driver.run(Counts("t"))

    assert all(isinstance(each, EntityCounts) and each.forwarding == () for each in found)


class _Thread:
    """A partition of which only counts can be asked."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def submit(self, command: Any) -> bool:
        [value] = self._driver.run(Counts("t", forwarding=command.forwarding))
        command.reply_to.answer(value)
        return True


def _refusals() -> Refusals:
    return Refusals(logging.getLogger(__name__), "peer")


class _Hosts:
    def __init__(self, driver: Driver) -> None:
        self.threads = {0: _Thread(driver)}


@pytest.mark.requirement("R252")
def test_one_look_at_the_metrics_says_that_forwarding_to_a_partition_stands_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = Pair()
    pair.sent(*NAMES)
    [frame] = pair.frames()
    pair.answer(frame, None)
    pair.source.mono_ms += 20_000
    monkeypatch.setattr(metrics._PartitionCollector, "_store_metrics", lambda _: ())
    registry = CollectorRegistry()
    registry.register(metrics.collector(_Hosts(pair.source), _refusals()))  # type: ignore[arg-type]

    shown = generate_latest(registry).decode()

    assert (
        'bendybus_forward_standstill_seconds{entity="source",partition="0",'
        'reason="PeerUnavailable",to="target",to_partition="1"} 20.0'
    ) in shown
    waiting = len(frame.counters)
    labels = '{entity="source",partition="0",to="target"}'
    assert f"bendybus_forward_waiting_messages{labels} {float(waiting)}" in shown
    assert f"bendybus_forward_oldest_waiting_seconds{labels} 0.0" in shown
