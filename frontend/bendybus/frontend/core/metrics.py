"""Counters of a front end for /metrics, with the names of Azure Monitor where it has one."""

from bisect import bisect_left
from collections import Counter as CountsBy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import Metric
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.wire.refusals import Refusals

_LATENCY_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 60.0)
# Not from users: a name that does not exist must not make a new series each time.
_UNKNOWN: Final = "(unknown)"


class Counts(Collector):
    """A counter: `counts` has a plain number for the value of its label, or a tuple for several.

    Those of prometheus_client find their series under a lock, and count under another one, which
    costs more than the rest of what a front end counts for a send. For the event loop alone.
    """

    def __init__(
        self, name: str, text: str, labels: Sequence[str], *, registry: CollectorRegistry
    ) -> None:
        self._name, self._text, self._labels = name, text, labels
        self.counts: CountsBy[str | tuple[str, ...]] = CountsBy()
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Yield the counter as it is now."""
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for values, count in list(self.counts.items()):
            family.add_metric((values,) if isinstance(values, str) else values, count)
        yield family


class Times(Collector):
    """A histogram of times in seconds, as `Counts`. `bounds`: the largest of each bucket."""

    def __init__(
        self, name: str, text: str, bounds: Sequence[float], *, registry: CollectorRegistry
    ) -> None:
        self._name, self._text, self._bounds = name, text, bounds
        # By bucket; the last one has no bound.
        self._counts = [0] * (len(bounds) + 1)
        self._sum_s = 0.0
        registry.register(self)

    def add(self, time_s: float) -> None:
        """Count a time."""
        self._counts[bisect_left(self._bounds, time_s)] += 1
        self._sum_s += time_s

    def collect(self) -> Iterable[Metric]:
        """Yield the histogram as it is now."""
        total = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, total))
        yield HistogramMetricFamily(self._name, self._text, buckets=buckets, sum_value=self._sum_s)


class _RefusalCollector(Collector):
    source: Refusals | None = None

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            "bendybus_refused_callers", "Calls without the right token for them", labels=["cause"]
        )
        for cause, count in list(self.source.counts.items() if self.source else ()):
            family.add_metric([cause], count)
        yield family


class Metrics:
    """What a front end counts."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        label = ["entity"]
        self.incoming = Counts(
            "bendybus_incoming_messages", "IncomingMessages", label, registry=registry
        )
        self.outgoing = Counts(
            "bendybus_outgoing_messages", "OutgoingMessages", label, registry=registry
        )
        self.requests = Counts(
            "bendybus_incoming_requests",
            "IncomingRequests: frames of sends",
            label,
            registry=registry,
        )
        self.settled = Counts(
            "bendybus_settled_messages",
            "CompleteMessage, AbandonMessage, …",
            ["disposition"],
            registry=registry,
        )
        self.throttled = Counts(
            "bendybus_throttled_requests", "ThrottledRequests", label, registry=registry
        )
        self.user_errors = Counts(
            "bendybus_user_errors", "UserErrors", [*label, "reason"], registry=registry
        )
        self.server_errors = Counts(
            "bendybus_server_errors", "ServerErrors", [*label, "reason"], registry=registry
        )
        self.send_seconds = Times(
            "bendybus_server_send_latency_seconds",
            "ServerSendLatency: a frame from the front end to its partitions' commits and back",
            _LATENCY_S,
            registry=registry,
        )
        self.possible_duplicates = Counts(
            "bendybus_possible_duplicates",
            "Messages without a key that are stored, possibly a second time in another partition",
            label,
            registry=registry,
        )
        self.connections = Gauge(
            "bendybus_active_connections", "ActiveConnections: open streams", registry=registry
        )
        self.cached = Gauge(
            "bendybus_cached_messages", "Messages held ready for receivers", registry=registry
        )
        self.under_way = Gauge(
            "bendybus_sends_under_way",
            "Parts of frames waiting for partitions",
            registry=registry,
        )
        self.breakers = Gauge(
            "bendybus_breaker_open",
            "1 while the circuit breaker of a partition is open",
            ["partition"],
            registry=registry,
        )
        self._name_of: Callable[[str], str | None] = lambda path: path
        self._refusals = _RefusalCollector()
        registry.register(self._refusals)
        self.loop_lag = Gauge(
            "bendybus_loop_lag_seconds", "How late the event loop runs", registry=registry
        )
        self._count_further(registry)

    def _count_further(self, registry: CollectorRegistry) -> None:
        self.transactions = Counts(
            "bendybus_transactions", "Transactions that ended", ["outcome"], registry=registry
        )
        self.stale_figures = Counts(
            "bendybus_stale_scaling_figures",
            "Figures for a scaler that a partition did not give: the last known one was used",
            ["entity"],
            registry=registry,
        )
        self.open_transactions = Gauge(
            "bendybus_open_transactions", "Transactions being collected", registry=registry
        )

    def name_by(self, name_of: Callable[[str], str | None]) -> None:
        """Take the label values from `name_of`: what callers write must not create new series."""
        self._name_of = name_of

    def count_refusals(self, refusals: Refusals) -> None:
        """Show what another counts: callers that were refused."""
        self._refusals.source = refusals

    def sent(self, entity: str, count: int, times_s: Sequence[float]) -> None:
        """Count messages that were stored, and how long each request took that they came in."""
        self.incoming.counts[entity] += count
        self.requests.counts[entity] += len(times_s)
        for time_s in times_s:
            self.send_seconds.add(time_s)

    @contextmanager
    def refusals(self, entity_path: str) -> Iterator[None]:
        """Count the domain error that is raised within, if any."""
        try:
            yield
        except BusError as error:
            self.refused(entity_path, error)
            raise

    def refused(self, entity_path: str, error: BusError, count: int = 1) -> None:
        """Count refusals for one reason where they belong."""
        missing = isinstance(error, errors.EntityNotFound)
        name = _UNKNOWN if missing else self._name_of(entity_path) or _UNKNOWN
        if isinstance(error, errors.ServerBusy | errors.QuotaExceeded):
            self.throttled.counts[name] += count
        elif isinstance(error, errors.RetryableError | errors.OutcomeUnknown) or (
            type(error) is BusError
        ):
            self.server_errors.counts[name, error.reason] += count
        else:
            self.user_errors.counts[name, error.reason] += count
