"""CSV files and lines of JSON that are loaded: their values are those that stand there.

Spark's readers change some: an empty cell becomes null and a field of none, CR LF within quotes LF,
bytes that are not UTF-8 U+FFFD, a number what fits into its column (1.10, 1e400).
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import unquote

from bendybus.spark.errors import OptionError, RowError

_SHOWN: Final = 60
# A quoted value of CSV, with what is before it; without its last quote if it goes on.
_QUOTED: Final = re.compile(r'(^\ufeff?|[,\r\n])"(?:[^"]|"")*("|$)')
_HEADER_LINES: Final = 100
_PATTERNS: Final = re.compile(r"[\\*?\[\]{}]")
_NOT_UTF_8: Final = "is not UTF-8 text; convert it, for example with iconv --to-code UTF-8"


def csv_frames(spark: Any, given: str) -> list[Any]:
    """Return frames of the rows of CSV files. Raises OptionError for bytes that are not UTF-8.

    RFC 4180: a quote within quotes is doubled, and a quoted value may have line breaks. Spark's
    defaults are a backslash, and lines. One task reads a file. Files whose lines end alike, and
    whose columns are the same, have a frame together: Spark takes the names of one of its files.
    """
    files: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for file, first, text in _files(spark, given):
        if not text:
            raise OptionError(f"--in: {file} {_NOT_UTF_8}")
        files.setdefault(_header(_head(spark, file, first)), []).append(_literally(file))
    if len(files) > 1:
        return [_csv(spark, paths, end) for (end, _), paths in sorted(files.items())]
    return [_csv(spark, given, next((end for end, _ in files), "\n"))]


def cell(name: str) -> str:
    """Return the expression of a quoted column: an empty cell is a text, since CSV has no null."""
    return f"coalesce({name}, '')"


def refused_unless_text(schema: Any, made: str, given: str) -> str:
    """Return an expression that fails for text in columns that is not UTF-8; else it is `made`.

    Spark would put U+FFFD into it.
    """
    whens = []
    for field in schema.fields:
        valid = _is_text(f"`{field.name.replace('`', '``')}`", field.dataType)
        if valid:
            why = (
                f"--in: column {field.name} of {given} has text that {_NOT_UTF_8.partition(';')[0]}"
                "; send it as it is with --body-column, or convert it"
            )
            data = "".join(f"{byte:02x}" for byte in why.encode())
            whens.append(f"WHEN NOT ({valid}) THEN raise_error(cast(X'{data}' AS string))")
    return f"CASE {' '.join(whens)} ELSE {made} END" if whens else made


def _is_text(value: str, type_: Any, depth: int = 0) -> str:
    """Return the condition for all text in a value being UTF-8; empty for a type without text."""
    from pyspark.sql import types

    item = f"each{depth}"
    if isinstance(type_, types.StringType):
        return f"coalesce(is_valid_utf8({value}), true)"
    if isinstance(type_, types.ArrayType):
        found = _is_text(item, type_.elementType, depth + 1)
        return found and f"coalesce(forall({value}, {item} -> {found}), true)"
    if isinstance(type_, types.MapType):
        keys = _is_text(f"map_keys({value})", types.ArrayType(type_.keyType), depth)
        values = _is_text(f"map_values({value})", types.ArrayType(type_.valueType), depth)
        return " AND ".join(each for each in (keys, values) if each)
    if isinstance(type_, types.StructType):
        parts = (
            _is_text(f"{value}.`{field.name.replace('`', '``')}`", field.dataType, depth)
            for field in type_.fields
        )
        return " AND ".join(each for each in parts if each)
    return ""


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


def _head(spark: Any, file: str, first: str) -> str:
    """Return the lines of a file that its header is in: a quoted name may have line breaks."""
    if _is_whole(first):
        return first
    lines = spark.read.option("lineSep", "\n").text(_literally(file)).take(_HEADER_LINES)
    head = first
    for row in lines[1:]:
        head = f"{head}\n{row.value}"
        if _is_whole(head):
            return head
    return first


def _is_whole(head: str) -> bool:
    """Whether all quotes of a header are closed."""
    return not any(each[2] == "" for each in _QUOTED.finditer(head))


def _header(head: str) -> tuple[str, tuple[str, ...]]:
    """Return the line break of a file, and its columns; `head`: up to LF or its end."""
    plain = _QUOTED.sub(lambda each: each[1], head)
    if plain.endswith("\r") and "\r" not in plain[:-1]:
        end = "\r\n"
    else:
        end = "\r" if "\r" in plain else "\n"
    try:
        names = next(csv.reader(io.StringIO(head.removeprefix("\ufeff"), newline="")), [])
    except csv.Error:
        # The csv module refuses values above 128 KB, and Spark reads them.
        names = [head]
    return end, tuple(names)


def _literally(path: str) -> str:
    """Return a path for Spark, which takes it for a pattern."""
    return _PATTERNS.sub(r"\\\g<0>", path)


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
        if not isinstance(found, dict):
            raise ValueError("it is another value")
        texts = {name: _text(found.get(field)) for name, field in named.items()}
        for text in texts.values():
            if text is not None:
                text.encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise RowError(
            f"--in: a line of {given} has {half} in a field that is no text, since it is half of a "
            f"pair of surrogates; mend the line, or send all of it, without --body-column and the "
            f"like (got {line[:_SHOWN]!r})"
        ) from None
    except (ValueError, RecursionError) as error:
        why = "it is nested too deep" if isinstance(error, RecursionError) else error
        raise RowError(
            f"--in: a line of {given} is malformed: it must be a JSON object ({why}) "
            f"(got {line[:_SHOWN]!r})"
        ) from None
    return {"body": line, **texts}


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
