"""What one connection may make a front end hold, over all its streams."""

import asyncio
import contextlib
from typing import Any

import pytest

from bendybus.frontend.core.lease import SessionLease
from bendybus.frontend.core.quota.bounds import (
    REFUSALS_A_SECOND,
    TOKENS,
    TOKENS_A_FRAME,
    UNREAD,
    UNREAD_MIN,
)
from bendybus.frontend.core.quota.flow_control import FlowControl, StreamFlow, charged_tokens
from bendybus.frontend.listeners import receiver_stream
from bendybus.frontend.upstreams.upstream import now_ms
from bendybus.v1 import message_pb2, receiver_pb2


class Source:
    """Notes who is paused."""

    def __init__(self) -> None:
        self.paused: set[Any] = set()

    def pause(self, owner: Any) -> None:
        """Note it."""
        self.paused.add(owner)

    def resume(self, owner: Any) -> None:
        """Note it."""
        self.paused.discard(owner)


async def test_receivers_of_a_connection_share_the_bytes_that_it_may_leave_unread() -> None:
    source = Source()
    made: Any = source
    flows = FlowControl(made)
    with flows.of("ipv4:a") as first, flows.of("ipv4:a") as second, flows.of("ipv4:b") as other:
        half = UNREAD.connection // 2
        first.handed(half)
        other.handed(half)
        assert not source.paused
        second.handed(half)
        assert source.paused == {"ipv4:a"}

        first.read(half)

        assert not source.paused


async def test_a_client_that_never_reads_gets_a_bounded_number_of_tokens_settled() -> None:
    made: Any = Source()
    with FlowControl(made).of("ipv4:a") as account:
        taken = [await account.take_tokens(5_000) for _ in range(TOKENS.connection // 5_000)]
        waiting = asyncio.ensure_future(account.take_tokens(charged_tokens(1)))
        await asyncio.sleep(0)
        assert not waiting.done()

        account.give_tokens(taken.pop())

        assert await waiting == TOKENS_A_FRAME


def test_a_delivery_that_waited_to_be_written_leaves_out_locks_that_ended() -> None:
    short = message_pb2.DeliveredBatch(lock_tokens=b"s" * 16, lock_remaining_ms=3_000)
    long = message_pb2.DeliveredBatch(lock_tokens=b"l" * 16, lock_remaining_ms=9_000)
    delivery = receiver_pb2.Delivery(ask_id=1, batches=[short, long])

    receiver_stream.age(delivery, 4_000)

    [kept] = delivery.batches
    assert (kept.lock_tokens, kept.lock_remaining_ms) == (b"l" * 16, 5_000)


@pytest.mark.requirement("R431")
async def test_a_delivery_that_waited_has_the_lock_of_its_session_as_it_is_then() -> None:
    now = now_ms()
    for renewed_ms, left in ((now + 9_000, 9_000), (now - 1, 0)):
        lease = SessionLease(now - 1_000, 5_000, now - 6_000)
        batch = message_pb2.DeliveredBatch(lock_tokens=b"s" * 16, lock_remaining_ms=4_000)
        frame = receiver_pb2.ReceiveStreamResponse()
        frame.delivery.batches.append(batch)
        with FlowControl().of("ipv4:a") as account:
            made = receiver_stream.Answers(lambda: False, StreamFlow(account))
            made.put(receiver_stream.Answer(frame, 1, put_ms=now - 5_000, lease=lease))
            lease.heard(renewed_ms, now)
            written, _ = await anext(made.written())

        kept = [each.lock_remaining_ms for each in written.delivery.batches]
        assert len(kept) == bool(left)
        assert all(left - 1_000 < each <= left for each in kept)


async def test_connections_together_leave_a_bounded_number_of_bytes_unread() -> None:
    source = Source()
    flows = FlowControl(source)
    part = UNREAD.connection - 1
    with contextlib.ExitStack() as stack:
        count = UNREAD.all // part + 1
        behind = [stack.enter_context(flows.of(f"ipv4:{n}")) for n in range(count)]
        reader, late = (stack.enter_context(flows.of(name)) for name in ("reads", "late"))
        for account in behind:
            account.handed(part)
        assert source.paused == {behind[-1].owner}

        reader.handed(UNREAD_MIN - 1)
        late.handed(UNREAD_MIN)

        assert source.paused == {behind[-1].owner, "late"}
        for account in behind[:2]:
            account.read(part)
        assert not source.paused


async def test_a_connection_that_catches_up_is_read_from_again() -> None:
    with FlowControl().of("ipv4:a") as account, account.stream() as share:
        share.handed(UNREAD.connection)
        waiting = asyncio.ensure_future(account.caught_up())
        await asyncio.sleep(0)
        assert not waiting.done()

        share.read(1)

        await asyncio.wait_for(waiting, 5)


async def test_what_a_stream_leaves_unread_ends_with_it() -> None:
    with FlowControl().of("ipv4:a") as account:
        with account.stream() as share:
            share.handed(UNREAD.connection)
        assert not account.paused

        share.handed(UNREAD.connection)

        assert not account.paused


async def test_refusals_of_a_connection_are_bounded_in_rate() -> None:
    with FlowControl().of("ipv4:a") as account:
        waiting = [asyncio.ensure_future(account.pace()) for _ in range(200)]
        began_s = asyncio.get_running_loop().time()

        await asyncio.gather(*waiting)

        took_s = asyncio.get_running_loop().time() - began_s
        assert took_s >= 200 / REFUSALS_A_SECOND
