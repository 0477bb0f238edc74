"""The receives of one receiver that wait, and the asks that are open for them at the bus.

    PendingReceive ─► Ask ────► bus
          ▲                      │ Delivery, perhaps empty
          └──────────────────────┘

With `prefetch_count` the asks are for the buffer, not for a receive; what a loop asks for
ahead is in `pending_receive.AskAhead`.

A receive ends empty only when the bus answers that there is nothing. When its wait is over without
an answer, it fails with the reason why the bus could not be asked. Asks for the buffer are
cancelled to get that answer, and sent again.

Used by `receive_stream`, on the I/O thread.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from bendybus.client.core import pending_receive
from bendybus.client.core.pending_receive import AskAhead, BatchSlice, MessageBuffer, PendingReceive
from bendybus.client.core.retry_policy import RetryPolicy, counted
from bendybus.client.core.stream import Stream
from bendybus.client.messages.received_message import Delivered
from bendybus.domain.errors import BusError
from bendybus.v1.receiver_pb2 import Ask, CancelAsk, Delivery, ReceiveStreamRequest
from bendybus.wire import statuses

_log = logging.getLogger("bendybus.client")
# The bus answers at the end of a wait; this is how long its answer may take to get here. Less than
# `io_thread.MARGIN_S`, by which a thread that waits for this thread waits longer.
_GRACE_S: Final = 4.0
# Asks of one receiver that are open at a time; further receives wait here for their turn.
_ASKS_MAX: Final = 64
_EARLY_S: Final = 0.05
# A timer that is later than this: the thread was held up, and answers may wait to be read.
LATE_S: Final = 0.2
_READ_S: Final = 0.25
# Of an ask for the buffer: it stays open until there is a message.
_NO_END_MS: Final = -1


class ReceiveAsks:
    """Which receives wait, what is asked of the bus, and when a receive ends without messages."""

    def __init__(
        self,
        stream: Stream,
        loop: asyncio.AbstractEventLoop,
        retry: RetryPolicy,
        prefetch_count: int,
        buffer: MessageBuffer,
        release: Callable[[list[BatchSlice]], None],
        *,
        drops: bool,
    ) -> None:
        self._stream = stream
        self._loop = loop
        self._retry = retry
        self._prefetch = prefetch_count
        self._buffer = buffer
        self._release = release
        # Whether messages have locks of their own: they are dropped when those have ended.
        self._drops = drops
        self.pending: deque[PendingReceive] = deque()
        # Open asks: the receive, that of a loop, or how much credit was asked for ahead.
        self.open: dict[int, PendingReceive | AskAhead | int] = {}
        # When they were sent, on the monotonic clock.
        self._sent_s: dict[int, float] = {}
        self._ask_id = 0
        self._asked_ahead = 0
        self._cancels: deque[int] = deque()
        self.ahead = AskAhead()
        self._ahead_timer: asyncio.TimerHandle | None = None
        # Set while no caller receives: then nothing is asked for ahead.
        self.idle = True
        self._closed = False

    def add(self, pending: PendingReceive) -> list[BatchSlice]:
        """Take a receive; return what was asked for ahead and is there: it comes before all else.

        `watch` it when it could not be served.
        """
        self.idle = False
        pending.deadline_s = self._loop.time() + pending.wait_s
        self.pending.append(pending)
        return self._use_ahead(pending) if self.ahead else []

    def watch(self, pending: PendingReceive) -> None:
        """Let a receive end when its wait is over."""
        pending.timer = self._loop.call_at(
            pending.deadline_s, self._over, pending, pending.deadline_s
        )

    def drop(self, pending: PendingReceive) -> None:
        """Remove a receive, and cancel its ask."""
        self.pending.remove(pending)
        if pending.timer is not None:
            pending.timer.cancel()
        if pending.ask_id:
            self._cancels.append(pending.ask_id)
            pending.ask_id = 0

    def close(self) -> None:
        """End all receives without messages and cancel all asks; from now on nothing is asked."""
        self._closed = True
        for pending in list(self.pending):
            self.drop(pending)
            pending.waiter.resolve([])
        self._cancel_all()

    def stop(self) -> None:
        """Stop the timer."""
        if self._ahead_timer is not None:
            self._ahead_timer.cancel()

    def next_request(self, settle_frame_id: int) -> ReceiveStreamRequest | None:
        """Return what to write: cancelled asks, then asks. The id is that of the last SettleFrame.

        An ask ahead is answered with the outcome of that frame, if its step waits for that.
        """
        if self._cancels:
            return ReceiveStreamRequest(cancel_ask=CancelAsk(ask_id=self._cancels.popleft()))
        if self._closed:
            return None
        if self._prefetch:
            return self._ask_for_buffer()
        if self.ahead.planned:
            self.ahead.opened(self._ask_id + 1, self._loop.time())
            wait_ms = round(self.ahead.wait_s * 1_000)
            held_for = settle_frame_id if self.ahead.with_outcome else 0
            return self._ask(self.ahead, self.ahead.count, wait_ms, held_for)
        if len(self.open) < _ASKS_MAX:
            for pending in self.pending:
                if not pending.ask_id:
                    pending.ask_id = self._ask_id + 1
                    wait_s = max(0.0, pending.deadline_s - self._loop.time())
                    return self._ask(pending, pending.max_messages, round(wait_s * 1_000))
        return None

    def _ask(
        self,
        asked: PendingReceive | AskAhead | int,
        max_messages: int,
        max_wait_ms: int,
        settle_frame_id: int = 0,
    ) -> ReceiveStreamRequest:
        self._ask_id += 1
        self.open[self._ask_id] = asked
        self._sent_s[self._ask_id] = time.monotonic()
        return ReceiveStreamRequest(
            ask=Ask(
                ask_id=self._ask_id,
                max_messages=max_messages,
                max_wait_ms=max_wait_ms,
                with_settle_frame_id=settle_frame_id,
            )
        )

    def _ask_for_buffer(self) -> ReceiveStreamRequest | None:
        known = self._buffer.messages + self._asked_ahead
        free = self._prefetch - known
        # Not for every message that leaves the buffer: for half of them at once.
        if self.idle or free <= 0 or (known and free * 2 < self._prefetch):
            return None
        self._asked_ahead += free
        return self._ask(free, free, _NO_END_MS)

    def _cancel_all(self) -> None:
        self._cancels.extend(ask_id for ask_id in self.open if ask_id not in self._cancels)

    def delivered(self, delivery: Delivery) -> list[BatchSlice]:
        """Take the answer to an ask; return messages that are for the buffer, if any."""
        asked = self.open.pop(delivery.ask_id, None)
        if isinstance(asked, int):
            self._asked_ahead -= asked
        slices = self._in_time(delivery)
        if not delivery.batches:
            error = statuses.from_error(delivery.error) if delivery.HasField("error") else None
            self._nothing(asked, delivery.ask_id, error)
        elif asked is self.ahead and self.ahead.ask_id == delivery.ask_id and not self._closed:
            if slices and not self._buffer:
                self.ahead.arrived(slices)
                return []
            # Messages of an ask that was cancelled came first: they are received first.
            self.ahead.withdraw()
        elif (
            isinstance(asked, PendingReceive)
            and asked.ask_id == delivery.ask_id
            and asked in self.pending
        ):
            asked.ask_id = 0
            self.pending.remove(asked)
            self.pending.appendleft(asked)
            if not slices:
                self._stream.wake()
        return slices

    def _in_time(self, delivery: Delivery) -> list[BatchSlice]:
        """Return the messages of a delivery whose locks have not ended on the way.

        The others are those of another receiver by now. What is deleted as it is delivered has no
        lock: all of it is handed over. Messages of a session share its lock, which may have been
        renewed since: what cannot be handed over goes back, see `ReceiveStream`.
        """
        now_s, clock = time.monotonic(), self._stream.clock
        asked_s = self._sent_s.pop(delivery.ask_id, None)
        if asked_s is not None:
            clock.answered(asked_s, delivery.sent_ms)
        sent_s = clock.at(delivery.sent_ms, now_s)
        slices: list[BatchSlice] = []
        for batch in delivery.batches:
            delivered = Delivered(batch, sent_s)
            if self._drops and delivered.lock_end_s <= now_s:
                _log.info(
                    "client: %s: %d messages arrived after their locks had ended; dropped",
                    self._stream.name,
                    len(delivered),
                )
                continue
            slices.append((delivered, 0, len(delivered)))
        return slices

    def _nothing(
        self, asked: PendingReceive | AskAhead | int | None, ask_id: int, error: BusError | None
    ) -> None:
        """Take an answer without messages."""
        if isinstance(asked, AskAhead):
            # The next receive asks again, and is told why there are none.
            if asked.ask_id == ask_id:
                asked.withdraw()
            return
        if isinstance(asked, PendingReceive):
            if asked.ask_id != ask_id or asked not in self.pending:
                self._stream.wake()
            else:
                self._nothing_for(asked, error)
            return
        if asked is not None:
            for pending in [pending for pending in self.pending if pending.checking]:
                self.drop(pending)
                if error is None:
                    pending.waiter.resolve([])
                else:
                    pending.fail(error)
        # Not at once: a bus that cannot answer would be asked in a busy loop.
        self._loop.call_later(_EARLY_S, self._stream.wake)

    def _nothing_for(self, pending: PendingReceive, error: BusError | None) -> None:
        """Take the answer for a receive that waits: end it, or ask again for the rest."""
        pending.ask_id = 0
        pause_s = _EARLY_S
        if error is not None:
            pause_s = self._retry.pause_s(pending.failures + 1, error)
            if self._loop.time() + pause_s >= pending.deadline_s:
                # There is no time to try again.
                pending.failures = self._retry.total
            self._failed(pending, error)
        else:
            pending.error, pending.empty = None, True
            if self._loop.time() + pause_s >= pending.deadline_s:
                self.drop(pending)
                pending.waiter.resolve([])
        # The bus waits no longer than its own limit: ask again for the rest.
        self._loop.call_later(pause_s, self._stream.wake)

    def broken(self, error: BusError) -> None:
        """Forget the asks of a stream that ended; fail the receives that the policy gives up."""
        self.open.clear()
        self._sent_s.clear()
        self._cancels.clear()
        self._ask_id = self._asked_ahead = 0
        self.ahead.withdraw()
        for pending in list(self.pending):
            pending.ask_id = 0
            self._failed(pending, error)

    def _failed(self, pending: PendingReceive, error: BusError) -> None:
        """Note why the bus could not answer a receive; give it up when that is final."""
        if counted(error):
            pending.failures += 1
            pending.error, pending.empty = error, False
        if pending.checking or not self._retry.allows(error, pending.failures):
            self.drop(pending)
            pending.fail(error)

    def _over(self, pending: PendingReceive, due_s: float) -> None:
        """Handle the end of a wait: the bus decides, and its answer may be on its way."""
        if pending not in self.pending:
            return
        now = self._loop.time()
        if now - due_s > LATE_S and not pending.waited:
            # This thread was held up: the answers that have arrived are read first.
            pending.waited = True
            pending.timer = self._loop.call_at(now + _READ_S, self._over, pending, now + _READ_S)
            return
        asked = pending.ask_id or (self._prefetch and self._asked_ahead)
        # A stream that is being opened has not failed: that time is not a wait for messages.
        outstanding = asked or pending.error is None
        if outstanding and now < pending.deadline_s + _GRACE_S and not pending.empty:
            if asked and not pending.ask_id and not pending.checking:
                pending.checking = True
                self._cancel_all()
                self._stream.wake()
            # Not asked for yet: checked again soon, since the bus has to answer first.
            look_s = pending.deadline_s + _GRACE_S if asked else now + _EARLY_S
            pending.timer = self._loop.call_at(look_s, self._over, pending, look_s)
            return
        self.drop(pending)
        pending.end()
        self._stream.wake()

    def plan_ahead(self, count: int, wait_s: float, *, with_outcome: bool) -> None:
        """Ask with the next settlement, unless the next step of the loop would get something.

        `with_outcome`: the step waits for the outcome, which its messages are to come with.
        """
        if not (self._prefetch or self.ahead or self.pending or self._buffer or self._closed):
            self.ahead.plan(count, wait_s, with_outcome=with_outcome)
            self._watch_ahead()

    def _use_ahead(self, pending: PendingReceive) -> list[BatchSlice]:
        """Serve a receive with what was asked for ahead: messages, or the answer if in time."""
        count, slices, ask_id = self.ahead.count, self.ahead.reclaim(), self.ahead.withdraw()
        if ask_id:
            # An ask that waits longer would not be answered when this receive is over.
            in_time = self.ahead.until_s <= pending.deadline_s + _EARLY_S
            if in_time and pending.max_messages == count and self.pending[0] is pending:
                pending.ask_id = ask_id
                self.open[ask_id] = pending
            else:
                self.open[ask_id] = 0
                self._cancels.append(ask_id)
        return slices

    def _watch_ahead(self) -> None:
        if self._ahead_timer is None:
            self._ahead_timer = self._loop.call_later(pending_receive.LOOK_S, self._look_ahead)

    def _look_ahead(self) -> None:
        self._ahead_timer = None
        if self.ahead.look(self._cancels.append, self._release):
            self._watch_ahead()
        if self._cancels:
            self._stream.wake()
