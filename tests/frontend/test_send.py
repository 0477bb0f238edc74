"""Bounds of what is under way through a front end."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace

import pytest

from bendybus.domain import limits
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Fingerprint
from bendybus.domain.limits import Tier
from bendybus.frontend.core.metrics import Metrics
from bendybus.frontend.core.quota.bounds import SEND_PART_BYTES, UNBOUNDED, Bounds
from bendybus.frontend.core.send import SendDispatcher
from bendybus.frontend.upstreams import send_frames
from bendybus.frontend.upstreams.stream import Lane
from bendybus.frontend.upstreams.upstream import now_ms
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import message_pb2, sender_pb2
from tests.frontend.entities import queue
from tests.frontend.frames import submit


class Upstream:
    """A partition that takes everything and answers nothing."""

    available = True
    clock_offset_ms = 0
    misses = 0

    def miss(self, why: str) -> None:
        """Count."""
        self.misses += 1

    @property
    def sends(self) -> "Upstream":
        """The stream of sends."""
        return self

    def put(self, request: object, lane: Lane) -> bool:
        """Take a frame."""
        return True


def sends_of(upstreams: Mapping[int, Upstream]) -> SendDispatcher:
    """Return the dispatcher of a front end with one queue of four partitions."""
    directory = Directory()
    fingerprint = Fingerprint("n", "u", Tier.PREMIUM, 4, 0)
    directory.update(0, fingerprint, [queue()], snapshot=True)
    return SendDispatcher(upstreams, directory, Metrics())  # type: ignore[arg-type]


def frame(frame_id: int, size: int) -> sender_pb2.SendStreamRequest:
    """Return a frame of one message."""
    batch = message_pb2.MessageBatch(messages=[b"x" * size])
    return sender_pb2.SendStreamRequest(frame_id=frame_id, entity_path="orders", batch=batch)


@pytest.mark.requirement("R635")
@pytest.mark.parametrize(
    "bounds", [(10, 90, 90, 90), (90, 10, 90, 90), (90, 90, 10, 90), (90, 90, 90, 10)]
)
async def test_sends_under_way_are_bounded_in_bytes(bounds: tuple[int, ...]) -> None:
    upstreams = {partition: Upstream() for partition in range(4)}
    sends = sends_of(upstreams)
    # The bounds of a connection, a policy, all, and an entity.
    connection, policy, all_, entity = (each * 1_000 + 2 * SEND_PART_BYTES for each in bounds)
    sends._room.use(Bounds(connection, policy, all_, entity=entity))
    answers: list[sender_pb2.SendStreamResponse] = []

    for frame_id in range(1, 5):
        submit(sends, frame(frame_id, 4_000), answers.append)

    assert [answer.frame_id for answer in answers] == [3, 4]
    assert {answer.error.reason for answer in answers} == {"SERVER_BUSY"}
    sends.lost(0, "end")
    sends.lost(1, "end")
    sends.lost(2, "end")
    sends.lost(3, "end")


async def test_what_one_client_makes_the_front_end_hold_is_bounded_in_bytes() -> None:
    upstreams = {partition: Upstream() for partition in range(4)}
    sends = sends_of(upstreams)
    sends._room.use(Bounds(10_000 + 2 * SEND_PART_BYTES, UNBOUNDED, UNBOUNDED))
    answers: list[sender_pb2.SendStreamResponse] = []

    for frame_id in range(1, 5):
        submit(sends, frame(frame_id, 4_000), answers.append, client="greedy")
    submit(sends, frame(5, 4_000), answers.append, client="another")

    assert [answer.frame_id for answer in answers] == [3, 4]
    assert {answer.error.reason for answer in answers} == {"SERVER_BUSY"}
    # What is answered is given back.
    sends.answered(
        0, send_frames.answer(partition_pb2.SendFramesResponse(frame_id=1, sequence_numbers=[1]))
    )
    assert len(answers) == 3
    submit(sends, frame(6, 4_000), answers.append, client="greedy")
    assert len(answers) == 3


@pytest.mark.requirement("R18", "R332")
@pytest.mark.parametrize("keys", [["a", "b"], ["a", "b", "c"]])
async def test_a_split_batch_has_the_limit_of_a_batch(keys: list[str]) -> None:
    directory = Directory()
    fingerprint = Fingerprint("n", "u", Tier.STANDARD, 4, 0)
    directory.update(0, fingerprint, [queue()], snapshot=True)
    upstreams = {partition: Upstream() for partition in range(4)}
    sends = SendDispatcher(upstreams, directory, Metrics())  # type: ignore[arg-type]
    answers: list[sender_pb2.SendStreamResponse] = []
    large = message_pb2.MessageBatch(
        messages=[b"x" * 150_000] * len(keys), partition_keys=keys, message_ids=keys
    )
    request = sender_pb2.SendStreamRequest(
        frame_id=1, entity_path="orders", batch=large, split_by_partition_key=True
    )

    submit(sends, request, answers.append)

    assert [answer.error.reason for answer in answers] == ["MESSAGE_SIZE_EXCEEDED"]
    assert sends.under_way() == 0


async def test_one_large_frame_is_always_taken() -> None:
    upstreams = {partition: Upstream() for partition in range(4)}
    sends = sends_of(upstreams)
    sends._room.use(Bounds(10, 10, 10, entity=10))
    answers: list[sender_pb2.SendStreamResponse] = []

    submit(sends, frame(1, 4_000), answers.append)

    assert answers == []
    assert sends.under_way() == 1


async def test_a_send_to_an_orphan_is_refused_at_once_but_a_repeat_goes_to_the_partition() -> None:
    directory = Directory()
    fingerprint = Fingerprint("n", "u", Tier.PREMIUM, 4, 0)
    directory.update(0, fingerprint, [replace(queue(), orphaned=True)], snapshot=True)
    upstreams = {partition: Upstream() for partition in range(4)}
    sends = SendDispatcher(upstreams, directory, Metrics())  # type: ignore[arg-type]
    answers: list[sender_pb2.SendStreamResponse] = []
    repeat = frame(2, 10)
    repeat.age_ms = 500

    submit(sends, frame(1, 10), answers.append)
    submit(sends, repeat, answers.append)

    assert [(answer.frame_id, answer.error.reason) for answer in answers] == [
        (1, "ENTITY_ORPHANED")
    ]
    assert sends.under_way() == 1


@pytest.mark.slow
@pytest.mark.requirement("R420")
async def test_answers_that_have_arrived_are_read_before_deadlines_are_judged() -> None:
    upstreams = {partition: Upstream() for partition in range(4)}
    sends = sends_of(upstreams)
    answers: list[sender_pb2.SendStreamResponse] = []
    loop = asyncio.get_running_loop()
    for frame_id in range(1, 4):
        request = frame(frame_id, 10)
        request.timeout_ms = 4_000
        submit(sends, request, answers.append)
    await asyncio.sleep(0.06)

    # The process is suspended beyond every attempt's deadline, twice; the answers, which wait in
    # the socket, take some turns of the loop to be read.
    time.sleep(1.0)  # noqa: ASYNC251
    await asyncio.sleep(0.1)
    time.sleep(1.0)  # noqa: ASYNC251
    for step in range(1, 4):
        response = partition_pb2.SendFramesResponse(frame_id=step, sequence_numbers=[step])
        loop.call_later(0.04 * step, sends.answered, step, send_frames.answer(response))
    async with asyncio.timeout(10):
        while len(answers) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    assert [list(answer.sequence_numbers) for answer in answers] == [[1], [2], [3]]
    assert sum(upstream.misses for upstream in upstreams.values()) == 0


@pytest.mark.requirement("R29")
async def test_a_frame_is_dealt_in_the_runs_that_its_client_names() -> None:
    got: dict[int, int] = {}

    class Counting(Upstream):
        def put(  # type: ignore[override]
            self, request: partition_pb2.SendFramesRequest, lane: Lane
        ) -> bool:
            """Count messages."""
            got[request.partition] = len(request.batch.messages)
            return True

    directory = Directory()
    directory.update(0, Fingerprint("n", "u", Tier.PREMIUM, 4, 0), [queue()], snapshot=True)
    upstreams = {partition: Counting() for partition in range(4)}
    sends = SendDispatcher(upstreams, directory, Metrics())  # type: ignore[arg-type]
    answers: list[sender_pb2.SendStreamResponse] = []
    batch = message_pb2.MessageBatch(messages=[b"x"] * 8)
    sent = sender_pb2.SendStreamRequest(
        frame_id=1, entity_path="orders", batch=batch, group_sizes=[1] * 8, lane=0, run=2
    )

    submit(sends, sent, answers.append)

    assert got == dict.fromkeys(range(4), 2)
    sent.run = 1_000_000
    submit(sends, sent, answers.append)
    assert [answer.error.reason for answer in answers] == ["INVALID_ARGUMENT"]
    for partition in upstreams:
        sends.lost(partition, "end")


@pytest.mark.requirement("R49")
async def test_sends_without_a_key_are_under_way_at_every_partition_at_once() -> None:
    waiting = dict.fromkeys(range(4), 0)

    class Slow(Upstream):
        """Has not answered yet; partitions are told apart by what is handed to each."""

        def __init__(self, partition: int) -> None:
            self.partition = partition

        def put(self, request: object, lane: Lane) -> bool:
            """Count a frame."""
            waiting[self.partition] += 1
            return True

    upstreams = {partition: Slow(partition) for partition in range(4)}
    sends = sends_of(upstreams)

    for frame_id in range(1, 81):
        submit(sends, frame(frame_id, 100), lambda _: None)

    assert waiting == dict.fromkeys(range(4), 20)
    for partition in upstreams:
        sends.lost(partition, "end")


@pytest.mark.parametrize("position", [limits.FRAME_MESSAGES_MAX, 2**32 - 1])
async def test_positions_that_no_frame_has_are_refused_and_nothing_stays_under_way(
    position: int,
) -> None:
    sends = sends_of({partition: Upstream() for partition in range(4)})
    answers: list[sender_pb2.SendStreamResponse] = []
    batch = message_pb2.MessageBatch(
        messages=[b"x"] * 3, partition_keys=["a", "b", "c"], message_ids=["1", "2", "3"]
    )
    request = sender_pb2.SendStreamRequest(
        frame_id=1,
        producer_id=b"p" * 16,
        entity_path="orders",
        batch=batch,
        split_by_partition_key=True,
        positions=[position],
        age_ms=1,
    )

    submit(sends, request, answers.append)

    assert [answer.error.reason for answer in answers] == ["INVALID_ARGUMENT"]
    assert "positions" in answers[0].error.message
    assert sends.under_way() == 0


@pytest.mark.requirement("R31")
async def test_a_send_that_names_no_time_has_60_seconds() -> None:
    directory = Directory()
    fingerprint = Fingerprint("n", "u", Tier.PREMIUM, 4, 0)
    directory.update(0, fingerprint, [queue()], snapshot=True)
    requests: list[partition_pb2.SendFramesRequest] = []

    class Recorder(Upstream):
        def put(  # type: ignore[override]
            self, request: partition_pb2.SendFramesRequest, lane: Lane
        ) -> bool:
            """Note a frame."""
            requests.append(request)
            return True

    upstreams = {partition: Recorder() for partition in range(4)}
    sends = SendDispatcher(upstreams, directory, Metrics())  # type: ignore[arg-type]
    # With a key: it has all the time there is.
    batch = message_pb2.MessageBatch(messages=[b"x"], partition_keys=["k"])
    frame = sender_pb2.SendStreamRequest(frame_id=1, entity_path="orders", batch=batch)
    before = now_ms()

    submit(sends, frame, lambda answer: None)

    [request] = requests
    assert before + 60_000 <= request.deadline_monotonic_ms <= now_ms() + 60_000
    for partition in upstreams:
        sends.lost(partition, "end")


@pytest.mark.requirement("R635")
async def test_a_small_send_counts_for_each_partition_that_it_goes_to() -> None:
    upstreams = {partition: Upstream() for partition in range(4)}
    sends = sends_of(upstreams)
    answers: list[sender_pb2.SendStreamResponse] = []

    submit(sends, frame(1, 1), answers.append)

    assert sends._room.held == frame(1, 1).batch.ByteSize() + SEND_PART_BYTES
    for partition in range(4):
        sends.lost(partition, "end")
