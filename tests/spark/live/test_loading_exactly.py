"""`pipeline load` changes nothing that it reads: what it cannot read as it stands is refused."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bendybus.spark.commands.run import sentence_of
from bendybus.spark.jobs import files
from bendybus.spark.jobs.files import Load, Replay
from tests.spark.live.queues import Queue

pytestmark = pytest.mark.requirement("R597")
NewQueue = Callable[..., Queue]
FORMS = ("csv", "jsonl", "parquet")


def loaded(queue: Queue, path: Path, form: str, body: str = "", **named: str) -> list[Any]:
    files.load(queue.spark, Load(str(path), queue.options, form, body, named))
    bodies = sorted(row.body for row in queue.read(body="string").collect())
    return bodies if body else [json.loads(each) for each in bodies]


def refused(queue: Queue, path: Path, form: str, body: str = "", **named: str) -> str:
    """Return the sentence with which a load is refused, which sent nothing."""
    with pytest.raises(Exception, match=r"\w") as failed:
        files.load(queue.spark, Load(str(path), queue.options, form, body, named))
    assert queue.active() == 0
    return sentence_of(failed.value) or str(failed.value)


def written(path: Path, form: str, rows: list[dict[str, Any]]) -> None:
    """Write a file of a format."""
    if form == "parquet":
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.Table.from_pylist(rows), path)
    elif form == "csv":
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        path.write_text("\n".join(lines))
    else:
        path.write_text("\n".join(map(json.dumps, rows)))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a\r\n1\n2\r\n3\r\n", [{"a": "1"}, {"a": "2"}, {"a": "3"}]),
        ("a,b\n1,2\r\n3,4\n", [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]),
        ("a,b\r\n1,2\n3,4\r\n", [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]),
        ('a\r\n"1\r\n2\n3\r4"\n5', [{"a": "1\r\n2\n3\r4"}, {"a": "5"}]),
    ],
)
def test_each_row_of_csv_ends_with_lf_or_cr_lf(
    new_queue: NewQueue, tmp_path: Path, text: str, rows: list[dict[str, str]]
) -> None:
    queue, path = new_queue(), tmp_path / "half.csv"
    path.write_bytes(text.encode())

    assert loaded(queue, path, "csv") == rows


def test_a_zipped_file_is_loaded(new_queue: NewQueue, tmp_path: Path) -> None:
    queue, path = new_queue(), tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"a\n1\n2\n"))

    assert loaded(queue, path, "csv", "a") == ["1", "2"]


@pytest.mark.parametrize("form", FORMS)
def test_names_that_differ_in_case_are_two(new_queue: NewQueue, tmp_path: Path, form: str) -> None:
    queue, path = new_queue(), tmp_path / f"rows.{form}"
    written(path, form, [{"Name": "1", "name": "2"}])

    assert loaded(queue, path, form) == [{"Name": "1", "name": "2"}]
    loaded(queue, path, form, "name", message_id="Name")

    found = {row.message_id: row.body for row in queue.read(body="string").collect()}
    assert found["1"] == "2"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,a,A\n1,2,3\n", "has the column 'a' twice"),
        ("a,,c\n1,2,3\n", "has no name for its column 2"),
        ("a,b,\n1,2,\n", "has no name for its column 3"),
        ('a\n"1\n2\n3\n', "the quote that opens in line 2 is not closed"),
        ("a\r\n1\r2\r\n", "line 2 has a carriage return outside of quotes"),
        ("a,b\n1,2\n3\n", "line 3 is malformed: it has 1 value, and the header has 2"),
    ],
)
def test_csv_that_has_no_exact_meaning_is_refused_before_anything_is_sent(
    new_queue: NewQueue, tmp_path: Path, text: str, says: str
) -> None:
    queue = new_queue()
    (tmp_path / "a.csv").write_text("a\n1\n")
    (tmp_path / "b.csv").write_bytes(text.encode())

    sentence = refused(queue, tmp_path, "csv")

    assert re.search(rf"--in: .*b\.csv.*{re.escape(says)}", sentence), sentence


@pytest.mark.parametrize("form", FORMS)
def test_names_of_folders_are_columns_of_text(
    new_queue: NewQueue, tmp_path: Path, form: str
) -> None:
    queue = new_queue()
    for name in ("id=007", "id=1.10", "id=__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / "pp" / name).mkdir(parents=True)
        written(tmp_path / "pp" / name / f"x.{form}", form, [{"a": "1"}])

    bodies = loaded(queue, tmp_path / "pp", form)

    assert {json.dumps(each) for each in bodies} == {
        '{"a": "1", "id": "007"}',
        '{"a": "1", "id": "1.10"}',
        '{"a": "1"}',
    }
    other = new_queue()
    loaded(other, tmp_path / "pp", form, "a", message_id="id")
    found = {row.message_id for row in other.read().collect()}
    assert {"007", "1.10"} < found
    assert queue.spark.conf.get("spark.sql.sources.partitionColumnTypeInference.enabled") == "true"


@pytest.mark.parametrize("form", FORMS)
def test_a_folder_that_is_named_as_a_column_of_its_files_is_refused(
    new_queue: NewQueue, tmp_path: Path, form: str
) -> None:
    queue = new_queue()
    (tmp_path / "pp" / "a=2").mkdir(parents=True)
    written(tmp_path / "pp" / "a=2" / f"x.{form}", form, [{"a": "1", "b": "x"}])

    sentence = refused(queue, tmp_path / "pp", form)

    assert "has the column 'a', and is in a folder that is named a=…" in sentence


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["_june", ".june"])
def test_a_file_that_is_named_and_that_spark_hides_is_refused(
    new_queue: NewQueue, tmp_path: Path, form: str, name: str
) -> None:
    queue, path = new_queue(), tmp_path / name
    written(path, form, [{"a": "1"}])

    sentence = refused(queue, path, form)

    assert f"--in: {path} is not read, since its name begins with {name[0]}" in sentence
    assert sentence.endswith("give it another name")
    if form != "csv":
        with pytest.raises(Exception, match="since its name begins with"):
            files.replay(queue.spark, Replay(str(path), queue.options, form))


@pytest.mark.parametrize("form", FORMS)
def test_a_folder_without_files_is_refused(new_queue: NewQueue, tmp_path: Path, form: str) -> None:
    queue = new_queue()
    (tmp_path / "files").mkdir()
    written(tmp_path / "files" / "_hidden", form, [{"a": "1"}])

    assert refused(queue, tmp_path / "files", form).startswith(
        f"--in: no files of --format {form} there"
    )


@pytest.mark.parametrize("form", FORMS)
def test_files_in_folders_that_are_not_read_are_named(
    new_queue: NewQueue, tmp_path: Path, form: str
) -> None:
    queue, folder = new_queue(), tmp_path / "files"
    (folder / "more").mkdir(parents=True)
    for path in (folder / "a", folder / "more" / "b"):
        written(path, form, [{"a": "1"}])

    sentence = refused(queue, folder, form)

    assert "files/more/b is in a folder of its own, which is not read" in sentence


def test_a_time_in_nanoseconds_is_refused_with_what_to_do(
    new_queue: NewQueue, tmp_path: Path
) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    queue, path = new_queue(), tmp_path / "times.parquet"
    table = pa.table({"a": pa.array([1], pa.timestamp("ns"))})
    parquet.write_table(table, path, version="2.6")

    sentence = refused(queue, path, "parquet")

    assert "--in: " in sentence
    assert "nanoseconds" in sentence
    assert "write them in microseconds" in sentence


def test_a_field_that_a_line_has_twice_names_nothing(new_queue: NewQueue, tmp_path: Path) -> None:
    queue, path = new_queue(), tmp_path / "rows.jsonl"
    path.write_text('{"a": "1", "a": "2"}\n')

    sentence = refused(queue, path, "jsonl", "a")

    assert "has the field 'a' twice" in sentence
