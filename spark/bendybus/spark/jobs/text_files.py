"""CSV files and lines of JSON that are loaded: their values are those that stand there.

Spark's readers change some: rows of CSV end as its header does, an empty cell becomes null, and
names that differ in case only get numbers; of JSON, a number becomes what fits into its column
(1.10, 1e400). So Spark only finds the lines.
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from bendybus.spark import errors
from bendybus.spark.errors import OptionError, PipelineError, RowError
from bendybus.spark.jobs import csv_rows

# Tasks at most that read CSV files, each of them one file after the other.
CSV_TASKS: Final = 64
# A task hands rows to Spark in batches of this size.
_BATCH_ROWS: Final = 1_000
_BATCH_BYTES: Final = 8_000_000
_LINE: Final = "__line"
_SHOWN: Final = 60
_NOT_UTF_8: Final = "is not UTF-8 text; convert it, for example with iconv --to-code UTF-8"


def lines(spark: Any, given: str, form: str, *, recursive: bool = False) -> Any:
    """Return a frame of the lines of files, and of what their folders name: the other columns.

    `recursive`: of folders in folders, whose names are no columns. Raises OptionError if there are
    no files, or some that Spark would pass over.
    """
    reader = spark.read.schema(f"{_LINE} string").option("lineSep", "\n")
    found = reader.option("recursiveFileLookup", str(recursive).lower()).text(given)
    paths = found.inputFiles()
    if not recursive:
        deep = reader.option("recursiveFileLookup", "true").text(given).inputFiles()
        for path in sorted({*deep} - {*paths}):
            raise OptionError(
                f"--in: {unquote(path)} is in a folder of its own, which is not read; load that "
                "folder by itself, or name folders as columns, such as day=1"
            )
    if not paths:
        raise OptionError(no_files(given, form))
    return found


def no_files(given: str, form: str) -> str:
    """Return the sentence for there being no files that Spark reads."""
    name = given.rstrip("/").rpartition("/")[2]
    if name.startswith(("_", ".")):
        return (
            f"--in: {given} is not read, since its name begins with {name[0]}, as those of "
            "Spark's own files do; give it another name"
        )
    return (
        f"--in: no files of --format {form} there, other than those whose names begin with _ or "
        f". (got {given!r})"
    )


def folders_of(frame: Any) -> list[str]:
    """Return the columns that folders name; `frame`: of lines."""
    return [name for name in frame.columns if name != _LINE]


@dataclass(frozen=True, slots=True)
class CsvFiles:
    """Files that were looked through. `columns` are those of each file, and of its folders."""

    spark: Any
    given: str
    columns: Mapping[str, Sequence[str]]
    folders: Sequence[str]


def csv_files(spark: Any, given: str) -> CsvFiles:
    """Look through CSV files, all of them. Raises OptionError for what cannot be read."""
    frame = lines(spark, given, "csv")
    folders = folders_of(frame)
    count = len(frame.inputFiles())

    def look(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        types = {"file": pa.string(), "names": pa.list_(pa.string()), "fault": pa.string()}
        kept = pa.schema(list(types.items()))
        for path, _, read in _by_file(batches, folders):
            names: list[str] = []
            fault = None
            try:
                names = next(read, [])
                for _ in read:
                    pass
            except PipelineError as error:
                fault = str(error)
            row = {"file": path, "names": names, "fault": fault}
            yield pa.RecordBatch.from_pylist([row], kept)

    schema = "file string, names array<string>, fault string"
    found = _in_file_order(frame, count).mapInArrow(look, schema).collect()
    found.sort(key=lambda row: row.file)
    for row in found:
        if row.fault:
            raise OptionError(row.fault)
    columns = {row.file: [*row.names, *folders] for row in found if row.names}
    return CsvFiles(spark, given, columns, folders)


def csv_messages(files: CsvFiles, named: Mapping[str, str], places: Sequence[str]) -> Any:
    """Return a frame of messages from CSV files that were looked through, in their order.

    `named`: column of a message → column of the files; without `body`, the row as a JSON object is
    the body. `places`: names of columns for the file, where it is in the file, and the row.
    """
    frame, folders = lines(files.spark, files.given, "csv"), list(files.folders)
    made = {name: column for name, column in named.items() if column}
    others = [name for name in made if name != "body"]
    schema = ", ".join(["`body` string", *(f"`{name}` string" for name in others)])
    if places:
        path, at, row = places
        schema += f", `{path}` string, `{at}` long, `{row}` long"

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        with errors.shown():
            yield from _batches(_messages(batches, folders, made), ["body", *others], places)

    return _in_file_order(frame, len(frame.inputFiles())).mapInArrow(read, schema)


def _in_file_order(frame: Any, count: int) -> Any:
    """Return lines so that those of a file are in one task, in their order."""
    return (
        frame.selectExpr(
            f"cast({_LINE} AS binary) AS line",
            "_metadata.file_path AS file",
            "_metadata.file_block_start AS at",
            "monotonically_increasing_id() AS id",
            *(
                f"`{name.replace('`', '``')}` AS folder{n}"
                for n, name in enumerate(folders_of(frame))
            ),
        )
        .repartition(min(CSV_TASKS, max(1, count)), "file")
        .sortWithinPartitions("file", "at", "id")
    )


def _by_file(
    batches: Iterator[Any], folders: Sequence[str]
) -> Iterator[tuple[str, list[str | None], Iterator[list[str]]]]:
    """Yield (path, what its folders say, header and rows) of each file."""
    rows = (
        row
        for batch in batches
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )
    for (path, *values), found in itertools.groupby(rows, key=lambda row: (row[1], *row[4:])):
        # As a URI, in which blanks are escaped.
        shown = unquote(path)
        yield shown, values, csv_rows.table(_decoded(found, shown), shown, folders)


def _decoded(rows: Iterator[Any], path: str) -> Iterator[str]:
    for number, row in enumerate(rows, 1):
        try:
            yield row[0].decode()
        except UnicodeDecodeError:
            raise OptionError(f"--in: {path} {_NOT_UTF_8} (line {number})") from None


def _messages(
    batches: Iterator[Any], folders: Sequence[str], made: Mapping[str, str]
) -> Iterator[tuple[str, list[str | None]]]:
    """Yield (path, columns) of the message of each row, the body first."""
    for path, values, rows in _by_file(batches, folders):
        names = next(rows, [])
        for row in rows:
            found = dict(zip([*names, *folders], [*row, *values], strict=True))
            body = found[made["body"]] if "body" in made else _object_of(found)
            yield path, [body, *(found[column] for name, column in made.items() if name != "body")]


def _object_of(row: Mapping[str, str | None]) -> str:
    """Return a row as a JSON object, as Spark makes one: without what is null."""
    fields = {name: value for name, value in row.items() if value is not None}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def _batches(
    messages: Iterator[tuple[str, list[str | None]]], names: Sequence[str], places: Sequence[str]
) -> Iterator[Any]:
    """Yield record batches of messages. `places`: as `csv_messages` has them."""
    import pyarrow as pa

    waiting: list[tuple[str | int | None, ...]] = []
    size = 0

    def batch() -> Any:
        columns = list(zip(*waiting, strict=True))
        types = [pa.string()] * len(names) + [pa.string(), pa.int64(), pa.int64()][: len(places)]
        arrays = [pa.array(each, type_) for each, type_ in zip(columns, types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, [*names, *places])

    for number, (path, columns) in enumerate(messages):
        waiting.append((*columns, path, 0, number) if places else tuple(columns))
        size += len(columns[0] or "")
        if len(waiting) >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield batch()
            waiting.clear()
            size = 0
    if waiting:
        yield batch()


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
    found = _json_lines(spark, given).selectExpr(fields).distinct().collect()
    return sorted(row.field for row in found)


def json_folders(spark: Any, given: str) -> list[str]:
    """Return the columns that folders name. Raises PipelineError if there are no files."""
    folders = folders_of(lines(spark, given, "jsonl"))
    if folders:
        csv_rows.check_folders(json_columns(spark, given), given, folders)
    return folders


def _json_lines(spark: Any, given: str, *more: str) -> Any:
    found = spark.read.schema(f"{_LINE} string").text(given)
    return found.selectExpr(f"{_LINE} AS value", *more)


def json_rows(
    spark: Any, given: str, named: dict[str, str], places: Sequence[str], folders: Sequence[str]
) -> Any:
    """Return a frame of messages from lines of JSON, each of them an object.

    `named`: column of a message → field; without `body`, the whole line is the body. `places`:
    expressions for columns that are kept beside. `folders`: columns that folders name.
    """
    beside = [
        f"`{name.replace('`', '``')}` AS __folder{number}" for number, name in enumerate(folders)
    ]
    found = _json_lines(spark, given, *beside, *places).where("trim(value) <> ''")
    first = 1 + len(folders)
    kept = found.columns[first:]
    made = {name: field for name, field in named.items() if field}
    types = dict(found.dtypes)
    names = ["body", *(name for name in made if name != "body")]
    schema = ", ".join(
        [*(f"`{name}` string" for name in names), *(f"`{name}` {types[name]}" for name in kept)]
    )

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            texts = _texts(batch.column(0), given)
            values = [column.to_pylist() for column in batch.columns[1:first]]
            with errors.shown():
                rows = [
                    _row(line, made, given, dict(zip(folders, more, strict=True)))
                    for line, *more in zip(texts, *values, strict=True)
                ]
            columns = [pa.array([row[name] for row in rows], pa.string()) for name in names]
            yield pa.RecordBatch.from_arrays([*columns, *batch.columns[first:]], [*names, *kept])

    return found.mapInArrow(read, schema)


def _texts(column: Any, given: str) -> Iterator[str]:
    import pyarrow as pa

    for data in column.cast(pa.binary()).to_pylist():
        try:
            yield data.decode()
        except UnicodeDecodeError:
            raise OptionError(f"--in: a line of {given} {_NOT_UTF_8} ({data[:_SHOWN]!r})") from None


class _Number(str):
    """A number of JSON, as it is written."""


class _Twice(dict[str, Any]):
    """An object of JSON that has fields twice: `names`."""

    names: Sequence[str] = ()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    twice = _Twice(found)
    names = [name for name, _ in pairs]
    twice.names = [name for name in found if names.count(name) > 1]
    return twice


def _refuse_twice(found: dict[str, Any], used: Sequence[str]) -> None:
    if isinstance(found, _Twice):
        for name in found.names:
            if name in used:
                raise ValueError(f"it has the field {name!r} twice")


def _row(
    line: str, named: dict[str, str], given: str, folders: Mapping[str, str | None]
) -> dict[str, str | None]:
    """Return the columns of the message of a line. Raises RowError."""
    try:
        found = json.loads(
            line.removeprefix("\ufeff"),
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_refuse,
            object_pairs_hook=_object,
        )
        if not isinstance(found, dict):
            raise ValueError("it is another value")
        _refuse_twice(found, list(named.values()))
        body = _with(line, folders, bool(found)) if folders else line
        found |= folders
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
    return {"body": body, **texts}


def _with(line: str, folders: Mapping[str, str | None], more: bool) -> str:
    """Return an object of JSON with more fields; the others are as they stand."""
    fields = _object_of(folders)
    if fields == "{}":
        return line
    return f"{line.rstrip()[:-1].rstrip()}{',' if more else ''}{fields[1:]}"


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
        _refuse_twice(value, list(value))
        entries = (f"{json.dumps(name)}: {_json(each)}" for name, each in value.items())
        return f"{{{', '.join(entries)}}}"
    return json.dumps(value, ensure_ascii=False)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
