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
