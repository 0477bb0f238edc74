"""Calls of KEDA whose key is not verified yet: few are read at a time, and not many wait."""

import asyncio
from types import SimpleNamespace
from typing import Any, Final

import grpc
import pytest

from bendybus.frontend.core.quota.bounds import OPEN_CALLS
from bendybus.frontend.core.quota.quota import Quota
from bendybus.frontend.listeners import external_scaler
from bendybus.frontend.listeners.external_scaler import ExternalScaler

pytestmark = [pytest.mark.requirement("R654")]
WAITING: Final = 3


class Silent:
    """A call whose request never comes."""

    def peer(self) -> str:
        """Return its connection, which all calls here share."""
        return "ipv4:127.0.0.1:1"

    async def read(self) -> Any:
        """Wait for ever."""
        await asyncio.Event().wait()

    async def abort_with_status(self, status: Any) -> None:
        """Refuse the call."""
        raise PermissionError(status.code, status.details)


async def test_calls_that_wait_for_a_place_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_scaler, "_WAITING_MAX", WAITING)
    quota, nothing = Quota(), SimpleNamespace()
    front_end: Any = SimpleNamespace(quota=quota)
    authenticator: Any = nothing
    called = ExternalScaler(front_end, authenticator).handlers()[
        "/externalscaler.ExternalScaler/IsActive"
    ]
    places = OPEN_CALLS.connection
    under_way = [
        asyncio.create_task(called.stream_stream(nothing, Silent()))
        for _ in range(places + WAITING)
    ]
    await asyncio.sleep(0)

    with pytest.raises(PermissionError, match="wait to be read") as refused:
        await called.stream_stream(nothing, Silent())

    assert refused.value.args[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert not any(each.done() for each in under_way)
    for each in under_way:
        each.cancel()
    await asyncio.gather(*under_way, return_exceptions=True)
    assert quota.open_calls.held == 0
