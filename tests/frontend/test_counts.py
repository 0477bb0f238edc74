"""Counters as plain numbers look at a scrape as those of prometheus_client do."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from bendybus.frontend.core.metrics import Counts, Times

pytestmark = pytest.mark.requirement("R640")
BOUNDS = (0.001, 0.25, 1.0)


def shown(registry: CollectorRegistry) -> list[str]:
    """Return the lines of a scrape, without the moments at which series began."""
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if "_created" not in line]


def test_a_counter_looks_like_that_of_the_library() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    counts = Counts("bus_errors", "Errors", ["entity", "reason"], registry=ours)
    counter = Counter("bus_errors", "Errors", ["entity", "reason"], registry=theirs)

    for entity, reason, count in [("a", "LOST", 1), ("b", "LOST", 7), ("a", "LOST", 2)]:
        counts.counts[entity, reason] += count
        counter.labels(entity, reason).inc(count)

    assert shown(ours) == shown(theirs)


def test_a_counter_of_one_label_looks_like_that_of_the_library() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    counts = Counts("bus_messages", "Messages", ["entity"], registry=ours)
    counter = Counter("bus_messages", "Messages", ["entity"], registry=theirs)

    for entity in ("orders", "é", "orders"):
        counts.counts[entity] += 2
        counter.labels(entity).inc(2)

    assert shown(ours) == shown(theirs)


def test_a_histogram_looks_like_that_of_the_library() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    times = Times("bus_seconds", "Times", BOUNDS, registry=ours)
    histogram = Histogram("bus_seconds", "Times", buckets=BOUNDS, registry=theirs)
    assert shown(ours) == shown(theirs)

    for time_s in (0.0, 0.0002, 0.001, 0.0011, 0.25, 0.9, 1.0, 1.5, 60.0):
        times.add(time_s)
        histogram.observe(time_s)

    assert shown(ours) == shown(theirs)
