"""Sessions at the front end when streams are lost at the wrong moment, and clients leave."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.message_state import ReceiveMode
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import sessions
from bendybus.frontend.core.quota.flow_control import ConnectionFlow, FlowControl, StreamFlow
from bendybus.frontend.core.quota.quota import Quota
from bendybus.frontend.core.quota.room import Holder, Room
from bendybus.frontend.core.receive import Source
from bendybus.frontend.core.sessions import LockedSession
from bendybus.frontend.listeners.receiver_stream import ReceiverStream, SessionOpening
from bendybus.frontend.upstreams import deliver_frames
from bendybus.v1 import receiver_pb2
from tests.frontend.test_sessions import Bus, message_token, settle_down, token_of

PEEK_LOCK = receiver_pb2.RECEIVE_MODE_PEEK_LOCK


def lose(bus: Bus, partition: int) -> None:
    """Let the stream to a partition end."""
    bus.receives.lost(partition)
    bus.sessions.lost(partition)


def back(bus: Bus, partition: int) -> None:
    """Let the next one open."""
    bus.receives.back(partition)
    bus.sessions.back(partition)


@pytest.mark.requirement("R104")
async def test_what_may_be_delivered_is_released_until_a_partition_has_attached_the_session() -> (
    None
):
    bus = Bus()
    bus.open().ask(1, 10, 0, -1)
    bus.reserve(1, 5)
    lose(bus, 1)
    back(bus, 1)

    # The partition may not have read it: else it would keep the message, and give the next ones.
    lose(bus, 1)
    told = len(bus.upstreams[1].told)
    back(bus, 1)

    assert bus.upstreams[1].kinds()[told:] == ["release", "attach_session"]
    assert bus.upstreams[1].of("release")[-1].lock_tokens == message_token(1, 5)
    bus.result(1, "attach_session")
    told = len(bus.upstreams[1].told)
    lose(bus, 1)
    back(bus, 1)
    assert bus.upstreams[1].kinds()[told:] == ["attach_session"]


@pytest.mark.requirement("R104")
async def test_a_session_is_attached_again_as_the_attachment_that_is_known_here() -> None:
    bus = Bus()
    attaching = asyncio.get_running_loop().create_task(
        bus.sessions.attach("orders", token_of(1), b"")
    )
    await settle_down()
    [request] = bus.upstreams[1].of("attach_session")
    assert (request.release_others, request.attachment) == (True, 0)
    result = deliver_frames.SessionResult(request.request_id, None, 1, 30_000, 0, 7)
    bus.answer(1, result)
    entity, locked = await attaching
    bus.sessions.open(entity, ReceiveMode.PEEK_LOCK, locked, bus.handed.append, bus.failed.append)

    lose(bus, 1)
    back(bus, 1)

    request = bus.upstreams[1].of("attach_session")[-1]
    assert (request.release_others, request.attachment) == (False, 7)


@pytest.mark.requirement("R104")
async def test_a_session_whose_receiver_was_told_that_it_is_lost_is_not_attached_again() -> None:
    bus = Bus()
    bus.open().ask(1, 10, 0, -1)
    ask = bus.upstreams[1].of("ask")[-1]
    # Its receiver has attached through another front end.
    bus.answer(1, deliver_frames.AskEnded(ask.ask_id, errors.SessionLockLost("elsewhere")))
    assert len(bus.failed) == 1

    lose(bus, 1)
    back(bus, 1)

    assert "attach_session" not in bus.upstreams[1].kinds()


@pytest.mark.requirement("R103")
async def test_what_a_partition_could_not_confirm_is_released_and_comes_again_in_its_place() -> (
    None
):
    bus = Bus()
    bus.open().ask(1, 10, 0, -1)
    bus.reserve(1, 5)
    told = len(bus.upstreams[1].told)

    # Its commit failed: it may keep the message as delivered, and give the next ones.
    deliver = bus.upstreams[1].of("deliver")[-1]
    bus.answer(1, deliver_frames.Deleted(deliver.deliver_id, (), True))
    await asyncio.sleep(0.1)

    assert bus.got() == []
    assert bus.upstreams[1].kinds()[told:] == ["release", "ask"]
    assert bus.upstreams[1].of("release")[-1].lock_tokens == message_token(1, 5)


@pytest.mark.requirement("R104")
async def test_a_session_whose_stream_ended_as_it_was_locked_is_attached_to_the_next_one() -> None:
    bus = Bus()
    accepting = bus.accept()
    await settle_down()
    bus.offer(1)
    await settle_down()
    bus.result(1, "confirm_session")
    lose(bus, 1)
    entity, locked = await accepting
    receiver = bus.sessions.open(
        entity, ReceiveMode.PEEK_LOCK, locked, bus.handed.append, bus.failed.append
    )
    receiver.ask(1, 10, 0, -1)
    assert "ask" not in bus.upstreams[1].kinds()

    back(bus, 1)
    assert bus.upstreams[1].kinds()[-1] == "attach_session"
    bus.result(1, "attach_session")
    await asyncio.sleep(0.1)
    assert bus.upstreams[1].kinds()[-1] == "ask"


@pytest.mark.requirement("R104")
async def test_a_session_whose_stream_moved_as_it_was_locked_is_attached_at_once() -> None:
    bus = Bus()
    accepting = bus.accept()
    await settle_down()
    bus.offer(1)
    await settle_down()
    bus.result(1, "confirm_session")
    bus.receives.moving(1)
    bus.sessions.moving(1)
    entity, locked = await accepting

    bus.sessions.open(
        entity, ReceiveMode.PEEK_LOCK, locked, bus.handed.append, bus.failed.append
    ).ask(1, 10, 0, -1)

    assert bus.upstreams[1].kinds()[-1] == "attach_session"


@pytest.mark.requirement("R102")
async def test_a_receiver_that_stops_waiting_does_not_make_others_wait_for_ever() -> None:
    bus = Bus()
    one, other = bus.accept(), bus.accept()
    await settle_down()
    ask_ids = [each.ask_id for each in bus.upstreams[1].of("accept_session")]
    # Both get an offer that cannot be confirmed: the first one waits again before the second one
    # has looked at its own.
    bus.upstreams[1].available = False
    for number, ask_id in enumerate(ask_ids):
        token = token_of(1, number)
        bus.answer(1, deliver_frames.SessionOffered(ask_id, f"s{number}", token))
    await settle_down()
    bus.upstreams[1].available = True
    back(bus, 1)

    asked = bus.upstreams[2].of("accept_session")[-2:]
    for number, (ask, name) in enumerate(zip(asked, "ab", strict=True)):
        offered = deliver_frames.SessionOffered(ask.ask_id, name, token_of(2, number))
        bus.answer(2, offered)
    await settle_down()
    for request in bus.upstreams[2].of("confirm_session"):
        bus.answer(2, deliver_frames.SessionResult(request.request_id, None, 1, 30_000, 0))
    assert {(await each)[1].session_id for each in (one, other)} == {"a", "b"}


@pytest.mark.requirement("R102")
async def test_an_offer_that_cannot_be_declined_is_declined_on_the_next_stream() -> None:
    bus = Bus()
    accepting = bus.accept("abc")
    await settle_down()
    partition = bus.entity.partition_of("abc")
    token = bus.offer(partition, "abc")
    await settle_down()
    # It may be locked by now, for no receiver.
    bus.upstreams[partition].available = False
    lose(bus, partition)
    await settle_down()
    accepting.cancel()
    bus.upstreams[partition].available = True
    told = len(bus.upstreams[partition].told)

    back(bus, partition)

    assert bus.upstreams[partition].kinds()[told:] == ["close_session"]
    assert bus.upstreams[partition].of("close_session")[-1].session_token == token
    # Answered or not: an offer lapses, and another lock ends.
    bus.result(partition, "close_session")
    lose(bus, partition)
    back(bus, partition)
    assert len(bus.upstreams[partition].of("close_session")) == 1


@pytest.mark.requirement("R102")
async def test_a_session_is_asked_for_by_name_with_the_name_of_its_receiver() -> None:
    bus = Bus()
    accepting = asyncio.get_running_loop().create_task(
        bus.sessions.accept("orders", SubQueue.MAIN, "abc", 5_000, receiver_id=b"me")
    )
    await settle_down()
    partition = bus.entity.partition_of("abc")
    assert bus.upstreams[partition].of("accept_session")[-1].receiver_id == b"me"
    bus.offer(partition, "abc")
    await settle_down()
    assert bus.upstreams[partition].of("confirm_session")[-1].receiver_id == b"me"
    accepting.cancel()


@pytest.mark.requirement("R105")
async def test_a_session_that_cannot_be_closed_is_closed_on_the_next_stream() -> None:
    bus = Bus()
    receiver: Any = bus.open()
    bus.upstreams[1].available = False
    lose(bus, 1)
    with pytest.raises(errors.PartitionUnavailable):
        await bus.sessions.close("orders", receiver.shared.session_token)

    bus.upstreams[1].available = True
    back(bus, 1)
    assert bus.upstreams[1].kinds() == ["close_session"]


@pytest.mark.requirement("R105")
async def test_a_receiver_that_attaches_again_keeps_its_session_though_it_was_to_be_closed() -> (
    None
):
    bus = Bus()
    receiver: Any = bus.open()
    bus.upstreams[1].available = False
    lose(bus, 1)
    with pytest.raises(errors.PartitionUnavailable):
        await bus.sessions.close("orders", receiver.shared.session_token)
    bus.upstreams[1].available = True

    attaching = asyncio.get_running_loop().create_task(
        bus.sessions.attach("orders", token_of(1), b"")
    )
    await settle_down()
    bus.sessions.back(1)
    bus.result(1, "attach_session")
    await attaching

    assert bus.upstreams[1].kinds() == ["attach_session"]


class Caller:
    """Allows everything."""

    def check(self, *_: Any) -> None:
        """Allow."""


class FrontEnd:
    """What a stream needs of it."""

    def __init__(self, bus: Bus) -> None:
        self.receives, self.sessions, self.settles = bus.receives, bus.sessions, None
        self.quota = Quota()


# How a stream ends: its client is killed or cut off, half-closes, or is asked to move and does not.
ENDINGS = ("cut", "half-closed", "moved")


@pytest.mark.requirement("R102")
@pytest.mark.requirement("R105")
@pytest.mark.requirement("R242")
@pytest.mark.requirement("R243")
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("told", ["waiting", "being written", "written"])
async def test_a_stream_that_ends_frees_its_session_only_if_its_client_cannot_know_of_it(
    told: str, ending: str
) -> None:
    bus = Bus()
    front_end: Any = FrontEnd(bus)
    caller: Any = Caller()
    flow = StreamFlow(ConnectionFlow(FlowControl(bus.receives), "me"))
    wanted = receiver_pb2.AcceptSession(next_available=True, max_wait_ms=5_000)
    opening = receiver_pb2.OpenReceiver(
        entity_path="orders", receive_mode=PEEK_LOCK, session=wanted, settler_id=b"me"
    )
    half_closes = asyncio.Event()

    async def requests() -> AsyncIterator[receiver_pb2.ReceiveStreamRequest]:
        yield receiver_pb2.ReceiveStreamRequest(open=opening)
        await half_closes.wait()

    outcomes = StreamFlow(ConnectionFlow(FlowControl(), "me"))
    async with ReceiverStream(front_end, caller, Holder("me", ""), flow, outcomes) as stream:
        reader = asyncio.get_running_loop().create_task(stream.read(requests()))
        await settle_down()
        token = bus.offer(1)
        await settle_down()
        # By this a partition knows the next try of the same receiver.
        assert bus.upstreams[1].of("confirm_session")[-1].receiver_id == b"me"
        bus.result(1, "confirm_session")
        await settle_down()
        written = stream.frames()
        if told != "waiting":
            await anext(written)
        assert bus.upstreams[1].of("told_session") == []
        if told == "written":
            # Only now has the frame been written.
            writer = asyncio.ensure_future(anext(written))
            await settle_down()
            writer.cancel()
        if ending == "half-closed":
            half_closes.set()
        elif ending == "moved":
            stream.move()
            stream.finish()
        await settle_down()
        reader.cancel()

    assert bus.upstreams[1].of("confirm_session")[-1].tells
    said = [each.session_token for each in bus.upstreams[1].of("told_session")]
    assert said == ([token] if told == "written" else [])
    closed = [each.session_token for each in bus.upstreams[1].of("close_session")]
    assert closed == ([token] if told == "waiting" else [])


def opening(
    bus: Bus, wanted: receiver_pb2.AcceptSession, put: Any = None, room: Room | None = None
) -> SessionOpening:
    """Open the session of a stream."""

    def locked(entity: Any, mode: ReceiveMode, session: LockedSession) -> None:
        bus.sessions.open(entity, mode, session, bus.handed.append, bus.failed.append)

    return SessionOpening(
        bus.sessions,
        Source("orders", SubQueue.MAIN),
        wanted,
        locked,
        put or (lambda _: None),
        room=room or Quota().settling,
        holder=Holder("connection", "policy"),
    )


@pytest.mark.requirement("R105")
async def test_a_receiver_that_is_closed_while_it_attaches_frees_its_session() -> None:
    bus = Bus()
    said: list[Any] = []
    wanted = receiver_pb2.AcceptSession(session_token=token_of(1))
    session = opening(bus, wanted, said.append)
    await settle_down()
    assert bus.upstreams[1].kinds() == ["attach_session"]

    session.close(None)
    await settle_down()

    assert bus.upstreams[1].kinds()[-1] == "close_session"
    bus.result(1, "close_session")
    await settle_down()
    assert said[-1].frame.HasField("session_closed")


@pytest.mark.requirement("R246")
async def test_an_accept_by_name_whose_offers_lapse_ends_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "NAMED_S", 0.05)
    bus = Bus()
    partition = bus.entity.partition_of("s")
    task = bus.accept("s", wait_ms=0)
    offers = 0
    async with asyncio.timeout(30):
        while not task.done():
            await settle_down()
            if len(bus.upstreams[partition].of("accept_session")) > offers:
                offers += 1
                await asyncio.sleep(0.01)
                bus.offer(partition, "s")
                await settle_down()
                bus.result(partition, "confirm_session", errors.SessionLockLost("lapsed"))

    with pytest.raises(errors.PartitionUnavailable, match="'s'"):
        await task
