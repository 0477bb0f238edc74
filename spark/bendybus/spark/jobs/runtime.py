"""How a job runs: where Spark is, its checkpoint, its trigger; and the session that this makes."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bendybus.spark.errors import OptionError

KUBERNETES: Final = "k8s"
_LOCAL: Final = "local"
_API_SERVER: Final = "k8s://https://kubernetes.default.svc"
# Fixed, so that a network policy can name them.
DRIVER_PORT: Final = 7078
BLOCK_MANAGER_PORT: Final = 7079
CONF: Final = Path(__file__).parents[1] / "conf"
# Set by spark-submit, whose master and executors hold.
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"


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
    if SUBMITTED not in found and runtime.master.startswith(_LOCAL):
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
    if SUBMITTED in environment or not runtime.master.startswith(_LOCAL):
        # As conf/log4j2.properties has it for a JVM of this process.
        found["spark.log.level"] = "OFF"
    if SUBMITTED not in environment:
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
