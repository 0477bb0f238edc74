"""Cursors of peeks; what the front end knows of entities; breakers."""

from dataclasses import replace

import pytest

from bendybus.domain import errors, sequence_number
from bendybus.domain.entity import Fingerprint
from bendybus.domain.limits import Tier
from bendybus.frontend import peeking
from bendybus.frontend.breaker import Breaker
from bendybus.frontend.directory import Directory
from tests.frontend.entities import queue

FINGERPRINT = Fingerprint("n", "u", Tier.STANDARD, 4, 0)


def test_a_cursor_goes_round() -> None:
    assert peeking.start(peeking.encode([1, 2, peeking.SKIP]), 3, 0) == [1, 2, peeking.SKIP]


def test_a_peek_without_a_cursor_starts_at_the_beginning_of_every_partition() -> None:
    assert peeking.start(b"", 3, 0) == [0, 0, 0]


@pytest.mark.requirement("R17")
def test_an_explicit_number_starts_in_its_own_partition_and_goes_on_through_later_ones() -> None:
    number = sequence_number.compose(1, 7)

    assert peeking.start(b"", 4, number) == [peeking.SKIP, number, 0, 0]


@pytest.mark.parametrize(
    ("cursor", "number"),
    [(b"nonsense", 0), (peeking.encode([0]), 0), (b"", sequence_number.compose(9, 1)), (b"", -1)],
)
def test_a_bad_cursor_or_number_names_the_field(cursor: bytes, number: int) -> None:
    with pytest.raises(errors.InvalidArgument):
        peeking.start(cursor, 4, number)


def test_names_are_found_without_regard_to_case_and_with_sub_queue() -> None:
    directory = Directory()
    directory.update(0, FINGERPRINT, [queue("Orders")], snapshot=True)

    assert directory.lookup("ORDERS")[1] is False
    assert directory.lookup("orders/$deadletterqueue") == (queue("Orders"), True)
    with pytest.raises(errors.InvalidOperation):
        directory.lookup("orders/$other")


def test_an_unknown_name_is_not_found_but_only_when_somebody_could_know() -> None:
    directory = Directory()
    with pytest.raises(errors.PartitionUnavailable):
        directory.lookup("orders")

    directory.update(0, FINGERPRINT, [], snapshot=True)

    with pytest.raises(errors.EntityNotFound, match="orders"):
        directory.lookup("orders")


def test_the_highest_generation_is_the_truth_whoever_brought_it() -> None:
    directory = Directory()
    newer = replace(queue(), generation=5)
    directory.update(0, FINGERPRINT, [newer], snapshot=True)

    directory.update(1, FINGERPRINT, [queue()], snapshot=True)

    assert directory.lookup("orders")[0] == newer
    assert directory.lagging(1) == [newer]
    assert directory.lagging(0) == []


def test_a_partition_that_was_away_cannot_bring_a_deleted_queue_back() -> None:
    directory = Directory()
    tombstone = replace(queue(), generation=5, deleted=True)
    directory.update(0, FINGERPRINT, [tombstone], snapshot=True)

    directory.update(1, FINGERPRINT, [queue()], snapshot=True)

    with pytest.raises(errors.EntityNotFound):
        directory.lookup("orders")
    assert directory.lagging(1) == [tombstone]


def test_a_snapshot_replaces_what_was_known_of_a_partition() -> None:
    directory = Directory()
    directory.update(0, FINGERPRINT, [queue()], snapshot=True)
    directory.update(1, FINGERPRINT, [queue()], snapshot=True)

    directory.update(1, FINGERPRINT, [], snapshot=True)

    assert directory.lagging(1) == [queue()]


def test_nothing_lags_where_nothing_is_known() -> None:
    directory = Directory()
    directory.update(0, FINGERPRINT, [queue()], snapshot=True)
    directory.forget(0)

    assert directory.lagging(0) == directory.lagging(1) == []


def test_one_miss_opens_a_breaker_and_only_a_probe_closes_it() -> None:
    breaker = Breaker()
    breaker.echoed(serving=True, conditions=())
    assert breaker.closed

    assert breaker.miss("late")
    assert not breaker.miss("late again")
    breaker.echoed(serving=False, conditions=("StoreFailed",))
    assert not breaker.closed
    breaker.echoed(serving=True, conditions=())

    assert breaker.closed
    assert breaker.opened == 1
