"""Frames of sends that wait for a partition: which ones go together, and which ones wait."""

from collections.abc import Callable
from typing import Any

import pytest

from bendybus.domain.errors import OutcomeUnknown
from bendybus.frontend.core import repeated_sends
from bendybus.frontend.upstreams.send_outbox import ENOUGH_BYTES, SMALL_BYTES, SendOutbox
from bendybus.frontend.upstreams.stream import Lane, PartitionStream
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import message_pb2
from bendybus.wire import frame_forms
from bendybus.wire.contract_versions import FRONT_END
from tests.frontend.shared_bus import FrontEnd
from tests.frontend.test_stream import FakeCall, settle_down

pytestmark = pytest.mark.requirement("R642")


def frame(frame_id: int, size_bytes: int = 100) -> partition_pb2.SendFramesRequest:
    """Return a frame with one message."""
    batch = message_pb2.MessageBatch(messages=[b"x" * size_bytes])
    return partition_pb2.SendFramesRequest(frame_id=frame_id, batch=batch)


class Board:
    """An outbox, and what is written of it."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], None]] = []
        self.outbox = SendOutbox(later=lambda _, do: self.timers.append(do))

    def put(self, *frame_ids: int, lane: Lane = Lane.WORK, size_bytes: int = 100) -> None:
        """Let frames wait."""
        for frame_id in frame_ids:
            assert self.outbox.put(frame(frame_id, size_bytes), lane)

    def written(self) -> list[list[int]]:
        """Return the ids in each frame that is written now."""
        frames: list[list[int]] = []
        while (written := self.outbox.take_next()) is not None:
            frames.append([part.frame_id for part in frame_forms.parts(written)])
        return frames

    def pass_time(self) -> bool:
        """Let what was to be called later be called; return whether the writer is woken by it."""
        self.outbox.wake.clear()
        timers, self.timers = self.timers, []
        for do in timers:
            do()
        return self.outbox.wake.is_set()

    def answer(self, *frame_ids: int) -> bool:
        """Take a partition's answer; return whether the writer is woken by it."""
        self.outbox.wake.clear()
        first, *rest = [partition_pb2.SendFramesResponse(frame_id=each) for each in frame_ids]
        first.further.extend(rest)
        self.outbox.answered(first)
        return self.outbox.wake.is_set()


def test_a_frame_that_comes_while_none_is_under_way_goes_at_once() -> None:
    board = Board()

    for frame_id in (1, 2, 3):
        board.put(frame_id)
        assert board.written() == [[frame_id]]
        board.answer(frame_id)


def test_what_comes_meanwhile_goes_together_when_all_is_answered() -> None:
    board = Board()
    board.put(1, 2)
    assert board.written() == [[1, 2]]
    board.put(3, 4)
    board.put(5)

    assert board.written() == []
    assert not board.answer(2)
    assert board.written() == []
    assert board.answer(1)

    assert board.written() == [[3, 4, 5]]


def test_as_many_as_go_in_a_frame_wait_for_nothing() -> None:
    board = Board()
    board.put(1)
    board.written()
    many = range(2, frame_forms.PARTS_MAX + 2)

    board.put(*many[:-1], size_bytes=10)
    assert board.written() == []
    board.put(many[-1], size_bytes=10)

    assert board.written() == [list(many)]


def test_so_many_bytes_wait_for_nothing() -> None:
    board = Board()
    board.put(1)
    board.written()

    board.put(2, size_bytes=ENOUGH_BYTES // 2)
    assert board.written() == []
    board.put(3, size_bytes=ENOUGH_BYTES // 2)
    assert board.written() == [[2, 3]]

    # They were counted while they waited only.
    board.put(4, size_bytes=ENOUGH_BYTES // 2)
    assert board.written() == []


def test_large_frames_go_alone_in_their_order_and_nothing_waits_for_them() -> None:
    board = Board()
    board.put(1)
    board.written()
    board.put(2)
    board.put(3, size_bytes=SMALL_BYTES + 1)
    written = board.written()
    assert [each for ids in written for each in ids] == [2, 3]
    board.answer(1)
    board.answer(2)

    board.put(4)

    assert board.written() == [[4]]


def test_frames_for_topics_go_at_once_and_nothing_waits_for_them() -> None:
    board = Board()
    board.put(1)
    board.written()
    board.put(2)

    board.put(3, 4, lane=Lane.FLOW)

    [ids] = board.written()
    assert sorted(ids) == [2, 3, 4]
    assert ids.index(3) < ids.index(4)
    board.answer(1)
    board.answer(2)
    board.put(5)
    assert board.written() == [[5]]


def test_a_stream_that_moves_writes_what_waits_before_its_end() -> None:
    board = Board()
    board.put(1)
    board.written()
    board.put(2, 3)
    assert board.written() == []

    board.outbox.mark()

    assert board.written() == [[2, 3]]


async def test_an_answer_with_too_many_parts_costs_its_stream_and_not_the_process() -> None:
    many = partition_pb2.SendFramesResponse()
    many.further.extend([partition_pb2.SendFramesResponse()] * frame_forms.PARTS_MAX)
    stream = PartitionStream[Any, Any](lambda: None, outbox=SendOutbox)
    call = Answering(stream, many)

    ending = await stream.run(call, lambda response: None)

    assert not ending.moved
    assert "could not be taken" in ending.why


class Answering(FakeCall):
    """A stream that answers the first frame that is put in so."""

    def __init__(self, stream: PartitionStream[Any, Any], answer: Any) -> None:
        super().__init__()
        self.metadata = (FRONT_END.said,)
        self._stream = stream
        self._answer = answer

    async def read(self) -> Any:
        """Return the answer when a frame came."""
        assert self._stream.put(frame(1))
        await self.wrote(1)
        return self._answer


def test_a_frame_does_not_wait_for_an_answer_that_takes_long() -> None:
    # One entity has so much waiting in the partition that its next frame is answered late.
    board = Board()
    board.put(1)
    board.written()
    board.put(2)
    assert board.written() == []

    assert board.pass_time()

    assert board.written() == [[2]]
    # Its answer comes soon; that of the first one is not waited for again.
    board.answer(2)
    board.put(3)
    assert board.written() == [[3]]


def test_only_what_is_under_way_for_long_is_not_waited_for() -> None:
    board = Board()
    board.put(1)
    board.written()
    board.put(2)
    board.written()
    board.answer(1)
    assert board.written() == [[2]]
    board.put(3)

    board.pass_time()
    assert board.written() == []
    board.pass_time()
    assert board.written() == [[3]]


def test_no_timer_runs_while_nothing_waits() -> None:
    board = Board()

    for frame_id in (1, 2, 3):
        board.put(frame_id)
        board.written()
        board.answer(frame_id)
        board.written()

    assert board.timers == []


async def test_repeats_of_what_was_shared_and_lost_share_frames_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeated_sends, "PAUSE_S", 0.0)
    front_end, board = FrontEnd(), Board()
    sent = [front_end.send(f"client {number}", f"body {number}") for number in range(40)]
    await settle_down()
    lost = front_end.frames
    for one in lost:
        units = range(len(one.batch.messages))
        front_end.answer(one.frame_id, dict.fromkeys(units, OutcomeUnknown("lost")))
    await settle_down()
    repeats = front_end.frames[len(lost) :]

    for one in repeats:
        assert board.outbox.put(one, Lane.WORK)
        written = board.written()
        assert len(written) == (one is repeats[0])
    board.answer(repeats[0].frame_id)

    assert board.written() == [[one.frame_id for one in repeats[1:]]]
    for one in repeats:
        front_end.answer(one.frame_id)
    assert len({number for each in sent for number in each.numbers}) == len(sent)
