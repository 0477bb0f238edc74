"""Spark Connect, as notebooks use it: the format needs nothing more."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark.live.queues import Queue

pytestmark = [pytest.mark.requirement("R290"), pytest.mark.requirement("R594"), pytest.mark.slow]
SESSION = """
import json, sys
from pyspark.sql import SparkSession
from bendybus.spark.errors import OptionError
from bendybus.spark.jobs import capture, files as jobs

source, target, folder = json.loads(sys.argv[1])
spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert "connect" in type(spark).__module__
frame = spark.read.format("bendybus").options(**source, body="string").load()
rows = frame.select("body").collect()
frame.select("body", "subject").write.format("bendybus").options(**target).mode("append").save()
query = (
    spark.readStream.format("bendybus").options(**source, settle="trailing").load()
    .writeStream.format("parquet").option("path", folder + "/files")
    .option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
)
query.awaitTermination()
files = spark.read.parquet(folder + "/files")
again = {**target, "idempotencyKey": "k"}
for _ in range(2):
    given = jobs.Replay(folder + "/files", again, where="body <> 'm0'", rate=1e6)
    jobs.replay(spark, given)
try:
    capture.start(spark, capture.Capture(source, folder + "/c", folder + "/r"), {"once": True})
except OptionError as error:
    print("REFUSED", error)
print("FOUND", json.dumps([len(rows), files.count()]))
spark.stop()
"""


def test_a_notebook_reads_writes_and_drains(
    new_queue: Callable[..., Queue], tmp_path: Path
) -> None:
    source, target = new_queue(), new_queue()
    source.send([f"m{n}" for n in range(30)], subject="s")

    ran = subprocess.run(
        [
            sys.executable, "-W", "ignore", "-c", SESSION,
            json.dumps([source.options, target.options, str(tmp_path)]),
        ],
        capture_output=True, text=True, timeout=180, check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip

    assert "FOUND [30, 30]" in ran.stdout, ran.stderr[-3_000:]
    assert source.active() == 0
    assert "REFUSED capture: needs a session of Spark itself" in ran.stdout
    bodies = [f"m{n}" for n in range(30)]
    # Written once, and once more by the replay under its key.
    assert sorted(target.received()) == sorted(bodies + bodies[1:])
