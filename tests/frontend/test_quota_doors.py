"""Connections of a listener: how many, and which make room for others."""

from functools import partial

import pytest

from bendybus.frontend.core.quota.doors import Doors

pytestmark = pytest.mark.requirement("R635")


def enter(doors: Doors[str], ended: list[str], *guests: str) -> list[bool]:
    """Let guests in; return who found room."""
    found = []
    for guest in guests:
        found.append(doors.room())
        if found[-1]:
            doors.enter(guest, partial(ended.append, guest))
    return found


def test_the_oldest_stranger_makes_room_and_who_is_known_stays() -> None:
    doors, ended = Doors[str](4), list[str]()

    assert enter(doors, ended, "a", "b") == [True, True]
    doors.known("a")
    assert enter(doors, ended, "c", "d") == [True, True]

    # Strangers have a half: "b" made room for "d".
    assert (ended, sorted(doors)) == (["b"], ["a", "c", "d"])


def test_where_all_are_known_nobody_makes_room_until_one_leaves() -> None:
    doors, ended = Doors[str](2), list[str]()
    for guest in "ab":
        enter(doors, ended, guest)
        doors.known(guest)

    assert enter(doors, ended, "c") == [False]
    doors.leave("a")
    assert enter(doors, ended, "c") == [True]
    assert (ended, sorted(doors), len(doors)) == ([], ["b", "c"], 2)


def test_strangers_alone_may_have_all_places_where_nobody_is_ever_known() -> None:
    doors, ended = Doors[str](3, 1), list[str]()

    assert enter(doors, ended, *"abcd") == [True] * 4
    assert (ended, len(doors)) == (["a"], 3)
