"""Receiving on one connection of HTTP: its receivers, its room, and messages that come too late."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Entity
from bendybus.domain.errors import InvalidOperation
from bendybus.frontend.core.quota.bounds import HTTP_RECEIVERS_MAX, RECEIVES
from bendybus.frontend.core.quota.quota import Quota
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.receive import Source
from bendybus.frontend.core.receiver import Delivery
from bendybus.frontend.core.settle import SettleRequest
from bendybus.frontend.listeners.web.connection_receives import ConnectionReceives
from bendybus.v1 import message_pb2
from tests.frontend.entities import queue

pytestmark = pytest.mark.requirement("R653")
TOKEN = bytes(range(16))


class Receiver:
    """A receiver that hands messages over when a test calls `deliver`."""

    def __init__(self, entity: Entity, hand: Any, fail: Any, owner: Any) -> None:
        self.entity, self.hand, self.fail, self.owner = entity, hand, fail, owner
        self.credits: dict[int, None] = {}
        self.cancelled: list[int] = []
        self.finished = False

    def ask(self, tag: int, messages: int, size_bytes: int, wait_ms: int) -> None:
        """Take note of credit."""
        assert messages == 1
        self.credits[tag] = None

    def cancel(self, tag: int) -> None:
        """Void credit."""
        self.cancelled.append(tag)
        del self.credits[tag]

    def finish(self) -> None:
        """Receive nothing more."""
        self.finished = True

    def deliver(self, message: bytes = b"\n\x01x") -> None:
        """Hand a message over."""
        tag = next(iter(self.credits), 0)
        self.credits.pop(tag, None)
        batch = message_pb2.DeliveredBatch(
            messages=[message], sequence_numbers=[1], lock_tokens=TOKEN
        )
        self.hand(Delivery(tag, [batch]))


class FrontEnd:
    """A front end that knows every entity, and notes what is released."""

    def __init__(self) -> None:
        self.quota = Quota()
        self.receives = self.settles = self.directory = self
        self.opened: list[Receiver] = []
        self.closed: list[Receiver] = []
        self.released: list[bytes] = []
        self.uids: dict[str, str] = {}

    def known(self, name: str) -> Any:
        """Return an entity."""
        return SimpleNamespace(uid=self.uids.get(name, f"uid-{name}"))

    def open(self, source: Source, hand: Any, fail: Any, *, owner: Any) -> Receiver:
        """Open a receiver."""
        made = Receiver(queue(source.entity), hand, fail, owner)
        self.opened.append(made)
        return made

    def close(self, receiver: Receiver) -> None:
        """Close one."""
        self.closed.append(receiver)

    def start(self, request: SettleRequest, answer: Any) -> None:
        """Release messages."""
        assert request.disposition is Disposition.RELEASE
        self.released.append(request.lock_tokens)


def front_end_of_test() -> Any:
    """Return a front end, for whatever takes the real one."""
    return FrontEnd()


class Line:
    """A connection on it."""

    def __init__(self) -> None:
        self.front_end = front_end_of_test()
        self.receives = ConnectionReceives(self.front_end)
        self.holder = Holder("line", "reader")

    def begin(self, name: str = "q", policy: str = "reader") -> "asyncio.Task[Any]":
        """Begin a receive."""
        holder = Holder("line", policy)
        return asyncio.ensure_future(self.receives.next(Source(name), holder, 1_000))

    async def received(self, name: str = "q", policy: str = "reader") -> Any:
        """Receive a message."""
        task = self.begin(name, policy)
        await asyncio.sleep(0)
        asking = [each for each in self.front_end.opened if each.credits]
        asking[-1].deliver()
        return await task


@pytest.mark.parametrize(
    "message",
    [
        message_pb2.Message(data=[b"x" * 50_000]),
        message_pb2.Message(value=message_pb2.Value(string_value="x" * 50_000)),
    ],
)
async def test_room_is_taken_with_a_message_and_given_back_when_it_is_read(
    message: message_pb2.Message,
) -> None:
    line = Line()
    room = line.front_end.quota.receives

    task = line.begin()
    await asyncio.sleep(0)
    waiting_bytes = room.held
    line.front_end.opened[0].deliver(message.SerializeToString())
    received = await task

    # The message, and the response that is made of it.
    assert (waiting_bytes, room.held) == (0, 2 * message.ByteSize())
    line.receives.answered(received, message.ByteSize())
    assert room.held == message.ByteSize()
    line.receives.read(received)
    assert room.held == 0


async def test_one_that_http_does_not_hand_over_goes_back_and_says_why() -> None:
    line = Line()
    values = [message_pb2.Value()] * 200_000
    message = message_pb2.Message(
        value=message_pb2.Value(list_value=message_pb2.ValueList(values=values))
    )
    task = line.begin()
    await asyncio.sleep(0)
    line.front_end.opened[0].deliver(message.SerializeToString())

    with pytest.raises(InvalidOperation, match="over AMQP, or with a client library"):
        await task

    assert len(line.front_end.released) == 1
    assert line.front_end.quota.receives.held == 0


async def test_without_room_a_message_goes_back_and_the_client_repeats() -> None:
    line = Line()
    room = line.front_end.quota.receives
    task = line.begin()
    await asyncio.sleep(0)
    room.hold(Holder("other", "other"), RECEIVES.all)
    line.front_end.opened[0].deliver()

    with pytest.raises(errors.ServerBusy):
        await task
    with pytest.raises(errors.ServerBusy):
        await line.begin()

    assert line.front_end.released == [TOKEN]
    assert room.held == RECEIVES.all


async def test_a_message_that_comes_too_late_goes_back() -> None:
    line = Line()
    task = line.begin()
    await asyncio.sleep(0)
    [receiver] = line.front_end.opened
    line.receives.refuse(errors.Unauthenticated("x"))
    with pytest.raises(errors.Unauthenticated):
        await task
    assert len(receiver.cancelled) == 1

    receiver.deliver()
    await asyncio.sleep(0)

    assert line.front_end.released == [TOKEN]


async def test_the_end_of_the_connection_closes_all_and_gives_back() -> None:
    line = Line()
    line.receives.read(await line.received("a"))
    task = line.begin("b")
    await asyncio.sleep(0)

    line.receives.close()

    with pytest.raises(ConnectionResetError):
        await task
    assert line.front_end.closed == line.front_end.opened
    line.front_end.opened[-1].deliver()
    await asyncio.sleep(0)
    assert line.front_end.released == [TOKEN]
    with pytest.raises(ConnectionResetError):
        await line.begin("a")


async def test_each_key_and_entity_has_a_receiver_that_stays() -> None:
    line = Line()
    for name, policy in (("a", "one"), ("a", "two"), ("b", "one"), ("a", "one")):
        line.receives.read(await line.received(name, policy))

    owners = [each.owner for each in line.front_end.opened]

    assert owners == [Holder("line", "one"), Holder("line", "two"), Holder("line", "one")]
    assert line.front_end.closed == []


async def test_the_receiver_that_was_used_longest_ago_makes_room() -> None:
    line = Line()
    for number in range(HTTP_RECEIVERS_MAX):
        line.receives.read(await line.received(f"q{number}"))
    line.receives.read(await line.received("q0"))

    line.receives.read(await line.received("another"))

    assert [each.entity.name for each in line.front_end.closed] == ["q1"]


async def test_an_entity_that_was_made_again_has_a_new_receiver() -> None:
    line = Line()
    line.receives.read(await line.received())
    line.front_end.uids["q"] = "uid-of-another"

    task = line.begin()
    await asyncio.sleep(0)

    assert line.front_end.closed == [line.front_end.opened[0]]
    assert len(line.front_end.opened) == 2
    task.cancel()


async def test_only_the_request_that_asked_ends_with_its_entity() -> None:
    line = Line()
    line.receives.read(await line.received("a"))
    task = line.begin("b")
    await asyncio.sleep(0)

    line.front_end.opened[0].fail(errors.EntityNotFound("gone"))
    assert not task.done()
    line.front_end.opened[1].fail(errors.EntityNotFound("gone"))

    with pytest.raises(errors.EntityNotFound):
        await task


async def test_who_waits_is_told_that_the_front_end_stops() -> None:
    line = Line()
    task = line.begin()
    await asyncio.sleep(0)

    line.receives.stop()

    with pytest.raises(errors.ServerBusy, match="stopping"):
        await task
    assert line.front_end.opened[0].finished
