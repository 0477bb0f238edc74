"""How batches are dealt over partitions and cut into tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.spark.source import ranges
from bendybus.spark.source.ranges import Extent, Offset, Range
from tests import sequence_numbers

TAILS = st.lists(st.integers(0, 500), min_size=1, max_size=6)


def extents(tails: list[int], first: int = 1) -> list[Extent]:
    return [
        Extent(
            index,
            "a",
            0,
            sequence_numbers.of(index, 0) + tail,
            sequence_numbers.of(index, 0) + first if tail else 0,
            tail,
            tail * 100,
        )
        for index, tail in enumerate(tails)
    ]


def start(numbers: dict[int, int]) -> Offset:
    return Offset(
        {index: sequence_numbers.of(index, 0) + number for index, number in numbers.items()},
        dict.fromkeys(numbers, "a"),
    )


@pytest.mark.requirement("R295")
@given(TAILS, st.integers(1, 1_000))
def test_a_batch_takes_from_every_partition_with_messages_and_not_more_than_its_limit(
    tails: list[int], limit: int
) -> None:
    found = ranges.deal(ranges.spans(start({}), extents(tails), None), limit)

    taken = {index: number - sequence_numbers.of(index, 0) for index, number in found.items()}
    assert taken.keys() == {index for index, tail in enumerate(tails) if tail}
    assert all(1 <= taken[index] <= tails[index] for index in taken)
    assert sum(taken.values()) <= max(limit, len(taken))
    if sum(tails) <= limit:
        assert taken == {index: tail for index, tail in enumerate(tails) if tail}


@pytest.mark.requirement("R295")
def test_a_limit_is_dealt_by_lag() -> None:
    found = ranges.deal(ranges.spans(start({0: 0, 1: 0}), extents([900, 100]), None), 100)

    assert found == {0: 89, 1: sequence_numbers.of(1, 0) + 10}


@pytest.mark.requirement("R295")
def test_numbers_before_the_oldest_message_do_not_count() -> None:
    found = ranges.deal(ranges.spans(start({0: 0}), extents([1_000], first=991), None), 5)

    assert found == {0: 995}


@pytest.mark.requirement("R295")
def test_bytes_become_messages_by_their_average_size() -> None:
    assert ranges.within_bytes(extents([10, 10]), 1_000) == 10
    assert ranges.within_bytes(extents([10]), 1) == 1
    assert ranges.within_bytes(extents([0]), 10_240) == 10


@given(TAILS, st.integers(0, 40))
def test_a_cut_range_has_the_same_numbers_in_more_parts(tails: list[int], least: int) -> None:
    whole = [
        Range(index, sequence_numbers.of(index, 0), sequence_numbers.of(index, 0) + tail)
        for index, tail in enumerate(tails)
        if tail
    ]

    found = ranges.cut(whole, least)

    assert [number for each in found for number in range(each.after, each.upto)] == [
        number for each in whole for number in range(each.after, each.upto)
    ]
    assert all(each.upto > each.after for each in found)
    assert len(found) <= max(len(whole), least + len(whole))


@pytest.mark.requirement("R294")
@pytest.mark.parametrize(
    ("extent", "why"),
    [
        (Extent(0, "b", 0, 90, 1), "recreated or restored, or the checkpoint is another entity's"),
        (Extent(0, "a", 0, 30, 1), "it ends at 30"),
        (Extent(0, "a", 60, 90, 61), "expired or were purged"),
    ],
)
def test_what_is_lost_is_told(extent: Extent, why: str) -> None:
    assert why in ranges.losses(start({0: 50}), [extent])[0]


@pytest.mark.requirement("R294")
@pytest.mark.parametrize(
    "extent",
    [
        Extent(0, "a", 50, 90, 51),
        Extent(0, "a", 0, 50, 0),
        Extent(0, unavailable="away"),
        Extent(1, "b", 1 << 60, 0, 0),
    ],
)
def test_what_was_read_or_is_not_known_yet_is_no_loss(extent: Extent) -> None:
    assert ranges.losses(start({0: 50}), [extent]) == {}


def test_an_offset_is_the_same_after_its_way_through_a_checkpoint() -> None:
    whole = Offset({0: 41, 1: 1 << 48}, {0: "a"}, {0: 57}, "me")

    assert ranges.offset_of(whole.to_json()) == whole


def test_an_offset_of_a_later_version_is_refused() -> None:
    with pytest.raises(Exception, match="offsets of version 2"):
        ranges.offset_of({"v": 2})
