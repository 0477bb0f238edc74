"""`python -m tests.spark.live.capture_driver JOB`: a capture in a process that tests kill."""

import json
import os
import sys

from bendybus.spark.jobs import capture
from bendybus.spark.jobs.capture import Capture


def main() -> None:
    """Capture what is there, then what comes, until the process is killed."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .getOrCreate()
    )
    job = json.loads(sys.argv[1])
    wanted = Capture(job["source"], job["out"], job["checkpoint"])
    capture.start(spark, wanted, {"processingTime": "0 seconds"}).awaitTermination()


if __name__ == "__main__":
    main()
