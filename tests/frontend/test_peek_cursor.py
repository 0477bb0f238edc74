"""Cursors of peeks, and peeks from a number."""

import pytest

from bendybus.domain import errors
from bendybus.frontend.core import peek
from tests import sequence_numbers
from tests.frontend.entities import queue


def test_a_cursor_goes_round() -> None:
    assert peek.positions_at(peek.cursor_of([1, 2, peek.SKIP]), 3) == [1, 2, peek.SKIP]


def test_a_peek_without_a_cursor_starts_at_the_beginning_of_every_partition() -> None:
    assert peek.positions_at(b"", 3) == [0, 0, 0]


@pytest.mark.requirement("R46")
@pytest.mark.requirement("R17")
def test_an_explicit_number_starts_in_its_own_partition_and_goes_on_through_later_ones() -> None:
    number = sequence_numbers.of(1, 7)

    found = peek.positions_from(queue(), 4, number)

    assert found == [peek.SKIP, number, sequence_numbers.of(2, 1), sequence_numbers.of(3, 1)]


@pytest.mark.requirement("R649")
@pytest.mark.parametrize("number", [1, 7])
def test_a_number_of_a_plain_queue_starts_where_the_queue_is(number: int) -> None:
    entity = queue(partitions=1, home=2, plain_numbers=True)

    assert peek.positions_from(entity, 4, number)[2] == number


@pytest.mark.requirement("R649")
@pytest.mark.parametrize("number", [1, sequence_numbers.of(2, 1)])
def test_a_plain_queue_of_before_is_read_from_a_number_of_its_own_or_before_all(
    number: int,
) -> None:
    entity = queue(partitions=1, home=2)

    assert peek.positions_from(entity, 4, number)[2] == sequence_numbers.of(2, 1)


@pytest.mark.requirement("R649")
def test_a_number_above_all_of_the_entity_is_refused() -> None:
    for entity in (queue(partitions=1, home=2, plain_numbers=True), queue()):
        with pytest.raises(errors.InvalidArgument, match="is above all sequence numbers of"):
            peek.positions_from(entity, 4, sequence_numbers.of(9, 1))


@pytest.mark.parametrize("cursor", [b"nonsense", peek.cursor_of([0])])
def test_a_bad_cursor_names_the_field(cursor: bytes) -> None:
    with pytest.raises(errors.InvalidArgument, match="cursor"):
        peek.positions_at(cursor, 4)


def test_a_negative_number_names_the_field() -> None:
    with pytest.raises(errors.InvalidArgument, match="from_sequence_number"):
        peek.positions_from(queue(), 4, -1)
