"""The settings of a job's session, and what a streaming job reports."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from bendybus.spark.errors import OptionError
from bendybus.spark.jobs.runtime import Metrics, Progress, Runtime, lags_of, settings

POD = {
    "POD_IP": "10.0.0.7",
    "POD_NAME": "capture-0",
    "POD_NAMESPACE": "shop",
    "BENDYBUS_SPARK_IMAGE": "localhost/bendybus-spark:1",
}


def test_a_setting_of_the_user_wins() -> None:
    found = settings(Runtime("local[4]", {"spark.sql.session.timeZone": "Europe/Berlin"}), {})

    assert found["spark.master"] == "local[4]"
    assert found["spark.sql.session.timeZone"] == "Europe/Berlin"


def test_executors_of_a_pod_belong_to_it() -> None:
    found = settings(Runtime("k8s", executors=3), POD)

    assert found["spark.master"].startswith("k8s://")
    assert found["spark.executor.instances"] == "3"
    assert found["spark.kubernetes.driver.pod.name"] == "capture-0"
    assert found["spark.driver.host"] == "10.0.0.7"
    assert found["spark.kubernetes.namespace"] == "shop"


def test_outside_of_a_pod_k8s_is_refused() -> None:
    with pytest.raises(OptionError, match="--master k8s: needs POD_NAME, BENDYBUS_SPARK_IMAGE in"):
        settings(Runtime("k8s"), {"POD_IP": "10.0.0.7", "POD_NAMESPACE": "shop"})


@pytest.mark.requirement("R300")
@pytest.mark.parametrize("master", ["local[2]", "k8s"])
def test_under_spark_submit_its_master_and_executors_hold(master: str) -> None:
    submitted = {"PYSPARK_GATEWAY_PORT": "25333"}

    found = settings(Runtime(master, {"spark.sql.shuffle.partitions": "8"}), submitted)

    assert "spark.master" not in found
    assert not [name for name in found if name.startswith(("spark.kubernetes", "spark.driver"))]
    # What the job needs is still set.
    assert found["spark.sql.session.timeZone"] == "UTC"
    assert found["spark.sql.shuffle.partitions"] == "8"


BATCH: dict[str, Any] = {
    "batchId": 7,
    "numInputRows": 200,
    "batchDuration": 500,
    "sources": [
        {
            "endOffset": {"v": 1, "seq": {"0": 100, "1": 50}},
            "latestOffset": json.dumps({"v": 1, "seq": {"0": 130, "1": 50, "2": 9}}),
        }
    ],
}


@pytest.mark.requirement("R312")
def test_lag_is_what_lies_between_what_was_read_and_the_end() -> None:
    assert lags_of(BATCH["sources"][0]) == {"0": 30, "1": 0}
    assert lags_of({}) == {}
    assert lags_of({"endOffset": "not json", "latestOffset": None}) == {}


def test_a_batch_is_a_line_of_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "bendybus.pipeline"):
        Progress("orders").batch(BATCH)
        Progress("orders").batch({**BATCH, "numInputRows": 0})

    [record] = caplog.records
    assert json.loads(record.getMessage()) == {
        "batch": 7,
        "entity": "orders",
        "rows": 200,
        "seconds": 0.5,
        "rowsPerSecond": 400,
        "lag": 30,
        "lagByPartition": {"0": 30},
    }


def test_a_batch_is_counted_for_prometheus() -> None:
    metrics = Metrics("capture")
    progress = Progress("orders", metrics, clock=lambda: 1_700_000_000.0)

    progress.batch(BATCH)
    progress.batch(BATCH)

    text = generate_latest(metrics.registry).decode()
    assert 'bendybus_pipeline_rows_total{job="capture"} 400.0' in text
    assert 'lag_numbers{entity="orders",job="capture",partition="0"} 30.0' in text
    assert 'last_batch_timestamp{job="capture"} 1.7e+09' in text


@pytest.mark.requirement("R401")
def test_messages_are_counted_where_the_rows_of_a_query_are_ranges() -> None:
    metrics = Metrics("capture")
    progress = Progress("orders", metrics)

    progress.counted(7, 50_000)
    progress.batch({**BATCH, "numInputRows": 4})
    progress.batch({**BATCH, "numInputRows": 0})

    text = generate_latest(metrics.registry).decode()
    assert 'bendybus_pipeline_rows_total{job="capture"} 50000.0' in text
    assert 'bendybus_pipeline_batches_total{job="capture"} 1.0' in text


def test_an_idle_query_is_alive(tmp_path: Path) -> None:
    progress = Progress("orders", alive=tmp_path / "alive")
    assert not (tmp_path / "alive").exists()

    progress.batch({"numInputRows": 0})

    assert (tmp_path / "alive").exists()


@pytest.mark.requirement("R594")
def test_a_session_of_spark_connect_has_no_master_of_its_own() -> None:
    found = settings(Runtime("local[2]"), {"SPARK_REMOTE": "sc://127.0.0.1:15002"})

    assert "spark.master" not in found
