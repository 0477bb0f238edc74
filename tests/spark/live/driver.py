"""`python -m tests.spark.live.driver KIND JOB`: a streaming query in a process that tests kill."""

import json
import os
import signal
import sys
from typing import Any

from bendybus.spark.jobs import capture
from bendybus.spark.jobs.capture import Batch, Capture


def start(spark: Any, kind: str, job: dict[str, Any], trigger: dict[str, Any]) -> Any:
    """Return the query of a job: `capture` into files, or `copy` into another queue."""
    if kind == "capture":
        wanted = Capture(job["source"], job["out"], job["checkpoint"])
        return capture.start(spark, wanted, trigger, lambda batch: kill(job, batch))
    return (
        spark.readStream.format("bendybus")
        .options(**job["source"])
        .load()
        .writeStream.format("bendybus")
        .options(**job["target"])
        .option("checkpointLocation", job["checkpoint"])
        .trigger(**trigger)
        .start()
    )


def kill(job: dict[str, Any], batch: Batch) -> None:
    """Kill the processes that a job names once a batch has published its files."""
    if batch.messages:
        for pid in job.get("kills", ()):
            os.kill(pid, signal.SIGKILL)


def main() -> None:
    """Run until the process is killed, or the query fails."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .getOrCreate()
    )
    query = start(spark, sys.argv[1], json.loads(sys.argv[2]), {"processingTime": "0 seconds"})
    query.awaitTermination()


if __name__ == "__main__":
    main()
