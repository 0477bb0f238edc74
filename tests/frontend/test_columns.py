"""Slices of column batches: heads go with their messages, and count."""

import pytest

from bendybus.domain.errors import InvalidArgument
from bendybus.frontend.core import columns
from bendybus.v1 import message_pb2


def sent() -> message_pb2.MessageBatch:
    """Return three messages, two of which have a head."""
    return message_pb2.MessageBatch(
        messages=[b"a", b"bb", b"ccc"],
        heads=[b"", b"head", b"h"],
        formats=[0, 1, 1],
        message_ids=["1", "2", "3"],
    )


def test_heads_count_to_sizes() -> None:
    assert columns.sizes(sent()) == [2, 7, 5]
    assert columns.content_sizes(message_pb2.DeliveredBatch(messages=[b"a"], heads=[b"hh"])) == [3]
    assert columns.content_sizes(message_pb2.DeliveredBatch(messages=[b"a", b"bc"])) == [1, 2]


def test_a_part_of_a_frame_has_its_heads() -> None:
    part = columns.pick(sent(), [(0, 1), (2, 3)])

    assert (list(part.messages), list(part.heads)) == ([b"a", b"ccc"], [b"", b"h"])
    assert list(part.formats) == [0, 1]


def test_a_part_of_a_delivery_has_its_heads() -> None:
    batch = message_pb2.DeliveredBatch(messages=[b"a", b"b"], heads=[b"", b"h"], formats=[0, 1])

    part = columns.cut(batch, 1, 2)

    assert (list(part.messages), list(part.heads), list(part.formats)) == ([b"b"], [b"h"], [1])


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"formats": [2]}, "formats"),
        ({"heads": [b"h"]}, "heads"),
        ({"heads": [b"h", b"h"], "formats": [1]}, "heads"),
        ({"heads": [b"h"], "formats": [1, 1]}, "formats"),
    ],
)
def test_columns_that_do_not_fit_together_are_refused(
    given: dict[str, list[bytes]], field: str
) -> None:
    batch = message_pb2.MessageBatch(messages=[b"x"], **given)  # type: ignore[arg-type]

    with pytest.raises(InvalidArgument) as refused:
        columns.faults(batch)

    assert refused.value.metadata["field"] == field


def test_what_receivers_changed_counts_to_the_sizes_of_a_delivery() -> None:
    batch = message_pb2.DeliveredBatch(messages=[b"a", b"bb"], heads=[b"h", b""], formats=[1, 0])
    assert columns.delivered_sizes(batch) == [2, 2]

    batch.changed_properties.extend([b"", b"c" * 100])
    batch.dead_letter_reasons.extend(["r", ""])
    batch.dead_letter_error_descriptions.extend(["dd", ""])

    assert columns.delivered_sizes(batch) == [5, 102]


@pytest.mark.parametrize("nested", ["list_value", "map_value"])
def test_changed_properties_are_simple_values(nested: str) -> None:
    properties = message_pb2.ValueMap()
    properties.entries["simple"].long_value = 7
    columns.check_properties(properties)

    getattr(properties.entries["n" * 1_000], nested).SetInParent()

    with pytest.raises(InvalidArgument, match="must be a simple value") as caught:
        columns.check_properties(properties)
    assert len(caught.value.message) < 300


def test_changed_properties_are_of_known_types() -> None:
    groups = b"\xa3\x01" * 90 + b"\xa4\x01" * 90
    properties = message_pb2.ValueMap.FromString(groups)

    with pytest.raises(InvalidArgument, match="known types only"):
        columns.check_properties(properties)
