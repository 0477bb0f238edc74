"""Streams of a server: admitted before their caller writes, answered in order, drained.

Admission: gRPC reports a write into a stream that is just being refused as a failure of its own and
forgets the reason, so a caller that wrote at once would not know whether its frame was read. The
server therefore sends `ADMITTED` with its initial metadata once it has checked the token, and the
caller waits for that: a rejected caller has written nothing.

Draining: each open stream can be asked to end cleanly.

    server                     caller
      │  moving = true           │
      ├─────────────────────────►│  writes nothing more
      │              half-close  │
      │◄─────────────────────────┤
      │  answers that it owes    │
      ├─────────────────────────►│
      │  OK                      │
      ├─────────────────────────►│  opens the stream again, elsewhere

So everything that was written is answered, and nothing is lost or done twice. Without the first
step, a caller that writes just as the stream ends would lose answers that are on their way to it.
A caller that does not half-close within `MOVE_S` hangs: the server then takes nothing more, answers
what it owes, and ends.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

from bendybus.domain.errors import BusError
from bendybus.wire import contract_versions

ADMITTED: Final = ("bendybus-admitted", "1")
# The server's monotonic clock as it admits a stream, in milliseconds.
_CLOCK: Final = "bendybus-clock-ms"
# The largest frame that it takes.
_REQUEST_BYTES: Final = "bendybus-request-bytes"
End = Callable[[], None]
MOVE_S: Final = 1.0
Entry = TypeVar("Entry")


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

    When it may not be, the call has ended or is ending, and its reader gets the status. Raises
    InvalidOperation for a server of a version that this client does not work with.
    """
    # As pairs: `in` of gRPC's own type looks at names only.
    metadata = tuple(await call.initial_metadata() or ())
    if ADMITTED not in metadata:
        return False
    contract_versions.CLIENT.check_server(metadata)
    return True


class Drain:
    """The open streams of a server. On the loop only."""

    def __init__(self) -> None:
        self.begun = False
        self._streams: set[End] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    def begin(self) -> None:
        """Ask all streams to end, and those that open from now on at once."""
        self.begun = True
        for end in list(self._streams):
            end()

    async def ended(self, timeout_s: float) -> bool:
        """Wait until no stream is open; return whether that came true in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True

    @contextmanager
    def stream(self, end: End) -> Iterator[None]:
        """Hold a stream that `end` asks to end."""
        self._streams.add(end)
        self._empty.clear()
        if self.begun:
            end()
        try:
            yield
        finally:
            self._streams.discard(end)
            if not self._streams:
                self._empty.set()


class AnswerQueue(Generic[Entry]):
    """See the module. `outstanding`: whether answers must still come before it may end.

    Unbounded itself: the owner bounds what is asked for, or waits for `room` before it reads more.
    """

    def __init__(self, outstanding: Callable[[], bool]) -> None:
        # The stream is to end: nothing more is taken from its caller.
        self.finishing = False
        self._outstanding = outstanding
        self._waiting: deque[Entry | BusError | None] = deque()
        self._writer: asyncio.Future[None] | None = None
        self._written = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, entry: Entry | BusError | None) -> None:
        """Add an answer; an error, or None, ends the stream after what was added before."""
        self._waiting.append(entry)
        self.wake()

    def wake(self) -> None:
        """Let the writer look again whether something waits, or the stream may end."""
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

    def move(self, moving: Entry, finish: Callable[[], None] | None = None) -> None:
        """Ask the caller to half-close; call `finish` in any case when it does not."""
        self.put(moving)
        asyncio.get_running_loop().call_later(MOVE_S, finish or self.finish)

    def finish(self) -> None:
        """End the stream as soon as all is written and no answer is outstanding."""
        self.finishing = True
        self.wake()

    async def next(self) -> Entry | None:
        """Return the next answer, once the one before is written; None at the end.

        Raises the error that ends the stream.
        """
        self._written.set()
        while not self._waiting:
            if self.finishing and not self._outstanding():
                return None
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer
        entry = self._waiting.popleft()
        if isinstance(entry, BusError):
            raise entry
        return entry

    def take(self, fits: Callable[[Entry], bool]) -> Entry | None:
        """Return the answer that waits next if it fits; None if it does not, or nothing waits."""
        entry = self._waiting[0] if self._waiting else None
        if entry is None or isinstance(entry, BusError) or not fits(entry):
            return None
        self._waiting.popleft()
        return entry

    async def room(self, waiting_max: int) -> None:
        """Wait while so many answers wait to be written."""
        while len(self._waiting) >= waiting_max:
            self._written.clear()
            await self._written.wait()
