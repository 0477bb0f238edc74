"""Admission of streams: the caller writes nothing before the server has admitted it.

gRPC reports a write into a stream that is just being refused as a failure of its own and forgets
the reason, so a caller that wrote at once would not know whether its frame was read. The server
therefore sends `ADMITTED` with its initial metadata once it has checked the token, and the
caller waits for that: a rejected caller has written nothing.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

ADMITTED: Final = ("bendybus-admitted", "1")
# The server's monotonic clock as it admits a stream, in milliseconds.
_CLOCK: Final = "bendybus-clock-ms"
# The largest frame that it takes.
_REQUEST_BYTES: Final = "bendybus-request-bytes"
# A server of 0.2 sends initial metadata without the mark; a refusal comes within this time of them.
_REFUSAL_S: Final = 0.1


def request_limit(bytes_max: int) -> tuple[str, str]:
    """Return the metadata that tells a caller how large its frames may be."""
    return _REQUEST_BYTES, str(bytes_max)


def request_limit_of(metadata: Iterable[tuple[str, Any]] | None) -> int:
    """Return how large frames may be by the initial metadata of a server; 0 if it does not tell."""
    return _number(metadata, _REQUEST_BYTES)


def clock(now_ms: int) -> tuple[str, str]:
    """Return the metadata that tells a caller the server's clock."""
    return _CLOCK, str(now_ms)


def clock_of(metadata: Iterable[tuple[str, Any]] | None) -> int:
    """Return the server's clock by its initial metadata; 0 if it does not tell."""
    return _number(metadata, _CLOCK)


def _number(metadata: Iterable[tuple[str, Any]] | None, name: str) -> int:
    # As pairs: gRPC's own type is a mapping of lists.
    told = dict(tuple(metadata or ())).get(name, "")
    return int(told) if isinstance(told, str) and told.isdecimal() else 0


async def admitted(call: Any) -> bool:
    """Wait for the server's decision on a stream of grpc.aio; return whether it may be written to.

    When it may not be, the call has ended or is ending, and its reader gets the status.
    """
    # As pairs: `in` of gRPC's own type looks at names only.
    if ADMITTED in tuple(await call.initial_metadata() or ()):
        return True
    try:
        async with asyncio.timeout(_REFUSAL_S):
            await call.code()
    except TimeoutError:
        return True
    return False
