"""Heads of messages, and the whole messages for peers that do not read heads."""

import pytest

from bendybus.v1 import message_pb2, sender_pb2
from bendybus.wire import frame_forms

HEAD = message_pb2.Message(subject="s", user_id=b"u").SerializeToString()
BODY = message_pb2.Message(data=[b"b"]).SerializeToString()


def batch() -> message_pb2.MessageBatch:
    """Return a message with a head, and one without."""
    return message_pb2.MessageBatch(
        messages=[BODY, BODY], heads=[HEAD, b""], formats=[1, 0], message_ids=["1", "2"]
    )


def test_head_and_body_in_a_row_are_the_whole_message() -> None:
    whole = frame_forms.joined(batch())

    assert list(whole.messages) == [HEAD + BODY, BODY]
    assert not whole.heads
    assert not whole.formats
    assert list(whole.message_ids) == ["1", "2"]
    assert message_pb2.Message.FromString(whole.messages[0]) == message_pb2.Message(
        subject="s", user_id=b"u", data=[b"b"]
    )


def test_what_is_joined_is_a_copy() -> None:
    frame = sender_pb2.SendStreamRequest(frame_id=7, batch=batch())

    assert frame_forms.whole(frame).batch == frame_forms.joined(batch())
    assert frame_forms.whole(frame).frame_id == 7
    # It may be repeated on a stream whose server reads heads.
    assert frame.batch == batch()


def test_whole_messages_are_not_copied() -> None:
    plain = message_pb2.MessageBatch(messages=[BODY])
    frame = sender_pb2.SendStreamRequest(batch=plain)

    assert frame_forms.joined(plain) is plain
    assert frame_forms.whole(frame) is frame


@pytest.mark.parametrize("metadata", [None, (), (("bendybus-message-heads", "2"),)])
def test_a_peer_that_does_not_say_so_reads_no_heads(metadata: object) -> None:
    assert not frame_forms.heads_read_by(metadata)  # type: ignore[arg-type]


def test_a_peer_says_so_in_metadata() -> None:
    assert frame_forms.heads_read_by((("other", "1"), frame_forms.READS_HEADS))
