"""The bound on what waits to be sent."""

from typing import Any

from bendybus.client.core.send_queue import SendLimit


class Door:
    """A waiter that notes that it was let in."""

    def __init__(self) -> None:
        self.admitted = False

    abandoned = False

    def resolve(self, value: Any) -> None:
        """Come in."""
        self.admitted = True

    def fail(self, error: BaseException) -> None:
        """Not used."""


def test_who_does_not_fit_waits_until_there_is_room() -> None:
    send_limit, door = SendLimit(messages_max=10, bytes_max=100), Door()
    assert send_limit.try_acquire(8, 10)

    assert not send_limit.try_acquire(3, 10)
    send_limit.wait(3, 10, door)

    assert not door.admitted
    send_limit.release(8, 10)
    assert door.admitted


def test_bytes_count_as_well_and_one_unit_always_fits() -> None:
    send_limit = SendLimit(messages_max=10, bytes_max=100)

    assert send_limit.try_acquire(1, 1_000)
    assert not send_limit.try_acquire(1, 1)


def test_first_come_first_served() -> None:
    send_limit = SendLimit(messages_max=10, bytes_max=100)
    big, small = Door(), Door()
    send_limit.try_acquire(5, 0)
    send_limit.wait(9, 0, big)

    assert not send_limit.try_acquire(1, 0)
    send_limit.wait(1, 0, small)
    assert not small.admitted
    send_limit.cancel(big)

    assert small.admitted
    assert not big.admitted
