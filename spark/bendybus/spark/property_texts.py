"""Application properties as text, which is what Spark's map of properties holds."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bendybus.v1 import message_pb2

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def text_of(value: message_pb2.Value) -> str | None:
    """Return a property as text; None for null."""
    kind = value.WhichOneof("kind")
    if kind is None or kind == "null_value":
        return None
    found = getattr(value, kind)
    if type(found) is str:
        return found
    read = _TEXTS.get(kind)
    return str(found) if read is None else read(found)


def _time(ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat().replace("+00:00", "Z")


_TEXTS: Final[dict[str, Callable[[Any], str]]] = {
    "bool_value": lambda value: "true" if value else "false",
    "char_value": chr,
    "timestamp_ms_value": _time,
    "uuid_value": lambda value: str(uuid.UUID(bytes=value)),
    "binary_value": lambda value: value.hex(),
    "encoded_value": lambda value: value.hex(),
}
