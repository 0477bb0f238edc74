"""Callers and registrars of other versions: which ones a partition server works with."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from bendybus.domain.entity import Fingerprint
from bendybus.domain.limits import Tier
from bendybus.internal.v1 import (
    entity_pb2,
    entity_pb2_grpc,
    partition_pb2_grpc,
)
from bendybus.partition_server.service.catalogue_pull import CataloguePull
from bendybus.partition_server.service.entity_service import EntityService
from bendybus.partition_server.service.hosts import Hosts
from bendybus.partition_server.service.partition_service import PartitionService
from bendybus.wire import catalogue, entities
from bendybus.wire.contract_versions import FRONT_END, OPERATOR, PARTITION, Contract
from tests.partition_server.test_catalogue_pull import Refusing, hosts_of

pytestmark = pytest.mark.requirement("R602")
STREAMS = ("SendFrames", "DeliverFrames")
NOT_SERVED = "this process serves partitions"


@asynccontextmanager
async def served() -> AsyncIterator[grpc.aio.Channel]:
    """Serve a process without partitions; yield a channel to it."""
    server, hosts = grpc.aio.server(), Hosts({})
    partition_pb2_grpc.add_PartitionServiceServicer_to_server(PartitionService(hosts), server)
    entity_pb2_grpc.add_EntityServiceServicer_to_server(EntityService(hosts), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    await server.stop(0)


async def opened(channel: grpc.aio.Channel, stream: str, *said: tuple[str, str]) -> Any:
    """Open a stream and half-close it; return how it ended: its initial metadata, or why not."""
    stub: Any = partition_pb2_grpc.PartitionServiceStub(channel)
    call = getattr(stub, stream)(metadata=said)
    # STRICTLY BEFORE it ends: gRPC has none for a call whose end it reads first.
    found = tuple(await call.initial_metadata())
    if not call.done():
        await call.done_writing()
    if await call.code() is grpc.StatusCode.OK:
        return found
    return await call.details()


async def watched(channel: grpc.aio.Channel, request: entity_pb2.WatchEntitiesRequest) -> str:
    """Watch a partition that is not there; return why that failed."""
    call: Any = entity_pb2_grpc.EntityServiceStub(channel).WatchEntities(request)
    with pytest.raises(grpc.RpcError) as refused:
        await call.read()
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    return str(refused.value.details())


@pytest.mark.parametrize("stream", STREAMS)
async def test_a_stream_is_opened_only_by_a_front_end_of_a_version_that_fits(stream: str) -> None:
    async with served() as channel:
        # The partition says its number, too.
        assert FRONT_END.said in await opened(channel, stream, FRONT_END.said)

        earlier = await opened(channel, stream)
        later = await opened(channel, stream, ("bendybus-contract", str(FRONT_END.number + 2)))

    assert "this front end runs a version of Bendybus before 0.13.0" in earlier
    assert "the partition runs 0.14.2" in earlier
    assert "this front end uses version 6" in later
    assert "upgrade the partition first" in later


@pytest.mark.parametrize("contract", [FRONT_END, OPERATOR, PARTITION])
async def test_a_catalogue_is_watched_only_under_a_contract_that_fits(contract: Contract) -> None:
    request = catalogue.watch_request(contract, 0)
    async with served() as channel:
        assert NOT_SERVED in await watched(channel, request)

        request.contract += 2
        later = await watched(channel, request)

    assert f"this {contract.caller} uses version {contract.number + 2}" in later


async def test_a_watcher_that_says_no_number_is_refused() -> None:
    async with served() as channel:
        assert "before 0.13.0" in await watched(channel, entity_pb2.WatchEntitiesRequest())


@pytest.mark.parametrize(
    ("contract", "fits"),
    [(PARTITION.number, True), (0, False), (PARTITION.number + 2, False)],
    ids=["this", "0.11", "later"],
)
async def test_a_partition_pulls_only_from_a_registrar_of_a_version_that_fits(
    contract: int, fits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    header = entities.fingerprint_to_proto(Fingerprint("n", "u", Tier.PREMIUM, 4, 0))
    [answer] = catalogue.watch_responses(header, (), snapshot=True, contract=PARTITION)
    answer.contract = contract
    pull = CataloguePull(hosts_of(1), Refusing().take, None)

    async def call() -> AsyncIterator[entity_pb2.WatchEntitiesResponse]:
        yield answer

    with caplog.at_level(logging.ERROR):
        # It is watched again and again; what is refused is logged once.
        for _ in range(2):
            await pull._read(call())  # type: ignore[arg-type]

    assert pull.stands is fits
    said = [each.message for each in caplog.records]
    assert len(said) == (0 if fits else 1)
    assert all("registrar: refused: partition 0" in message for message in said)
