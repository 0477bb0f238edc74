"""What a streaming job tells of its batches."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from bendybus.spark.jobs.progress import Metrics, Progress, lags_of

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
