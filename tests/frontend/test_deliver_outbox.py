"""Frames of receivers that wait for a partition: which ones go together, and which ones wait."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bendybus.domain import bounds
from bendybus.domain.disposition import Disposition
from bendybus.domain.lock_token import TOKEN_BYTES
from bendybus.frontend.upstreams import deliver_frames
from bendybus.frontend.upstreams.deliver_outbox import DELIVERY_S, PATIENCE_S, DeliverOutbox
from bendybus.frontend.upstreams.stream import Lane, PartitionStream
from bendybus.internal.v1 import partition_pb2
from bendybus.wire import frame_forms
from tests.frontend.test_stream import FakeCall, ask

pytestmark = pytest.mark.requirement("R647")
Frame = partition_pb2.DeliverFramesRequest


def settle(settle_id: int, disposition: Disposition = Disposition.COMPLETE) -> Frame:
    """Return a settlement."""
    return deliver_frames.settle(
        partition=3,
        settle_id=settle_id,
        disposition=disposition,
        lock_tokens=b"t" * TOKEN_BYTES,
        changed_properties=None,
        dead_letter_reason="",
        dead_letter_error_description="",
        entity_uid="q",
        settler_id=b"s",
        repeat=False,
    )


def deliver(text: str, deliver_id: int = 0) -> Frame:
    """Return a delivery of messages, by a letter each."""
    tokens = "".join(letter * TOKEN_BYTES for letter in text)
    return deliver_frames.deliver(3, deliver_id, tokens.encode())


class Board:
    """An outbox, and what is written of it."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.outbox = DeliverOutbox(later=lambda after_s, do: self.timers.append((after_s, do)))

    def settle(self, *settle_ids: int) -> None:
        """Let settlements wait."""
        for settle_id in settle_ids:
            assert self.outbox.put(settle(settle_id), Lane.WORK)

    def written(self) -> list[str]:
        """Return the parts of each frame that is written now, as words."""
        self.outbox.wake.clear()
        frames = []
        while (frame := self.outbox.take_next()) is not None:
            assert frame.partition == 3 or frame.HasField("ask")
            frames.append(" ".join(map(_text, frame_forms.parts(frame))))
        return frames

    def pass_time(self, time_s: float = PATIENCE_S) -> bool:
        """Call what was to be called by then; return whether the writer is woken by it."""
        self.outbox.wake.clear()
        due = [do for after_s, do in self.timers if after_s <= time_s]
        self.timers = [(after_s - time_s, do) for after_s, do in self.timers if after_s > time_s]
        for do in due:
            do()
        return self.outbox.wake.is_set()

    def answer(self, *settle_ids: int) -> bool:
        """Take a partition's answer; return whether the writer is woken by it."""
        self.outbox.wake.clear()
        first, *rest = [
            partition_pb2.DeliverFramesResponse(settled=partition_pb2.SettleResult(settle_id=each))
            for each in settle_ids
        ]
        first.further.extend(rest)
        self.outbox.answered(first)
        return self.outbox.wake.is_set()


def _text(part: Frame) -> str:
    if part.HasField("close_session"):
        return "close"
    if part.HasField("settle"):
        return f"s{part.settle.settle_id}"
    if part.HasField("deliver"):
        return part.deliver.lock_tokens[::TOKEN_BYTES].decode()
    return f"a{part.ask.ask_id}"


@pytest.fixture
def board() -> Board:
    return Board()


def test_a_settlement_waits_for_nothing_when_none_is_under_way(board: Board) -> None:
    board.settle(1)

    assert board.outbox.wake.is_set()
    assert board.written() == ["s1"]
    assert board.answer(1) is False


def test_settlements_that_come_meanwhile_go_together_after_the_answer(board: Board) -> None:
    board.settle(1, 2)
    assert board.written() == ["s1 s2"]

    board.settle(3, 4)
    assert not board.outbox.wake.is_set()
    assert board.written() == []
    assert board.answer(1) is False
    assert board.written() == []
    assert board.answer(2) is True
    assert board.written() == ["s3 s4"]


def test_a_delivery_goes_with_its_settlement_and_before_it(board: Board) -> None:
    board.outbox.put_always(deliver("A"))
    assert not board.outbox.wake.is_set()
    assert board.written() == []

    board.settle(1)

    assert board.written() == ["A s1"]


def test_deliveries_of_all_receivers_are_one_part(board: Board) -> None:
    for each in ("A", "BC", "D"):
        board.outbox.put_always(deliver(each))
    assert board.outbox.put(ask(7), Lane.FLOW)

    assert board.written() == ["ABCD a7"]


def test_a_delivery_has_a_bound_in_tokens(board: Board) -> None:
    half = bounds.TOKENS_A_FRAME_MAX // 2
    for _ in range(3):
        board.outbox.put_always(deliver("A" * half))

    assert board.outbox.wake.is_set()
    assert [len(text) for text in board.written()] == [2 * half, half]


def test_a_delivery_that_is_answered_goes_at_once(board: Board) -> None:
    board.outbox.put_always(deliver("A", deliver_id=5))

    assert board.outbox.wake.is_set()
    assert board.written() == ["A"]


@pytest.mark.parametrize("kind", ["ask", "renewal", "release"])
def test_what_does_not_wait_takes_along_what_does(board: Board, kind: str) -> None:
    board.settle(1)
    assert board.written() == ["s1"]
    board.outbox.put_always(deliver("A"))
    board.settle(2)
    assert board.written() == []

    if kind == "ask":
        assert board.outbox.put(ask(7), Lane.FLOW)
    elif kind == "renewal":
        assert board.outbox.put(settle(7, Disposition.RENEW_LOCK), Lane.RENEW)
    else:
        board.outbox.put_always(settle(7, Disposition.RELEASE))

    assert board.outbox.wake.is_set()
    [frame] = board.written()
    first, *others = frame.split()
    assert first == "A"
    assert set(others) == {"s2", "a7" if kind == "ask" else "s7"}


def test_a_frame_that_is_full_waits_for_nothing(board: Board) -> None:
    board.settle(0)
    assert board.written() == ["s0"]

    board.settle(*range(1, frame_forms.PARTS_MAX))
    assert not board.outbox.wake.is_set()
    board.settle(frame_forms.PARTS_MAX)

    assert board.outbox.wake.is_set()
    assert len(board.written()[0].split()) == frame_forms.PARTS_MAX


@pytest.mark.parametrize("others", [0, 1, 5, 70])
def test_a_session_is_closed_behind_its_settlements(board: Board, others: int) -> None:
    board.settle(*range(100, 100 + others))
    board.written()
    # Those of other receivers wait, and then the one of the session, whose client closes it.
    board.settle(*range(200, 200 + others))
    board.settle(2)
    written = board.written()
    board.outbox.put_always(deliver_frames.close_session(3, 9, b"t" * TOKEN_BYTES, "q"))

    assert board.outbox.wake.is_set()
    parts = " ".join([*written, *board.written()]).split()
    assert parts.index("s2") < parts.index("close")


def test_a_delivery_alone_is_told_in_time(board: Board) -> None:
    board.outbox.put_always(deliver("A"))
    board.outbox.put_always(deliver("B"))

    assert board.pass_time(DELIVERY_S) is True
    assert board.written() == ["AB"]
    assert board.timers == []
    # So is the next one.
    board.outbox.put_always(deliver("C"))
    assert board.pass_time(DELIVERY_S) is True
    assert board.written() == ["C"]


def test_a_delivery_does_not_wait_for_the_answer_to_a_settlement(board: Board) -> None:
    board.settle(1)
    assert board.written() == ["s1"]
    board.settle(2)
    board.outbox.put_always(deliver("A"))

    assert board.pass_time(DELIVERY_S) is True
    assert board.written() == ["A s2"]


def test_an_answer_that_takes_long_is_not_waited_for(board: Board) -> None:
    board.settle(1)
    assert board.written() == ["s1"]
    board.settle(2)

    assert board.pass_time() is True
    assert board.written() == ["s2"]
    # The first one is not waited for any more; the second one is.
    board.settle(3)
    assert board.written() == []
    assert board.answer(2) is True
    assert board.written() == ["s3"]


def test_nothing_waits_for_twice_the_time(board: Board) -> None:
    board.settle(1)
    assert board.written() == ["s1"]
    board.settle(2)
    # Something is written after the timer began, and is not answered either.
    board.outbox.put_always(settle(8, Disposition.RELEASE))
    assert set(board.written()[0].split()) == {"s8", "s2"}
    board.settle(3)

    board.pass_time()
    assert board.written() == []
    assert board.pass_time() is True
    assert board.written() == ["s3"]


async def test_a_stream_that_moves_writes_everything_before() -> None:
    call = FakeCall()
    stream = PartitionStream[Any, Any](lambda: None, outbox=DeliverOutbox)
    running = asyncio.ensure_future(stream.run(call, lambda response: None))
    await asyncio.sleep(0.01)
    stream.put(settle(1))
    await asyncio.sleep(0.01)
    stream.put_always(deliver("A"))
    stream.put(settle(2))

    assert stream.mark()
    await asyncio.sleep(0.002)

    written = [" ".join(map(_text, frame_forms.parts(frame))) for frame in call.written]
    assert written == ["s1", "A s2"]
    call.cancel()
    await running
