"""The alarm of a cache, on every event loop."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.frontend.core.shared_cache import SharedCache


async def test_an_alarm_whose_handle_has_no_time_is_set_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As uvloop's for a time that is over: reading it ended the stream to the partition."""
    loop = asyncio.get_running_loop()
    set_at: list[float] = []

    def call_at(when: float, *_: Any) -> asyncio.Handle:
        set_at.append(when)
        return loop.call_soon(lambda: None)

    monkeypatch.setattr(loop, "call_at", call_at)
    made: Any = object.__new__(SharedCache)
    made.cache = SimpleNamespace(next_due=lambda: 1)
    made._timer, made._rings_ms = None, 0

    made._set_alarm()
    made._set_alarm()

    assert len(set_at) == 1
