"""Requests and responses of HTTP: from aiohttp, and to it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from aiohttp import web

from bendybus.domain import errors, limits
from bendybus.domain.errors import BusError, InvalidArgument
from bendybus.frontend.core.quota.bounds import (
    BODY_BYTES_MAX,
    BODY_S,
    HTTP_ROOM_S,
    REQUEST_S_PER_MB,
)
from bendybus.frontend.core.quota.quota import Quota
from bendybus.frontend.core.quota.room import Holder, Room
from bendybus.frontend.listeners.web import atom, http_statuses
from bendybus.frontend.listeners.web.http_statuses import About
from bendybus.frontend.listeners.web.resources import Resource, ResourceKind
from bendybus.frontend.security.authenticator import Caller

# A name of DNS, a colon and a port. An answer repeats the host several times for each entry.
HOST_CHARS_MAX: Final = 253 + 1 + 5
PAGE_MAX: Final = 100
SKIP_MAX: Final = 10**6
PUT: Final = "PUT"
_DIGITS_MAX: Final = 20
# Options that choose from a list, or order it. They are refused: to ignore one gives a wrong list.
_CHOOSING: Final = ("$filter", "$orderby")
# What is written of a response before the client must take some of it.
PIECE_BYTES: Final = 32 * limits.KB
_IDENTITY: Final = "identity"
_CONTINUE: Final = "100-continue"
_BEARER: Final = "bearer "
_TITLES: Final = {
    ResourceKind.QUEUES: "Queues",
    ResourceKind.TOPICS: "Topics",
    ResourceKind.SUBSCRIPTIONS: "Subscriptions",
    ResourceKind.RULES: "Rules",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as far as its operation needs it."""

    request: web.Request
    caller: Caller
    resource: Resource
    body: bytes = b""

    @property
    def url(self) -> str:
        """Its URL, with the host that the caller used."""
        # Not `request.url`, which fails for some values of the header Host.
        return f"{self.request.scheme}://{self.request.host}{self.request.rel_url}"

    def entry_url(self, *names: str) -> str:
        """Return the URL of another resource."""
        path = "/".join(quote(each, safe="/") for each in names)
        return f"{self.request.scheme}://{self.request.host}/{path}"


def is_update(request: web.Request) -> bool:
    """Whether a request updates an entity, instead of creating one."""
    return request.method == PUT and bool(request.headers.get("If-Match"))


def check_host(request: web.Request) -> None:
    """Raise InvalidArgument for a host that is longer than any is."""
    if len(request.host) > HOST_CHARS_MAX:
        raise InvalidArgument("Host", f"must be at most {HOST_CHARS_MAX} characters.")


def token_of(header: str | None) -> str:
    """Return the token of a header; some clients call a shared access signature a bearer token."""
    found = (header or "").strip()
    return found[len(_BEARER) :].strip() if found.lower().startswith(_BEARER) else found


@contextlib.contextmanager
def call(quota: Quota, holder: Holder) -> Iterator[None]:
    """Count a request as a call under way. Raises ServerBusy."""
    if not quota.calls.take(holder, 1):
        raise errors.ServerBusy("too many calls are under way; retry.", retry_after_ms=1_000)
    try:
        yield
    finally:
        quota.calls.give(holder, 1)


@contextlib.asynccontextmanager
async def room(of: Room, holder: Holder, size_bytes: int) -> AsyncIterator[None]:
    """Hold room for bytes; wait for it. Raises ServerBusy."""
    try:
        async with asyncio.timeout(HTTP_ROOM_S):
            await of.wait(holder, size_bytes)
    except TimeoutError:
        raise _full() from None
    try:
        yield
    finally:
        of.give(holder, size_bytes)


class Counted:
    """Room for bytes that come piece by piece; given back at the end of the block."""

    def __init__(self, of: Room, holder: Holder) -> None:
        self._of = of
        self._holder = holder
        self._taken = 0

    def __enter__(self) -> "Counted":
        return self

    def __exit__(self, *_: object) -> None:
        if self._taken:
            self._of.give(self._holder, self._taken)

    def take(self, size_bytes: int) -> None:
        """Take room for a piece. Raises ServerBusy.

        Together the pieces are one item: where its holder has nothing else, it may have any size.
        """
        if self._of.take(self._holder, size_bytes):
            self._taken += size_bytes
            return
        taken, self._taken = self._taken, 0
        if taken:
            self._of.give(self._holder, taken)
        if not self._of.take(self._holder, taken + size_bytes):
            raise _full()
        self._taken = taken + size_bytes


def _full() -> BusError:
    return errors.ServerBusy(
        "the memory for requests and unread responses of this connection, of this policy or of "
        "the front end is full; retry.",
        retry_after_ms=1_000,
    )


async def read_body(
    request: web.Request,
    bytes_max: int = BODY_BYTES_MAX,
    take: Callable[[int], None] = lambda size_bytes: None,
) -> bytes:
    """Return the body.

    Raises InvalidArgument, MessageSizeExceeded, ServiceTimeout, ConnectionError, and `take`'s.

    `take` is called with the size of each piece. The larger the body may be, the longer it may
    take. A client that waits to be asked for it is asked here.
    """
    if request.headers.get("Content-Encoding", _IDENTITY).lower() != _IDENTITY:
        raise InvalidArgument("Content-Encoding", "compressed bodies are not accepted.")
    size_bytes = request.content_length or 0
    if size_bytes > bytes_max:
        raise _too_large(bytes_max)
    found = bytearray()
    time_s = BODY_S + (size_bytes or bytes_max) / limits.MB * REQUEST_S_PER_MB
    try:
        async with asyncio.timeout(time_s):
            await go_on(request)
            async for data in request.content.iter_any():
                take(len(data))
                found += data
                if len(found) > bytes_max:
                    raise _too_large(bytes_max)
    except TimeoutError:
        raise errors.ServiceTimeout(f"the body was not received within {time_s:.0f} s.") from None
    except web.RequestPayloadError:
        raise InvalidArgument("body", "ended too early.") from None
    except RuntimeError as error:
        # The library's word for a read after the connection ended.
        if request.transport is not None:
            raise
        raise ConnectionResetError("the client has gone") from error
    return bytes(found)


async def go_on(request: web.Request) -> None:
    """Ask for the body, if the client waits for that (`Expect: 100-continue`)."""
    if request.headers.get("Expect", "").lower() == _CONTINUE and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


async def expects(request: web.Request) -> web.StreamResponse | None:
    """Leave the answer to `read_body`, by which time the token is verified."""
    if request.headers.get("Expect", "").lower() != _CONTINUE:
        return http_error_response(
            HTTPStatus.EXPECTATION_FAILED, "the header Expect must be 100-continue."
        )
    return None


def _too_large(bytes_max: int) -> BusError:
    return errors.MessageSizeExceeded(f"the body must be at most {bytes_max} bytes.")


def page_of(asked: Asked) -> tuple[int, int]:
    """Return how many entries to skip, and how many to return. Raises InvalidArgument."""
    query = {name.lower(): value for name, value in asked.request.query.items()}
    for name in _CHOOSING:
        if query.get(name):
            raise InvalidArgument(
                name, "is not supported: list everything, and choose from it in your program."
            )
    skip = _number("$skip", query.get("$skip", ""), 0, SKIP_MAX)
    top = _number("$top", query.get("$top", ""), PAGE_MAX, SKIP_MAX)
    return skip, max(1, min(top, PAGE_MAX))


def _number(name: str, given: str, default: int, most: int) -> int:
    if not given:
        return default
    # Its length first: the time of reading a number grows with its square.
    if not (given.isascii() and given.isdigit()) or len(given) > _DIGITS_MAX or int(given) > most:
        raise InvalidArgument(name, f"must be a number up to {most} (got {given[:100]!r}).")
    return int(given)


def entry_response(document: str, status: int = 200) -> web.Response:
    """Return a response of one entry."""
    headers = {"Content-Type": atom.ENTRY_TYPE}
    return web.Response(status=status, body=document.encode(), headers=headers)


def feed_response(asked: Asked, entries: Sequence[str], next_skip: int | None) -> web.Response:
    """Return a response of a page; `next_skip`: where the next one begins, None: there is none."""
    following = ""
    if next_skip is not None:
        _, top = page_of(asked)
        query = [
            (name, value)
            for name, value in parse_qsl(asked.request.query_string)
            if name.lower() not in ("$skip", "$top")
        ]
        query += [("$skip", str(next_skip)), ("$top", str(top))]
        path = str(asked.request.rel_url.raw_path).lstrip("/")
        following = f"{asked.entry_url()}{path}?{urlencode(query, safe='$')}"
    document = atom.feed(
        asked.url,
        _TITLES[asked.resource.kind],
        entries,
        now_ms=round(time.time() * 1_000),
        next_url=following,
    )
    return _document(document, atom.FEED_TYPE)


def http_error_response(status: int, sentence: str) -> web.Response:
    """Return the response for an error of HTTP itself, which no domain error stands for."""
    return _error_response(status, status * 100, sentence)


def _error_response(status: int, sub_code: int, sentence: str) -> web.Response:
    return _document(atom.error(status, sub_code, sentence), atom.ERROR_TYPE, status)


def nothing_response(asked: Asked) -> web.Response:
    """Return the response for what does not exist."""
    now_ms = round(time.time() * 1_000)
    return _document(atom.feed(asked.url, atom.NOTHING, (), now_ms=now_ms), atom.FEED_TYPE)


def _document(document: str, kind: str, status: int = 200) -> web.Response:
    return web.Response(status=status, body=document.encode(), headers={"Content-Type": kind})


async def write(request: web.Request, response: web.Response) -> web.StreamResponse:
    """Write a response; return it once the client has read all but the last few KB of it.

    The server disconnects a client that reads nothing; that raises ConnectionError.
    """
    body = response.body
    assert isinstance(body, bytes), "documents are bytes"
    made = web.StreamResponse(status=response.status, headers=response.headers)
    made.content_length = len(body)
    await made.prepare(request)
    for start in range(0, len(body), PIECE_BYTES):
        await made.write(body[start : start + PIECE_BYTES])
    await made.write_eof()
    return made


def error_response(error: BusError, about: About = About.ADMINISTRATION) -> web.Response:
    """Return the response for an error."""
    status, sub_code = http_statuses.of(error, about)
    response = _error_response(status, sub_code, error.message)
    if error.retry_after_ms:
        response.headers["Retry-After"] = str(max(1, round(error.retry_after_ms / 1_000)))
    return response
