"""Frames of several commands or events: their bounds."""

import pytest

from bendybus.domain.errors import InvalidArgument
from bendybus.v1.receiver_pb2 import Ask, ReceiveStreamRequest
from bendybus.wire import frame_forms


def ask(ask_id: int) -> ReceiveStreamRequest:
    """Return a command."""
    return ReceiveStreamRequest(ask=Ask(ask_id=ask_id))


def test_parts_come_in_their_order_and_the_frame_itself_first() -> None:
    waiting = [ask(2), ask(3)]

    frame = frame_forms.merged(ask(1), lambda most: waiting.pop(0) if waiting else None)
    read = ReceiveStreamRequest.FromString(frame.SerializeToString())

    assert [part.ask.ask_id for part in frame_forms.parts(read)] == [1, 2, 3]


def test_a_frame_without_company_is_written_as_it_was_before() -> None:
    alone = ask(1).SerializeToString()

    assert frame_forms.merged(ask(1), lambda most: None).SerializeToString() == alone


def test_no_more_parts_are_merged_than_are_read() -> None:
    frame = frame_forms.merged(ask(1), lambda most: ask(2))

    assert len(list(frame_forms.parts(frame))) == frame_forms.PARTS_MAX


def test_a_frame_of_too_many_parts_is_refused() -> None:
    frame = ask(1)
    frame.further.extend([ask(2)] * frame_forms.PARTS_MAX)

    with pytest.raises(InvalidArgument, match="at most 64 parts"):
        list(frame_forms.parts(frame))


def test_parts_of_parts_are_refused() -> None:
    frame = ask(1)
    frame.further.add(further=[ask(2)])

    with pytest.raises(InvalidArgument, match="must not have parts"):
        list(frame_forms.parts(frame))
