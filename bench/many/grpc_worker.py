"""A client process on our own client with many connections: each awaits its own message."""

import asyncio
import contextlib
import time
from array import array
from multiprocessing.connection import Connection

from bench.amqp.orders import BROKEN, DONE, READY
from bench.many.orders import Order, Report, Role
from bendybus.client import ServiceBusMessage
from bendybus.client.aio import ServiceBusClient, ServiceBusReceiver, ServiceBusSender


def serve(pipe: Connection, connection_string: str, queue: str, body: bytes) -> None:
    """Carry out orders until the pipe ends, which is also the case when the parent dies."""
    with contextlib.suppress(EOFError, ConnectionResetError, BrokenPipeError):
        while True:
            order: Order = pipe.recv()
            try:
                report = asyncio.run(_done(pipe, order, connection_string, queue, body))
            except Exception as error:  # the measuring process shows it
                pipe.send((BROKEN, repr(error)))
            else:
                pipe.send((DONE, report))


async def _done(
    pipe: Connection, order: Order, connection_string: str, queue: str, body: bytes
) -> Report:
    took_s: array[float] = array("d")
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                ServiceBusClient.from_connection_string(connection_string)
            )
            for _ in range(order.connections)
        ]
        pipe.send((READY, 0))
        pipe.recv()
        began_s = time.monotonic()
        until_s = began_s + order.seconds
        if order.role is Role.SEND:
            senders = [each.get_queue_sender(queue) for each in clients]
            await asyncio.gather(*(_send(each, body, until_s, took_s) for each in senders))
        else:
            receivers = [each.get_queue_receiver(queue) for each in clients]
            await asyncio.gather(*(_receive(each, until_s, took_s) for each in receivers))
        return Report(took_s, time.monotonic() - began_s)


async def _send(
    sender: ServiceBusSender, body: bytes, until_s: float, took_s: "array[float]"
) -> None:
    while (began_s := time.monotonic()) < until_s:
        await sender.send_messages(ServiceBusMessage(body))
        took_s.append(time.monotonic() - began_s)


async def _receive(receiver: ServiceBusReceiver, until_s: float, took_s: "array[float]") -> None:
    while (began_s := time.monotonic()) < until_s:
        for message in await receiver.receive_messages(max_message_count=1, max_wait_time=1):
            await receiver.complete_message(message)
            took_s.append(time.monotonic() - began_s)
