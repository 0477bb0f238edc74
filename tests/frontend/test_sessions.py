"""Sessions between receivers and partitions: accepted, lost, attached, handed over."""

import asyncio
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Fingerprint
from bendybus.domain.errors import BusError
from bendybus.domain.limits import Tier
from bendybus.domain.lock_token import LockToken
from bendybus.domain.message_state import ReceiveMode
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core.metrics import Metrics
from bendybus.frontend.core.receive import ReceiveDispatcher, Source
from bendybus.frontend.core.receiver import Delivery, Receiver
from bendybus.frontend.core.sessions import LockedSession, SessionDispatcher
from bendybus.frontend.upstreams import deliver_frames
from bendybus.internal.v1 import partition_pb2
from bendybus.v1 import message_pb2
from tests.frontend.entities import queue

COUNT = 4
OK = (1, 30_000, 0)


class Upstream:
    """A partition that notes what it is told."""

    clock_offset_ms = None

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.available = True
        self.told: list[partition_pb2.DeliverFramesRequest] = []

    def ask(self, request: partition_pb2.DeliverFramesRequest) -> bool:
        """Take a frame."""
        if self.available:
            self.told.append(request)
        return self.available

    follow = ask

    def conditions(self) -> list[str]:
        """Say nothing."""
        return []

    def of(self, kind: str) -> list[Any]:
        """Return what it was told of a kind."""
        return [getattr(each, kind) for each in self.told if each.WhichOneof("kind") == kind]

    def kinds(self) -> list[str]:
        """Return what it was told, in order."""
        return [each.WhichOneof("kind") or "" for each in self.told]


class Bus:
    """Four partitions with the session-aware queue `orders` and the plain one `audit`."""

    def __init__(self) -> None:
        directory = Directory()
        fingerprint = Fingerprint("n", "u", Tier.PREMIUM, COUNT, 0)
        self.entity = queue("orders", partitions=COUNT, requires_session=True)
        others = queue("others", partitions=COUNT, requires_session=True)
        directory.update(0, fingerprint, [self.entity, others, queue("audit")], snapshot=True)
        self.upstreams = [Upstream(partition) for partition in range(COUNT)]
        ways: Any = dict(enumerate(self.upstreams))
        self.receives = ReceiveDispatcher(ways, directory, Metrics())
        self.sessions = SessionDispatcher(ways, self.receives, timeout_s=60.0)
        self.handed: list[Delivery] = []
        self.failed: list[BusError] = []

    def accept(self, name: str | None = None, wait_ms: int = 5_000) -> "asyncio.Task[Any]":
        """Begin to accept a session."""
        return asyncio.get_running_loop().create_task(
            self.sessions.accept("orders", SubQueue.MAIN, name, wait_ms)
        )

    def offer(self, partition: int, name: str = "s") -> bytes:
        """Let a partition answer the oldest ask that it has with an offer."""
        ask = self.upstreams[partition].of("accept_session")[-1]
        token = token_of(partition)
        self.answer(partition, deliver_frames.SessionOffered(ask.ask_id, name, token))
        return token

    def answer(self, partition: int, answer: deliver_frames.Answer) -> None:
        """Take an answer of a partition, as the front end does."""
        if not self.receives.delivered(partition, answer):
            self.sessions.answered(partition, answer)

    def result(self, partition: int, kind: str, error: BusError | None = None) -> None:
        """Answer the last request about a lock."""
        request = self.upstreams[partition].of(kind)[-1]
        self.answer(partition, deliver_frames.SessionResult(request.request_id, error, *OK))

    def open(self, partition: int = 1) -> Receiver:
        """Return the receiver of a session that is locked."""
        locked = LockedSession(partition, "s", token_of(partition), 1, 30_000)
        return self.sessions.open(
            self.entity,
            ReceiveMode.PEEK_LOCK,
            locked,
            self.handed.append,
            self.failed.append,
            owner="me",
        )

    def reserve(self, partition: int, *counters: int) -> None:
        """Let a partition reserve messages for its last ask."""
        ask = self.upstreams[partition].of("ask")[-1]
        batch = message_pb2.DeliveredBatch(
            partition=partition,
            messages=[b"%d" % counter for counter in counters],
            lock_tokens=b"".join(message_token(partition, counter) for counter in counters),
        )
        self.answer(partition, deliver_frames.Reserved(ask.ask_id, batch, 30_000, 0, True))

    def confirm_delivery(self, partition: int, lost: tuple[int, ...] = ()) -> None:
        """Answer the last Deliver."""
        deliver = self.upstreams[partition].of("deliver")[-1]
        self.answer(partition, deliver_frames.Deleted(deliver.deliver_id, lost, False))

    def got(self) -> list[bytes]:
        """Return the messages that were handed over."""
        return [
            each for handed in self.handed for batch in handed.batches for each in batch.messages
        ]


def token_of(partition: int, number: int = 1) -> bytes:
    """Return the token of a session."""
    return LockToken(partition, 1, 1 << 47 | number, 1, 1).to_bytes()


def message_token(partition: int, counter: int) -> bytes:
    """Return the token of a message."""
    return LockToken(partition, 1, counter, 1, 1).to_bytes()


async def settle_down() -> None:
    """Let tasks go on."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.requirement("R101")
async def test_a_session_is_asked_for_by_name_where_its_messages_are() -> None:
    bus = Bus()
    accepting = bus.accept("abc")
    await settle_down()

    [partition] = [each.partition for each in bus.upstreams if each.told]
    assert partition == bus.entity.partition_of("abc")
    token = bus.offer(partition, "abc")
    await settle_down()
    bus.result(partition, "confirm_session")

    _, locked = await accepting
    assert locked == LockedSession(partition, "abc", token, 1, 30_000)


@pytest.mark.requirement("R101")
async def test_a_session_that_is_taken_is_refused() -> None:
    bus = Bus()
    accepting = bus.accept("abc")
    await settle_down()
    partition = bus.entity.partition_of("abc")
    ask = bus.upstreams[partition].of("accept_session")[-1]

    bus.answer(
        partition, deliver_frames.AskEnded(ask.ask_id, errors.SessionCannotBeLocked("taken"))
    )

    with pytest.raises(errors.SessionCannotBeLocked):
        await accepting


@pytest.mark.requirement("R102")
async def test_of_offers_that_race_one_is_confirmed_and_the_others_are_closed() -> None:
    bus = Bus()
    accepting = bus.accept()
    await settle_down()
    assert all(each.kinds() == ["accept_session"] for each in bus.upstreams)

    bus.offer(2)
    other = bus.offer(3)
    await settle_down()
    bus.result(2, "confirm_session")
    _, locked = await accepting

    assert locked.partition == 2
    assert [each.session_token for each in bus.upstreams[3].of("close_session")] == [other]
    assert len(bus.upstreams[0].of("withdraw")) == len(bus.upstreams[1].of("withdraw")) == 1


@pytest.mark.requirement("R102")
async def test_an_offer_that_lapsed_is_waited_for_again() -> None:
    bus = Bus()
    accepting = bus.accept()
    await settle_down()
    bus.offer(0)
    await settle_down()
    bus.result(0, "confirm_session", errors.SessionLockLost("lapsed"))
    await settle_down()

    bus.offer(1)
    await settle_down()
    bus.result(1, "confirm_session")
    _, locked = await accepting
    assert locked.partition == 1


@pytest.mark.requirement("R102")
@pytest.mark.parametrize("when", ["waiting", "offered", "confirming"])
async def test_a_caller_that_leaves_leaves_no_session_locked(when: str) -> None:
    bus = Bus()
    accepting = bus.accept()
    await settle_down()
    if when != "waiting":
        token = bus.offer(1)
    if when == "confirming":
        await settle_down()

    accepting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await accepting

    if when == "waiting":
        assert all(each.kinds() == ["accept_session", "withdraw"] for each in bus.upstreams)
    else:
        assert [each.session_token for each in bus.upstreams[1].of("close_session")] == [token]


@pytest.mark.requirement("R102")
async def test_no_session_in_time_is_a_time_out_and_no_partition_an_error() -> None:
    bus = Bus()
    with pytest.raises(errors.ServiceTimeout, match="no session became free"):
        await bus.accept(wait_ms=0)

    for upstream in bus.upstreams:
        upstream.available = False
    with pytest.raises(errors.PartitionUnavailable):
        await bus.accept(wait_ms=0)


@pytest.mark.requirement("R104")
async def test_a_partition_that_is_back_is_asked_for_receivers_that_wait() -> None:
    bus = Bus()
    accepting = bus.accept()
    await settle_down()
    bus.sessions.lost(1)
    bus.sessions.back(1)

    assert bus.upstreams[1].kinds() == ["accept_session", "accept_session"]
    bus.offer(1)
    await settle_down()
    bus.result(1, "confirm_session")
    assert (await accepting)[1].partition == 1


@pytest.mark.requirement("R103")
async def test_a_message_is_handed_over_once_its_partition_confirms_it() -> None:
    bus = Bus()
    receiver = bus.open()
    receiver.ask(1, 10, 0, -1)
    assert bus.upstreams[1].of("ask")[-1].session_token == token_of(1)

    bus.reserve(1, 5, 6)
    assert bus.got() == []
    bus.confirm_delivery(1, lost=(1,))

    assert bus.got() == [b"5"]


@pytest.mark.requirement("R103")
async def test_recalled_messages_are_dropped_by_their_tokens() -> None:
    bus = Bus()
    receiver = bus.open()
    receiver.ask(1, 1, 0, -1)
    bus.reserve(1, 5, 6, 7, 8)
    bus.confirm_delivery(1)

    recalled = message_token(1, 6) + message_token(1, 8)
    bus.answer(1, deliver_frames.Recalled(token_of(1), recalled))
    receiver.ask(2, 10, 0, -1)
    bus.confirm_delivery(1)

    assert bus.got() == [b"5", b"7"]


@pytest.mark.requirement("R104")
async def test_a_session_is_attached_to_the_next_stream_before_it_is_asked_for() -> None:
    bus = Bus()
    receiver = bus.open()
    receiver.ask(1, 10, 0, -1)
    bus.reserve(1, 5)
    told = len(bus.upstreams[1].told)

    # What is not confirmed may be delivered there; the client does not have it.
    bus.receives.lost(1)
    bus.sessions.lost(1)
    bus.receives.back(1)
    bus.sessions.back(1)
    assert bus.upstreams[1].kinds()[told:] == ["release", "attach_session"]
    assert bus.upstreams[1].of("release")[-1].lock_tokens == message_token(1, 5)
    bus.result(1, "attach_session")
    await asyncio.sleep(0.1)

    assert bus.upstreams[1].kinds()[told + 2 :] == ["ask"]
    bus.reserve(1, 5)
    bus.confirm_delivery(1)
    assert bus.got() == [b"5"]


@pytest.mark.requirement("R105")
async def test_a_partition_that_was_restarted_ends_the_receiver() -> None:
    bus = Bus()
    bus.open().ask(1, 10, 0, -1)
    bus.sessions.lost(1)
    bus.sessions.back(1)

    bus.result(1, "attach_session", errors.SessionLockLost("restarted"))

    assert [type(each) for each in bus.failed] == [errors.SessionLockLost]


@pytest.mark.requirement("R104")
async def test_a_receiver_attaches_with_what_it_holds() -> None:
    bus = Bus()
    held = message_token(1, 5)
    attaching = asyncio.get_running_loop().create_task(
        bus.sessions.attach("orders", token_of(1), held)
    )
    await settle_down()
    [request] = bus.upstreams[1].of("attach_session")
    assert (request.entity_uid, request.release_others) == (bus.entity.uid, True)
    assert request.held_lock_tokens == held
    bus.result(1, "attach_session")
    assert (await attaching)[1].token == token_of(1)


@pytest.mark.requirement("R105")
async def test_close_frees_the_session_and_a_lost_one_is_free() -> None:
    bus = Bus()
    receiver: Any = bus.open()
    closing = asyncio.get_running_loop().create_task(
        bus.sessions.close("orders", receiver.shared.session_token)
    )
    await settle_down()
    bus.result(1, "close_session", errors.SessionLockLost("over"))
    await closing


@pytest.mark.requirement("R106")
async def test_tokens_that_are_none_are_refused() -> None:
    bus = Bus()
    with pytest.raises(errors.InvalidArgument, match="must be 16 bytes"):
        await bus.sessions.renew("orders", b"x")
    with pytest.raises(errors.SessionLockLost, match="has no partition 9"):
        await bus.sessions.renew("orders", token_of(9))
    with pytest.raises(errors.InvalidOperation, match="does not require sessions"):
        await bus.sessions.accept("audit", SubQueue.MAIN, "s", 0)
    with pytest.raises(errors.InvalidOperation, match="sub-queues have no sessions"):
        await bus.sessions.accept("orders", SubQueue.DEAD_LETTER, "s", 0)


@pytest.mark.requirement("R108")
async def test_a_receiver_without_a_session_is_refused_before_a_partition_is_asked() -> None:
    bus = Bus()
    with pytest.raises(errors.InvalidOperation, match="create a non-sessionful"):
        bus.receives.open(Source("orders"), bus.handed.append, bus.failed.append)
    bus.receives.open(Source("orders", SubQueue.DEAD_LETTER), bus.handed.append, bus.failed.append)
    assert not any(each.told for each in bus.upstreams)
