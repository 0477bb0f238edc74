"""Turns of connections: none keeps others waiting until all of its input is processed."""

import asyncio
import time
from collections.abc import Callable

import pytest
import uvloop

from bendybus.frontend.listeners.amqp.turns import (
    PIECE_BYTES,
    STRANGER_PIECE_BYTES,
    Reading,
    Turns,
)


class Line:
    """A connection: reading a piece takes 3 ms."""

    def __init__(self, name: str, turns: Turns, log: list[str]) -> None:
        self.name = name
        self._log = log
        self.read = bytearray()
        self.paused = False
        self.waits = False
        self.reading = Reading(self, turns, self._take, lambda: True, lambda _: self.waits)
        self.reading.stranger = False

    def _take(self, data: bytes) -> None:
        self._log.append(self.name)
        self.read += data
        time.sleep(0.003)

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_connections_read_in_turns_of_some_milliseconds(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    data = bytes(range(256)) * (PIECE_BYTES * 10 // 256)

    async def run() -> list[str]:
        log: list[str] = []
        turns = Turns()
        one, other = Line("a", turns, log), Line("b", turns, log)
        one.reading.received(data)
        other.reading.received(data)
        assert one.paused
        assert other.paused
        assert len(log) <= 3
        one.reading.received(b"more")
        await asyncio.sleep(0.2)
        assert not one.paused
        assert not other.paused
        assert bytes(one.read) == data + b"more"
        assert bytes(other.read) == data
        return log

    with asyncio.Runner(loop_factory=loop) as runner:
        log = runner.run(run())
    last = [max(n for n, each in enumerate(log) if each == name) for name in "ab"]
    assert abs(last[0] - last[1]) <= 4


async def test_nothing_is_read_while_too_much_waits() -> None:
    line = Line("a", Turns(), [])
    line.waits = True
    line.reading.received(b"x" * 10)
    line.reading.received(b"y" * 10)
    line.reading.go_on()
    await asyncio.sleep(0.01)

    assert line.paused
    assert line.read == b"x" * 10
    line.waits = False
    line.reading.go_on()
    await asyncio.sleep(0.01)
    assert line.read == b"x" * 10 + b"y" * 10
    assert not line.paused


async def all_read(lines: list[Line]) -> None:
    """Wait until each line has read all that it received, in a bounded number of turns."""
    for _ in range(1_000):
        await asyncio.sleep(0)
        if not any(each.paused for each in lines):
            return
    raise AssertionError("some is not read")


async def test_what_many_strangers_send_at_once_is_read_bit_by_bit_and_the_known_in_between() -> (
    None
):
    log: list[str] = []
    turns = Turns()
    strangers = [Line("stranger", turns, log) for _ in range(20)]
    for each in strangers:
        each.reading.stranger = True
        each.reading.received(b"x" * 2 * STRANGER_PIECE_BYTES)
    known = Line("known", turns, log)

    # All that came together has had a turn of some milliseconds.
    assert 1 <= len(log) <= 3
    known.reading.received(b"y")
    assert log[-1] == "known"

    # A turn of theirs is a piece, and what came meanwhile is read after it.
    await asyncio.sleep(0)
    known.reading.received(b"y")
    assert log[-2:] == ["stranger", "known"]
    await all_read(strangers)
    assert [bytes(each.read) for each in strangers] == [b"x" * 2 * STRANGER_PIECE_BYTES] * 20


async def test_neither_known_clients_nor_strangers_wait_for_all_of_the_others() -> None:
    log: list[str] = []
    turns = Turns()
    lines = [Line(name, turns, log) for name in ("known", "stranger") for _ in range(5)]
    for each in lines:
        each.reading.stranger = each.name == "stranger"
        each.reading.received(b"x" * 4 * PIECE_BYTES)
    await all_read(lines)

    first = log[: len(log) // 3]
    assert 0.2 < first.count("known") / len(first) < 0.8
