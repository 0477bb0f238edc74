"""The loops of servers and of the I/O thread."""

import asyncio
import sys
import types

import pytest

from bendybus.wire import event_loop


def test_without_uvloop_it_is_the_loop_of_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    # None in sys.modules: what is not installed.
    monkeypatch.setitem(sys.modules, "uvloop", None)

    assert event_loop.factory() is asyncio.new_event_loop


def test_with_uvloop_it_is_that_one_and_the_policy_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = types.ModuleType("uvloop")
    installed.new_event_loop = asyncio.SelectorEventLoop  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "uvloop", installed)
    policy = asyncio.get_event_loop_policy()

    assert event_loop.factory() is asyncio.SelectorEventLoop
    assert asyncio.get_event_loop_policy() is policy


def test_a_server_runs_to_its_end() -> None:
    done = []

    async def main() -> None:
        done.append(asyncio.get_running_loop())

    event_loop.run(main())

    assert done
    assert done[0].is_closed()
