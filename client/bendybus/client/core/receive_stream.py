"""The receive stream of one receiver: frames in their order, a bounded buffer, settlements.

    receive ─► the buffer, or `receive_asks` ─► Ask ────► bus
    settle ──► `settlements` ────────────────► SettleFrame

The buffer holds what was delivered to no caller: messages of asks made ahead (`prefetch_count`),
those of a receive that was cancelled, and what a smaller receive left of those that a loop asked
for. When too little of their lock is left, or the receiver closes, messages are given back; without
`prefetch_count` as soon as no receive took them for a moment. The bus counts no delivery for what
the application never saw.

Runs on the I/O thread.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable
from typing import Final

from bendybus.client.core import pending_receive, receive_asks, settlements
from bendybus.client.core.io_thread import Waiter
from bendybus.client.core.pending_receive import BatchSlice, MessageBuffer, PendingReceive
from bendybus.client.core.receive_asks import ReceiveAsks
from bendybus.client.core.retry_policy import RetryPolicy
from bendybus.client.core.session_link import SessionLink
from bendybus.client.core.settlements import NoWaiter, Settlement, Settlements
from bendybus.client.core.stream import Call, Stream
from bendybus.client.exceptions import ServiceBusError
from bendybus.domain import limits
from bendybus.domain.errors import BusError
from bendybus.v1 import receiver_pb2
from bendybus.v1.receiver_pb2 import OpenReceiver, ReceiveStreamRequest
from bendybus.wire import frame_forms, statuses

_SWEEP_S: Final = 0.5
_CLOSE_TIMEOUT_S: Final = 2.0


class ReceiveStream:
    """The part of a receiver that runs on the I/O thread."""

    def __init__(
        self,
        open_call: Callable[[], Awaitable[Call]],
        loop: asyncio.AbstractEventLoop,
        retry: RetryPolicy,
        opening: OpenReceiver,
        prefetch_count: int,
        explain: Callable[[BusError], BusError] = lambda error: error,
        session: SessionLink | None = None,
    ) -> None:
        self._open_call = open_call
        self._loop = loop
        self._opening = opening
        self._prefetch = prefetch_count
        self.session = session
        self._locks = opening.receive_mode == receiver_pb2.RECEIVE_MODE_PEEK_LOCK
        self.stream = Stream(self, retry, explain, merges=True)
        if session is not None:
            session.wake = self.stream.wake
        self._settlements = Settlements(retry)
        self._buffer = MessageBuffer()
        drops = self._locks and session is None
        self._asks = ReceiveAsks(
            self.stream, loop, retry, prefetch_count, self._buffer, self._release, drops=drops
        )
        # When the last outcome of a settlement came, on the monotonic clock.
        self.outcome_s = 0.0
        self._open_sent = self._opened = False
        # Whether a settlement may have a delay; said when the stream is opened.
        self._lock_duration_s = limits.LOCK_DURATION_MS_DEFAULT / 1_000
        self._sweeper: asyncio.TimerHandle | None = None
        # Whether the last sweep found messages in the buffer, and no receive has come since.
        self._left = False
        self._closing = False
        self._closed = False
        self._changed = asyncio.Event()

    @property
    def unfinished(self) -> bool:
        """Whether closing it would still tell the bus something."""
        holds = self._asks.ahead or self._buffer or not self._settlements.all_ended
        holds = holds or self._closing
        holds = holds or (self.session is not None and self.session.ready)
        return self._opened and not self._closed and bool(holds)

    def open_session(self, waiter: Waiter[None]) -> None:
        """Let a caller wait until the session is locked."""
        assert self.session is not None
        if self._closing:
            waiter.fail(ServiceBusError("The receiver is closed."))
            return
        self.session.open(waiter, self._loop)
        self.stream.wake()

    def forget_session(self, waiter: Waiter[None]) -> None:
        """Give up the session, if a caller that has gone was the last one that it is for."""
        assert self.session is not None
        if not self._closing:
            self.session.leave(waiter, open_sent=self._open_sent)

    def receive(self, pending: PendingReceive) -> None:
        """Serve a receive from the buffer, or ask the bus for it."""
        if self._closing:
            pending.waiter.resolve([])
            return
        if self.session is not None:
            self.session.used()
            if self.session.lost is not None:
                pending.fail(self.session.lost)
                return
        self._left = False
        if ahead := self._asks.add(pending):
            self._buffer.put_back(ahead)
        self._serve()
        self._watch()
        if pending in self._asks.pending:
            self._asks.watch(pending)
        self.stream.wake()

    def forget(self, pending: PendingReceive) -> None:
        """Drop a receive whose caller has gone. What arrives for it goes to the buffer."""
        if pending in self._asks.pending:
            self._asks.drop(pending)
            self.stream.wake()

    def put_back(self, slices: list[BatchSlice]) -> None:
        """Take messages that a caller was given but never saw."""
        self._buffer.put_back([*slices, *self._asks.ahead.reclaim()])
        if self._closing:
            self._release_all()
        self._serve()
        self._watch()

    def settle(self, settlement: Settlement) -> None:
        """Take a settlement; its waiter gets an Outcome."""
        if self._closed:
            settlement.waiter.fail(ServiceBusError("The receiver is closed."))
            return
        if not settlement.deadline_s:
            settlement.deadline_s = self._loop.time() + settlement.timeout_s
        if self.session is not None and self._settle_in_session(self.session, settlement):
            return
        self._settlements.add(settlement)
        if settlement.next_count:
            self._asks.plan_ahead(
                settlement.next_count,
                settlement.next_wait_s,
                with_outcome=not settlement.in_background,
            )
        self._watch()
        self.stream.wake()

    def _settle_again(self, settlement: Settlement) -> None:
        if self._settlements.take_rested(settlement):
            self.settle(settlement)

    def _settle_in_session(self, session: SessionLink, settlement: Settlement) -> bool:
        """Follow a settlement in a session; return True if its lock is lost, and it has failed."""
        if session.lost is not None:
            settlements.refuse(settlement, session.lost)
            return True
        if session.settling(settlement, self.stream.wake):
            # What comes after it in the session comes again after it.
            later = [*self._asks.ahead.reclaim(), *self._buffer.take_all()]
            self._loop.call_soon(self._release, later)
        return False

    def begin_return(self) -> None:
        """Ask for nothing until `end_return`: a transaction gives messages of the session back.

        What is buffered comes again after them; what arrives meanwhile, too.
        """
        if self.session is not None:
            self.session.returning += 1
            self._release_all()

    def end_return(self) -> None:
        """Ask again, once all is here that was delivered before the transaction had its outcome."""
        if self.session is None:
            return
        # The outcome came on a stream of its own and may have overtaken deliveries: this one's
        # comes after them. The session's token leads to no message, so that none is released.
        release = receiver_pb2.DISPOSITION_RELEASE
        self.settle(Settlement(release, self.session.token, NoWaiter(), self._lock_duration_s))
        self.session.returning -= 1
        self.stream.wake()

    def take_ahead(self, count: int) -> list[BatchSlice]:
        """Return the messages that came with the last settlement, if `count` were asked for.

        From any thread.
        """
        return self._asks.ahead.take(count, self._stale_before_s())

    async def close(self) -> None:
        """Cancel asks, release what no caller saw, wait for settlements, end the stream."""
        if self._closing:
            await self._until(lambda: self._closed, self._loop.time() + 2 * _CLOSE_TIMEOUT_S)
            return
        self._closing = True
        self._asks.close()
        self.stream.wake()
        deadline = self._loop.time() + _CLOSE_TIMEOUT_S
        await self._until(lambda: not self._asks.open, deadline)
        self._release_all()
        await self._until(lambda: self._settlements.all_ended, deadline)
        if (session := self.session) is not None and (session.ready or self._open_sent):
            session.close()
            self.stream.wake()
            await self._until(lambda: session.closed or session.lost is not None, deadline + 1.0)
        with contextlib.suppress(TimeoutError):
            await self.stream.close()
        self._settlements.fail_all()
        self._closed = True
        self._changed.set()
        self._asks.stop()
        if self._sweeper is not None:
            self._sweeper.cancel()

    async def open_call(self) -> Call:
        """Open the stream."""
        return await self._open_call()

    def has_work(self) -> bool:
        """Return whether a receive or a settlement waits."""
        work = self._asks.pending or len(self._settlements)
        return bool(work or (self.session is not None and self.session.has_work))

    def next_request(self) -> ReceiveStreamRequest | None:
        """Return what to write: the opening, settlements, cancelled asks, asks."""
        if not self._open_sent:
            opening, session = self._opening, self.session
            if session is not None:
                if not self.has_work():
                    # Its callers have gone while the stream was opened.
                    return None
                opening = session.opening(opening, self._loop.time())
            self._open_sent = True
            return ReceiveStreamRequest(open=opening)
        if self.session is not None and not len(self._settlements):
            close = self.session.next_close(open_sent=self._open_sent)
            if close is not None:
                return ReceiveStreamRequest(close_session=close)
        if not self._opened:
            # A refusal of the opening would get lost behind another write.
            return None
        if self._settlements.has_waiting:
            return ReceiveStreamRequest(settle=self._settlements.next_frame())
        if self.session is not None and self.session.returning:
            return None
        return self._asks.next_request(self._settlements.frame_id)

    def handle(self, response: receiver_pb2.ReceiveStreamResponse) -> None:
        """Take an answer."""
        for part in frame_forms.parts(response):
            self._handle(part)
        self._changed.set()

    def _handle(self, response: receiver_pb2.ReceiveStreamResponse) -> None:
        kind = response.WhichOneof("kind")
        if kind == "delivery":
            self._delivered(response.delivery)
        elif kind == "settle_result":
            self.outcome_s = time.monotonic()
            for pause, settlement in self._settlements.answered(response.settle_result):
                self._loop.call_later(pause, self._settle_again, settlement)
            if self._settlements.has_waiting:
                self.stream.wake()
        elif kind == "opened":
            self._opened = True
            self.stream.wake()
            if response.opened.lock_duration_ms:
                self._lock_duration_s = response.opened.lock_duration_ms / 1_000
            if self.session is not None:
                sent_s = self.stream.clock.at(response.opened.sent_ms, time.monotonic())
                self.session.opened(response.opened.session, sent_s)
        elif kind == "session_closed" and self.session is not None:
            if self.session.close_answered():
                # Another session, or this one again, is locked on a stream of its own.
                self.stream.half_close()
        elif kind == "error":
            self.stream.refusal = statuses.from_error(response.error)
            self.broken(self.stream.refusal)

    def broken(self, error: BusError) -> None:
        """Ask again on the next stream, or give up what the policy gives up."""
        self._open_sent = self._opened = False
        if self.session is not None:
            self.session.broken(error)
        self._settlements.stream_broke(error)
        if self.session is not None and self.session.lost is not None:
            self._settlements.refuse(self.session.lost)
        self._asks.broken(error)
        self._changed.set()

    def _delivered(self, delivery: receiver_pb2.Delivery) -> None:
        slices = self._asks.delivered(delivery)
        if self.session is not None:
            slices = self._in_session(self.session, delivery, slices)
        if slices:
            self._buffer.add(slices)
            if self.session is not None:
                self._serve()
            else:
                # What has just come goes to who waits for it, though the line took its time.
                self._serve_waiting()
            if self._prefetch or self._asks.pending:
                # There is room for another ask.
                self.stream.wake()
            self._watch()

    def _in_session(
        self,
        session: SessionLink,
        delivery: receiver_pb2.Delivery,
        slices: list[BatchSlice],
    ) -> list[BatchSlice]:
        """Note messages of a session; give them back while one before them goes back."""
        for batch in delivery.batches:
            session.hold(batch.lock_tokens)
        if not session.returning:
            return slices
        self._release([*self._asks.ahead.reclaim(), *slices])
        return []

    def _serve(self) -> None:
        if self._locks and self._buffer:
            self._release_stale()
        self._serve_waiting()

    def _serve_waiting(self) -> None:
        waiting = self._asks.pending
        while waiting and self._buffer and not self._closing:
            pending = waiting[0]
            self._asks.drop(pending)
            pending.waiter.resolve(self._buffer.take(pending.max_messages))

    def _watch(self) -> None:
        if self._sweeper is None and (self._buffer or not self._settlements.all_ended):
            due_s = self._loop.time() + _SWEEP_S
            self._sweeper = self._loop.call_at(due_s, self._sweep, due_s)

    def _sweep(self, due_s: float) -> None:
        self._sweeper = None
        now = self._loop.time()
        # Where this thread was held up, answers may wait to be read: only what was over before that
        # is judged, the rest by the next sweep.
        self._settlements.expire(now if now - due_s <= receive_asks.LATE_S else due_s - _SWEEP_S)
        if self._locks:
            self._release_stale()
            self._release_left()
        self._watch()

    def _release_left(self) -> None:
        """Give back what was left at the last sweep: only prefetch keeps messages for later."""
        if self._left and not self._prefetch:
            self._release(self._buffer.take_all())
        self._left = bool(self._buffer)

    def _release_stale(self) -> None:
        """Give back what has too little of its lock left, wherever the time went."""
        stale = self._buffer.take_stale(self._stale_before_s())
        if stale:
            # No receive took them in so long a time: ask for no more until one does.
            self._asks.idle = not self._asks.pending
            self._release(stale)

    def _stale_before_s(self) -> float:
        """Return when a lock must end, or later, for its message to be handed over.

        That of a message began as it was reserved: half of it must be left. Messages of a session
        share its lock. From any thread.
        """
        if self.session is None:
            return time.monotonic() + self._lock_duration_s / 2
        return -math.inf if self.session.lasts(self._lock_duration_s) else math.inf

    def _release_all(self) -> None:
        self._release([*self._asks.ahead.reclaim(), *self._buffer.take_all()])

    def _release(self, slices: list[BatchSlice]) -> None:
        tokens = pending_receive.tokens(slices)
        if tokens:
            # While the bus is away it waits: until their locks end there is something to give back.
            timeout_s = _CLOSE_TIMEOUT_S if self._closing else self._lock_duration_s
            release = receiver_pb2.DISPOSITION_RELEASE
            self.settle(Settlement(release, tokens, NoWaiter(), timeout_s))

    async def _until(self, done: Callable[[], bool], deadline_s: float) -> None:
        while not done() and (left := deadline_s - self._loop.time()) > 0:
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except TimeoutError:
                return
