"""Starts client processes with many connections, and gives them orders."""

import importlib.util
import multiprocessing
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Final

from bench.amqp.clients import STOP_S, ClientError
from bench.amqp.orders import BROKEN, READY, Place
from bench.many import http_worker
from bench.many.http_worker import Dialect
from bench.many.orders import Order, Report, Role
from bench.peers import peer

# The connections are divided among them.
PROCESSES: Final = 2
_ANSWER_S: Final = 90.0


class Workers:
    """The client processes of one server."""

    def __init__(self, members: Sequence[tuple[BaseProcess, Connection]]) -> None:
        self._members = members

    @property
    def pids(self) -> list[int]:
        """The processes."""
        return [process.pid for process, _ in self._members if process.pid is not None]

    def attach(self, role: Role, connections: int, seconds: float) -> list[Connection]:
        """Let the processes connect; return those that take part. The work begins with `run`."""
        # Pairs of one that requests and one that replies stay together.
        unit = 2 if role is Role.REQUEST else 1
        each, rest = divmod(connections // unit, len(self._members))
        taking: list[Connection] = []
        for number, (_, pipe) in enumerate(self._members):
            count = unit * (each + (number < rest))
            if count:
                pipe.send(Order(role, count, seconds))
                taking.append(pipe)
        for pipe in taking:
            assert _answer(pipe)[0] == READY
        return taking

    @staticmethod
    def run(taking: Sequence[Connection]) -> Report:
        """Start those that are attached; return what all of them did."""
        for pipe in taking:
            pipe.send(None)
        reports: list[Report] = [_answer(pipe)[1] for pipe in taking]
        took_s: array[float] = array("d")
        for report in reports:
            took_s.extend(report.took_s)
        return Report(took_s, max(report.lasted_s for report in reports))


def _answer(pipe: Connection) -> tuple[str, Any]:
    if not pipe.poll(_ANSWER_S):
        raise ClientError("a client process does not answer")
    try:
        kind, value = pipe.recv()
    except EOFError:
        raise ClientError("a client process died; its error is above") from None
    if kind == BROKEN:
        raise ClientError(value)
    return kind, value


def over_amqp(place: Place) -> Any:
    """Run client processes on Proton until the block ends.

    Raises UnavailableError if Proton is not installed.
    """
    if importlib.util.find_spec("proton") is None:
        raise peer.UnavailableError("Proton is not installed: make bench does that, with cc")
    # Needs Proton.
    from bench.many import proton_worker

    return _running(proton_worker.serve, place, peer.BODY)


def over_grpc(connection_string: str, queue: str) -> Any:
    """Run client processes on our own client until the block ends."""
    from bench.many import grpc_worker

    return _running(grpc_worker.serve, connection_string, queue, peer.BODY)


def over_http(address: str, dialect: Dialect) -> Any:
    """Run client processes on HTTP until the block ends."""
    return _running(http_worker.serve, address, dialect, peer.BODY)


@contextmanager
def _running(serve: Callable[..., None], *facts: Any) -> Iterator[Workers]:
    # Not forked: nothing of the parent's threads and garbage is in them.
    context = multiprocessing.get_context("spawn")
    members: list[tuple[BaseProcess, Connection]] = []
    try:
        for _ in range(PROCESSES):
            ours, theirs = context.Pipe()
            process: BaseProcess = context.Process(target=serve, args=(theirs, *facts), daemon=True)
            process.start()
            # Only theirs is left, so that its end is seen here.
            theirs.close()
            members.append((process, ours))
        yield Workers(members)
    finally:
        for _, pipe in members:
            pipe.close()
        for process, _ in members:
            process.terminate()
            process.join(STOP_S)
