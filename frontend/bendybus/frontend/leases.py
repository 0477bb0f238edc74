"""Unary receives: calls of one client share a receiver, and so what is held ready for them.

gRPC for Python shows no connection's end, and a proxy merges clients, so what a connection is to
the stream of a receiver, here is (client id, entity path, mode) with a lease: unused for a few
seconds, it ends and what it held goes back uncounted.
"""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.frontend.receive_desk import ReceiveDesk, Receiver
from bendybus.frontend.upstreams import now_ms
from bendybus.v1 import message_pb2, receiver_pb2

LEASES_MAX: Final = 5_000
CHECK_S: Final = 1.0

Batches = Sequence[message_pb2.DeliveredBatch]
Key = tuple[str, str, int]


@dataclass(slots=True)
class _Lease:
    receiver: Receiver | None = None
    waiting: dict[int, asyncio.Future[Batches]] = field(default_factory=dict)


class Leases:
    """The leases of a front end."""

    def __init__(self, desk: ReceiveDesk) -> None:
        self._desk = desk
        self._leases: dict[Key, _Lease] = {}
        self._tags = itertools.count(1)

    async def receive(self, request: receiver_pb2.ReceiveRequest, wait_ms: int) -> Batches:
        """Return messages, or none after `wait_ms`. Raises the domain error that says why not."""
        lease = self._lease(request)
        receiver = lease.receiver
        assert receiver is not None
        tag = next(self._tags)
        future: asyncio.Future[Batches] = asyncio.get_running_loop().create_future()
        lease.waiting[tag] = future
        try:
            receiver.ask(tag, request.max_messages, 0, max(0, wait_ms))
            return await future
        except asyncio.CancelledError:
            receiver.cancel(tag)
            raise
        finally:
            lease.waiting.pop(tag, None)

    async def run(self) -> None:
        """End leases that nobody uses, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_S)
            now = now_ms()
            for key, lease in list(self._leases.items()):
                if lease.receiver is not None and lease.receiver.link.idle(now):
                    self._desk.close(lease.receiver)
                    del self._leases[key]

    def _lease(self, request: receiver_pb2.ReceiveRequest) -> _Lease:
        key = (request.client_id, request.entity_path.lower(), request.receive_mode)
        lease = self._leases.get(key)
        if lease is None:
            if len(self._leases) >= LEASES_MAX:
                raise errors.ServerBusy("too many clients receive at the same time.")
            lease = _Lease()
            lease.receiver = self._desk.open(
                request.entity_path,
                request.receive_mode,
                lambda tag, batches: _resolve(lease, tag, batches),
                lambda error: self._fail(key, error),
            )
            self._leases[key] = lease
        return lease

    def _fail(self, key: Key, error: BusError) -> None:
        lease = self._leases.pop(key, None)
        if lease is None or lease.receiver is None:
            return
        for future in lease.waiting.values():
            if not future.done():
                future.set_exception(error)
        self._desk.close(lease.receiver)


def _resolve(lease: _Lease, tag: int, batches: Batches) -> None:
    future = lease.waiting.get(tag)
    if future is not None and not future.done():
        future.set_result(batches)
