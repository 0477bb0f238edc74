"""Formats of messages: what is refused before it is stored."""

import pytest

from bendybus.domain import message_format
from bendybus.domain.errors import InvalidArgument


@pytest.mark.parametrize(
    ("heads", "formats"),
    [([], []), ([], [0, 1]), ([b"", b"h"], [0, 1]), ([b"", b""], []), ([b""], [1])],
)
def test_whole_and_split_messages_are_accepted(heads: list[bytes], formats: list[int]) -> None:
    message_format.check(heads, formats)


def test_a_format_of_a_newer_version_is_refused_in_a_sentence() -> None:
    with pytest.raises(InvalidArgument, match=r"format 2 is not supported.*up to 1") as refused:
        message_format.check([b"h"], [2])
    assert refused.value.metadata["field"] == "formats"


@pytest.mark.parametrize("formats", [[], [1, 0]])
def test_a_whole_message_has_no_head(formats: list[int]) -> None:
    with pytest.raises(InvalidArgument, match="must not have a head"):
        message_format.check([b"", b"h"], formats)
