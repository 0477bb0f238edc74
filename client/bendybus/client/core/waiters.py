"""Waiters: how results get from the I/O thread back to the threads and loops of the application."""

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from bendybus.client.exceptions import OperationTimeoutError

# How long a thread whose time is over lets the I/O thread read what has arrived.
_READ_S: Final = 1.0
# How much longer than the I/O thread an application's thread waits.
MARGIN_S: Final = 5.0


class Waiter(Protocol):
    """Gets one outcome, on whichever thread or loop its caller waits."""

    def resolve(self, value: Any) -> None:
        """Hand over the result."""

    def fail(self, error: BaseException) -> None:
        """Hand over the error."""


class Caller(Waiter, Protocol):
    """A waiter that may leave before there is an outcome."""

    @property
    def abandoned(self) -> bool:
        """Whether the caller has stopped waiting."""


class ThreadWaiter:
    """A thread that waits on a lock. `lost` gets a result that came after the wait."""

    __slots__ = ("_claim", "_error", "_lock", "_lost", "_value")

    def __init__(self, lost: Callable[[Any], None] | None = None) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._claim = [None]
        self._value: Any = None
        self._error: BaseException | None = None
        self._lost = lost

    @property
    def abandoned(self) -> bool:
        """Whether the thread has gone. Before there is an outcome only."""
        return not self._claim

    def resolve(self, value: Any) -> None:
        """Hand over the result, or to `lost` if the thread has gone."""
        self._value = value
        if self._take():
            self._lock.release()
        elif self._lost is not None:
            self._lost(value)

    def fail(self, error: BaseException) -> None:
        """Hand over the error."""
        self._error = error
        if self._take():
            self._lock.release()

    def wait(self, timeout_s: float) -> Any:
        """Return the result or raise the error. The I/O thread ends the operation in time.

        Raises OperationTimeoutError if it does not, MARGIN_S later.
        """
        return self.wait_at_most(timeout_s + MARGIN_S)

    def wait_at_most(self, timeout_s: float) -> Any:
        """Return the result or raise the error; OperationTimeoutError when neither comes."""
        try:
            # Where the whole process was suspended, the I/O thread has answers to read first:
            # hence the second wait.
            given_s = min(timeout_s, threading.TIMEOUT_MAX)
            if not (self._lock.acquire(timeout=given_s) or self._lock.acquire(timeout=_READ_S)):
                raise OperationTimeoutError
        except BaseException:
            if not self._take() and self._error is None and self._lost is not None:
                self._lost(self._value)
            raise
        if self._error is not None:
            raise self._error
        return self._value

    def _take(self) -> bool:
        # list.pop is atomic: either the giver or the one who gives up wins, never both.
        try:
            self._claim.pop()
        except IndexError:
            return False
        return True


class LoopWaiter:
    """A future of an application's loop. `lost` gets a result that came after a cancellation."""

    __slots__ = ("_lost", "_outbox", "future")

    def __init__(self, outbox: "Outbox", lost: Callable[[Any], None] | None = None) -> None:
        self.future: asyncio.Future[Any] = outbox.future()
        self._outbox = outbox
        self._lost = lost

    @property
    def abandoned(self) -> bool:
        """Whether the future was cancelled. From any thread."""
        return self.future.cancelled()

    def resolve(self, value: Any) -> None:
        """Hand over the result, or to `lost` if the future was cancelled."""
        self._outbox.put(self, value, None)

    def fail(self, error: BaseException) -> None:
        """Hand over the error."""
        self._outbox.put(self, None, error)

    async def wait(self, timeout_s: float) -> Any:
        """Return the result or raise the error. The I/O thread ends the operation in time."""
        future = self.future
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self._give_up(future.result())
            raise

    async def wait_at_most(self, timeout_s: float) -> Any:
        """Return the result or raise the error; OperationTimeoutError when neither comes."""
        try:
            return await asyncio.wait_for(self.wait(timeout_s), timeout_s)
        except TimeoutError:
            raise OperationTimeoutError from None

    def settle(self, value: Any, error: BaseException | None) -> None:
        """Resolve the future. On the application's loop."""
        future = self.future
        if future.done():
            if error is None:
                self._give_up(value)
        elif error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def _give_up(self, value: Any) -> None:
        if self._lost is not None:
            self._lost(value)


class Outbox:
    """Outcomes on their way to one application loop: one wake-up for all that are ready."""

    __slots__ = ("__weakref__", "_loop", "_ready", "_woken")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weak: the I/O thread outlives the application's loops, and knows them by their outboxes.
        self._loop = weakref.ref(loop)
        self._ready: deque[tuple[LoopWaiter, Any, BaseException | None]] = deque()
        self._woken = False

    def future(self) -> asyncio.Future[Any]:
        """Return a new future of the loop. On that loop."""
        loop = self._loop()
        assert loop is not None, "it is running"
        return loop.create_future()

    def put(self, waiter: LoopWaiter, value: Any, error: BaseException | None) -> None:
        """Add an outcome. From any thread."""
        self._ready.append((waiter, value, error))
        if not self._woken:
            self._woken = True
            loop = self._loop()
            try:
                if loop is not None:
                    loop.call_soon_threadsafe(self._flush)
                    return
            except RuntimeError:  # the application's loop is closed
                pass
            # The caller no longer waits.
            self._give_up_all()

    def _flush(self) -> None:
        # STRICTLY BEFORE emptying: who appends from here on wakes the loop again.
        self._woken = False
        ready = self._ready
        for _ in range(len(ready)):
            waiter, value, error = ready.popleft()
            waiter.settle(value, error)

    def _give_up_all(self) -> None:
        self._woken = False
        while self._ready:
            waiter, value, error = self._ready.popleft()
            if error is None:
                waiter._give_up(value)
