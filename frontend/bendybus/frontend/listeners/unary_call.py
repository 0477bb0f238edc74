"""One unary call of gRPC: its request is read in time, its answer made when there is room for it.

A request that is there at once, as nearly all are, costs nothing but its bytes. One that is not
takes room for the largest that the server allows: gRPC keeps what has come of it, and says neither
how much that is nor how much will come.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc

from bendybus.domain import errors, limits
from bendybus.domain.errors import BusError
from bendybus.frontend.core.call_ledger import CallLedger, Holder

Context = grpc.aio.ServicerContext[Any, Any]
# A request that comes within this time holds no more than a connection carries in it.
AT_ONCE_S: Final = 0.05
# How long a request may take, and how much more for each MB that it may have.
REQUEST_S: Final = 10.0
REQUEST_S_PER_MB: Final = 1.0
# Smaller ones are not counted: the number of calls bounds them.
SMALL_BYTES: Final = 4 * limits.KB
# An answer that its caller does not take in this time is dropped.
ANSWER_S: Final = 60.0
# A call that is not to wait for messages waits so long for room.
ROOM_S_MIN: Final = 0.25


class UnaryCall:
    """What a call holds of a ledger, given back when it is over."""

    def __init__(self, ledger: CallLedger, context: Context, policy: str) -> None:
        self._ledger = ledger
        self._context = context
        self._holder = Holder(context.peer(), policy)
        self._request_bytes = self._answer_bytes = 0
        # Where the answer takes its room.
        self._answers = ledger.answers

    def __enter__(self) -> "UnaryCall":
        if not self._ledger.places.take(self._holder.policy):
            raise errors.ServerBusy(
                "too many calls of this policy, or of all, are under way. Have fewer under way, or "
                "run more front ends.",
                retry_after_ms=1_000,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._ledger.places.give(self._holder.policy)
        self._give_request()
        self._give_answer()

    async def read(self, requests: AsyncIterator[bytes], bytes_max: int) -> bytes:
        """Return the request. Raises ServerBusy, ServiceTimeout, InvalidArgument."""
        loop = asyncio.get_running_loop()
        within_s = REQUEST_S + REQUEST_S_PER_MB * bytes_max / limits.MB
        busy: list[BusError] = []

        def late() -> None:
            try:
                self._take_request(bytes_max)
            except BusError as error:
                busy.append(error)
                deadline.reschedule(loop.time())

        timer = loop.call_later(AT_ONCE_S, late)
        try:
            async with asyncio.timeout(within_s) as deadline:
                data = await anext(requests, None)
        except TimeoutError:
            raise next(iter(busy), _too_late(within_s)) from None
        finally:
            timer.cancel()
        if data is None:
            raise errors.InvalidArgument("request", "there is none.")
        self._give_request()
        if len(data) > SMALL_BYTES:
            self._take_request(len(data))
        return data

    async def room_for_answer(self, size_bytes: int, wait_s: float | None = None) -> None:
        """Wait until an answer of at most so many bytes may be made. Raises ServerBusy.

        `wait_s`: how long the call may wait for messages, if that is what it does.
        """
        if not size_bytes:
            return
        within_s = ANSWER_S
        if wait_s is not None:
            within_s = min(max(wait_s, ROOM_S_MIN), ANSWER_S)
            self._answers = self._ledger.receives
        try:
            async with asyncio.timeout(within_s):
                await self._answers.wait(self._holder, size_bytes)
        except TimeoutError:
            raise errors.ServerBusy(
                "answers that are being made, or are not read yet, fill what calls of this "
                "connection, of this policy or of all may hold. Have fewer under way, ask for "
                "fewer messages at a time, and repeat this one.",
                retry_after_ms=1_000,
            ) from None
        self._answer_bytes = size_bytes

    async def write(self, data: bytes) -> None:
        """Write the answer; end the call if its caller does not take it."""
        self._give_request()
        # What it was made of is gone.
        self._give_answer(keep_bytes=len(data))
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._context.write(data)
        except TimeoutError:
            raise errors.ServiceTimeout(
                f"the answer of {len(data)} bytes was not read within {ANSWER_S:.0f} s. Read it, "
                "and make fewer calls at a time."
            ) from None

    def _take_request(self, size_bytes: int) -> None:
        if not self._ledger.requests.take(self._holder, size_bytes):
            raise errors.ServerBusy(
                "large or slow requests use up the memory for requests of this connection, of this "
                "policy or of all callers. Make fewer at a time, and retry.",
                retry_after_ms=1_000,
            )
        self._request_bytes = size_bytes

    def _give_request(self) -> None:
        size_bytes, self._request_bytes = self._request_bytes, 0
        if size_bytes:
            self._ledger.requests.give(self._holder, size_bytes)

    def _give_answer(self, keep_bytes: int = 0) -> None:
        keep_bytes = min(keep_bytes, self._answer_bytes)
        size_bytes, self._answer_bytes = self._answer_bytes - keep_bytes, keep_bytes
        if size_bytes:
            self._answers.give(self._holder, size_bytes)


def _too_late(within_s: float) -> BusError:
    return errors.ServiceTimeout(
        f"the request was not received within {within_s:.0f} s. Send less at a time."
    )
