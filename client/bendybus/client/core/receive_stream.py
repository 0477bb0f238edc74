"""The receive stream of one receiver: asks, a bounded buffer, settlements. On the I/O thread.

    receive ─► PendingReceive ─► Ask ────► bus
                 ▲                          │ Delivery
                 └── or the buffer ◄────────┴─ of an ask made ahead, or whose caller has gone

The buffer holds what was delivered to no caller: messages of asks made ahead (`prefetch_count`) and
those of a receive that was cancelled. What an iterator asks for ahead is in `ask_ahead`. When half
of their lock is over, or the receiver closes, messages are given back; the bus counts no delivery
for what the application never saw.

A receive ends empty only when the bus says that there is nothing. When its wait is over and the
bus said nothing, it fails with the reason why the bus could not be asked. Asks made ahead are taken
back for that answer, and made again.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from bendybus.client import exceptions
from bendybus.client.core import ask_ahead, message_buffer
from bendybus.client.core.ask_ahead import AskAhead
from bendybus.client.core.message_buffer import MessageBuffer, Piece
from bendybus.client.core.pending_receive import PendingReceive
from bendybus.client.core.retry_policy import RetryPolicy, counted
from bendybus.client.core.settlements import Outcome, Settlement, Settlements
from bendybus.client.core.stream import Stream
from bendybus.client.messages.received_message import Delivered
from bendybus.domain import limits
from bendybus.domain.errors import BusError, ServiceTimeout
from bendybus.v1 import receiver_pb2
from bendybus.v1.receiver_pb2 import Ask, CancelAsk, OpenReceiver, ReceiveStreamRequest
from bendybus.wire import merged_frames, statuses

# The bus answers at the end of a wait; this is how long its answer may take to get here. Less than
# `io_thread.MARGIN_S`, by which a thread that waits for this thread waits longer.
_GRACE_S: Final = 4.0
# Asks of one receiver that are open at a time; further receives wait here for their turn.
_ASKS_MAX: Final = 64
_EARLY_S: Final = 0.05
# A timer that is later than this: the thread was held up, and answers may wait to be read.
_LATE_S: Final = 0.2
_READ_S: Final = 0.25
_SWEEP_S: Final = 0.5
_CLOSE_TIMEOUT_S: Final = 2.0


class ReceiveStream:
    """The part of a receiver that runs on the I/O thread."""

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
        self._settlements = Settlements(retry)
        self._pending: deque[PendingReceive] = deque()
        # Open asks: the want, that of an iterator, or how much credit was asked for ahead.
        self._asks: dict[int, PendingReceive | AskAhead | int] = {}
        self._ask_id = 0
        self._asked_ahead = 0
        self._cancels: deque[int] = deque()
        self._buffer = MessageBuffer()
        self._ahead = AskAhead()
        self._ahead_timer: asyncio.TimerHandle | None = None
        # When the last outcome of a settlement came, on the monotonic clock.
        self.outcome_s = 0.0
        # Set while no caller receives: then nothing is asked for ahead.
        self._idle = True
        self._open_sent = self._opened = False
        self._lock_duration_s = limits.LOCK_DURATION_MS_DEFAULT / 1_000
        self._sweeper: asyncio.TimerHandle | None = None
        self._closing = False
        self._closed = False
        self._changed = asyncio.Event()

    def receive(self, pending: PendingReceive) -> None:
        """Serve a want from the buffer, or ask the bus for it."""
        if self._closing:
            pending.waiter.resolve([])
            return
        self._idle = False
        pending.deadline_s = self._loop.time() + pending.wait_s
        self._pending.append(pending)
        if self._ahead:
            self._use_ahead(pending)
        self._serve()
        if pending in self._pending:
            pending.timer = self._loop.call_at(
                pending.deadline_s, self._over, pending, pending.deadline_s
            )
        self.stream.wake()

    def forget(self, pending: PendingReceive) -> None:
        """Take a want back: its caller has gone. What arrives for it goes to the buffer."""
        if pending in self._pending:
            self._drop(pending)
            self.stream.wake()

    def put_back(self, pieces: list[Piece]) -> None:
        """Take messages that a caller was given but never saw."""
        self._buffer.put_back(pieces)
        if self._closing:
            self._release_all()
        self._serve()
        self._watch()

    def settle(self, settlement: Settlement) -> None:
        """Take a settlement; its waiter gets an Outcome."""
        if not settlement.deadline_s:
            settlement.deadline_s = self._loop.time() + settlement.timeout_s
        self._settlements.add(settlement)
        if settlement.next_wait_s is not None and self._may_ask_ahead():
            self._ahead.plan(settlement.next_wait_s)
            self._watch_ahead()
        self._watch()
        self.stream.wake()

    def take_ahead(self) -> list[Piece]:
        """Return the message that came with the settlement of the one before, if any.

        From any thread.
        """
        return self._ahead.take(self._lock_duration_s / 2)

    async def close(self) -> None:
        """Take asks back, give back what nobody saw, wait for settlements, end the stream."""
        if self._closing:
            await self._until(lambda: self._closed, self._loop.time() + 2 * _CLOSE_TIMEOUT_S)
            return
        self._closing = True
        for pending in list(self._pending):
            self._drop(pending)
            pending.waiter.resolve([])
        self._cancels.extend(ask_id for ask_id in self._asks if ask_id not in self._cancels)
        self.stream.wake()
        deadline = self._loop.time() + _CLOSE_TIMEOUT_S
        await self._until(lambda: not self._asks, deadline)
        self._release_all()
        await self._until(lambda: not len(self._settlements), deadline)
        with contextlib.suppress(TimeoutError):
            await self.stream.close()
        self._settlements.fail_all()
        self._closed = True
        self._changed.set()
        for timer in (self._sweeper, self._ahead_timer):
            if timer is not None:
                timer.cancel()

    async def open_call(self) -> Any:
        """Open the stream."""
        return await self._open_call()

    def has_work(self) -> bool:
        """Whether somebody waits for something."""
        return bool(self._pending or len(self._settlements))

    def next_request(self) -> ReceiveStreamRequest | None:
        """Return what to write: the opening, settlements, asks taken back, asks."""
        if not self._open_sent:
            self._open_sent = True
            return ReceiveStreamRequest(open=self._opening)
        if not self._opened:
            # A refusal of the opening would get lost behind another write.
            return None
        if self._settlements.has_waiting:
            return ReceiveStreamRequest(settle=self._settlements.next_frame())
        if self._cancels:
            return ReceiveStreamRequest(cancel_ask=CancelAsk(ask_id=self._cancels.popleft()))
        if self._closing:
            return None
        if self._prefetch:
            return self._ask_for_buffer()
        if self._ahead.planned:
            return self._ask_ahead()
        if len(self._asks) < _ASKS_MAX:
            for pending in self._pending:
                if not pending.ask_id:
                    return self._ask(pending)
        return None

    def handle(self, response: receiver_pb2.ReceiveStreamResponse) -> None:
        """Take an answer."""
        for part in merged_frames.parts(response):
            self._handle(part)
        self._changed.set()

    def _handle(self, response: receiver_pb2.ReceiveStreamResponse) -> None:
        kind = response.WhichOneof("kind")
        if kind == "delivery":
            self._delivered(response.delivery)
        elif kind == "settle_result":
            self.outcome_s = time.monotonic()
            for pause, settlement in self._settlements.answered(response.settle_result):
                self._loop.call_later(pause, self.settle, settlement)
            if self._settlements.has_waiting:
                self.stream.wake()
        elif kind == "opened":
            self._opened = True
            self.stream.wake()
            if response.opened.lock_duration_ms:
                self._lock_duration_s = response.opened.lock_duration_ms / 1_000
        elif kind == "error":
            self.broken(statuses.from_error(response.error))

    def broken(self, error: BusError) -> None:
        """Ask again on the next stream, or give up what the policy gives up."""
        self._open_sent = self._opened = False
        self._asks.clear()
        self._cancels.clear()
        self._ask_id = self._asked_ahead = 0
        self._ahead.withdraw()
        self._settlements.stream_broke(error)
        for pending in list(self._pending):
            pending.ask_id = 0
            self._failed(pending, error)
        self._changed.set()

    def _failed(self, pending: PendingReceive, error: BusError) -> None:
        """Note why the bus could not answer a receive; give it up when that is final."""
        if counted(error):
            pending.failures += 1
            pending.error, pending.empty = error, False
        if pending.checking or not self._retry.allows(error, pending.failures):
            self._drop(pending)
            pending.waiter.fail(exceptions.from_bus_error(error))

    def _ask(self, pending: PendingReceive) -> ReceiveStreamRequest:
        self._ask_id += 1
        pending.ask_id = self._ask_id
        self._asks[self._ask_id] = pending
        wait_s = max(0.0, pending.deadline_s - self._loop.time())
        return ReceiveStreamRequest(
            ask=Ask(
                ask_id=self._ask_id,
                max_messages=pending.max_messages,
                max_wait_ms=round(wait_s * 1_000),
            )
        )

    def _may_ask_ahead(self) -> bool:
        """Whether there is nothing else that a next step of the iterator would get."""
        return self.stream.merges and not (
            self._prefetch or self._ahead or self._pending or self._buffer or self._closing
        )

    def _ask_ahead(self) -> ReceiveStreamRequest:
        self._ask_id += 1
        self._asks[self._ask_id] = self._ahead
        self._ahead.opened(self._ask_id, self._loop.time())
        return ReceiveStreamRequest(
            ask=Ask(
                ask_id=self._ask_id,
                max_messages=1,
                max_wait_ms=round(self._ahead.wait_s * 1_000),
                with_settle_frame_id=self._settlements.frame_id,
            )
        )

    def _use_ahead(self, pending: PendingReceive) -> None:
        """Serve a want with what was asked for ahead: a message, or its answer if that will do."""
        self._buffer.put_back(self._ahead.reclaim())
        ask_id = self._ahead.withdraw()
        if not ask_id:
            return
        # An ask that waits longer would not be answered when this receive is over.
        in_time = self._ahead.until_s <= pending.deadline_s + _EARLY_S
        if in_time and pending.max_messages == 1 and self._pending[0] is pending:
            pending.ask_id = ask_id
            self._asks[ask_id] = pending
        else:
            self._asks[ask_id] = 0
            self._cancels.append(ask_id)

    def _watch_ahead(self) -> None:
        if self._ahead_timer is None:
            self._ahead_timer = self._loop.call_later(ask_ahead.LOOK_S, self._look_ahead)

    def _look_ahead(self) -> None:
        self._ahead_timer = None
        if self._ahead.look(self._cancels.append, self._release):
            self._watch_ahead()
        if self._cancels:
            self.stream.wake()

    def _ask_for_buffer(self) -> ReceiveStreamRequest | None:
        known = self._buffer.messages + self._asked_ahead
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
        pieces: list[Piece] = []
        for batch in delivery.batches:
            delivered = Delivered(batch)
            pieces.append((delivered, 0, len(delivered)))
        if not pieces:
            error = statuses.from_error(delivery.error) if delivery.HasField("error") else None
            self._nothing(asked, delivery.ask_id, error)
            return
        if asked is self._ahead and self._ahead.ask_id == delivery.ask_id and not self._closing:
            self._ahead.arrived(pieces)
            return
        if (
            isinstance(asked, PendingReceive)
            and asked.ask_id == delivery.ask_id
            and asked in self._pending
        ):
            asked.ask_id = 0
            self._pending.remove(asked)
            self._pending.appendleft(asked)
        self._buffer.add(pieces)
        self._serve()
        if self._prefetch or self._pending:
            # There is room for another ask.
            self.stream.wake()
        self._watch()

    def _nothing(
        self, asked: PendingReceive | AskAhead | int | None, ask_id: int, error: BusError | None
    ) -> None:
        """Take an answer without messages."""
        if isinstance(asked, AskAhead):
            # The next receive asks again, and says why there are none.
            if asked.ask_id == ask_id:
                asked.withdraw()
            return
        if isinstance(asked, PendingReceive):
            if asked.ask_id != ask_id or asked not in self._pending:
                self.stream.wake()
                return
            asked.ask_id = 0
            pause_s = _EARLY_S
            if error is not None:
                pause_s = self._retry.pause_s(asked.failures + 1, error)
                if self._loop.time() + pause_s >= asked.deadline_s:
                    # There is no time to try again.
                    asked.failures = self._retry.total
                self._failed(asked, error)
            else:
                asked.error, asked.empty = None, True
                if self._loop.time() + pause_s >= asked.deadline_s:
                    self._drop(asked)
                    asked.waiter.resolve([])
            # The bus waits no longer than it wants to: ask again for the rest.
            self._loop.call_later(pause_s, self.stream.wake)
            return
        if asked is not None:
            for pending in [pending for pending in self._pending if pending.checking]:
                self._drop(pending)
                if error is None:
                    pending.waiter.resolve([])
                else:
                    pending.waiter.fail(exceptions.from_bus_error(error))
        # Not at once: a bus that cannot answer would be asked in a circle.
        self._loop.call_later(_EARLY_S, self.stream.wake)

    def _serve(self) -> None:
        if self._locks and self._buffer:
            self._release_stale()
        while self._pending and self._buffer and not self._closing:
            pending = self._pending[0]
            self._drop(pending)
            pending.waiter.resolve(self._buffer.take(pending.max_messages))

    def _drop(self, pending: PendingReceive) -> None:
        self._pending.remove(pending)
        if pending.timer is not None:
            pending.timer.cancel()
        if pending.ask_id:
            self._cancels.append(pending.ask_id)
            pending.ask_id = 0

    def _over(self, pending: PendingReceive, due_s: float) -> None:
        """Handle the end of a wait: the bus decides, and its answer may be on its way."""
        if pending not in self._pending:
            return
        now = self._loop.time()
        if now - due_s > _LATE_S and not pending.waited:
            # This thread was held up: the answers that have arrived are read first.
            pending.waited = True
            pending.timer = self._loop.call_at(now + _READ_S, self._over, pending, now + _READ_S)
            return
        asked = pending.ask_id or (self._prefetch and self._opened and self._asked_ahead)
        # A stream that is being opened has not failed: how long that takes is no wait for messages.
        outstanding = asked or pending.error is None
        if outstanding and now < pending.deadline_s + _GRACE_S and not pending.empty:
            if asked and not pending.ask_id and not pending.checking:
                pending.checking = True
                self._cancels.extend(ask_id for ask_id in self._asks if ask_id not in self._cancels)
                self.stream.wake()
            # What was not asked for yet is looked at again soon: it has to be asked for first.
            look_s = pending.deadline_s + _GRACE_S if asked else now + _EARLY_S
            pending.timer = self._loop.call_at(look_s, self._over, pending, look_s)
            return
        self._drop(pending)
        if pending.empty:
            pending.waiter.resolve([])
        else:
            error = pending.error or ServiceTimeout(
                "The bus did not answer in time; whether there are messages is not known."
            )
            pending.waiter.fail(exceptions.from_bus_error(error))
        self.stream.wake()

    def _watch(self) -> None:
        if self._sweeper is None and (self._buffer or len(self._settlements)):
            due_s = self._loop.time() + _SWEEP_S
            self._sweeper = self._loop.call_at(due_s, self._sweep, due_s)

    def _sweep(self, due_s: float) -> None:
        self._sweeper = None
        now = self._loop.time()
        # Where this thread was held up, answers may wait to be read: only what was over before that
        # is judged, the rest by the next sweep.
        self._settlements.expire(now if now - due_s <= _LATE_S else due_s - _SWEEP_S)
        if self._locks:
            self._release_stale()
        self._watch()

    def _release_stale(self) -> None:
        """Give back what has less than half of its lock left, wherever the time went."""
        until_s = time.monotonic() + self._lock_duration_s / 2
        stale = self._buffer.take_stale(until_s)
        if stale:
            # Nobody took them in half the time of their lock: nobody is in a hurry.
            self._idle = not self._pending
            self._release(stale)

    def _release_all(self) -> None:
        self._release([*self._ahead.reclaim(), *self._buffer.take_all()])

    def _release(self, pieces: list[Piece]) -> None:
        tokens = message_buffer.tokens(pieces)
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
