"""Turns of connections: none keeps others waiting until all of its input is processed."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from bendybus.domain.steps import Steps
from bendybus.frontend.core.quota.bounds import PIECE_BYTES, STRANGER_PIECE_BYTES
from bendybus.frontend.core.quota.turns import Reading, Turns
from bendybus.frontend.listeners.amqp.listener import AmqpProtocol
from tests.frontend.amqp_listening import KEY, POLICY, Listening
from tests.integration.raw_amqp import SENDER


class Clock:
    """A clock that goes on by what steps take."""

    def __init__(self) -> None:
        self.now_s = 1.0

    def __call__(self) -> float:
        return self.now_s


class Line:
    """A connection: reading a piece takes 3 ms of the clock of its turns."""

    def __init__(self, name: str, turns: Turns, log: list[str]) -> None:
        assert isinstance(turns.clock, Clock)
        self.name = name
        self._log = log
        self._clock = turns.clock
        self.read = bytearray()
        self.paused = False
        self.waits = False
        self.reading = Reading(self, turns, self._take, lambda: True, lambda _: self.waits)
        self.reading.stranger = False

    def _take(self, data: bytes) -> bool:
        self._log.append(self.name)
        self.read += data
        self._clock.now_s += 0.003
        return False

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
        turns = Turns(Clock())
        one, other = Line("a", turns, log), Line("b", turns, log)
        one.reading.received(data)
        other.reading.received(data)
        assert one.paused
        assert other.paused
        assert len(log) <= 3
        one.reading.received(b"more")
        await all_read([one, other])
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
    line = Line("a", Turns(Clock()), [])
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
    turns = Turns(Clock())
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
    turns = Turns(Clock())
    lines = [Line(name, turns, log) for name in ("known", "stranger") for _ in range(5)]
    for each in lines:
        each.reading.stranger = each.name == "stranger"
        each.reading.received(b"x" * 4 * PIECE_BYTES)
    await all_read(lines)

    first = log[: len(log) // 3]
    assert 0.2 < first.count("known") / len(first) < 0.8


class Framed:
    """A connection whose bytes are frames; one takes 0.4 ms of a clock that the test has."""

    def __init__(self, name: str, turns: Turns, log: list[str], now_s: list[float]) -> None:
        self.name = name
        self._log = log
        self._now_s = now_s
        self._left = 0
        self.reading = Reading(self, turns, self._take, lambda: True, lambda _: False)
        self.reading.stranger = False

    def _take(self, data: bytes) -> bool:
        self._left += len(data)
        while self._left:
            self._left -= 1
            self._log.append(self.name)
            self._now_s[0] += 0.000_4
            if self.reading.is_over():
                break
        return self._left > 0

    def pause_reading(self) -> None:
        """The rest waits."""

    def resume_reading(self) -> None:
        """Nothing waits."""


@pytest.mark.requirement("R633")
async def test_a_turn_ends_after_a_frame_and_goes_on_with_what_is_left() -> None:
    now_s, log = [0.0], list[str]()
    turns = Turns(lambda: now_s[0])
    one, other = (Framed(name, turns, log, now_s) for name in "ab")

    one.reading.received(b"." * 20)
    assert log == ["a"] * 3
    await asyncio.sleep(0)
    other.reading.received(b".")
    await until(lambda: not one.reading.paused)

    assert log.count("a") == 20
    assert log.index("b") < 10


@pytest.mark.requirement("R633")
async def test_small_inputs_of_one_connection_share_a_turn_however_they_come() -> None:
    now_s, log = [0.0], list[str]()
    turns = Turns(lambda: now_s[0])
    one, other = (Framed(name, turns, log, now_s) for name in "ab")

    for _ in range(20):
        one.reading.received(b".")
    other.reading.received(b".")
    assert log == ["a"] * 3 + ["b"]
    await until(lambda: not one.reading.paused)

    assert log.count("a") == 20


@pytest.mark.requirement("R633")
async def test_a_coroutine_waits_for_the_turn_of_its_connection_behind_others() -> None:
    now_s, log = [0.0], list[str]()
    turns = Turns(lambda: now_s[0])
    one, other = (Framed(name, turns, log, now_s) for name in "ab")
    one.reading.begin()
    assert not one.reading.is_over()
    now_s[0] += 0.002
    assert one.reading.is_over()

    other.reading.received(b"." * 6)
    await one.reading.turn()

    assert log == ["b"] * 6
    assert not one.reading.is_over()


async def until(done: Callable[[], bool]) -> None:
    """Wait for something, in a bounded number of iterations of the loop."""
    for _ in range(1_000):
        if done():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not come")


@pytest.mark.requirement("R633")
async def test_a_request_is_done_in_turns_of_its_connection() -> None:
    clock, done = Clock(), list[str]()
    turns = Turns(clock)
    one, other = (Line(name, turns, []) for name in "ab")

    def steps(name: str, count: int) -> Steps[str]:
        for _ in range(count):
            clock.now_s += 0.0004
            done.append(name)
            yield
        return name

    # Many requests of one connection have no more time than one.
    work = [asyncio.ensure_future(one.reading.do(steps("a", 9))) for _ in range(20)]
    work.append(asyncio.ensure_future(other.reading.do(steps("b", 9))))

    results = await asyncio.gather(*work)

    assert results == ["a"] * 20 + ["b"]
    # Each is over after three steps, and the other one has its turn with the first of twenty.
    assert done.index("b") <= 4
    assert len(done) - 1 - done[::-1].index("b") < 40


@pytest.mark.requirement("R636")
async def test_policies_have_turns_one_after_the_other_however_many_connections_each_has() -> None:
    log: list[str] = []
    turns = Turns(Clock())
    lines = [Line("greedy", turns, log) for _ in range(10)] + [Line("other", turns, log)]
    for each in lines:
        each.reading.policy = each.name

    # The first of them uses up the time of its iteration.
    for each in lines:
        each.reading.received(bytes(2 * PIECE_BYTES))
    await all_read(lines)

    assert log.index("other") <= 4
    assert len(log) == 22


@pytest.mark.requirement("R636")
async def test_small_inputs_of_many_known_clients_share_ten_turns() -> None:
    log: list[str] = []
    turns = Turns(Clock())
    lines = [Line(str(number), turns, log) for number in range(40)]

    for each in lines:
        each.reading.received(b"small")
    at_once, iterations = len(log), 0
    while len(log) < 40:
        await asyncio.sleep(0)
        iterations += 1
    await asyncio.sleep(0)

    # Each takes 3 ms; those that waited share as much of each iteration.
    assert at_once == pytest.approx(4, abs=1)
    assert iterations == pytest.approx(10, abs=4)
    assert sorted(map(int, log)) == list(range(40))
    assert not any(each.paused for each in lines)


@pytest.mark.requirement("R635", "R636")
def test_what_a_connection_holds_and_its_turns_count_for_its_policy(tmp_path: Path) -> None:
    with Listening(tmp_path) as listening, listening.raw().plain(POLICY, KEY) as peer:
        assert peer.attach("$cbs", SENDER) is None
        [connection] = listening.connections()

    assert (connection.holder.policy, connection.reading.policy) == (POLICY, POLICY)


@pytest.mark.requirement("R636")
async def test_an_error_in_one_turn_takes_no_turn_from_others() -> None:
    log: list[str] = []
    turns = Turns(Clock())
    broken, other = Line("broken", turns, log), Line("other", turns, log)
    broken.reading._take = lambda _: bool(1 // 0)
    said: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: said.append(str(context["exception"])))

    # Both wait for turns.
    for each in (broken, other):
        each.reading._pause()
        each.reading.received(bytes(2 * PIECE_BYTES))
        each.reading.go_on()
    await until(lambda: not other.paused)

    assert said == ["integer division or modulo by zero"]
    assert len(log) == 2
    assert not other.paused


@pytest.mark.requirement("R636")
def test_a_transport_that_is_closing_has_nothing_to_write() -> None:
    class Closing:
        """As that of TLS, which does not know its buffer any more."""

        def is_closing(self) -> bool:
            return True

        def get_write_buffer_size(self) -> int:
            raise AttributeError

    anything: Any = None
    wire = AmqpProtocol(anything)
    wire._transport = Closing()  # type: ignore[assignment]

    assert wire.unwritten() == 0
