"""The files of a range, written from record batches of any size."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bendybus.spark.errors import PipelineError
from bendybus.spark.jobs.file_store import Layout, LocalStore

pa = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.requirement("R299")


def batch(*bodies: str, hour: int = 0) -> Any:
    count = len(bodies)
    return pa.RecordBatch.from_pydict(
        {
            "body": bodies,
            "entity": ["orders"] * count,
            "partition": [1] * count,
            "enqueued_at": [datetime(2026, 1, 31, hour, tzinfo=UTC)] * count,
            "range": ["ab:0:9"] * count,
        }
    )


def write(batches: list[Any], folder: Path, layout: Layout) -> list[Any]:
    from bendybus.spark.jobs import captured_files

    store = LocalStore(folder, "me")
    return list(captured_files.write(batches, layout, store, ["body"]))


def read(path: Path) -> list[str]:
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        return list(pq.read_table(path).column("body").to_pylist())
    text = path.read_bytes()
    lines = (gzip.decompress(text) if path.suffix == ".gz" else text).splitlines()
    return [json.loads(line)["body"] for line in lines]


@pytest.mark.parametrize("group", [1, 2, 3, 100])
@pytest.mark.parametrize(
    "layout", [Layout(), Layout("jsonl"), Layout("jsonl", "gzip")], ids=["parquet", "jsonl", "gzip"]
)
def test_rows_are_written_however_groups_fall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int, layout: Layout
) -> None:
    monkeypatch.setattr("bendybus.spark.jobs.captured_files.GROUP_ROWS", group)

    found = write([batch("a", "b"), batch(), batch("c"), batch("d", hour=1)], tmp_path, layout)

    assert [(file.rows, file.new) for file in found] == [(3, True), (1, True)]
    assert [read(tmp_path / file.path) for file in found] == [["a", "b", "c"], ["d"]]
    assert [path.name for path in (tmp_path / "_temporary" / "me").iterdir()] == []


def test_what_was_published_is_counted_and_not_written_again(tmp_path: Path) -> None:
    (first,) = write([batch("a", "b")], tmp_path, Layout())

    (again,) = write([batch("a")], tmp_path, Layout())

    assert (again.path, again.rows, again.new) == (first.path, 1, False)
    assert read(tmp_path / first.path) == ["a", "b"]


@pytest.mark.parametrize("layout", [Layout(), Layout("jsonl", "gzip")], ids=["parquet", "gzip"])
def test_a_range_that_breaks_off_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    monkeypatch.setattr("bendybus.spark.jobs.captured_files.GROUP_ROWS", 1)

    def breaks() -> Any:
        yield batch("a")
        raise ConnectionError("injected")

    with pytest.raises(ConnectionError):
        write(breaks(), tmp_path, layout)

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_more_folders_than_a_task_may_open_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bendybus.spark.jobs.captured_files.OPEN_MAX", 2)

    with pytest.raises(PipelineError, match="--path-template: one range has messages of more"):
        write([batch("a", hour=hour) for hour in range(3)], tmp_path, Layout())
