"""Arrow batches of pages, exactly of the schema that Spark expects."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from bendybus.spark.columns import BODY
from bendybus.spark.errors import PipelineError
from bendybus.spark.source.decoding import Columns


def batch(page: Columns, schema: Any, session_id: str | None = None) -> Any:
    """Return the record batch of a page; only what is of the session, if one is given."""
    made = pa.RecordBatch.from_arrays([_array(page, field) for field in schema], schema=schema)
    if session_id is None:
        return made
    return made.filter(pa.array([session == session_id for session in page.sessions()]))


def _array(page: Columns, field: Any) -> Any:
    constant = page.constant(field.name)
    if constant is not None:
        return pa.repeat(pa.scalar(constant, field.type), page.count)
    if page.is_null(field.name):
        return pa.nulls(page.count, field.type)
    values = page.column(field.name)
    if field.name == BODY and pa.types.is_string(field.type):
        return _texts(page, values, field.type)
    return pa.array(values, field.type)


def _texts(page: Columns, values: Sequence[bytes | None], type_: Any) -> Any:
    try:
        return pa.array(values, pa.binary()).cast(type_)
    except pa.ArrowInvalid:
        numbers = page.column("sequence_number")
        for number, value in zip(numbers, values, strict=True):
            try:
                (value or b"").decode()
            except UnicodeDecodeError:
                raise PipelineError(
                    f"the body of message {number} is not UTF-8 text; read it with body=binary"
                ) from None
        raise
