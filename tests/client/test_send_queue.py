"""Units that wait to be sent."""

from types import SimpleNamespace
from typing import Any

from bendybus.client import ServiceBusMessage
from bendybus.client.core.send_queue import SendQueue, Unit
from bendybus.client.messages import encode


def unit(entity: str, count: int = 1, *, abandoned: bool = False) -> Unit:
    """Return a unit of so many messages, whose caller may have been cancelled."""
    columns = encode.columns_of([ServiceBusMessage("x")] * count)
    assert columns is not None
    waiter: Any = SimpleNamespace(abandoned=abandoned)
    return Unit(entity, columns, waiter, 60.0)


def filled(*units: Unit) -> SendQueue:
    """Return a queue with these units."""
    queue = SendQueue()
    for each in units:
        queue.add(each)
    return queue


def test_entities_take_turns() -> None:
    a1, a2, b = unit("a"), unit("a"), unit("b")
    queue = filled(a1, a2, b)

    taken = [queue.take(1, 1_000)[0] for _ in range(3)]

    assert taken == [[a1], [b], [a2]]
    assert not queue


def test_a_frame_takes_what_fits_and_at_least_one_unit() -> None:
    first, second, third = unit("a", 2), unit("a", 2), unit("a", 2)
    queue = filled(first, second, third)

    assert queue.take(4, 10_000) == ([first, second], [])
    assert (first.position, second.position) == (0, 2)
    assert queue.take(1, 1) == ([third], [])


def test_units_whose_callers_were_cancelled_are_not_taken() -> None:
    cancelled, kept = unit("a", abandoned=True), unit("a")

    assert filled(cancelled, kept).take(10, 10_000) == ([kept], [cancelled])


def test_units_are_removed_by_a_condition() -> None:
    a, b, c = unit("a"), unit("a"), unit("b")
    queue = filled(a, b, c)

    assert queue.remove_if(lambda each: each in (a, c)) == [a, c]
    assert queue.take(10, 10_000) == ([b], [])
    assert not queue
