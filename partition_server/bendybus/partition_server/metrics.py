"""/metrics of a partition server: Azure's names for what an entity holds, our own for the store."""

import contextlib
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.metrics_core import CounterMetricFamily
from prometheus_client.registry import Collector

from bendybus.partition_server.service import counting
from bendybus.partition_server.service.hosts import Hosts
from bendybus.partition_server.state.answers import EntityCounts, Failed
from bendybus.partition_server.state.figures import (
    COMMIT_BOUNDS_S,
    DECIDE_BOUNDS_S,
    TURN_BOUNDS_S,
)
from bendybus.wire import readiness, serving, web_origin
from bendybus.wire.refusals import Refusals

SCRAPE_TIMEOUT_S: Final = 2.0
_GAUGES: Final = (
    ("active_messages", "ActiveMessages: messages that can be received or are locked", "active"),
    ("deadlettered_messages", "DeadletteredMessages", "dead_letter"),
    ("scheduled_messages", "ScheduledMessages", "scheduled"),
    ("deferred_messages", "Deferred messages", "deferred"),
    (
        "transfer_deadlettered_messages",
        "Messages that could not be forwarded",
        "transfer_dead_letter",
    ),
    (
        "transfer_messages",
        "Messages that transactions sent to other entities, not forwarded yet",
        "transfer",
    ),
    ("locked_messages", "Messages that are locked now", "locked"),
    ("size_bytes", "Size: bytes that count to the quota", "size_bytes"),
)


class MetricsServer(Protocol):
    """Something that can be closed."""

    def close(self) -> None:
        """Stop answering."""


class _PartitionCollector(Collector):
    def __init__(self, hosts: Hosts, refusals: Refusals) -> None:
        self._hosts = hosts
        self._refusals = refusals

    def collect(self) -> Iterable[Metric]:
        asked = {index: self._counts(index) for index in self._hosts.threads}
        # One that did not answer is left out: nothing there would be something else.
        counts = {index: found for index, found in asked.items() if found is not None}
        for name, text, attribute in _GAUGES:
            gauge = GaugeMetricFamily(f"bendybus_{name}", text, labels=["entity", "partition"])
            for index, entities in counts.items():
                for entity in entities:
                    gauge.add_metric([entity.name, str(index)], getattr(entity, attribute))
            yield gauge
        yield from _orphans(counts)
        yield from _forwarding(counts)
        yield _drains(counts)
        yield from self._store_metrics()
        refused = CounterMetricFamily(
            "bendybus_refused_peers",
            "Calls of peers that are not authorized for them",
            labels=["reason"],
        )
        for reason, count in list(self._refusals.counts.items()):
            refused.add_metric([reason], count)
        yield refused

    def _counts(self, index: int) -> list[EntityCounts] | None:
        thread, until_s = self._hosts.threads[index], time.monotonic() + SCRAPE_TIMEOUT_S
        steps = counting.of_all(forwarding=True)
        try:
            make = next(steps)
            while True:
                waiter: Waiter[list[EntityCounts]] = Waiter()
                asked = thread.submit(make(waiter))
                step = waiter.value(until_s - time.monotonic()) if asked else None
                if step is None:
                    return None
                make = steps.send(step)
        except StopIteration as end:
            return list(end.value)

    def _times(self) -> Iterable[Metric]:
        commit = HistogramMetricFamily(
            "bendybus_commit_seconds", "Time of a commit, sync included", labels=["partition"]
        )
        turn = HistogramMetricFamily(
            "bendybus_turn_seconds",
            "Time of a turn of a partition: decide, commit, answer, one sweep",
            labels=["partition"],
        )
        decide = HistogramMetricFamily(
            "bendybus_decide_seconds",
            "Time of a turn of a partition without its commits",
            labels=["partition"],
        )
        for index, thread in self._hosts.threads.items():
            label, figures = [str(index)], thread.figures
            commits = _buckets(COMMIT_BOUNDS_S, figures.commit_buckets)
            commit.add_metric(label, commits, figures.commit_seconds)
            turns = _buckets(TURN_BOUNDS_S, figures.turn_buckets)
            turn.add_metric(label, turns, figures.turn_seconds)
            decides = _buckets(DECIDE_BOUNDS_S, figures.decide_buckets)
            decide.add_metric(label, decides, figures.decide_seconds)
        yield from (commit, turn, decide)

    def _store_metrics(self) -> Iterable[Metric]:
        up = GaugeMetricFamily("bendybus_partition_serving", "Store open", labels=["partition"])
        wal = GaugeMetricFamily("bendybus_wal_bytes", "Write-ahead log", labels=["partition"])
        stored = CounterMetricFamily(
            "bendybus_messages_stored", "Rows written", labels=["partition"]
        )
        removed = CounterMetricFamily(
            "bendybus_messages_removed", "Rows deleted", labels=["partition"]
        )
        condition = GaugeMetricFamily(
            "bendybus_partition_condition",
            "1 while the condition holds: ClockJump, DiskLow, StoreFailed, TopicFull, …",
            labels=["partition", "condition"],
        )
        awaiting = GaugeMetricFamily(
            "bendybus_awaiting_room_messages",
            "Scheduled messages that are due and wait for room in their topic",
            labels=["partition"],
        )
        windows = GaugeMetricFamily(
            "bendybus_window_bytes",
            "Memory of messages that are ready to be received, of all queues together",
            labels=["partition"],
        )
        errors = CounterMetricFamily(
            "bendybus_internal_errors",
            "Commands and sweeps that failed with an internal error; each was rolled back alone",
            labels=["partition", "work", "entity"],
        )
        for index, thread in self._hosts.threads.items():
            label = [str(index)]
            for (work, entity), count in list(thread.figures.faults.items()):
                errors.add_metric([*label, work, entity], count)
            up.add_metric(label, float(thread.serving))
            wal.add_metric(label, thread.store.wal_bytes())
            figures = thread.figures
            stored.add_metric(label, figures.messages_stored)
            removed.add_metric(label, figures.messages_removed)
            awaiting.add_metric(label, figures.awaiting_room)
            windows.add_metric(label, figures.window_bytes)
            for word in thread.conditions:
                condition.add_metric([*label, word], 1.0)
        yield from self._times()
        yield from (up, wal, stored, removed, awaiting, windows, condition, errors)


def _orphans(counts: dict[int, list[EntityCounts]]) -> Iterable[Metric]:
    """Orphaned entities, to be adopted or purged; zero if there are none, to alert on."""
    queues = GaugeMetricFamily(
        "bendybus_orphaned_entities", "Entities whose manifest is gone", labels=["partition"]
    )
    messages = GaugeMetricFamily(
        "bendybus_orphaned_messages", "Messages that orphaned entities hold", labels=["partition"]
    )
    for index, entities in counts.items():
        orphans = [entity for entity in entities if entity.orphaned]
        queues.add_metric([str(index)], len(orphans))
        messages.add_metric([str(index)], sum(entity.messages for entity in orphans))
    yield from (queues, messages)


def _forwarding(counts: dict[int, list[EntityCounts]]) -> Iterable[Metric]:
    """What waits to be forwarded, and why it stands still."""
    labels = ["entity", "to", "partition"]
    waiting = GaugeMetricFamily(
        "bendybus_forward_waiting_messages", "Messages that are to be forwarded", labels=labels
    )
    oldest = GaugeMetricFamily(
        "bendybus_forward_oldest_waiting_seconds", "Age of the oldest of them", labels=labels
    )
    forwarded = CounterMetricFamily(
        "bendybus_forwarded_messages", "Messages that were forwarded", labels=labels
    )
    aside = CounterMetricFamily(
        "bendybus_forward_set_aside_messages",
        "Messages that could not be forwarded and were dead-lettered",
        labels=labels,
    )
    still = GaugeMetricFamily(
        "bendybus_forward_standstill_seconds",
        "How long a destination has accepted no messages; empty to_partition: all its partitions",
        labels=[*labels, "to_partition", "reason"],
    )
    for index, entities in counts.items():
        for each in (found for entity in entities for found in entity.forwarding):
            values = [each.source, each.to, str(index)]
            waiting.add_metric(values, each.waiting)
            if each.oldest_age_ms is not None:
                oldest.add_metric(values, each.oldest_age_ms / 1000)
            forwarded.add_metric(values, each.forwarded)
            aside.add_metric(values, each.set_aside)
            for standstill in each.standstills:
                to = "" if standstill.partition is None else str(standstill.partition)
                still.add_metric([*values, to, standstill.reason], standstill.lasts_ms / 1000)
    yield from (waiting, oldest, forwarded, aside, still)


def _drains(counts: dict[int, list[EntityCounts]]) -> Metric:
    """What data pipelines hold, so that receivers get nothing."""
    leases = GaugeMetricFamily(
        "bendybus_drain_lease",
        "1 while a data pipeline drains the queue: receivers are refused",
        labels=["entity", "sub_queue", "owner", "partition"],
    )
    for index, entities in counts.items():
        for entity in entities:
            for sub_queue, owner in entity.drains:
                name = sub_queue.name.lower()
                leases.add_metric([entity.name, name, owner, str(index)], 1.0)
    return leases


def _buckets(bounds_s: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    total, buckets = 0, []
    for bound, count in zip([*map(str, bounds_s), "+Inf"], list(counts), strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets


class _Running:
    def __init__(self, hosts: Hosts, refusals: Refusals, host: str, port: int) -> None:
        registry = CollectorRegistry()
        registry.register(collector(hosts, refusals))
        with readiness.listening(f"{host}:{port}"):
            self._server, self._thread = start_http_server(
                port, addr=host.strip("[]"), registry=registry
            )
        if serving.is_loopback(host):
            web_origin.guard(self._server, web_origin.given_names())

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def collector(hosts: Hosts, refusals: Refusals) -> Collector:
    """Return what asks the partitions of a process at every scrape."""
    return _PartitionCollector(hosts, refusals)


def start(hosts: Hosts, refusals: Refusals, host: str, port: int) -> MetricsServer:
    """Serve /metrics on `host`:`port` in a thread of its own; port 0: do not."""
    return _Running(hosts, refusals, host, port) if port else contextlib.ExitStack()


Value = TypeVar("Value")


class Waiter(Generic[Value]):
    """A `reply_to` for one value."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._value: Value | None = None

    def answer(self, value: Value | Failed) -> None:
        """Take the value; a failure is none."""
        self._value = None if isinstance(value, Failed) else value
        self._done.set()

    def value(self, timeout_s: float) -> Value | None:
        """Return the value, None if there is none in time."""
        self._done.wait(max(0.0, timeout_s))
        return self._value
