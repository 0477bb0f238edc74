"""Atom documents as administration clients of Service Bus read and write them.

    <entry>  id, title, published, updated, author, link, content ── one …Description
    <feed>   title, id, updated, link self, link next, entries
    <Error>  Code, Detail

Written from templates with escaping; read with entities and DTDs refused. Source: the documents of
the service, and what the clients of the official SDKs for Python, JavaScript, Java and Go expect.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from xml.etree.ElementTree import Element, ParseError, TreeBuilder
from xml.sax import saxutils

import defusedxml
from defusedxml import ElementTree

from bendybus.domain import bounds, limits
from bendybus.domain.errors import InvalidArgument

ATOM: Final = "http://www.w3.org/2005/Atom"
SERVICE_BUS: Final = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
COUNTS: Final = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
INSTANCE: Final = "http://www.w3.org/2001/XMLSchema-instance"
SCHEMA: Final = "http://www.w3.org/2001/XMLSchema"
SERIALIZATION: Final = "http://schemas.microsoft.com/2003/10/Serialization/"
ENTRY_TYPE: Final = "application/atom+xml;type=entry;charset=utf-8"
FEED_TYPE: Final = "application/atom+xml;type=feed;charset=utf-8"
ERROR_TYPE: Final = "application/xml;charset=utf-8"
# The Go SDK knows by this title that there is no such entity.
NOTHING: Final = "Publicly Listed Services"
NESTING_MAX: Final = 32
# The largest rule has less than 600. Comments and processing instructions count as elements.
ELEMENTS_MAX: Final = 4_000
# Of all elements together; the largest rule has less than 400.
ATTRIBUTES_MAX: Final = 4_000
# Of the names of all elements and attributes, each with its namespace: the parser repeats that for
# every name, and it may be as long as a tag. Those of the largest rule have less than 60,000.
NAME_CHARS_MAX: Final = 1_000_000
# Of a tag or a comment, which the parser keeps until it is complete; those of clients have 300.
_TAG_BYTES_MAX: Final = 8 * limits.KB
_NEVER: Final = "0001-01-01T00:00:00Z"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# The first ms of the year 1.
TIME_MS_MIN: Final = -62_135_596_800_000
# Characters that XML 1.0 cannot express.
_INVALID: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


# Writing


def text(value: str) -> str:
    """Return a text, escaped for the content of an element."""
    # A carriage return as it is would be read as a line feed.
    return saxutils.escape(_INVALID.sub("\ufffd", value), {"\r": "&#13;"})


def element(name: str, content: str, attributes: str = "") -> str:
    """Return an element; its content is XML already."""
    return f"<{name}{attributes}>{content}</{name}>"


def attribute(value: str) -> str:
    """Return the value of an attribute, quoted."""
    return saxutils.quoteattr(_INVALID.sub("\ufffd", value))


def moment(ms: int) -> str:
    """Return the text of a time in milliseconds since 1970; 0 stands for never."""
    return written_moment(ms) if ms else _NEVER


def written_moment(ms: int) -> str:
    """Return the text of a time in milliseconds since 1970, where 0 is the beginning of 1970.

    A time before the year 1, or after 9999, becomes the nearest one that XML can express.
    """
    ms = min(max(ms, TIME_MS_MIN), bounds.TIME_MS_MAX)
    made = (_EPOCH + timedelta(milliseconds=ms)).replace(tzinfo=None)
    return f"{made.isoformat(timespec='milliseconds')}Z"


def description(name: str, content: str) -> str:
    """Return the description of an entity: what an entry is about."""
    namespaces = f' xmlns="{SERVICE_BUS}" xmlns:i="{INSTANCE}"'
    return element(name, content, namespaces)


def entry(
    url: str, title: str, described: str, *, author: str, created_ms: int, updated_ms: int
) -> str:
    """Return an entry."""
    return element(
        "entry",
        f"<id>{text(url)}</id>"
        f'<title type="text">{text(title)}</title>'
        f"<published>{moment(created_ms)}</published>"
        f"<updated>{moment(updated_ms)}</updated>"
        f"<author><name>{text(author)}</name></author>"
        f'<link rel="self" href={attribute(url)}/>'
        f'<content type="application/xml">{described}</content>',
        f' xmlns="{ATOM}"',
    )


def feed(url: str, title: str, entries: Iterable[str], *, now_ms: int, next_url: str = "") -> str:
    """Return a feed. `next_url`: the URL of the next page; "": this is the last one."""
    following = f'<link rel="next" href={attribute(next_url)}/>' if next_url else ""
    return element(
        "feed",
        f'<title type="text">{text(title)}</title>'
        f"<id>{text(url)}</id>"
        f"<updated>{moment(now_ms)}</updated>"
        f'<link rel="self" href={attribute(url)}/>'
        f"{following}{''.join(entries)}",
        f' xmlns="{ATOM}"',
    )


def error(status: int, sub_code: int, sentence: str) -> str:
    """Return the document of an error."""
    detail = f"SubCode={sub_code}. {sentence}"
    return f"<Error><Code>{status}</Code><Detail>{text(detail)}</Detail></Error>"


# Reading


def described(document: bytes) -> Element:
    """Return the description in an entry. Raises InvalidArgument."""
    try:
        parser = ElementTree.DefusedXMLParser(target=_Builder(), forbid_dtd=True)
        for start in range(0, len(document), _TAG_BYTES_MAX):
            read = start + len(piece := document[start : start + _TAG_BYTES_MAX])
            parser.feed(piece)
            # Before the parser has made a dictionary of all its attributes.
            if read - parser.parser.CurrentByteIndex >= _TAG_BYTES_MAX:
                raise InvalidArgument(
                    "body", f"must have no tag or comment of {_TAG_BYTES_MAX} bytes or more."
                )
        root: Element = parser.close()
    except (ParseError, ValueError, LookupError, defusedxml.DefusedXmlException) as error:
        # Not the parser's own words: of a DTD they quote the caller's.
        why = "a DTD or an entity is not allowed"
        if isinstance(error, ParseError):
            why = f"line {error.position[0]}, column {error.position[1]}"
        raise InvalidArgument("body", f"must be well-formed XML ({why}).") from None
    _check_nesting(root)
    content = root if local(root) == "content" else _first(root, "content")
    found = next(iter(content), None) if content is not None else None
    if found is None:
        raise InvalidArgument(
            "body", "must be an Atom entry whose content is the description of an entity."
        )
    return found


class _Builder(TreeBuilder):
    """Builds a document of few elements and attributes: they are what parsing takes time for."""

    def __init__(self) -> None:
        super().__init__()
        self._elements = 0
        self._attributes = 0
        self._name_chars = 0

    def start(self, tag: Any, attrs: Any, /) -> Any:
        """Begin an element. Raises InvalidArgument."""
        self._count_element()
        self._attributes += len(attrs)
        if self._attributes > ATTRIBUTES_MAX:
            raise InvalidArgument("body", f"must have at most {ATTRIBUTES_MAX} attributes.")
        self._name_chars += len(tag) + sum(map(len, attrs))
        if self._name_chars > NAME_CHARS_MAX:
            raise InvalidArgument(
                "body", f"must have at most {NAME_CHARS_MAX} characters in names with namespaces."
            )
        return super().start(tag, attrs)

    def comment(self, _: str | None, /) -> Any:
        """Skip a comment. Raises InvalidArgument."""
        self._count_element()

    def pi(self, target: str, text: str | None = None, /) -> Any:
        """Skip a processing instruction. Raises InvalidArgument."""
        self._count_element()

    def _count_element(self) -> None:
        self._elements += 1
        if self._elements > ELEMENTS_MAX:
            raise InvalidArgument("body", f"must have at most {ELEMENTS_MAX} elements.")


def _check_nesting(root: Element) -> None:
    level: list[Element] = [root]
    for _ in range(NESTING_MAX):
        level = [child for each in level for child in each]
        if not level:
            return
    raise InvalidArgument("body", f"elements may be nested {NESTING_MAX} deep at most.")


def _first(parent: Element, name: str) -> Element | None:
    return next((each for each in parent if local(each) == name), None)


def local(found: Element) -> str:
    """Return the name of an element without its namespace."""
    return found.tag.rpartition("}")[2]


def text_of(found: Element) -> str:
    """Return the text of an element, without white space around it."""
    return (found.text or "").strip()


def children(parent: Element) -> Iterator[tuple[str, Element]]:
    """Yield the name of each child, and the child. Raises InvalidArgument for a second one."""
    seen: set[str] = set()
    for each in parent:
        name = local(each)
        if name in seen:
            raise InvalidArgument(name, "must be there once.")
        seen.add(name)
        yield name, each


def child_map(parent: Element) -> Mapping[str, Element]:
    """Return the children of an element by name. Raises InvalidArgument as `children` does."""
    return dict(children(parent))


def is_nil(found: Element) -> bool:
    """Whether an element says in `xsi:nil` that it has no value."""
    return found.get(f"{{{INSTANCE}}}nil", "").strip() in ("true", "1")


def type_of(found: Element) -> str:
    """Return the type that an element names in `xsi:type`, without its prefix; "": none."""
    return found.get(f"{{{INSTANCE}}}type", "").rpartition(":")[2]
