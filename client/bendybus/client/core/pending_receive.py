"""A receive that waits for messages, and messages that wait for one. On the I/O thread only.

The ask that a loop sends ahead: in the frame of the settlement that ends a step.

    for message in receiver:            settle 1 + ask 2 ───► bus
        receiver.complete(message)      outcome 1 + message 2 ◄──

The messages are there when the settlement returns, so that the next step crosses no thread. They
are as many as a step asks for: one for an iterator, n for `receive_messages(n)`; and only asked for
while the steps follow each other at once (`ReceiveSteps`). What is not taken within a moment is
given back, and the bus counts no delivery for it.
"""

import asyncio
import contextlib
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from bendybus.client import exceptions
from bendybus.client.core.io_thread import Waiter
from bendybus.client.core.settlements import Settlement
from bendybus.client.messages.received_message import Delivered, ServiceBusReceivedMessage
from bendybus.domain import lock_token
from bendybus.domain.errors import BusError, ServiceTimeout

# Messages [start, stop) of a delivery.
BatchSlice = tuple[Delivered, int, int]

_TOKEN_BYTES: Final = lock_token.TOKEN_BYTES


class MessageBuffer:
    """A queue of slices that knows how many messages they are."""

    def __init__(self) -> None:
        self._slices: deque[BatchSlice] = deque()
        self.messages = 0

    def __bool__(self) -> bool:
        return bool(self._slices)

    def add(self, slices: Iterable[BatchSlice]) -> None:
        """Add messages at the end."""
        for part in slices:
            self._slices.append(part)
            self.messages += part[2] - part[1]

    def put_back(self, slices: Sequence[BatchSlice]) -> None:
        """Add messages at the beginning, in their order."""
        for part in reversed(slices):
            self._slices.appendleft(part)
            self.messages += part[2] - part[1]

    def take(self, max_messages: int) -> list[BatchSlice]:
        """Remove and return the first messages."""
        taken: list[BatchSlice] = []
        while self._slices and max_messages:
            delivered, start, stop = self._slices.popleft()
            end = min(stop, start + max_messages)
            taken.append((delivered, start, end))
            max_messages -= end - start
            self.messages -= end - start
            if end < stop:
                self._slices.appendleft((delivered, end, stop))
        return taken

    def take_stale(self, until_s: float) -> list[BatchSlice]:
        """Remove and return the messages whose lock ends before `until_s`."""
        stale = [part for part in self._slices if part[0].lock_end_s < until_s]
        if stale:
            self._slices = deque(p for p in self._slices if p[0].lock_end_s >= until_s)
            self.messages = sum(stop - start for _, start, stop in self._slices)
        return stale

    def take_all(self) -> list[BatchSlice]:
        """Remove and return everything."""
        slices, self._slices, self.messages = list(self._slices), deque(), 0
        return slices


def tokens(slices: Iterable[BatchSlice]) -> bytes:
    """Return the lock tokens of messages, one after the other."""
    return b"".join(
        itertools.chain(
            delivered.lock_tokens[start * _TOKEN_BYTES : stop * _TOKEN_BYTES]
            for delivered, start, stop in slices
        )
    )


class PendingReceive:
    """A receive in progress. Its waiter gets a list of slices, empty if none came in time."""

    __slots__ = (
        "ask_id",
        "checking",
        "deadline_s",
        "empty",
        "error",
        "failures",
        "max_messages",
        "timer",
        "wait_s",
        "waited",
        "waiter",
    )

    def __init__(self, max_messages: int, wait_s: float, waiter: Waiter[list[BatchSlice]]) -> None:
        self.max_messages = max_messages
        self.wait_s = wait_s
        self.waiter = waiter
        self.deadline_s = 0.0
        self.failures = 0
        # The bus answered last that there is nothing; or why it could not say.
        self.empty = False
        self.error: BusError | None = None
        # Its wait is over, and it waits for the answers of asks that were made ahead.
        self.checking = False
        # Whether its end was put off, for answers to be read.
        self.waited = False
        # 0: not asked for.
        self.ask_id = 0
        self.timer: asyncio.TimerHandle | None = None

    def fail(self, error: BusError) -> None:
        """Answer with an error of the client."""
        self.waiter.fail(exceptions.from_bus_error(error))

    def end(self) -> None:
        """Answer at the end of the wait: without messages, or with why the bus did not answer."""
        if self.empty:
            self.waiter.resolve([])
        else:
            self.fail(
                self.error
                or ServiceTimeout(
                    "The bus did not answer in time: it is unknown whether there are messages."
                )
            )


# What is not taken within two of these is given back. By then the front end has given back
# what it had ready behind it, so that the order of a partition stays.
LOOK_S: Final = 0.1
# A receive that comes later than this after an outcome: the loop does something else in between.
_IN_STEP_S: Final = 0.05


class AskAhead:
    """At most one ask, and then its messages until they are taken."""

    __slots__ = (
        "_looked",
        "_ready",
        "ask_id",
        "count",
        "planned",
        "until_s",
        "wait_s",
        "with_outcome",
    )

    def __init__(self) -> None:
        # What is asked for: changes only while nothing is ready.
        self.count = 0
        self.with_outcome = True
        self.wait_s = 0.0
        # When the wait of the open ask is over, on the loop's clock.
        self.until_s = 0.0
        # To be written.
        self.planned = False
        # 0: none is open.
        self.ask_id = 0
        self._ready: deque[BatchSlice] = deque()
        self._looked = False

    def __bool__(self) -> bool:
        return bool(self.planned or self.ask_id or self._ready)

    def plan(self, count: int, wait_s: float, *, with_outcome: bool = True) -> None:
        """Ask with the next frame; its messages come with the outcome of that, or at once."""
        self.with_outcome = with_outcome
        self.planned, self.count, self.wait_s, self._looked = True, count, wait_s, False

    def opened(self, ask_id: int, now_s: float) -> None:
        """Note the ask that is written."""
        self.planned, self.ask_id, self.until_s = False, ask_id, now_s + self.wait_s

    def withdraw(self) -> int:
        """Forget the ask; return its id, which the caller cancels or waits for."""
        ask_id, self.ask_id, self.planned = self.ask_id, 0, False
        return ask_id

    def arrived(self, slices: Sequence[BatchSlice]) -> None:
        """Keep the answer to the ask until it is taken."""
        self.ask_id, self._looked = 0, False
        self._ready.extend(slices)

    def take(self, count: int, stale_before_s: float) -> list[BatchSlice]:
        """Return the messages if `count` were asked for and their locks end after that time.

        From any thread.
        """
        slices: list[BatchSlice] = []
        if count != self.count:
            return slices
        with contextlib.suppress(IndexError):  # none, or the I/O thread was quicker
            while True:
                delivered = self._ready[0][0]
                if delivered.lock_tokens and delivered.lock_end_s < stale_before_s:
                    # Stays until the I/O thread gives it back. Not removed and put back: meanwhile
                    # that thread would find nothing, and stop looking.
                    break
                slices.append(self._ready.popleft())
        return slices

    def reclaim(self) -> list[BatchSlice]:
        """Return the messages, for another receive or to give them back."""
        slices: list[BatchSlice] = []
        while self._ready:
            try:
                slices.append(self._ready.popleft())
            except IndexError:  # the application's thread was quicker
                break
        return slices

    def look(
        self, cancel: Callable[[int], None], release: Callable[[list[BatchSlice]], None]
    ) -> bool:
        """Give back what was there at the last look already; return whether to look again."""
        if self._looked:
            if ask_id := self.withdraw():
                cancel(ask_id)
            if slices := self.reclaim():
                release(slices)
        self._looked = True
        return bool(self)


class ReceiveSteps:
    """See the module."""

    __slots__ = ("_count", "_given", "_wait_s", "following")

    def __init__(self) -> None:
        # What the last receive gave, and what it asked for.
        self._given: Sequence[ServiceBusReceivedMessage] = ()
        self._count = 0
        self._wait_s = 0.0
        # Whether the current receive followed a settlement at once.
        self.following = False

    def settled(self) -> bool:
        """Whether the last receive gave messages, and all of them are settled."""
        given = self._given
        return bool(given) and all(message._settled for message in given)

    def begin(self, *, settled: bool, outcome_s: float) -> None:
        """Begin a receive; `outcome_s`: when the last outcome of a settlement came."""
        self._given = ()
        self.following = settled and time.monotonic() - outcome_s < _IN_STEP_S

    def gave(
        self, messages: Sequence[ServiceBusReceivedMessage], count: int, wait_s: float
    ) -> None:
        """End a receive of up to `count` messages within `wait_s`."""
        self._given, self._count, self._wait_s = messages, count, wait_s

    def ask_with(
        self, settlement: Settlement, messages: Sequence[ServiceBusReceivedMessage]
    ) -> None:
        """Let the next ask ride with a settlement, if the step ends with it."""
        given = self._given
        if self.following and given and messages[-1] is given[-1] and self._ends(messages):
            settlement.next_count, settlement.next_wait_s = self._count, self._wait_s

    def _ends(self, messages: Sequence[ServiceBusReceivedMessage]) -> bool:
        settling = set(map(id, messages))
        return all(message._settled or id(message) in settling for message in self._given)
