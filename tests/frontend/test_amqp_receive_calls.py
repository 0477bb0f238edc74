"""Which receives of the SDK for Python have time to connect again."""

import pytest

from bendybus.frontend.listeners.amqp.receive_calls import CONNECTS_S, USUAL_S, ReceiveCalls


def called(*begun: float, got: int = 0) -> ReceiveCalls:
    """Return what receives that began at times tell, each of which got some messages."""
    calls = ReceiveCalls()
    for number, began_s in enumerate(begun, 1):
        calls.asked(began_s, number, (number - 1) * got)
    return calls


@pytest.mark.requirement("R581")
def test_a_receive_has_time_until_little_is_left_of_what_those_before_it_took() -> None:
    calls = called(100, 110, 120)

    assert calls.has_time(120, 120)
    assert calls.has_time(129.9 - CONNECTS_S, 100 + 25)
    assert not calls.has_time(130 - CONNECTS_S, 100 + 25)


@pytest.mark.requirement("R581")
def test_a_receive_that_began_since_a_time_is_as_good_as_any() -> None:
    calls = called(100, 101, 102)

    assert not calls.has_time(102.5, 102.5)
    assert calls.has_time(102.5, 101.9)


@pytest.mark.requirement("R581")
def test_the_first_receive_of_a_link_may_be_the_rest_of_one() -> None:
    assert not called(100, 104).has_time(104 + 2, 104 + 2)
    assert called(100, 104, 114).has_time(114 + 2, 114 + 2)


@pytest.mark.requirement("R581")
def test_a_receive_that_got_messages_does_not_tell_how_long_one_waits() -> None:
    calls = called(100, 100.1, 100.2, got=1)

    for usual_s in USUAL_S:
        assert calls.has_time(100.1 + usual_s - CONNECTS_S, 101, guess=True)
        assert not calls.has_time(100.1 + usual_s - CONNECTS_S, 101)
        assert not calls.has_time(100.3 + usual_s - CONNECTS_S, 101, guess=True)
    assert not calls.has_time(100.2 + 70, 101, guess=True)


@pytest.mark.requirement("R581")
def test_the_shortest_of_several_counts_as_a_program_may_pause_between_them() -> None:
    calls = called(100, 110, 170, 180)

    assert not calls.has_time(180 + 8, 185)


@pytest.mark.requirement("R581")
def test_the_same_credit_is_noted_once() -> None:
    calls = called(100, 110, 120)

    calls.asked(125, 3, 0)

    assert not calls.has_time(128, 125)
