"""The rows of Arrow batches as dictionaries of the columns that messages have."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from bendybus.spark import columns
from bendybus.spark.errors import OptionError

_TYPES: Final = {
    "body": ("binary", "string"),
    "head": ("binary",),
    "properties": ("map<string,string>",),
    "time_to_live_ms": ("bigint", "int"),
    "scheduled_enqueue_time": ("timestamp",),
}
_TEXT: Final = ("string",)


def check(schema: Any, *, to_one_entity: bool) -> None:
    """Raise OptionError for a schema that rows to write cannot have."""
    names = [field.name.lower() for field in schema.fields]
    for field in schema.fields:
        name, type_ = field.name.lower(), field.dataType.simpleString()
        if name in columns.PASSED_OVER:
            continue
        if name not in columns.WRITTEN:
            raise OptionError(
                f"column {field.name}: is unknown to the bus; allowed are "
                f"{', '.join(columns.WRITTEN)}. Select these, or put values into body, for "
                "example with to_json"
            )
        allowed = _TYPES.get(name, _TEXT)
        if type_ not in allowed:
            raise OptionError(
                f"column {field.name}: must be {' or '.join(allowed)} (got {type_}); cast it"
            )
    if "body" not in names:
        raise OptionError("column body: is required; it is what a message carries")
    if not to_one_entity and not {"topic", "entity"} & set(names):
        raise OptionError(
            "option queue: is required; or topic, or a column topic that names the entity of "
            "each row"
        )
    if {"topic", "entity"} <= set(names) and not to_one_entity:
        raise OptionError("column topic: contradicts the column entity; keep one of them")


def of_batches(batches: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of record batches; times become milliseconds since 1970."""
    for batch in batches:
        names, values = [], []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name.lower() in columns.WRITTEN:
                names.append(name.lower())
                values.append(_values(name.lower(), column))
        for row in zip(*values, strict=True):
            yield dict(zip(names, row, strict=True))


def _values(name: str, column: Any) -> list[Any]:
    if name != "scheduled_enqueue_time":
        found: list[Any] = column.to_pylist()
        return found
    import pyarrow as pa

    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
    return [None if each is None else each // 1_000 for each in micros]
