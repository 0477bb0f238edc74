"""The loops of servers and of the I/O thread."""

import asyncio
import logging
import sys
import types

import pytest

from bendybus.wire import event_loop
from bendybus.wire.event_loop import EventLoopError


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(event_loop.VARIABLE, raising=False)


@pytest.fixture
def uvloop(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    installed = types.ModuleType("uvloop")
    installed.new_event_loop = asyncio.SelectorEventLoop  # type: ignore[attr-defined]
    installed.__version__ = "0.21.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "uvloop", installed)
    return installed


def test_without_uvloop_it_is_the_loop_of_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    # None in sys.modules: what is not installed.
    monkeypatch.setitem(sys.modules, "uvloop", None)

    assert event_loop.factory() is asyncio.new_event_loop
    assert event_loop.name().startswith("asyncio of Python 3.")


@pytest.mark.usefixtures("uvloop")
def test_with_uvloop_it_is_that_one_and_the_policy_stays() -> None:
    policy = asyncio.get_event_loop_policy()

    assert event_loop.factory() is asyncio.SelectorEventLoop
    assert event_loop.name() == "uvloop 0.21.0"
    assert asyncio.get_event_loop_policy() is policy


@pytest.mark.usefixtures("uvloop")
def test_it_can_be_done_without_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(event_loop.VARIABLE, " AsyncIO ")

    assert event_loop.factory() is asyncio.new_event_loop


def test_what_the_environment_names_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    monkeypatch.setenv(event_loop.VARIABLE, "uvloop")

    with pytest.raises(EventLoopError, match="install the extra 'speed'"):
        event_loop.factory()


def test_another_name_in_the_environment_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        raise AssertionError("not reached")

    monkeypatch.setenv(event_loop.VARIABLE, "trio")

    with pytest.raises(EventLoopError, match=r"must be uvloop or asyncio \(got 'trio'\)"):
        event_loop.run(main())


def test_a_server_runs_to_its_end_and_logs_its_loop(caplog: pytest.LogCaptureFixture) -> None:
    done = []

    async def main() -> None:
        done.append(asyncio.get_running_loop())

    with caplog.at_level(logging.INFO):
        event_loop.run(main())

    assert done
    assert done[0].is_closed()
    assert caplog.messages == [f"event loop: {event_loop.name()}"]
