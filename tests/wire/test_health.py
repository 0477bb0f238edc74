"""Health is open to everyone, so what it may cost is bounded."""

import asyncio
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from bendybus.wire.serving import Health

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Aborted(Exception):
    """Raised in place of gRPC's."""


class Call:
    async def abort(self, code: grpc.StatusCode, details: str = "") -> None:
        raise Aborted(code, details)


def request(service: str = "") -> Any:
    return health_pb2.HealthCheckRequest(service=service)


async def test_a_service_is_known_by_name() -> None:
    health = Health()
    await health.set("a", NOT_SERVING)

    assert (await health.Check(request("a"), Call())).status == NOT_SERVING  # type: ignore[arg-type]
    with pytest.raises(Aborted):
        await health.Check(request("b"), Call())  # type: ignore[arg-type]


async def test_a_watcher_sees_changes_and_one_that_does_not_read_is_in_nobodys_way() -> None:
    health = Health()
    await health.set("", NOT_SERVING)
    slow = health.Watch(request(), Call())  # type: ignore[arg-type]
    quick = health.Watch(request(), Call())  # type: ignore[arg-type]
    assert [(await anext(each)).status for each in (slow, quick)] == [NOT_SERVING] * 2

    async with asyncio.timeout(5):
        await health.set("", SERVING)
        assert (await anext(quick)).status == SERVING
        await health.set("", NOT_SERVING)
        assert (await anext(quick)).status == NOT_SERVING

    await slow.aclose()
    await quick.aclose()
    assert health.watchers == 0


async def test_watchers_are_so_many_at_most() -> None:
    health = Health(watchers_max=2)
    watchers = [health.Watch(request(f"x{n}"), Call()) for n in range(3)]  # type: ignore[arg-type]
    for each in watchers[:2]:
        await anext(each)

    with pytest.raises(Aborted) as refused:
        await anext(watchers[2])
    await watchers[0].aclose()
    again = health.Watch(request(), Call())  # type: ignore[arg-type]
    await anext(again)

    assert refused.value.args[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert health.watchers == 2
