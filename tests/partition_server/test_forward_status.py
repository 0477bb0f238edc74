"""On call: which queue does not forward, to which partition, why, and for how long."""

import logging
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from bendybus.domain.entity_settings import EntityStatus
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server import metrics
from bendybus.partition_server.state.answers import EntityCounts, Standstill
from bendybus.partition_server.state.commands import Counts
from bendybus.wire.refusals import Refusals
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.driver import Driver
from tests.partition_server.forwarding_driver import held, send
from tests.partition_server.partition_pair import NAMES, Pair, fill
from tests.partition_server.test_transfer import GONE_MS, Sending, entity


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

    pair.sent(*NAMES)
    assert len(pair.frames()) == 1

    # On its way, and not known to be held back.
    assert forwarding_of(pair.source, "source").standstills == []


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

    def counts(self) -> Any:
        [value] = self._driver.run(Counts("t", forwarding=True))
        return value

    def submit(self, command: Any) -> bool:
        command.reply_to.answer(self.counts())
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


def _samples(driver: Driver) -> dict[tuple[str, ...], float]:
    """Return what a scrape shows of forwarding, each series once."""
    found: dict[tuple[str, ...], float] = {}
    hosts: Any = _Hosts(driver)
    for family in metrics._forwarding({0: hosts.threads[0].counts()}):
        for sample in family.samples:
            name = sample.name.removeprefix("bendybus_forward")
            series = (name, *(sample.labels[label] for label in ("entity", "to")))
            series += tuple(sample.labels[label] for label in ("to_partition", "reason")
                            if label in sample.labels)  # fmt: skip
            assert series not in found, series
            found[series] = sample.value
    return found


@pytest.mark.requirement("R252")
def test_each_series_of_forwarding_is_there_once_and_names_where_it_goes() -> None:
    pair = Sending(entity("a", 1), entity("b", 1))
    pair.transact(pair.to("a", b"1", b"2"), pair.to("b", b"1", b"2", b"3"))
    pair.put(entity("a", 1, 6, status=EntityStatus.DISABLED))
    send(pair.source, "orders", b"forwarded")
    pair.put(entity("orders", 1, 6, forward_to="a", forward_dead_lettered_messages_to="b"))
    pair.source.sweep()
    pair.source.advance(3_000)

    found = _samples(pair.source)

    waiting = {key[1:]: found[key] for key in found if key[0] == "_waiting_messages"}
    assert waiting == {
        ("orders", "a"): 1,
        ("orders/$DeadLetterQueue", "b"): 0,
        ("orders/$Transfer", "a"): 2,
        ("orders/$Transfer", "b"): 0,
        ("source", "target"): 0,
    }
    assert found["ed_messages_total", "orders/$Transfer", "b"] == 3
    still = {key[1:3]: found[key] for key in found if key[0] == "_standstill_seconds"}
    assert still == {("orders", "a"): 3, ("orders/$Transfer", "a"): 3}


@pytest.mark.requirement("R252")
def test_what_goes_to_an_entity_and_to_one_that_had_its_name_before_are_two_series() -> None:
    pair = Sending(entity("a", 1))
    pair.transact(pair.to("a", b"old", b"old"))
    pair.put(replace(entity("a", 1, 6), deleted=True))
    pair.put(replace(entity("a", 1, 7), uid="uid-again"))
    pair.transact(pair.to("a", b"new"), id_=b"again".ljust(16))

    found = _samples(pair.source)

    assert found["_waiting_messages", "orders/$Transfer", "uid-a"] == 2
    assert found["_waiting_messages", "orders/$Transfer", "a"] == 1
    pair.source.advance(GONE_MS)
    pair.source.advance(GONE_MS)
    [_, row] = held(pair.source, "orders", SubQueue.TRANSFER_DEAD_LETTER)
    assert "'uid-a', which was deleted" in (row.dead_letter_error_description or "")
