"""The receive stream of one receiver: asks, a bounded buffer, settlements. On the I/O thread.

    receive ─► Want ─► Ask ───────► bus
                 ▲                   │ Delivery
                 └── or the buffer ◄─┴─ of an ask that was made ahead, or that nobody waits for

The buffer holds what was delivered to nobody: messages of asks made ahead (`prefetch_count`), and
those of a receive that was cancelled. When half of their lock is over, or the receiver closes,
they are given back; the bus counts no delivery for what the application never saw.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from bendybus.client import exceptions
from bendybus.client.io_thread import Waiter
from bendybus.client.received_message import Delivered
from bendybus.client.retrying import RetryPolicy, counted
from bendybus.client.settling import Outcome, Settlement, Settling
from bendybus.client.stream import Stream
from bendybus.domain import limits
from bendybus.domain.errors import BusError
from bendybus.v1 import receiver_pb2
from bendybus.v1.receiver_pb2 import Ask, CancelAsk, OpenReceiver, ReceiveStreamRequest
from bendybus.wire import statuses

Piece = tuple[Delivered, int, int]

# The bus answers at the end of a wait; this is how long its answer may take to get here.
_GRACE_S: Final = 1.0
_EARLY_S: Final = 0.05
_SWEEP_S: Final = 0.5
_CLOSE_TIMEOUT_S: Final = 2.0
_TOKEN_BYTES: Final = 16


class Want:
    """A receive that waits. Its waiter gets a list of pieces, empty when the wait is over."""

    __slots__ = ("ask_id", "deadline_s", "failures", "max_messages", "timer", "wait_s", "waiter")

    def __init__(self, max_messages: int, wait_s: float, waiter: Waiter) -> None:
        self.max_messages = max_messages
        self.wait_s = wait_s
        self.waiter = waiter
        self.deadline_s = 0.0
        self.failures = 0
        # 0: not asked for.
        self.ask_id = 0
        self.timer: asyncio.TimerHandle | None = None


class Receiving:
    """Everything of a receiver that needs the I/O thread."""

    def __init__(
        self,
        open_call: Callable[[], Any],
        loop: asyncio.AbstractEventLoop,
        retry: RetryPolicy,
        opening: OpenReceiver,
        prefetch_count: int,
        explain: Callable[[BusError], BusError] = lambda error: error,
    ) -> None:
        self._open_call = open_call
        self._loop = loop
        self._retry = retry
        self._opening = opening
        self._prefetch = prefetch_count
        self._locks = opening.receive_mode == receiver_pb2.RECEIVE_MODE_PEEK_LOCK
        self.stream = Stream(self, retry, explain)
        self._settling = Settling(retry)
        self._wants: deque[Want] = deque()
        # Open asks: the want, or how much credit was asked for ahead.
        self._asks: dict[int, Want | int] = {}
        self._ask_id = 0
        self._asked_ahead = 0
        self._cancels: deque[int] = deque()
        self._buffer: deque[Piece] = deque()
        self._buffered = 0
        # Set while nobody receives: then nothing is asked for ahead.
        self._idle = True
        self._open_sent = self._opened = False
        self._lock_duration_s = limits.LOCK_DURATION_MS_DEFAULT / 1_000
        self._sweeper: asyncio.TimerHandle | None = None
        self._closing = False
        self._changed = asyncio.Event()

    def receive(self, want: Want) -> None:
        """Serve a want from the buffer, or ask the bus for it."""
        if self._closing:
            want.waiter.resolve([])
            return
        self._idle = False
        want.deadline_s = self._loop.time() + want.wait_s
        self._wants.append(want)
        self._serve()
        if want in self._wants:
            grace = 0.0 if self._prefetch else _GRACE_S
            want.timer = self._loop.call_at(want.deadline_s + grace, self._over, want)
        self.stream.wake()

    def forget(self, want: Want) -> None:
        """Take a want back: its caller has gone. What arrives for it goes to the buffer."""
        if want in self._wants:
            self._drop(want)
            self.stream.wake()

    def put_back(self, pieces: list[Piece]) -> None:
        """Take messages that a caller was given but never saw."""
        for piece in reversed(pieces):
            self._buffer.appendleft(piece)
            self._buffered += piece[2] - piece[1]
        if self._closing:
            self._release_all()
        self._serve()
        self._watch()

    def settle(self, settlement: Settlement) -> None:
        """Take a settlement; its waiter gets an Outcome."""
        if not settlement.deadline_s:
            settlement.deadline_s = self._loop.time() + settlement.timeout_s
        self._settling.add(settlement)
        self._watch()
        self.stream.wake()

    async def close(self) -> None:
        """Take asks back, give back what nobody saw, wait for settlements, end the stream."""
        self._closing = True
        for want in list(self._wants):
            self._drop(want)
            want.waiter.resolve([])
        self._cancels.extend(ask_id for ask_id in self._asks if ask_id not in self._cancels)
        self.stream.wake()
        deadline = self._loop.time() + _CLOSE_TIMEOUT_S
        await self._until(lambda: not self._asks, deadline)
        self._release_all()
        await self._until(lambda: not len(self._settling), deadline)
        await self.stream.close()
        self._settling.fail_all()
        if self._sweeper is not None:
            self._sweeper.cancel()

    async def open_call(self) -> Any:
        """Open the stream."""
        return await self._open_call()

    def has_work(self) -> bool:
        """Whether somebody waits for something."""
        return bool(self._wants or len(self._settling))

    def next_request(self) -> ReceiveStreamRequest | None:
        """Return what to write: the opening, settlements, asks taken back, asks."""
        if not self._open_sent:
            self._open_sent = True
            return ReceiveStreamRequest(open=self._opening)
        if not self._opened:
            # A refusal of the opening would get lost behind another write.
            return None
        if self._settling.has_waiting:
            return ReceiveStreamRequest(settle=self._settling.next_frame())
        if self._cancels:
            return ReceiveStreamRequest(cancel_ask=CancelAsk(ask_id=self._cancels.popleft()))
        if self._closing:
            return None
        if self._prefetch:
            return self._ask_ahead()
        for want in self._wants:
            if not want.ask_id:
                return self._ask(want)
        return None

    def handle(self, response: receiver_pb2.ReceiveStreamResponse) -> None:
        """Take an answer."""
        kind = response.WhichOneof("kind")
        if kind == "delivery":
            self._delivered(response.delivery)
        elif kind == "settle_result":
            for pause, settlement in self._settling.answered(response.settle_result):
                self._loop.call_later(pause, self.settle, settlement)
        elif kind == "opened":
            self._opened = True
            self.stream.wake()
            if response.opened.lock_duration_ms:
                self._lock_duration_s = response.opened.lock_duration_ms / 1_000
        elif kind == "error":
            self.broken(statuses.from_error(response.error))
        self._changed.set()

    def broken(self, error: BusError) -> None:
        """Ask again on the next stream, or give up what the policy gives up."""
        self._open_sent = self._opened = False
        self._asks.clear()
        self._cancels.clear()
        self._ask_id = self._asked_ahead = 0
        self._settling.stream_broke(error)
        for want in list(self._wants):
            want.ask_id = 0
            want.failures += counted(error)
            if not self._retry.allows(error, want.failures):
                self._drop(want)
                want.waiter.fail(exceptions.from_bus_error(error))
        self._changed.set()

    def _ask(self, want: Want) -> ReceiveStreamRequest:
        self._ask_id += 1
        want.ask_id = self._ask_id
        self._asks[self._ask_id] = want
        wait_s = max(0.0, want.deadline_s - self._loop.time())
        return ReceiveStreamRequest(
            ask=Ask(
                ask_id=self._ask_id,
                max_messages=want.max_messages,
                max_wait_ms=round(wait_s * 1_000),
            )
        )

    def _ask_ahead(self) -> ReceiveStreamRequest | None:
        known = self._buffered + self._asked_ahead
        free = self._prefetch - known
        # Not for every message that leaves the buffer: for half of them at once.
        if self._idle or free <= 0 or (known and free * 2 < self._prefetch):
            return None
        self._ask_id += 1
        self._asks[self._ask_id] = free
        self._asked_ahead += free
        return ReceiveStreamRequest(ask=Ask(ask_id=self._ask_id, max_messages=free, max_wait_ms=-1))

    def _delivered(self, delivery: receiver_pb2.Delivery) -> None:
        asked = self._asks.pop(delivery.ask_id, None)
        if isinstance(asked, int):
            self._asked_ahead -= asked
        now = self._loop.time()
        pieces: list[Piece] = []
        for batch in delivery.batches:
            delivered = Delivered(batch, now)
            pieces.append((delivered, 0, len(delivered)))
        if isinstance(asked, Want) and asked.ask_id == delivery.ask_id and asked in self._wants:
            asked.ask_id = 0
            if not pieces and now + _EARLY_S < asked.deadline_s:
                # The bus waits no longer than it wants to: ask again for the rest.
                self._loop.call_later(_EARLY_S, self.stream.wake)
                return
            if not pieces:
                self._drop(asked)
                asked.waiter.resolve([])
                return
            self._wants.remove(asked)
            self._wants.appendleft(asked)
        for piece in pieces:
            self._buffer.append(piece)
            self._buffered += piece[2] - piece[1]
        self._serve()
        if self._prefetch:
            self.stream.wake()
        self._watch()

    def _serve(self) -> None:
        while self._wants and self._buffer and not self._closing:
            want = self._wants[0]
            self._drop(want)
            want.waiter.resolve(self._take(want.max_messages))

    def _take(self, max_messages: int) -> list[Piece]:
        taken: list[Piece] = []
        while self._buffer and max_messages:
            delivered, start, stop = self._buffer.popleft()
            end = min(stop, start + max_messages)
            taken.append((delivered, start, end))
            max_messages -= end - start
            self._buffered -= end - start
            if end < stop:
                self._buffer.appendleft((delivered, end, stop))
        return taken

    def _drop(self, want: Want) -> None:
        self._wants.remove(want)
        if want.timer is not None:
            want.timer.cancel()
        if want.ask_id:
            self._cancels.append(want.ask_id)
            want.ask_id = 0

    def _over(self, want: Want) -> None:
        if want in self._wants:
            self._drop(want)
            want.waiter.resolve([])
            self.stream.wake()

    def _watch(self) -> None:
        if self._sweeper is None and (self._buffer or len(self._settling)):
            self._sweeper = self._loop.call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        now = self._loop.time()
        self._settling.expire(now)
        stale_before = now - self._lock_duration_s / 2
        if self._locks and any(piece[0].received_at_s < stale_before for piece in self._buffer):
            # Nobody took them in half the time of their lock: nobody is in a hurry.
            self._idle = not self._wants
            self._release_all()
        self._watch()

    def _release_all(self) -> None:
        pieces, self._buffer, self._buffered = list(self._buffer), deque(), 0
        tokens = b"".join(
            delivered.lock_tokens[start * _TOKEN_BYTES : stop * _TOKEN_BYTES]
            for delivered, start, stop in pieces
        )
        if tokens:
            self.settle(
                Settlement(receiver_pb2.DISPOSITION_RELEASE, tokens, _Nobody(), _CLOSE_TIMEOUT_S)
            )

    async def _until(self, done: Callable[[], bool], deadline_s: float) -> None:
        while not done() and (left := deadline_s - self._loop.time()) > 0:
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except TimeoutError:
                return


class _Nobody:
    """A waiter that does not care."""

    def resolve(self, value: Outcome) -> None:
        """Do nothing."""

    def fail(self, error: BaseException) -> None:
        """Do nothing: the locks end by themselves."""
