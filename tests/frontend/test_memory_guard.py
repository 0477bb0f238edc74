"""Memory that nothing accounts for closes the door for streams, and moves the silent ones."""

import pytest

from bendybus.domain.limits import MB
from bendybus.frontend.listeners import memory_guard
from bendybus.frontend.listeners.client_streams import ClientStreams, OpenStream
from bendybus.frontend.listeners.memory_guard import FREE_BYTES, PAUSE_S, MemoryGuard
from bendybus.frontend.security.authenticator import Authenticator

pytestmark = pytest.mark.requirement("R421")
BASE = 60 * MB
OVER = BASE + FREE_BYTES + 1


def test_what_is_accounted_for_moves_nobody() -> None:
    guard = MemoryGuard(BASE)

    assert not guard.look(BASE + FREE_BYTES, 0, 1.0)
    assert not guard.look(BASE + FREE_BYTES + 200 * MB, 100 * MB, 2.0)
    assert not guard.pressed


def test_where_messages_may_be_large_some_are_on_their_way() -> None:
    guard = MemoryGuard(BASE, 110 * MB)

    assert not guard.look(BASE + 10 * 110 * MB, 0, 1.0)
    assert guard.look(BASE + 17 * 110 * MB, 0, 1.0)


def test_silent_streams_are_moved_until_the_memory_is_free() -> None:
    guard = MemoryGuard(BASE)

    assert guard.look(OVER, 0, 1.0)
    guard.moved(30, 1.0)
    assert guard.pressed
    assert not guard.look(OVER + 100 * MB, 0, 1.0 + PAUSE_S / 2)
    assert guard.look(OVER, 0, 1.0 + PAUSE_S)
    guard.moved(2, 1.0 + PAUSE_S)
    assert guard.pressed
    assert not guard.look(BASE + MB, 0, 3.0)
    assert not guard.pressed


def test_memory_that_is_not_that_of_streams_lets_streams_be_opened_again() -> None:
    guard = MemoryGuard(BASE)
    assert guard.look(OVER, 0, 1.0)
    # Those that were opened a moment ago are not silent yet.
    guard.moved(0, 1.0)
    assert guard.pressed
    assert guard.look(OVER, 0, 1.0 + memory_guard.CHECK_S)
    guard.moved(5, 1.0 + memory_guard.CHECK_S)

    later_s = 1.0 + memory_guard.CHECK_S + PAUSE_S
    assert guard.look(OVER, 0, later_s)
    guard.moved(0, later_s)

    assert not guard.pressed
    assert not guard.look(OVER + FREE_BYTES, 0, later_s + 1)
    # What comes then is looked at again, also where what was there before is gone.
    assert guard.look(OVER + FREE_BYTES + 1, 0, later_s + 2)
    guard = MemoryGuard(OVER)
    assert not guard.look(BASE, 0, 1.0)
    assert guard.look(OVER, 0, 2.0)


async def test_only_silent_streams_are_moved() -> None:
    now_s = [0.0]
    streams, moved = ClientStreams(Authenticator(None), 0.0), []
    caller = Authenticator(None).authenticate("")
    silent, busy = (OpenStream(caller, lambda: now_s[0]) for _ in range(2))

    with (
        streams.stream(silent, lambda: moved.append("silent")),
        streams.stream(busy, lambda: moved.append("busy")),
    ):
        now_s[0] = 2.0
        busy.heard()
        assert streams.move_silent(1.0, 2.5) == 1
    assert streams.move_silent(1.0, 9.0) == 0

    assert moved == ["silent"]
