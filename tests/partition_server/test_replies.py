"""Ways back from a partition's thread: one wake-up for what is ready, frames that are shared."""

import asyncio
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.internal.v1 import partition_pb2
from bendybus.partition_server.broker.replies import Dispatcher, Outbox
from bendybus.partition_server.state.answers import CatalogueChanged, Failed
from bendybus.partition_server.state.stage import Answer
from bendybus.wire import frame_forms

Response = partition_pb2.DeliverFramesResponse


def withdrawn(ask_id: int) -> Response:
    """Return an event."""
    return Response(withdrawn=partition_pb2.Withdrawn(ask_id=ask_id))


def outbox(*, merges: bool = True) -> Outbox[Any]:
    """Return an outbox of frames that are made already."""
    return Outbox(lambda value: value, awaited=lambda value: False, merges=merges)


def ids(frame: Response | None) -> list[int]:
    """Return the asks of a frame's parts."""
    assert frame is not None
    return [part.withdrawn.ask_id for part in frame_forms.parts(frame)]


async def test_what_waits_shares_a_frame_in_its_order() -> None:
    box = outbox()
    for number in (1, 2, 3):
        box.answer(withdrawn(number))

    assert ids(await box.next()) == [1, 2, 3]


@pytest.mark.requirement("R642")
async def test_what_waits_for_a_stream_without_parts_goes_one_by_one() -> None:
    """Several changes of the catalogue at once would end the watch of it."""
    box: Outbox[CatalogueChanged] = Outbox(lambda changed: changed)
    for snapshot in (True, False):
        box.answer(CatalogueChanged((), snapshot=snapshot))

    found = [await box.next(), await box.next()]

    assert [each.snapshot for each in found if each] == [True, False]


async def test_what_ends_or_moves_a_stream_goes_alone_and_last() -> None:
    box = outbox()
    box.answer(withdrawn(1))
    box.move(Response(moving=True))
    box.answer(withdrawn(2))
    box.answer(Failed(errors.PartitionUnavailable("it is gone")))

    assert ids(await box.next()) == [1]
    moving = await box.next()
    assert moving is not None
    assert moving.moving
    assert not moving.further
    assert ids(await box.next()) == [2]
    try:
        await box.next()
    except errors.PartitionUnavailable:
        return
    raise AssertionError("the failure ends the stream")


async def test_a_large_answer_is_not_copied_into_another_ones_frame() -> None:
    box = outbox()
    large = Response()
    large.reserved.batch.messages.append(b"x" * frame_forms.BYTES_MAX)
    box.answer(withdrawn(1))
    box.answer(large)
    box.answer(withdrawn(2))

    assert ids(await box.next()) == [1]
    frame = await box.next()
    assert frame is not None
    assert frame.WhichOneof("kind") == "reserved"
    assert len(frame.further) == 1


async def test_answers_of_a_turn_wake_the_loop_once() -> None:
    loop = asyncio.get_running_loop()
    dispatcher, taken, woken = Dispatcher(loop), list[int](), 0

    class Caller:
        def answer(self, value: int) -> None:
            taken.append(value)

    class Loop:
        def is_closed(self) -> bool:
            return False

        def call_soon_threadsafe(self, function: Any) -> None:
            nonlocal woken
            woken += 1
            loop.call_soon(function)

    dispatcher._loop = Loop()  # type: ignore[assignment]

    def turn() -> None:
        for number in range(3):
            dispatcher.deliver([Answer(Caller(), number)])

    await asyncio.to_thread(turn)
    await asyncio.sleep(0)

    assert taken == [0, 1, 2]
    assert woken <= 2


async def test_an_answer_that_cannot_be_converted_costs_others_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken: Outbox[Any] = Outbox(lambda value: partition_pb2.Withdrawn(ask_id=value))
    sound = outbox()
    dispatcher = Dispatcher(asyncio.get_running_loop())

    dispatcher.deliver([Answer(broken, -1), Answer(sound, withdrawn(7))])
    dispatcher.deliver([Answer(sound, withdrawn(8))])

    assert ids(await sound.next()) == [7, 8]
    assert "could not be delivered" in caplog.text
