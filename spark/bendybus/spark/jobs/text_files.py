"""CSV files and lines of JSON that are loaded: their values are those that stand there.

Spark's readers change some: an empty cell becomes null and a field of none, CR LF within quotes LF,
bytes that are not UTF-8 U+FFFD, a number what fits into its column (1.10, 1e400).
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import unquote

from bendybus.spark.errors import OptionError, RowError

_SHOWN: Final = 60
_NOT_UTF_8: Final = "is not UTF-8 text; convert it, for example with iconv --to-code UTF-8"


def csv_frames(spark: Any, given: str) -> list[Any]:
    """Return frames of the rows of CSV files. Raises OptionError for bytes that are not UTF-8.

    RFC 4180: a quote within quotes is doubled, and a quoted value may have line breaks. Spark's
    defaults are a backslash, and lines. One task reads a file. Files whose lines end alike have a
    frame together.
    """
    files: dict[str, list[str]] = {}
    for file, first, text in _files(spark, given):
        if not text:
            raise OptionError(f"--in: {file} {_NOT_UTF_8}")
        files.setdefault(_line_end(first), []).append(file)
    if len(files) > 1:
        return [_csv(spark, paths, end) for end, paths in sorted(files.items())]
    return [_csv(spark, given, next(iter(files), "\n"))]


def cell(name: str) -> str:
    """Return the expression of a quoted column: an empty cell is a text, since CSV has no null."""
    return f"coalesce({name}, '')"


def json_columns(spark: Any, given: str) -> list[str]:
    """Return the fields that some lines of JSON have, in order of their names."""
    fields = "explode(json_object_keys(value)) AS field"
    found = spark.read.text(given).selectExpr(fields).distinct().collect()
    return sorted(row.field for row in found)


def json_rows(spark: Any, given: str, named: dict[str, str], places: Sequence[str]) -> Any:
    """Return a frame of messages from lines of JSON, each of them an object.

    `named`: column of a message → field; without `body`, the whole line is the body. `places`:
    expressions for columns that are kept beside.
    """
    lines = spark.read.text(given).selectExpr("value", *places).where("trim(value) <> ''")
    kept = [name for name in lines.columns if name != "value"]
    made = {name: field for name, field in named.items() if field}
    types = dict(lines.dtypes)
    schema = ", ".join(
        [
            "`body` string",
            *(f"`{name}` string" for name in made if name != "body"),
            *(f"`{name}` {types[name]}" for name in kept),
        ]
    )

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from bendybus.spark import errors

        for batch in batches:
            with errors.shown():
                rows = [_row(line, made, given) for line in _texts(batch.column(0), given)]
            names = ["body", *(name for name in made if name != "body")]
            columns = [pa.array([row[name] for row in rows], pa.string()) for name in names]
            yield pa.RecordBatch.from_arrays([*columns, *batch.columns[1:]], [*names, *kept])

    return lines.mapInArrow(read, schema)


def _files(spark: Any, given: str) -> list[tuple[str, str, bool]]:
    """Return (path, first line, whether it is UTF-8 text) of each file."""
    from pyspark.sql import functions as sql

    lines = spark.read.option("lineSep", "\n").text(given)
    found = (
        lines.selectExpr(
            "value",
            "_metadata.file_path AS file",
            "struct(_metadata.file_block_start, monotonically_increasing_id()) AS place",
        )
        .groupBy("file")
        .agg(
            sql.expr("min_by(value, place) AS first"),
            sql.expr("bool_and(is_valid_utf8(value)) AS text"),
        )
        .selectExpr("file", "make_valid_utf8(first) AS first", "text")
        .orderBy("file")
    )
    # As a URI, in which blanks are escaped.
    return [(unquote(row.file), row["first"], row.text) for row in found.collect()]


def _line_end(first: str) -> str:
    """Return the line break of a file; `first`: its first line, up to LF or its end."""
    if first.endswith("\r") and "\r" not in first[:-1]:
        return "\r\n"
    return "\r" if "\r" in first else "\n"


def _csv(spark: Any, given: str | list[str], line_end: str) -> Any:
    reader = spark.read.format("csv").option("mode", "FAILFAST")
    # Spark keeps other line breaks within quotes only if it is given that of the file.
    reader = reader.options(header="true", escape='"', multiLine="true", lineSep=line_end)
    return reader.load(given)


def _texts(column: Any, given: str) -> Iterator[str]:
    import pyarrow as pa

    for data in column.cast(pa.binary()).to_pylist():
        try:
            yield data.decode()
        except UnicodeDecodeError:
            raise OptionError(f"--in: a line of {given} {_NOT_UTF_8} ({data[:_SHOWN]!r})") from None


class _Number(str):
    """A number of JSON, as it is written."""


def _row(line: str, named: dict[str, str], given: str) -> dict[str, str | None]:
    """Return the columns of the message of a line. Raises RowError."""
    try:
        found = json.loads(
            line.removeprefix("\ufeff"),
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_refuse,
        )
    except ValueError as error:
        found, why = None, f" ({error})"
    else:
        why = ""
    if not isinstance(found, dict):
        raise RowError(
            f"--in: a line of {given} is malformed: it must be a JSON object{why} "
            f"(got {line[:_SHOWN]!r})"
        )
    return {"body": line, **{name: _text(found.get(field)) for name, field in named.items()}}


def _text(value: Any) -> str | None:
    """Return a value as text: a text as it is, others as JSON."""
    if value is None or isinstance(value, str):
        return value
    return _json(value)


def _json(value: Any) -> str:
    if isinstance(value, _Number):
        return value
    if isinstance(value, list):
        return f"[{', '.join(map(_json, value))}]"
    if isinstance(value, dict):
        entries = (f"{json.dumps(name)}: {_json(each)}" for name, each in value.items())
        return f"{{{', '.join(entries)}}}"
    return json.dumps(value, ensure_ascii=False)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
