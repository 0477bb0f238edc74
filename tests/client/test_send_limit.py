"""The bound on what waits to be sent."""

from typing import Any

from bendybus.client.core.send_limit import Admission


class Door:
    """A waiter that notes that it was let in."""

    def __init__(self) -> None:
        self.entered = False

    abandoned = False

    def resolve(self, value: Any) -> None:
        """Come in."""
        self.entered = True

    def fail(self, error: BaseException) -> None:
        """Not used."""


def test_who_does_not_fit_waits_until_there_is_room() -> None:
    admission, door = Admission(messages_max=10, bytes_max=100), Door()
    assert admission.enter(8, 10)

    assert not admission.enter(3, 10)
    admission.wait(3, 10, door)

    assert not door.entered
    admission.leave(8, 10)
    assert door.entered


def test_bytes_count_as_well_and_one_unit_always_fits() -> None:
    admission = Admission(messages_max=10, bytes_max=100)

    assert admission.enter(1, 1_000)
    assert not admission.enter(1, 1)


def test_first_come_first_served() -> None:
    admission = Admission(messages_max=10, bytes_max=100)
    big, small = Door(), Door()
    admission.enter(5, 0)
    admission.wait(9, 0, big)

    assert not admission.enter(1, 0)
    admission.wait(1, 0, small)
    assert not small.entered
    admission.forget(big)

    assert small.entered
    assert not big.entered
