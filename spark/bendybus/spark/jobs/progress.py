"""What a streaming job tells of its batches: a line of log, metrics, a file for a liveness probe.

Lag is in sequence numbers, which have gaps: how many messages wait is in the counts of the bus.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

logger = logging.getLogger("bendybus.pipeline")


class Metrics:
    """The metrics of a job, for Prometheus."""

    def __init__(self, job: str, registry: Any = None) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = registry or CollectorRegistry()
        options: dict[str, Any] = {"registry": self.registry, "labelnames": ["job"]}

        def named(kind: Any, name: str, text: str, **more: Any) -> Any:
            return kind(f"bendybus_pipeline_{name}", text, **{**options, **more}).labels(job)

        self.batches = named(Counter, "batches", "Batches that were committed")
        self.rows = named(Counter, "rows", "Rows that were read")
        self.seconds = named(Histogram, "batch_seconds", "How long batches took")
        self.last_batch = named(Gauge, "last_batch_timestamp", "When the last one ended")
        lag = Gauge(
            "bendybus_pipeline_lag_numbers",
            "Sequence numbers between what was read and the end of the partition",
            ["job", "entity", "partition"],
            registry=self.registry,
        )
        self.lag: Callable[[str, str], Any] = lambda entity, partition: lag.labels(
            job, entity, partition
        )

    def serve(self, port: int, host: str = "0.0.0.0") -> Any:
        """Serve them at a port; 0: any that is free. Returns (server, thread)."""
        from prometheus_client import start_http_server

        return start_http_server(port, addr=host, registry=self.registry)


class Progress:
    """Takes the progress of a query. `alive`: a file that is touched at every sign of life."""

    def __init__(
        self,
        entity: str,
        metrics: Metrics | None = None,
        alive: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._entity = entity
        self._metrics = metrics
        self._alive = alive
        self._clock = clock
        # Messages by batch, where the rows of a query are not messages.
        self._messages: dict[int, int] = {}

    def counted(self, batch: int, messages: int) -> None:
        """Take how many messages a batch had, STRICTLY BEFORE its progress."""
        self._messages[batch] = messages

    def batch(self, progress: Mapping[str, Any]) -> None:
        """Take the progress of a batch, as Spark has it in JSON."""
        self.sign_of_life()
        rows = int(progress.get("numInputRows") or 0)
        rows = self._messages.pop(int(progress.get("batchId") or 0), rows)
        seconds = float(progress.get("batchDuration") or 0) / 1_000
        lags: dict[str, int] = {}
        for source in progress.get("sources") or ():
            lags |= lags_of(source)
        if self._metrics is not None:
            metrics = self._metrics
            for partition, lag in lags.items():
                metrics.lag(self._entity, partition).set(lag)
            if rows:
                metrics.batches.inc()
                metrics.rows.inc(rows)
                metrics.seconds.observe(seconds)
                metrics.last_batch.set(self._clock())
        if rows:
            line = {
                "batch": progress.get("batchId"),
                "entity": self._entity,
                "rows": rows,
                "seconds": round(seconds, 3),
                "rowsPerSecond": round(rows / seconds) if seconds else None,
                "lag": sum(lags.values()),
                "lagByPartition": {partition: lag for partition, lag in lags.items() if lag},
            }
            logger.info("%s", json.dumps(line))

    def sign_of_life(self) -> None:
        """Touch the file for the probe."""
        if self._alive is not None:
            self._alive.touch()


def lags_of(source: Mapping[str, Any]) -> dict[str, int]:
    """Return by partition how many numbers there are between what was read and the end."""
    read, latest = offset(source.get("endOffset")), offset(source.get("latestOffset"))
    return {
        partition: max(0, number - read[partition])
        for partition, number in latest.items()
        if partition in read
    }


def offset(given: Any) -> dict[str, int]:
    """Return the numbers of an offset; Spark hands it over as text, or parsed."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return {}
    numbers = given.get("seq") if isinstance(given, Mapping) else None
    return {str(partition): int(number) for partition, number in (numbers or {}).items()}


def listen(spark: Any, progress: Progress) -> Any:
    """Have a session report to `progress`; return the listener, to remove it."""
    from pyspark.sql.streaming import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            progress.sign_of_life()

        def onQueryProgress(self, event: Any) -> None:
            progress.batch(json.loads(event.progress.json))

        def onQueryIdle(self, event: Any) -> None:
            progress.sign_of_life()

        def onQueryTerminated(self, event: Any) -> None:
            """Nothing: the command reports how it ended."""

    made = Listener()
    spark.streams.addListener(made)
    return made
