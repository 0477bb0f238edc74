"""Cursors of peeks."""

import pytest

from bendybus.domain import errors, sequence_number
from bendybus.frontend.core import peek


def test_a_cursor_goes_round() -> None:
    assert peek.first_positions(peek.cursor_of([1, 2, peek.SKIP]), 3, 0) == [
        1,
        2,
        peek.SKIP,
    ]


def test_a_peek_without_a_cursor_starts_at_the_beginning_of_every_partition() -> None:
    assert peek.first_positions(b"", 3, 0) == [0, 0, 0]


@pytest.mark.requirement("R46")
@pytest.mark.requirement("R17")
def test_an_explicit_number_starts_in_its_own_partition_and_goes_on_through_later_ones() -> None:
    number = sequence_number.compose(1, 7)

    assert peek.first_positions(b"", 4, number) == [peek.SKIP, number, 0, 0]


@pytest.mark.parametrize(
    ("cursor", "number"),
    [
        (b"nonsense", 0),
        (peek.cursor_of([0]), 0),
        (b"", sequence_number.compose(9, 1)),
        (b"", -1),
    ],
)
def test_a_bad_cursor_or_number_names_the_field(cursor: bytes, number: int) -> None:
    with pytest.raises(errors.InvalidArgument):
        peek.first_positions(cursor, 4, number)
