"""Calls of KEDA: places of those whose key is not verified yet, figures that are away, the end."""

import asyncio
from types import SimpleNamespace
from typing import Any, Final

import grpc
import pytest

from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.frontend.core.quota.bounds import OPEN_CALLS
from bendybus.frontend.core.quota.quota import Quota
from bendybus.frontend.core.scaling import Figure
from bendybus.frontend.listeners import external_scaler
from bendybus.frontend.listeners.external_scaler import ExternalScaler
from bendybus.wire.streams import Drain

pytestmark = [pytest.mark.requirement("R654")]
WAITING: Final = 3


class Silent:
    """A call whose request never comes."""

    def peer(self) -> str:
        """Return its connection, which all calls here share."""
        return "ipv4:127.0.0.1:1"

    async def read(self) -> Any:
        """Never return."""
        await asyncio.Event().wait()

    async def abort_with_status(self, status: Any) -> None:
        """Refuse the call."""
        raise PermissionError(status.code, status.details)


async def test_calls_that_wait_for_a_place_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_scaler, "_WAITING_MAX", WAITING)
    quota, nothing = Quota(), SimpleNamespace()
    front_end: Any = SimpleNamespace(quota=quota)
    authenticator: Any = nothing
    called = ExternalScaler(front_end, authenticator, Drain()).handlers()[
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


def scaler(monkeypatch: pytest.MonkeyPatch, drain: Drain, **figures: float | BusError) -> Any:
    """Return a scaler whose figures are these, or errors."""

    async def figure(_: Any, of: Figure) -> float:
        found = figures[of]
        if isinstance(found, BusError):
            raise found
        return found

    nothing: Any = SimpleNamespace()
    made = ExternalScaler(nothing, nothing, drain)
    monkeypatch.setattr(made, "_figure", lambda trigger, of: figure(trigger, of))
    monkeypatch.setattr(made, "_allowed", lambda connection, trigger: None)
    return made


def asked(*figures: Figure) -> Any:
    """Return a request about these figures."""
    trigger = external_scaler.Trigger("orders", dict.fromkeys(figures, (1.0, 0.0)))
    return external_scaler._Asked(trigger, "", "", "p")


AWAY = errors.PartitionUnavailable("partition 1 still looks")


async def test_one_figure_above_its_activation_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    for age, messages, active in (AWAY, 3, True), (5, 0, True), (0, 0, False):
        made = scaler(monkeypatch, Drain(), age=age, messages=messages)

        answer = await made._is_active(asked(Figure.AGE, Figure.MESSAGES))

        assert answer.result is active


async def test_a_figure_that_is_not_known_may_be_above_its_activation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = scaler(monkeypatch, Drain(), age=AWAY, messages=0)

    with pytest.raises(errors.PartitionUnavailable):
        await made._is_active(asked(Figure.AGE, Figure.MESSAGES))


async def test_a_stream_ends_when_its_front_end_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    drain, written = Drain(), asyncio.Event()
    made = scaler(monkeypatch, drain, messages=1)

    async def write(_: bytes) -> None:
        written.set()

    context: Any = SimpleNamespace(write=write)
    watching = asyncio.create_task(made._watch(context, asked(Figure.MESSAGES)))
    await written.wait()
    drain.begin()

    with pytest.raises(errors.RetryableError, match="open the stream again"):
        async with asyncio.timeout(external_scaler.LOOK_S / 4):
            await watching


def test_a_connection_string_is_kept_so_it_is_bounded() -> None:
    for name in ("connection", "connectionFromEnv"):
        assert external_scaler.connection_of({name: "x" * 4_096}) == "x" * 4_096
        with pytest.raises(errors.InvalidArgument, match=name):
            external_scaler.connection_of({name: "x" * 4_097})


async def test_a_stream_ends_when_its_key_is_no_longer_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(external_scaler, "LOOK_S", 0.0)
    made = scaler(monkeypatch, Drain(), messages=1)
    allowed = iter([None, errors.Unauthenticated("rotated")])

    def check(_connection: str, _trigger: Any) -> None:
        found = next(allowed)
        if found is not None:
            raise found

    async def write(_: bytes) -> None:
        pass

    monkeypatch.setattr(made, "_allowed", check)
    context: Any = SimpleNamespace(write=write)
    with pytest.raises(errors.Unauthenticated, match="rotated"):
        async with asyncio.timeout(5):
            await made._watch(context, asked(Figure.MESSAGES))
