"""Starts client processes on Qpid Proton and gives them orders."""

import importlib.util
import multiprocessing
import multiprocessing.connection
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Final

from bench.amqp.orders import BROKEN, READY, Order, Place, Role
from bench.peers import peer

PROCESSES: Final = 3
STOP_S: Final = 10.0
# Longer than a worker waits in silence.
_ANSWER_S: Final = 60.0
_LOOK_S: Final = 0.25


class ClientError(RuntimeError):
    """Raised when a client process fails; the text is its report."""


@dataclass(frozen=True, slots=True)
class _Worker:
    process: BaseProcess
    pipe: Connection
    counter: Any


class Clients:
    """The client processes of one server. They share the work of each order."""

    def __init__(self, workers: Sequence[_Worker]) -> None:
        self._workers = workers

    @property
    def pids(self) -> list[int]:
        """The processes."""
        return [each.process.pid for each in self._workers if each.process.pid is not None]

    def done(self) -> int:
        """Return how many messages of the current order are settled so far."""
        return sum(each.counter.value for each in self._workers)

    def attach(self, role: Role, *, count: int = 0, seconds: float = 0.0) -> None:
        """Let each process connect and attach its link; the work begins with `run`."""
        each, rest = divmod(count, len(self._workers))
        for number, worker in enumerate(self._workers):
            worker.counter.value = 0
            worker.pipe.send(Order(role, each + (number < rest), seconds))
        for worker in self._workers:
            found = self._answer(worker, _ANSWER_S)
            assert found[0] == READY, found

    def run(self, limit_s: float, look: Callable[[], None] = lambda: None) -> int:
        """Start all processes, wait until they are done; return how many messages that were.

        `look` is called about four times a second in the meantime.
        """
        for worker in self._workers:
            worker.pipe.send(None)
        deadline = time.monotonic() + limit_s
        total, waiting = 0, list(self._workers)
        while waiting:
            found = multiprocessing.connection.wait([each.pipe for each in waiting], _LOOK_S)
            look()
            for worker in [each for each in waiting if each.pipe in found]:
                total += self._answer(worker, _ANSWER_S)[1]
                waiting.remove(worker)
            if time.monotonic() > deadline:
                raise ClientError(f"{self.done()} messages in {limit_s:.0f} s")
        return total

    @staticmethod
    def _answer(worker: _Worker, limit_s: float) -> tuple[str, int]:
        if not worker.pipe.poll(limit_s):
            raise ClientError("a client process does not answer")
        try:
            kind, value = worker.pipe.recv()
        except EOFError:
            raise ClientError("a client process died; its error is above") from None
        if kind == BROKEN:
            raise ClientError(value)
        return kind, value


@contextmanager
def running(place: Place) -> Iterator[Clients]:
    """Run client processes until the block ends. They end with this process, too.

    Raises UnavailableError if Proton is not installed.
    """
    if importlib.util.find_spec("proton") is None:
        raise peer.UnavailableError("Proton is not installed: make bench does that, with cc")
    # Needs Proton.
    from bench.amqp import proton_worker

    # Not forked: nothing of the parent's threads and garbage is in them.
    context = multiprocessing.get_context("spawn")
    workers: list[_Worker] = []
    try:
        for _ in range(PROCESSES):
            ours, theirs = context.Pipe()
            counter = context.Value("Q", 0, lock=False)
            process = context.Process(
                target=proton_worker.serve, args=(theirs, counter, place, peer.BODY), daemon=True
            )
            process.start()
            # Only theirs is left, so that its end is seen here.
            theirs.close()
            workers.append(_Worker(process, ours, counter))
        yield Clients(workers)
    finally:
        for worker in workers:
            worker.pipe.close()
        for worker in workers:
            worker.process.terminate()
            worker.process.join(STOP_S)
