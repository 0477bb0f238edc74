"""Properties that receivers changed: bounded as they are written, counted as they are read."""

from bendybus.domain import errors, limits
from bendybus.domain.disposition import Disposition
from tests.partition_server.driver import Driver

LARGE = b"p" * 60_000
# So many messages with large changes are less than one delivery may bring.
FIT = limits.FRAME_BYTES_MAX // len(LARGE)


def test_one_call_adds_no_more_than_a_frame_to_all_its_messages(queue: Driver) -> None:
    queue.send(*[b"m"] * (FIT + 1), groups=(1,) * (FIT + 1))
    tokens = [token for _, token in queue.receive(FIT + 1)]

    refused = queue.settle(Disposition.ABANDON, *tokens, changed_properties=LARGE)
    settled = queue.settle(Disposition.ABANDON, *tokens[1:], changed_properties=LARGE)

    assert {type(error) for _, error in refused.failures} == {errors.InvalidArgument}
    assert "Settle fewer" in refused.failures[0][1].message
    assert settled.failures == []


def test_what_was_changed_counts_to_the_bytes_of_a_delivery(queue: Driver) -> None:
    for token in _locked(queue, 3 * FIT):
        queue.settle(Disposition.ABANDON, token, changed_properties=LARGE)

    assert len(queue.receive(3 * FIT)) <= FIT + 1


def test_what_was_changed_before_stays_however_the_lock_ends(queue: Driver) -> None:
    for token in _locked(queue, 2):
        queue.settle(Disposition.ABANDON, token, changed_properties=b"before")

    (_, first), (_, second) = queue.receive(2)
    queue.settle(Disposition.ABANDON, first)
    queue.settle(Disposition.DEFER, second)
    [(row, token)] = queue.receive(2)
    assert row.changed_properties == b"before"
    queue.advance(600_000)
    [(row, token)] = queue.receive(2)
    assert (row.changed_properties, row.delivery_count) == (b"before", 3)
    queue.settle(Disposition.DEAD_LETTER, token, changed_properties=b"+after")

    [(row, _)] = queue.receive(dead_letter=True)
    assert row.changed_properties == b"before+after"
    assert {row.changed_properties for row in queue.peek()} == {b"before"}


def test_locks_do_not_keep_what_was_changed(queue: Driver) -> None:
    for token in _locked(queue, 3):
        queue.settle(Disposition.ABANDON, token, changed_properties=LARGE)

    queue.receive(3)

    [state] = [each for each in queue.partition.state.queues if each.locks]
    for lock in state.locks.values():
        kept = [getattr(lock, name) for name in lock.__slots__]
        assert not any(isinstance(value, bytes) for value in kept)
        assert lock.changed_bytes == len(LARGE)


def _locked(queue: Driver, count: int) -> list[bytes]:
    queue.send(*[b"m"] * count)
    return [token for _, token in queue.receive(count)]
