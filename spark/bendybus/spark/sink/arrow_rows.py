"""Record batches of Spark become rows: values by column, times in milliseconds since 1970."""

from collections.abc import Iterable, Iterator
from typing import Any

from bendybus.spark import columns
from bendybus.spark.errors import RowError

_SHOWN_BYTES = 20


def of(batches: Iterable[Any], task: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of record batches. Raises RowError for text that is not UTF-8.

    A body is bytes, whatever its column is: text of a file that Spark has read may be any bytes.
    """
    before = 0
    for batch in batches:
        names, values = [], []
        for column, found in zip(batch.schema.names, batch.columns, strict=True):
            name = column.lower()
            if name in columns.WRITTEN:
                names.append(name)
                try:
                    values.append(_values(name, found))
                except UnicodeDecodeError:
                    raise _not_text(column, found, task, before) from None
        for row in zip(*values, strict=True):
            yield dict(zip(names, row, strict=True))
        before += batch.num_rows


def _values(name: str, column: Any) -> list[Any]:
    import pyarrow as pa

    if name == columns.BODY and not pa.types.is_binary(column.type):
        large = pa.types.is_large_string(column.type)
        column = column.cast(pa.large_binary() if large else pa.binary())
    if name == "scheduled_enqueue_time":
        micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
        return [None if each is None else each // 1_000 for each in micros]
    found: list[Any] = column.to_pylist()
    return found


def _not_text(name: str, column: Any, task: int, before: int) -> RowError:
    """Return the error that names the first row that has no text in a column."""
    for number, value in enumerate(column, before + 1):
        try:
            value.as_py()
        except UnicodeDecodeError as error:
            shown = bytes(error.object[:_SHOWN_BYTES])
            return RowError(
                f"row {number} of task {task}: column {name}: must be UTF-8 text (got {shown!r}, "
                f"invalid at byte {error.start + 1}); decode it, for example with "
                "decode(cast(COLUMN as binary), 'ISO-8859-1'), or put it into body as it is"
            )
    raise AssertionError("a value is no text")
