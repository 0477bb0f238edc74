"""A partition that answers whatever a test wants: any bytes, to every call."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from bendybus.domain.entity import Entity, Fingerprint
from bendybus.domain.limits import Tier
from bendybus.internal.v1 import entity_pb2, partition_pb2
from bendybus.operator.decisions.storage import Identity
from bendybus.wire import entities
from bendybus.wire.contract_versions import OPERATOR
from tests.operator.manifests import entry, queue

IDENTITY = Identity("bus-1", Tier.PREMIUM, 2)
Answers = Callable[[str], bytes]
_WATCH = "/bendybus.internal.v1.EntityService/WatchEntities"


def fingerprint(**facts: Any) -> entity_pb2.Fingerprint:
    """Return the header of a good partition, but for `facts`."""
    made = entities.fingerprint_to_proto(Fingerprint("orders", "bus-1", Tier.PREMIUM, 2, 0))
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def snapshot(*found: entity_pb2.Entity, **facts: Any) -> bytes:
    """Return a whole catalogue."""
    return entity_pb2.WatchEntitiesResponse(
        fingerprint=fingerprint(**facts), entities=found, snapshot=True, contract=OPERATOR.number
    ).SerializeToString()


def entity(name: str = "paid", **facts: Any) -> entity_pb2.Entity:
    """Return an entry of a good partition, but for `facts`."""
    made = entities.entity_to_proto(_entry("paid"))
    made.name = name
    for field, value in facts.items():
        target = made.queue if field in ("status", "user_metadata") else made
        setattr(target, field, value)
    return made


def _entry(name: str) -> Entity:
    return entry(queue(name))


def counted(**counts: Any) -> bytes:
    """Return an answer to GetCounts."""
    each = partition_pb2.EntityCounts(uid="paid-1", **counts)
    return partition_pb2.GetCountsResponse(entities=[each]).SerializeToString()


class Talker(grpc.GenericRpcHandler):
    """Answers each method with what `answers` gives for its name; a watch stays open."""

    def __init__(self, answers: Answers, *, trailer: bytes = b"", ends: bool = False) -> None:
        self.answers = answers
        self.trailer = trailer
        self.ends = ends

    def service(self, details: Any) -> Any:
        """Return a handler that parses and serialises nothing."""
        method = details.method

        async def one(_: bytes, context: Any) -> bytes:
            await self._fail(context)
            return self.answers(method.rsplit("/", 1)[1])

        async def many(_: bytes, context: Any) -> AsyncIterator[bytes]:
            await self._fail(context)
            yield self.answers("WatchEntities")
            if not self.ends:
                await asyncio.Event().wait()

        if method == _WATCH:
            return grpc.unary_stream_rpc_method_handler(many)
        return grpc.unary_unary_rpc_method_handler(one)

    async def _fail(self, context: Any) -> None:
        if self.trailer:
            context.set_trailing_metadata((("grpc-status-details-bin", self.trailer),))
            await context.abort(grpc.StatusCode.UNKNOWN, "x" * 5_000)


@contextlib.asynccontextmanager
async def talking(
    answers: Answers, address: str = "127.0.0.1:0", **options: Any
) -> AsyncIterator[str]:
    """Serve such a partition; give its address."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Talker(answers, **options),))
    port = server.add_insecure_port(address)
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(0)
