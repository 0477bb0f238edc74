"""How a job runs: where Spark is, its checkpoint, its trigger, its session; what it reports.

A streaming job reports its batches: a line of log, metrics, a file for a liveness probe. Lag is in
sequence numbers, which have gaps: how many messages wait is in the counts of the bus.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bendybus.domain.sequence_number import counter_of
from bendybus.spark.errors import OptionError

KUBERNETES: Final = "k8s"
_LOCAL: Final = "local"
_API_SERVER: Final = "k8s://https://kubernetes.default.svc"
# Fixed, so that a network policy can name them.
DRIVER_PORT: Final = 7078
BLOCK_MANAGER_PORT: Final = 7079
CONF: Final = Path(__file__).parents[1] / "conf"
# Set by spark-submit, whose master and executors hold.
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
# Set for a session of Spark Connect, whose server has a master of its own.
_REMOTE: Final = "SPARK_REMOTE"
logger = logging.getLogger("bendybus.pipeline")


@dataclass(frozen=True, slots=True)
class Runtime:
    """What all jobs have in common."""

    master: str = "local[2]"
    # Settings of Spark; they win over those that a job sets.
    conf: Mapping[str, str] = field(default_factory=dict)
    # With master k8s.
    executors: int = 2


def session(job: str, runtime: Runtime, environment: Mapping[str, str] | None = None) -> Any:
    """Return the Spark session of a job. Raises OptionError."""
    from pyspark.sql import SparkSession

    found = os.environ if environment is None else environment
    # Workers run the Python of this process, which has what they import.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if _SUBMITTED not in found and runtime.master.startswith(_LOCAL):
        # No other machine has to reach it.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Where the JVM finds how it logs. A user's own folder wins.
        os.environ.setdefault("SPARK_CONF_DIR", str(CONF))
    builder = SparkSession.builder.appName(f"bendybus-{job}")
    for name, value in settings(runtime, found).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def settings(runtime: Runtime, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a job's session. Raises OptionError."""
    found = {
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        # A killed job's half-written batch is repeated; nothing else depends on the order.
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }
    if _SUBMITTED in environment or not runtime.master.startswith(_LOCAL):
        # As conf/log4j2.properties has it for a JVM of this process.
        found["spark.log.level"] = "OFF"
    if _SUBMITTED not in environment and not environment.get(_REMOTE):
        found["spark.master"] = runtime.master
        if runtime.master == KUBERNETES:
            found |= _on_kubernetes(runtime, environment)
    return {**found, **runtime.conf}


def _on_kubernetes(runtime: Runtime, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a driver in a pod, with executors as pods."""
    needed = ("POD_IP", "POD_NAME", "POD_NAMESPACE", "BENDYBUS_SPARK_IMAGE")
    missing = [name for name in needed if not environment.get(name)]
    if missing:
        raise OptionError(
            f"--master k8s: needs {', '.join(missing)} in the environment of its pod; the chart "
            "of Bendybus sets them for `pipelines`"
        )
    return {
        "spark.master": _API_SERVER,
        "spark.submit.deployMode": "client",
        "spark.executor.instances": str(runtime.executors),
        "spark.kubernetes.namespace": environment["POD_NAMESPACE"],
        "spark.kubernetes.container.image": environment["BENDYBUS_SPARK_IMAGE"],
        # Executors belong to the driver's pod, and end with it.
        "spark.kubernetes.driver.pod.name": environment["POD_NAME"],
        "spark.driver.host": environment["POD_IP"],
        "spark.driver.port": str(DRIVER_PORT),
        "spark.blockManager.port": str(BLOCK_MANAGER_PORT),
        # Who connects to the driver may run what it likes there: executors have a secret.
        "spark.authenticate": "true",
        # Python workers are beside the JVM; Spark takes that for granted in cluster mode only.
        "spark.executor.memoryOverheadFactor": "0.4",
        # There are none, and without the right to delete others' the driver is not asked for it.
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
    }


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
        partition: max(0, counter_of(number) - counter_of(read[partition]))
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
