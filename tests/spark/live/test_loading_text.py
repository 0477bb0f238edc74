"""`pipeline load` keeps what it reads of CSV and of lines of JSON."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bendybus.spark.commands.run import sentence_of
from bendybus.spark.errors import OptionError
from bendybus.spark.jobs import files
from bendybus.spark.jobs.files import Load
from tests.spark.live.queues import Queue

pytestmark = pytest.mark.requirement("R597")
NewQueue = Callable[..., Queue]


def loaded(queue: Queue, path: Path, form: str, body: str = "", **named: str) -> list[str | None]:
    files.load(queue.spark, Load(str(path), queue.options, form, body, named))
    return sorted(row.body for row in queue.read(body="string").collect())


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CR LF"])
def test_line_breaks_within_quotes_and_empty_cells_are_kept(
    new_queue: NewQueue, tmp_path: Path, end: str
) -> None:
    queue = new_queue()
    path = tmp_path / "a file.csv"
    rows = ["n,text,more", '1,"a\r\nb",', '2,"c\nd","x "', '3,"","y"']
    path.write_bytes(end.join([*rows, ""]).encode())

    bodies = loaded(queue, path, "csv")

    assert [json.loads(body or "") for body in bodies] == [
        {"n": "1", "text": "a\r\nb", "more": ""},
        {"n": "2", "text": "c\nd", "more": "x "},
        {"n": "3", "text": "", "more": "y"},
    ]


def test_files_whose_lines_end_in_several_ways_are_loaded_together(
    new_queue: NewQueue, tmp_path: Path
) -> None:
    queue, folder = new_queue(), tmp_path / "files"
    folder.mkdir()
    for name, end in (("a b", "\n"), ("c", "\r\n"), ("d", "\r")):
        (folder / f"{name}.csv").write_bytes(end.join(["key,text", f"{name},{name}1"]).encode())

    bodies = loaded(queue, folder, "csv", "text", partition_key="key")

    assert bodies == ["a b1", "c1", "d1"]


@pytest.mark.parametrize("body", ["", "text"])
def test_a_csv_file_that_is_not_utf_8_is_named_before_anything_is_sent(
    new_queue: NewQueue, tmp_path: Path, body: str
) -> None:
    queue = new_queue()
    (tmp_path / "a.csv").write_bytes(b"text\nplain\n")
    (tmp_path / "b.csv").write_bytes(b"text\ncaf\xe9\n")

    with pytest.raises(OptionError, match=r"--in: file:.*/b.csv is not UTF-8 text; convert it"):
        loaded(queue, tmp_path, "csv", body)

    assert queue.active() == 0


@pytest.mark.parametrize(
    ("header", "end", "name"),
    [
        ('"a\rb",c', "\n", "a\rb"),
        ('"a\nb",c', "\r\n", "a\nb"),
        ('"a\r\nb",c', "\n", "a\r\nb"),
        ('c,"a""\n\n,b"', "\r\n", 'a"\n\n,b'),
    ],
)
def test_a_line_break_in_a_quoted_name_is_none_of_the_file(
    new_queue: NewQueue, tmp_path: Path, header: str, end: str, name: str
) -> None:
    queue = new_queue()
    path = tmp_path / "a.csv"
    path.write_bytes(end.join([header, "x,x", '"y\r\n","y\r\n"', ""]).encode())

    bodies = loaded(queue, path, "csv")

    assert [json.loads(body or "") for body in bodies] == [
        {name: text, "c": text} for text in ("x", "y\r\n")
    ]


def test_each_csv_file_has_the_columns_of_its_own_header(
    new_queue: NewQueue, tmp_path: Path
) -> None:
    queue, folder = new_queue(), tmp_path / "files"
    folder.mkdir()
    for name, text in (
        ("t*.csv", "key,text\nk1,one\n"),
        ("two%20.csv", "text,key\ntwo,k2\n"),
        ("three.csv", '\ufeff"text","other","key"\r\nthree,o,k3\r\n'),
    ):
        (folder / name).write_bytes(text.encode())

    bodies = loaded(queue, folder, "csv", "text", partition_key="key")

    assert bodies == ["one", "three", "two"]
    assert {row.partition_key for row in queue.read().collect()} == {"k1", "k2", "k3"}


@pytest.mark.parametrize(
    "made",
    [
        "cast(X'61ff' AS string) a",
        "array('x', null, cast(X'61ff' AS string)) a",
        "named_struct('b.c', map('k', array(cast(X'61ff' AS string)))) a",
        "map(cast(X'61ff' AS string), 1) a",
    ],
)
def test_text_of_parquet_that_is_not_utf_8_is_refused_where_it_becomes_json(
    new_queue: NewQueue, tmp_path: Path, made: str
) -> None:
    queue, path = new_queue(), tmp_path / "files"
    queue.spark.sql(f"SELECT {made}, 1 n").write.parquet(str(path))

    with pytest.raises(Exception, match=r"column a of .* has text that is not UTF-8 text"):
        loaded(queue, path, "parquet")

    assert queue.active() == 0


def test_times_of_parquet_keep_their_microseconds(new_queue: NewQueue, tmp_path: Path) -> None:
    queue, path = new_queue(), tmp_path / "times"
    made = "TIMESTAMP'2026-01-31 18:00:00.123456Z' a, TIMESTAMP_NTZ'2026-01-31 18:00:00.000001' b"
    queue.spark.sql(f"SELECT {made}").write.parquet(str(path))

    (found,) = loaded(queue, path, "parquet")

    times = {name: datetime.fromisoformat(text) for name, text in json.loads(found or "").items()}
    assert times == {
        "a": datetime(2026, 1, 31, 18, 0, 0, 123456, UTC),
        "b": datetime(2026, 1, 31, 18, 0, 0, 1),
    }


def test_text_and_nulls_of_parquet_become_json(new_queue: NewQueue, tmp_path: Path) -> None:
    queue, path = new_queue(), tmp_path / "files"
    made = (
        "cast(null AS string) a, array('x', null) b, map('k', cast(null AS string)) c, '\u00e9' d"
    )
    queue.spark.sql(f"SELECT {made}").write.parquet(str(path))

    assert loaded(queue, path, "parquet") == ['{"b":["x",null],"c":{"k":null},"d":"\u00e9"}']


def test_lines_of_json_are_sent_as_they_are(new_queue: NewQueue, tmp_path: Path) -> None:
    queue = new_queue()
    path = tmp_path / "rows.jsonl"
    lines = [
        '{"a": 1.10, "b": 12345678901234567890123, "c": 1e400, "d": null}',
        '{"a": 0.1000000000000000055, "more": {"x": [1.0, -0]}}',
    ]
    path.write_text("\n\n".join(lines) + "\n")

    assert loaded(queue, path, "jsonl") == sorted(lines)


def test_a_field_of_json_is_the_text_that_stands_there(new_queue: NewQueue, tmp_path: Path) -> None:
    queue = new_queue()
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '{"id": 1.10, "body": "text", "key": "k"}\n'
        '{"id": 12345678901234567890, "body": {"x": [1.0, true, null]}, "key": "k"}\n'
        '{"id": true, "body": "", "key": null}\n'
    )

    bodies = loaded(queue, path, "jsonl", "body", message_id="id", partition_key="key")

    found = {row.message_id: row.partition_key for row in queue.read().collect()}
    assert bodies == sorted(["text", '{"x": [1.0, true, null]}', ""])
    assert found == {"1.10": "k", "12345678901234567890": "k", "true": None}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b'{"a": "caf\xe9"}', "is not UTF-8 text"),
        (b'{"a": 3}}', "is malformed: it must be a JSON object"),
        (b'{"a": NaN}', "NaN is no JSON"),
        (b"[1]", "is malformed: it must be a JSON object"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "it is nested too deep"),
    ],
)
def test_a_line_that_is_no_object_becomes_no_message(
    new_queue: NewQueue, tmp_path: Path, line: bytes, says: str
) -> None:
    queue = new_queue()
    path = tmp_path / "rows.jsonl"
    path.write_bytes(line + b"\n")

    with pytest.raises(Exception, match="a line of") as failed:
        loaded(queue, path, "jsonl")

    assert says in sentence_of(failed.value)
    assert queue.active() == 0


@pytest.mark.parametrize("line", ['{"a": "x\\ud83d"}', '{"a": ["\\udc00"]}'])
def test_half_a_pair_of_surrogates_is_no_text(
    new_queue: NewQueue, tmp_path: Path, line: str
) -> None:
    queue = new_queue()
    path = tmp_path / "rows.jsonl"
    path.write_text(line)

    with pytest.raises(Exception, match="a line of") as failed:
        loaded(queue, path, "jsonl", "a")

    assert "is half of a pair of surrogates" in sentence_of(failed.value)
    assert loaded(queue, path, "jsonl") == [line]
