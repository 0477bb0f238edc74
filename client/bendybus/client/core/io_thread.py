"""The one thread of a process that does I/O: a loop of its own, and the way there and back.

Every grpc.aio object lives here. Application threads and loops hand over with `submit`, which
wakes this loop once for everything that piled up; results go back through a waiter, once per
application loop for everything that is done. Nothing starts before the first client is used.

Fork: gRPC cannot be carried through one. Before a fork the thread lets go of all of gRPC and
ends; the parent goes on with the same loop in a new thread, the child starts with nothing.
"""

import asyncio
import atexit
import contextlib
import gc
import logging
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, Protocol, TypeVar

from bendybus.client.exceptions import OperationTimeoutError
from bendybus.wire import event_loop

_log = logging.getLogger("bendybus.client")
# How long a thread whose time is over lets the I/O thread read what has arrived.
_READ_S: Final = 1.0
# How much longer than the I/O thread an application's thread waits.
MARGIN_S: Final = 5.0
_PAUSE_TIMEOUT_S: Final = 5.0
# How long a process that exits waits for the bus to take back what no caller saw.
_EXIT_S: Final = 2.5


Result = TypeVar("Result")
Taken = TypeVar("Taken", contravariant=True)


class Waiter(Protocol[Taken]):
    """Gets one outcome, on whichever thread or loop its caller waits."""

    def resolve(self, value: Taken) -> None:
        """Hand over the result."""

    def fail(self, error: BaseException) -> None:
        """Hand over the error."""


class Caller(Waiter[Taken], Protocol[Taken]):
    """A waiter that may leave before there is an outcome."""

    @property
    def abandoned(self) -> bool:
        """Whether the caller has stopped waiting."""


class ThreadWaiter(Generic[Result]):
    """A thread that waits on a lock. `lost` gets a result that came after the wait."""

    __slots__ = ("_claim", "_error", "_lock", "_lost", "_value")

    def __init__(self, lost: Callable[[Result], None] | None = None) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._claim = [None]
        # From `resolve` on.
        self._value: Result
        self._error: BaseException | None = None
        self._lost = lost

    @property
    def abandoned(self) -> bool:
        """Whether the thread has gone. Before there is an outcome only."""
        return not self._claim

    def resolve(self, value: Result) -> None:
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

    def wait(self, timeout_s: float) -> Result:
        """Return the result or raise the error. The I/O thread ends the operation in time.

        Raises OperationTimeoutError if it does not, MARGIN_S later.
        """
        return self.wait_at_most(timeout_s + MARGIN_S)

    def wait_at_most(self, timeout_s: float) -> Result:
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


class LoopWaiter(Generic[Result]):
    """A future of an application's loop. `lost` gets a result that came after a cancellation."""

    __slots__ = ("_lost", "_outbox", "future")

    def __init__(self, outbox: "Outbox", lost: Callable[[Result], None] | None = None) -> None:
        self.future: asyncio.Future[Result] = outbox.future()
        self._outbox = outbox
        self._lost = lost

    @property
    def abandoned(self) -> bool:
        """Whether the future was cancelled. From any thread."""
        return self.future.cancelled()

    def resolve(self, value: Result) -> None:
        """Hand over the result, or to `lost` if the future was cancelled."""
        self._outbox.put(self, value, None)

    def fail(self, error: BaseException) -> None:
        """Hand over the error."""
        self._outbox.put(self, None, error)

    async def wait(self, timeout_s: float) -> Result:
        """Return the result or raise the error. The I/O thread ends the operation in time."""
        future = self.future
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self._give_up(future.result())
            raise

    async def wait_at_most(self, timeout_s: float) -> Result:
        """Return the result or raise the error; OperationTimeoutError when neither comes."""
        try:
            # Not wait_for: before Python 3.12 it loses a cancellation that comes with the result.
            async with asyncio.timeout(timeout_s):
                return await self.wait(timeout_s)
        except TimeoutError:
            raise OperationTimeoutError from None

    def settle(self, value: Result, error: BaseException | None) -> None:
        """Resolve the future. On the application's loop."""
        future = self.future
        if future.done():
            if error is None:
                self._give_up(value)
        elif error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def _give_up(self, value: Result) -> None:
        if self._lost is not None:
            self._lost(value)


class Outbox:
    """Outcomes on their way to one application loop: one wake-up for all that are ready."""

    __slots__ = ("__weakref__", "_loop", "_ready", "_woken")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weak: the I/O thread outlives the application's loops, and knows them by their outboxes.
        self._loop = weakref.ref(loop)
        self._ready: deque[tuple[LoopWaiter[Any], Any, BaseException | None]] = deque()
        self._woken = False

    def future(self) -> asyncio.Future[Any]:
        """Return a new future of the loop. On that loop."""
        loop = self._loop()
        assert loop is not None, "it is running"
        return loop.create_future()

    def put(
        self, waiter: LoopWaiter[Result], value: Result | None, error: BaseException | None
    ) -> None:
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


# Reentrant: what is made under it may ask for the I/O thread.
_lock = threading.RLock()
_current: "IoThread | None" = None


class Pausable(Protocol):
    """An owner of gRPC objects that can close them for a fork."""

    async def pause(self) -> None:
        """Close every gRPC object; operations in progress stay open."""

    def resume(self) -> None:
        """Continue with the operations in progress."""

    async def leave(self) -> None:
        """Release what no caller saw, and send what is not sent yet: the process exits."""


class IoThread:
    """A loop in a daemon thread."""

    def __init__(self) -> None:
        self.loop = event_loop.factory()()
        event_loop.keep_lost_races_out_of_logs()
        self.owners: weakref.WeakSet[Pausable] = weakref.WeakSet()
        self._pending: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self._woken = False
        self._ended = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._outboxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Outbox] = (
            weakref.WeakKeyDictionary()
        )
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Run the loop in a new thread."""
        # gRPC reads it when it starts: without it nothing of gRPC works after a fork.
        os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "1")
        self._thread = threading.Thread(
            target=self._run, args=(self._thread,), name="bendybus-io", daemon=True
        )
        self._thread.start()

    def submit(self, function: Callable[..., None], *args: object) -> None:
        """Call `function(*args)` on the loop, in order. From any thread.

        Raises RuntimeError when the program is ending.
        """
        if self._ended:
            raise RuntimeError("the program is ending: the client's I/O thread has stopped")
        self._pending.append((function, args))
        if not self._woken:
            self._woken = True
            self.loop.call_soon_threadsafe(self._drain)

    def spawn(self, coroutine: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        """Run `coroutine` as a task that this thread owns. On the loop only."""
        task = self.loop.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def outbox(self, loop: asyncio.AbstractEventLoop) -> Outbox:
        """Return the way back to an application's loop."""
        box = self._outboxes.get(loop)
        if box is None:
            # Of this loop, which runs here: nobody else makes it.
            with making():
                box = self._outboxes[loop] = Outbox(loop)
        return box

    def loop_waiter(self, lost: Callable[[Result], None] | None = None) -> LoopWaiter[Result]:
        """Return a waiter of the running loop; `lost` gets a result whose caller was cancelled."""
        return LoopWaiter(self.outbox(asyncio.get_running_loop()), lost)

    def thread_waiter(self, lost: Callable[[Result], None] | None = None) -> ThreadWaiter[Result]:
        """Return a waiter of the current thread; `lost` gets a result that came too late."""
        return ThreadWaiter(lost)

    def pause(self) -> None:
        """Close gRPC and end the thread. From another thread."""
        if self._thread is None or not self._thread.is_alive():
            return
        future = asyncio.run_coroutine_threadsafe(self._pause_owners(), self.loop)
        try:
            future.result(_PAUSE_TIMEOUT_S)
        except TimeoutError:
            _log.warning("client: gRPC could not be closed in time before a fork")
            # What would be paused after `resume` would stay so.
            future.cancel()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_PAUSE_TIMEOUT_S)
        # What is left in reference cycles would keep gRPC's own threads alive.
        gc.collect()

    def resume(self) -> None:
        """Go on in a new thread after `pause`."""
        if self._ended:
            return
        for owner in list(self.owners):
            self.submit(owner.resume)
        self.start()

    def leave(self) -> None:
        """Wait a moment until every owner has left nothing behind. From another thread."""
        if self._thread is None or not self._thread.is_alive():
            return
        future = asyncio.run_coroutine_threadsafe(self._let_owners_leave(), self.loop)
        with contextlib.suppress(TimeoutError):
            future.result(_EXIT_S)

    def end(self) -> None:
        """Stop for good, since the program ends. From another thread.

        libuv, which calls Python from C, crashes the process if an event wakes it while the
        interpreter is torn down.
        """
        self._ended = True
        if self._thread is None or not self._thread.is_alive():
            return
        for task in asyncio.all_tasks(self.loop):
            # They end with the program; nothing is to be printed about it.
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_EXIT_S)

    def _run(self, before: threading.Thread | None) -> None:
        if before is not None:
            # Held up for longer than a fork waits: a loop runs on one thread at a time.
            before.join()
        asyncio.set_event_loop(self.loop)
        _log.debug("client: the I/O thread runs on %s", event_loop.name())
        self.loop.run_forever()

    def _drain(self) -> None:
        # STRICTLY BEFORE emptying: who appends from here on wakes the loop again.
        self._woken = False
        pending = self._pending
        for _ in range(len(pending)):
            function, args = pending.popleft()
            try:
                function(*args)
            except Exception:  # a boundary: one caller's failure must not take the others along
                _log.exception("client: %s failed", function)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("client: task %s died", task.get_name(), exc_info=task.exception())

    async def _pause_owners(self) -> None:
        # Cancelled here, if `pause` gave up before this thread came to it.
        await asyncio.sleep(0)
        for owner in list(self.owners):
            await owner.pause()

    async def _let_owners_leave(self) -> None:
        await asyncio.gather(*(owner.leave() for owner in list(self.owners)))


def current() -> IoThread:
    """Return the I/O thread of this process; started when it is first asked for."""
    global _current
    found = _current
    if found is None:
        with _lock:
            found = _current
            if found is None:
                found = IoThread()
                found.start()
                _leave_at_exit()
                _current = found
    return found


def making() -> threading.RLock:
    """Return the lock under which the shared things of a process are made, each of them once."""
    return _lock


def _leave_at_exit() -> None:
    atexit.register(_at_exit)
    if util := sys.modules.get("multiprocessing.util"):
        # Its children that forked end without atexit.
        util.Finalize(None, _at_exit, exitpriority=0)


def _at_exit() -> None:
    if _current is not None:
        _current.leave()


def _end_at_exit() -> None:
    if _current is not None:
        _current.end()


def _before_fork() -> None:
    if _current is not None:
        _current.pause()


def _after_fork_in_parent() -> None:
    if _current is not None:
        _current.resume()


def _after_fork_in_child() -> None:
    global _current, _lock
    _current = None
    _lock = threading.RLock()


# Handlers of the application that were registered after this import run first, and may use clients.
atexit.register(_end_at_exit)

if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
