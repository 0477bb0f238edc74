"""Heads beside bodies, on both stores: kept byte for byte, counted as the whole message was."""

from typing import Any

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.disposition import Disposition
from bendybus.partition_server.service import conversions
from bendybus.partition_server.state import answers
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append
from bendybus.v1 import message_pb2
from tests.partition_server.conftest import MakeStore
from tests.partition_server.driver import Driver

HEAD = message_pb2.Message(
    subject="s", application_properties={"n": message_pb2.Value(long_value=7)}
).SerializeToString()
BODY = message_pb2.Message(data=[b"abc"]).SerializeToString()


def send_both(queue: Driver) -> None:
    """Send a message with a head and one without."""
    queue.send(BODY, b"whole", heads=[HEAD, b""], formats=[1, 0])


def content(row: Any) -> tuple[int, bytes, bytes]:
    """Return what was sent of a message."""
    return row.format, row.head, row.payload


def test_head_and_body_come_back_as_they_were_sent(queue: Driver) -> None:
    send_both(queue)

    received = [content(row) for row, _ in queue.receive(2)]

    assert received == [(1, HEAD, BODY), (0, b"", b"whole")]


def test_they_are_the_same_after_a_restart(make_store: MakeStore) -> None:
    store = make_store()
    queue = Driver(store)
    queue.create()
    send_both(queue)
    queue.send(BODY, heads=[HEAD], formats=[1], scheduled_ms=[queue.wall_ms + 60_000])

    again = Driver(store)

    assert [content(row) for row in again.peek(count=10)] == [
        (1, HEAD, BODY),
        (0, b"", b"whole"),
        (1, HEAD, BODY),
    ]


def test_many_messages_with_heads_are_stored_in_order(queue: Driver) -> None:
    count = 700
    bodies = [b"%d" % n for n in range(count)]
    heads = [b"h%d" % n if n % 3 else b"" for n in range(count)]
    formats = [1 if head else 0 for head in heads]

    queue.send(*bodies, heads=heads, formats=formats)

    found = [content(row) for row in queue.peek(count=count)]
    assert found == list(zip(formats, heads, bodies, strict=True))


@pytest.mark.parametrize("deferred", [False, True])
def test_a_dead_letter_keeps_its_head(queue: Driver, deferred: bool) -> None:
    send_both(queue)
    for _, token in queue.receive(2):
        if deferred:
            queue.settle(Disposition.DEFER, token)
        else:
            queue.settle(Disposition.DEAD_LETTER, token, dead_letter_reason="r")
    if deferred:
        shown = queue.peek(count=10)
    else:
        shown = [row for row, _ in queue.receive(2, dead_letter=True)]

    assert [content(row) for row in shown] == [(1, HEAD, BODY), (0, b"", b"whole")]


def test_sizes_are_those_of_the_whole_message(make_store: MakeStore) -> None:
    sizes = []
    queue = Driver(make_store())
    queue.create()
    split: dict[str, Any] = {"heads": [HEAD], "formats": [1]}
    whole: dict[str, Any] = {}
    for columns in (whole, split):
        before = size_bytes(queue)
        queue.send(BODY if columns else HEAD + BODY, message_ids=["m"], **columns)
        [(row, token)] = queue.receive()
        sizes.append((size_bytes(queue) - before, row.size()))
        queue.settle(Disposition.DEAD_LETTER, token, dead_letter_reason="r")
        [(row, token)] = queue.receive(dead_letter=True)
        sizes.append((size_bytes(queue) - before, row.size()))
        queue.settle(Disposition.COMPLETE, token)
        assert size_bytes(queue) == before

    assert sizes[:2] == sizes[2:]


def size_bytes(queue: Driver) -> int:
    """Return what the queue counts to its quota."""
    return int(queue.counts().size_bytes)


@pytest.mark.parametrize("more", [0, 1])
def test_a_head_counts_to_the_size_of_a_message(queue: Driver, more: int) -> None:
    most = limits.PREMIUM_MESSAGE_BYTES_DEFAULT
    body = b"x" * (most - len(HEAD) + more)

    if more:
        with pytest.raises(errors.MessageSizeExceeded, match=str(most + 1)):
            queue.send(body, heads=[HEAD], formats=[1])
    else:
        queue.send(body, heads=[HEAD], formats=[1])


def test_heads_count_to_the_size_of_a_batch(queue: Driver) -> None:
    most = limits.PREMIUM_BATCH_BYTES_MAX
    heads = [b"h" * (most // 2)] * 2

    with pytest.raises(errors.MessageSizeExceeded, match="batch"):
        queue.send(b"a", b"b", heads=heads, formats=[1, 1])


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"formats": [2]}, "formats"),
        ({"heads": [b"h"]}, "heads"),
        ({"heads": [b"h", b"h"], "formats": [1]}, "heads"),
        ({"heads": [b"h"], "formats": [1, 1]}, "formats"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    queue: Driver, columns: dict[str, Any], field: str
) -> None:
    with pytest.raises(errors.InvalidArgument) as refused:
        queue.send(b"x", **columns)

    assert refused.value.metadata["field"] == field


def test_a_repeat_stores_what_is_new_with_its_head(queue: Driver) -> None:
    named: dict[str, Any] = {"producer_id": b"p" * 16, "producer_sequence": 1}
    ref = queue.ref()
    queue.run(Append("t", ref, Batch([b"a"], heads=[b"h"], formats=[1]), spans=[0, 1], **named))

    both = Batch([b"a", b"b"], heads=[b"h", b"i"], formats=[1, 1])
    queue.run(Append("t", ref, both, (1, 1), spans=[0, 2], age_ms=5, **named))

    assert [content(row) for row in queue.peek(count=9)] == [(1, b"h", b"a"), (1, b"i", b"b")]


def test_messages_are_delivered_in_the_form_in_which_they_came(queue: Driver) -> None:
    send_both(queue)
    delivery = answers.Delivery(0, 0, queue.peek(count=10))

    split = conversions.delivery_to_proto(delivery, partition=0)

    assert (list(split.messages), list(split.heads)) == ([BODY, b"whole"], [HEAD, b""])
    assert list(split.formats) == [1, 0]


@pytest.mark.parametrize("format_", [-1, 2**32 - 1, 2**32, 2**62])
def test_a_format_that_no_version_wrote_is_delivered_as_one_that_is_not_known(
    queue: Driver, format_: int
) -> None:
    send_both(queue)
    rows = [row._replace(format=format_) for row in queue.peek(count=10)]

    delivery = answers.Delivery(0, 0, rows)
    batch = conversions.delivery_to_proto(delivery, partition=0)

    assert list(batch.formats) == [2**32 - 1] * 2
