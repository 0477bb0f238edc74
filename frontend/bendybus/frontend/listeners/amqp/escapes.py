"""What `Message.amqp_escapes` holds: by name, what other fields of a message cannot express.

    durable, first-acquirer             fields of the header, where set
    message-id, to, content-type, …     a property that is empty, or not of its usual type; a field
                                        or column has its text, for filters and other clients
    delivery-annotations                those of the sender
    partition-key                       an empty one, which counts as none
    annotations, footer,                entries whose keys are not text, or have the same text as
    application-properties              another key
    annotation-strings, footer-strings  names of entries whose keys are strings, not symbols
    application-property-symbols        names of entries whose keys are symbols, not strings

Where a text and its escape differ, a rule or another client has changed the text, and it wins.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from bendybus.amqp import decoding, encoding
from bendybus.amqp.errors import DecodeError
from bendybus.amqp.sections import Map
from bendybus.amqp.values import Pairs, Symbol

DURABLE: Final = "durable"
FIRST_ACQUIRER: Final = "first-acquirer"
PARTITION_KEY: Final = "partition-key"
DELIVERY_ANNOTATIONS: Final = "delivery-annotations"


class Section(NamedTuple):
    """How a section that is a map is escaped."""

    # Entries whose keys are not text, or not unique as text.
    entries: str
    # Names of the entries whose keys are of the other type: a string for a symbol, and vice versa.
    names: str
    # The usual type of a key.
    kind: type[str]


ANNOTATIONS: Final = Section("annotations", "annotation-strings", Symbol)
PROPERTIES: Final = Section("application-properties", "application-property-symbols", str)
FOOTER: Final = Section("footer", "footer-strings", Symbol)


def encode(escapes: dict[str, Any]) -> bytes:
    """Return escapes as a message holds them."""
    return encoding.encode({Symbol(name): value for name, value in escapes.items()})


def decode(encoded: bytes) -> dict[Any, Any]:
    """Return the escapes of a message; none if their encoding is invalid."""
    try:
        found = decoding.decode_whole(encoded) if encoded else None
    except DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def text_of(value: Any) -> str:
    """Return the canonical text of a property: a UUID in lower case, binary in hexadecimal.

    Binary that is printable UTF-8 counts as text: when azure-servicebus for Python sends on a
    message, its ids become binary, and must stay the same ids. Lists and maps have no text: "".
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return utf8(value) or value.hex()
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, UUID | int | float) else ""


def utf8(value: bytes) -> str:
    """Return binary as text; "" if it is not printable UTF-8."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() else ""


def original(escapes: dict[Any, Any], name: str, text: str) -> Any:
    """Return the original of a property if `text` is still its text; None: there is none."""
    value = escapes.get(name)
    return value if value is not None and text_of(value) == text else None


def pairs(entries: Map) -> Iterable[tuple[Any, Any]]:
    """Return a map, however it was decoded, as keys with values."""
    return entries.items() if isinstance(entries, dict) else entries


def names(escapes: dict[Any, Any], section: Section) -> frozenset[str]:
    """Return the names of a section whose keys are not of the usual type."""
    found = escapes.get(section.names)
    texts: Sequence[Any] = found if isinstance(found, list) else ()
    return frozenset(each for each in texts if isinstance(each, str))


def entries(escapes: dict[Any, Any], section: Section) -> Iterable[tuple[Any, Any]]:
    """Return the entries of a section that only the escapes have."""
    found = escapes.get(section.entries)
    return pairs(found) if isinstance(found, dict | Pairs) else ()
