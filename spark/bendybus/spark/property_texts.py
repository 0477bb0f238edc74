"""Application properties as text, which is what Spark's map of properties holds."""

from collections.abc import Callable
from typing import Any, Final

from bendybus.v1 import message_pb2
from bendybus.wire import value_texts


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


_TEXTS: Final[dict[str, Callable[[Any], str]]] = {
    "bool_value": lambda value: "true" if value else "false",
    "char_value": value_texts.of_character,
    "timestamp_ms_value": value_texts.of_moment,
    "uuid_value": value_texts.of_uuid,
    "binary_value": lambda value: value.hex(),
    "encoded_value": lambda value: value.hex(),
}
