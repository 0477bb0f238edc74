"""Clients that do not read, do not stop asking, or say nonsense: memory stays bounded."""

import asyncio
import os
from typing import Any

import grpc
import pytest

from bendybus.client import ServiceBusMessage
from bendybus.v1 import (
    message_pb2,
    receiver_pb2,
    receiver_pb2_grpc,
    sender_pb2,
    sender_pb2_grpc,
)
from bendybus.wire.contract_versions import CLIENT
from tests.integration.processes import Bus

MB = 1024 * 1024
PEEK_LOCK = receiver_pb2.RECEIVE_MODE_PEEK_LOCK


@pytest.mark.slow
async def test_a_receiver_that_does_not_read_costs_bounded_memory(bus: Bus) -> None:
    body = os.urandom(100_000)
    with bus.client() as client, client.get_queue_sender("orders") as sender:
        for _ in range(1_000):
            sender.send_messages(ServiceBusMessage(body))
    before = bus.front_end.rss_bytes()

    async with grpc.aio.insecure_channel(bus.front_end_address) as channel:
        call = receiver_pb2_grpc.ReceiverServiceStub(channel).ReceiveStream(metadata=(CLIENT.said,))
        open_ = receiver_pb2.OpenReceiver(entity_path="orders", receive_mode=PEEK_LOCK)
        await call.write(receiver_pb2.ReceiveStreamRequest(open=open_))
        for ask_id in range(1, 41):
            ask = receiver_pb2.Ask(ask_id=ask_id, max_messages=5_000, max_wait_ms=-1)
            await call.write(receiver_pb2.ReceiveStreamRequest(ask=ask))
        await asyncio.sleep(3)
        grown = bus.front_end.rss_bytes() - before
        call.cancel()

    # 100 MB of messages wait in the partitions; what is on its way to one receiver is bounded:
    # 16 MB handed over, 16 MB reserved, and copies of frames on their way.
    assert grown < 64 * MB


async def test_a_sender_that_does_not_read_is_told_that_the_server_is_busy(bus: Bus) -> None:
    frames = 1_500
    payload = message_pb2.Message(data=[b"x"]).SerializeToString()
    async with grpc.aio.insecure_channel(bus.front_end_address) as channel:
        call = sender_pb2_grpc.SenderServiceStub(channel).SendStream(metadata=(CLIENT.said,))
        for frame_id in range(1, frames + 1):
            await call.write(
                sender_pb2.SendStreamRequest(
                    frame_id=frame_id,
                    producer_id=b"p" * 16,
                    entity_path="orders",
                    batch=message_pb2.MessageBatch(messages=[payload]),
                )
            )
        answers: list[Any] = []
        async with asyncio.timeout(60):
            while len(answers) < frames:
                answers.append(await call.read())
        call.cancel()

    stored = [a for a in answers if a.sequence_numbers and not a.failures]
    refused = [a.error.reason for a in answers if a.error.reason]
    assert len(stored) + len(refused) == frames
    assert set(refused) <= {"SERVER_BUSY"}


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (receiver_pb2.ReceiveStreamRequest(ask=receiver_pb2.Ask(ask_id=1)), "INVALID_ARGUMENT"),
        (receiver_pb2.ReceiveStreamRequest(), "INVALID_ARGUMENT"),
        (
            receiver_pb2.ReceiveStreamRequest(
                open=receiver_pb2.OpenReceiver(entity_path="nowhere", receive_mode=PEEK_LOCK)
            ),
            "ENTITY_NOT_FOUND",
        ),
        (
            receiver_pb2.ReceiveStreamRequest(
                settle=receiver_pb2.SettleFrame(
                    frame_id=1,
                    disposition=receiver_pb2.DISPOSITION_COMPLETE,
                    lock_tokens=b"short",
                )
            ),
            "INVALID_ARGUMENT",
        ),
    ],
)
async def test_nonsense_ends_only_the_stream_that_it_came_on(
    bus: Bus, request_: receiver_pb2.ReceiveStreamRequest, reason: str
) -> None:
    async with grpc.aio.insecure_channel(bus.front_end_address) as channel:
        call = receiver_pb2_grpc.ReceiverServiceStub(channel).ReceiveStream(metadata=(CLIENT.said,))
        await call.write(request_)
        async with asyncio.timeout(10):
            answer: Any = await call.read()

    assert answer.error.reason == reason
    with bus.client() as client, client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("fine"))
