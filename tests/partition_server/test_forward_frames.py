"""Frames between partitions on the contract: what they carry, and what cannot be."""

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.sub_queue import SubQueue
from bendybus.internal.v1 import partition_pb2
from bendybus.partition_server.service import forward_frames
from bendybus.partition_server.state.answers import ForwardedTaken
from bendybus.partition_server.state.batch import Batch, Carried
from bendybus.partition_server.state.commands import EntityRef, TakeForwarded
from bendybus.partition_server.state.lanes import Outgoing
from bendybus.partition_server.store.records import ForwardSource
from tests.partition_server.driver import Driver
from tests.partition_server.forwarding_driver import bodies

SOURCE = ForwardSource("u", SubQueue.DEAD_LETTER, 3, b"incarnation")
PLAIN = Carried(None, None, None, None, 5, 0, 1)
DEAD = Carried(b"changed", "Broken", "because", "orders", 7, 26, 2)


def outgoing(*carried: Carried) -> Outgoing:
    count = len(carried)
    batch = Batch(
        [b"body"] * count,
        ["m"] * count,
        ["k"] * count,
        ["s"] * count,
        [True] * count,
        [9] * count,
        (),
        [b"head"] * count,
        [1] * count,
        list(carried),
    )
    counters = list(range(1, count + 1))
    return Outgoing(4, 2, 8, 1, SOURCE, "d", 6, counters, batch, [3, 4], 3, True)


@pytest.mark.requirement("R214")
@pytest.mark.parametrize("carried", [[PLAIN], [PLAIN, DEAD], [DEAD]])
def test_a_frame_arrives_as_it_was_sent(carried: list[Carried]) -> None:
    frame = outgoing(*carried)

    sent = forward_frames.request(frame, 99).SerializeToString()
    read = partition_pb2.ForwardRequest.FromString(sent)

    expected = forward_frames.command_of(frame, None)  # type: ignore[arg-type]
    expected.deadline_mono_ms = 99
    expected.batch.scheduled_ms = expected.batch.reserved = []
    assert forward_frames.command(read, None) == expected  # type: ignore[arg-type]
    assert read.partition == 1


@pytest.mark.requirement("R214")
def test_an_answer_arrives_as_it_was_given() -> None:
    outcome = ForwardedTaken(1, {1: errors.QuotaExceeded("full")})

    answer = forward_frames.response(outcome, 77)
    read = forward_frames.taken(outgoing(PLAIN, PLAIN), answer)

    assert (read.done, list(read.failures), answer.monotonic_ms) == (1, [1], 77)
    assert isinstance(read.failures[1], errors.QuotaExceeded)


@pytest.mark.parametrize(
    "answer",
    [
        partition_pb2.ForwardResponse(done=2),
        partition_pb2.ForwardResponse(failures=[partition_pb2.ForwardFailure(message=1)]),
    ],
)
def test_an_answer_for_more_messages_than_there_were_says_nothing(
    answer: partition_pb2.ForwardResponse,
) -> None:
    with pytest.raises(errors.OutcomeUnknown):
        forward_frames.taken(outgoing(PLAIN), answer)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"columns": partition_pb2.ForwardedColumns(hops=[1, 1])}, "columns.hops"),
        ({"source": partition_pb2.ForwardSource(uid="u", sub_queue=9)}, "source.sub_queue"),  # type: ignore[arg-type]
    ],
)
def test_columns_that_do_not_fit_and_unknown_sub_queues_are_refused(
    change: dict[str, object], field: str
) -> None:
    request = forward_frames.request(outgoing(PLAIN), 0)
    for name, value in change.items():
        getattr(request, name).CopyFrom(value)

    with pytest.raises(errors.InvalidArgument) as refused:
        forward_frames.command(request, None)  # type: ignore[arg-type]

    assert refused.value.field == field


@pytest.mark.requirement("R214")
def test_a_message_that_takes_along_what_none_can_have_does_not_hold_up_others(
    queue: Driver,
) -> None:
    reason = "x" * (limits.DEAD_LETTER_TEXT_CHARS_MAX + 1)
    bad = [
        PLAIN._replace(hops=limits.FORWARD_HOPS_MAX + 1),
        PLAIN._replace(dead_letter_reason=reason),
        PLAIN._replace(changed_properties=b"x" * (limits.HEADER_BYTES_MAX + 1)),
        PLAIN._replace(enqueued_sequence_number=-1),
    ]
    batch = Batch([b"a", *[b"bad"] * 4, b"b"], carried=[PLAIN, *bad, PLAIN])
    ref = queue.ref()
    command = TakeForwarded(
        "t", EntityRef(ref.uid, ref.generation), SOURCE, 1, 1, range(1, 7), batch
    )

    [taken] = queue.run(command)

    assert (taken.done, sorted(taken.failures)) == (6, [1, 2, 3, 4])
    assert all(isinstance(error, errors.InvalidArgument) for error in taken.failures.values())
    assert bodies(queue, "orders") == [b"a", b"b"]
