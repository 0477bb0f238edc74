"""Receivers with credit: what is told of it, while messages are being deleted, too."""

import asyncio
from typing import Any

from bendybus.frontend.core import shared_cache
from bendybus.frontend.core.receiver import Delivery
from bendybus.internal.v1 import partition_pb2
from tests.frontend.test_receive import DELETE, Bus

# The name of the one credit of a link.
LINK = 7


def contents(bus: Bus) -> list[tuple[Any, list[bytes]]]:
    """Return what was handed over, by tag."""
    return [
        (each.tag, [message for batch in each.batches for message in batch.messages])
        for each in bus.handed
    ]


def delete(bus: Bus, index: int = -1, *, lost: tuple[int, ...] = ()) -> None:
    """Let the partition answer a deletion."""
    deliver_id = bus.upstream.of("deliver")[index].deliver_id
    delivered = partition_pb2.Delivered(deliver_id=deliver_id, lost=lost)
    bus.answer(partition_pb2.DeliverFramesResponse(delivered=delivered))


def end_ask(bus: Bus) -> None:
    """Let the partition answer the withdrawal of the last ask."""
    withdrawn = partition_pb2.Withdrawn(ask_id=bus.upstream.of("ask")[-1].ask_id)
    bus.answer(partition_pb2.DeliverFramesResponse(withdrawn=withdrawn))


async def test_credit_that_does_not_lapse_brings_several_deliveries_until_it_is_drained() -> None:
    bus = Bus()
    receiver = bus.open()
    receiver.grant(LINK, 10)
    bus.reserve(b"a")
    bus.reserve(b"b", b"c")

    receiver.drain(LINK)
    end_ask(bus)

    assert contents(bus) == [(LINK, [b"a"]), (LINK, [b"b", b"c"]), (LINK, [])]
    assert [each.drained for each in bus.handed] == [False, False, True]
    assert not receiver.credits


async def test_granting_again_adds_to_credit() -> None:
    bus = Bus()
    receiver = bus.open()
    receiver.grant(LINK, 1)
    receiver.grant(LINK, 2)
    assert [each.max_messages for each in bus.upstream.of("ask")] == [1, 2]

    bus.reserve(b"a")
    bus.reserve(b"b")

    assert receiver.credits[LINK].messages == 1


async def test_a_receiver_without_credit_is_drained_at_once() -> None:
    bus = Bus()

    bus.open().drain(LINK)

    assert bus.handed == [Delivery(LINK)]


async def test_drained_is_told_after_the_messages_that_are_being_deleted() -> None:
    bus = Bus()
    receiver = bus.open(mode=DELETE)
    receiver.grant(LINK, 10)
    bus.reserve(b"a")

    receiver.drain(LINK)
    end_ask(bus)
    assert bus.handed == []
    delete(bus)

    assert contents(bus) == [(LINK, [b"a"]), (LINK, [])]


async def test_credit_of_messages_that_were_lost_on_the_way_is_for_others() -> None:
    bus = Bus()
    receiver = bus.open(mode=DELETE)
    receiver.grant(LINK, 2)
    bus.reserve(b"a", b"b")
    # Used up: nothing more is asked for.
    assert len(bus.upstream.of("ask")) == 1

    delete(bus, lost=(0,))
    assert contents(bus) == [(LINK, [b"b"])]
    await asyncio.sleep(2 * shared_cache.REASK_S)

    assert [each.max_messages for each in bus.upstream.of("ask")] == [2, 1]


async def test_messages_that_were_lost_after_draining_bring_no_credit_back() -> None:
    bus = Bus()
    receiver = bus.open(mode=DELETE)
    receiver.grant(LINK, 2)
    bus.reserve(b"a", b"b")
    receiver.drain(LINK)

    delete(bus, lost=(0, 1))
    await asyncio.sleep(2 * shared_cache.REASK_S)

    assert contents(bus) == [(LINK, [])]
    assert len(bus.upstream.of("ask")) == 1


async def test_a_receiver_that_finishes_is_told_nothing_of_its_credit() -> None:
    bus = Bus()
    receiver = bus.open()
    receiver.grant(LINK, 10)

    receiver.finish()

    assert bus.handed == []
    assert len(bus.upstream.of("withdraw")) == 1
