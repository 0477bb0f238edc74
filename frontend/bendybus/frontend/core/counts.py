"""Counters of what happens for each message: plain numbers, that are read at a scrape.

Those of prometheus_client find their series under a lock, and count under another one, which costs
more than the rest of what a front end counts for a send. These are for the event loop alone.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector


class Counts(Collector):
    """A counter for each set of values of its labels."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str], *, registry: CollectorRegistry
    ) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._counts: dict[tuple[str, ...], int] = {}
        registry.register(self)

    def add(self, *values: str, count: int = 1) -> None:
        """Count; `values` are those of the labels."""
        counts = self._counts
        counts[values] = counts.get(values, 0) + count

    def of(self, *values: str) -> int:
        """Return what was counted."""
        return self._counts.get(values, 0)

    def collect(self) -> Iterable[Metric]:
        """Yield the counter as it is now."""
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for values, count in list(self._counts.items()):
            family.add_metric(values, count)
        yield family


class Times(Collector):
    """A histogram of times in seconds. `bounds`: the largest time of each bucket, in order."""

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
