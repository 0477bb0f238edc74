"""The order in which one receiver gets messages, whichever of its asks the bus answered with them.

A loop's ask rides with the settlement before it. A receive of another size cancels that ask and
sends its own; what the bus had given for the cancelled one still arrives, and comes first.
"""

import asyncio
from typing import Any

import pytest

from bendybus.client.core.pending_receive import PendingReceive
from bendybus.client.core.receive_stream import ReceiveStream
from bendybus.client.core.retry_policy import RetryPolicy
from bendybus.client.core.settlements import Settlement
from bendybus.domain import limits
from bendybus.v1 import message_pb2, receiver_pb2
from bendybus.v1.receiver_pb2 import Delivery, ReceiveStreamResponse

WAIT_S = 5.0


class Taken:
    """A waiter; keeps the bodies of what it got."""

    bodies: list[str] | None = None
    slices: Any = ()

    def resolve(self, slices: Any) -> None:
        """Keep what came."""
        self.slices = slices
        self.bodies = bodies(slices)

    def fail(self, error: BaseException) -> None:
        """Fail the test."""
        raise error


class Bus:
    """A receive stream, and the front end at its other end."""

    def __init__(self) -> None:
        async def never() -> Any:
            await asyncio.Event().wait()

        opening = receiver_pb2.OpenReceiver(receive_mode=receiver_pb2.RECEIVE_MODE_PEEK_LOCK)
        loop = asyncio.get_running_loop()
        self.stream = ReceiveStream(never, loop, RetryPolicy(), opening, 0)
        self.asks: list[int] = []
        self.write()
        self.stream.handle(ReceiveStreamResponse(opened=receiver_pb2.ReceiverOpened()))

    def write(self) -> None:
        """Let the client write all that it wants to."""
        while (request := self.stream.next_request()) is not None:
            if request.WhichOneof("kind") == "ask":
                self.asks.append(request.ask.ask_id)

    def receive(self, count: int) -> Taken:
        """Receive, as a caller does that found nothing asked for ahead."""
        taken = Taken()
        self.stream.receive(PendingReceive(count, WAIT_S, taken))
        self.write()
        return taken

    def settle(self, *, then: int) -> None:
        """Settle a message with the ask for the next step."""
        settlement = Settlement(receiver_pb2.DISPOSITION_COMPLETE, b"t" * 16, Taken(), WAIT_S)
        settlement.next_count, settlement.next_wait_s = then, WAIT_S
        self.stream.settle(settlement)
        self.write()

    def deliver(self, ask_id: int, *names: str) -> None:
        """Answer an ask."""
        batch = message_pb2.DeliveredBatch(
            messages=[name.encode() for name in names],
            lock_tokens=b"".join(name.encode().ljust(16) for name in names),
            lock_remaining_ms=limits.LOCK_DURATION_MS_DEFAULT,
        )
        self.stream.handle(ReceiveStreamResponse(delivery=Delivery(ask_id=ask_id, batches=[batch])))
        self.write()


def bodies(slices: Any) -> list[str]:
    """Return the names of messages."""
    return [
        delivered.lock_tokens[16 * at : 16 * at + 16].decode().strip()
        for delivered, start, stop in slices
        for at in range(start, stop)
    ]


@pytest.fixture
async def bus() -> Bus:
    """A stream that is open."""
    return Bus()


@pytest.mark.requirement("R103")
async def test_what_a_cancelled_ask_got_comes_before_what_was_asked_for_ahead_later(
    bus: Bus,
) -> None:
    bus.receive(1)
    bus.deliver(bus.asks[-1], "1")
    bus.settle(then=1)
    ahead = bus.asks[-1]
    # Another size: the ask ahead is cancelled; its message arrives, and serves the receive.
    taken = bus.receive(3)
    own = bus.asks[-1]
    bus.deliver(ahead, "2")
    assert taken.bodies == ["2"]
    bus.settle(then=3)
    again = bus.asks[-1]
    assert again not in (ahead, own)

    bus.deliver(own, "3", "4", "5")
    bus.deliver(again, "6", "7", "8")

    assert not bus.stream.take_ahead(3)
    assert bus.receive(2).bodies == ["3", "4"]
    assert bus.receive(4).bodies == ["5", "6", "7", "8"]


@pytest.mark.requirement("R103")
async def test_what_no_caller_saw_comes_before_what_was_asked_for_ahead(bus: Bus) -> None:
    taken = bus.receive(1)
    bus.deliver(bus.asks[-1], "1")
    bus.settle(then=2)
    bus.deliver(bus.asks[-1], "2", "3")

    # The caller had gone.
    bus.stream.put_back(taken.slices)

    assert not bus.stream.take_ahead(2)
    assert bus.receive(3).bodies == ["1", "2", "3"]
