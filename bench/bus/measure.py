"""Measures Bendybus: `ServiceBusMessage` in, `ServiceBusReceivedMessage` out, 4 partitions."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench import loads, row
from bench.bus import running
from bench.bus.running import QUEUE, Bus
from bench.loads import FRAME_MESSAGES, Loads
from bench.recorder import Recorder
from bench.row import Row
from bendybus.client import ServiceBusClient as SyncClient
from bendybus.client import ServiceBusMessage
from bendybus.client.aio import ServiceBusClient
from bendybus.client.aio.receiver import ServiceBusReceiver

SYSTEM: Final = "Bendybus"
# Calls under way at once, so that no hop waits for another's answer.
CALLS: Final = 16
KEYS: Final = 64
BODY: Final = os.urandom(loads.BODY_BYTES)
_WAIT_S: Final = 5.0
# What a loop has in its buffer before it asks for it.
AHEAD: Final = 100
UNCONFIRMED: Final = "settlements are unconfirmed"
# Messages of one transaction.
_OF_ONE: Final = 10


def measure(load: Loads, folder: Path, emit: Callable[[Row], None]) -> None:
    """Measure batches, the plain loop, many tasks and single sends."""
    with running.bus(folder, loads.PARTITIONS, running.PARTITION_SERVERS) as bus:
        bench = Bench(bus, load, emit)
        asyncio.run(bench.asynchronous())
        bench.synchronous()


class Bench:
    """All measurements of one bus."""

    def __init__(self, bus: Bus, load: Loads, emit: Callable[[Row], None]) -> None:
        self._bus = bus
        self._load = load
        self._emit = emit
        self._recorder = Recorder(SYSTEM, bus.roles)
        self._frames: dict[str, str] = {}

    async def asynchronous(self) -> None:
        """Everything of the asynchronous client."""
        async with ServiceBusClient.from_connection_string(self._bus.connection_string) as client:
            await self._batches(client)
            await self._plain_loop(client)
            await self._small_receives(client)
            await self._tasks(client)
            await self._keyed(client)
            await self._transactions(client)
            await self._singles(client)

    def synchronous(self) -> None:
        """The plain loop of the synchronous client."""
        count = self._load.loop
        with SyncClient.from_connection_string(self._bus.connection_string) as client:
            for _ in range(self._load.repeats):
                with client.get_queue_sender(QUEUE) as sender:
                    for size in _sizes(count, FRAME_MESSAGES):
                        sender.send_messages([ServiceBusMessage(BODY) for _ in range(size)])
                with (
                    client.get_queue_receiver(QUEUE, max_wait_time=_WAIT_S) as receiver,
                    self._recorder.timing("loop_sync", count),
                ):
                    for gone, message in enumerate(receiver, 1):
                        receiver.complete_message(message)
                        if gone == count:
                            break
        title = "for m in receiver: complete(m), sync"
        self._emit(self._recorder.row("loop_sync", title, "1 at each hop"))

    async def _batches(self, client: ServiceBusClient) -> None:
        count, sizes = self._load.batched, list[int]()
        for _ in range(self._load.repeats):
            with self._hops("send", count):
                await self.send(client, count)
            with self._hops("receive_complete", count):
                sizes += await self.receive(client, count)
        calls = f"{CALLS} calls of {FRAME_MESSAGES} at once"
        self._row("send", "send, batches of 500", calls)
        mean = sum(sizes) / len(sizes)
        self._row("receive_complete", "receive 500 + complete_messages",
                  f"{CALLS} calls at once, {mean:.0f} a delivery")  # fmt: skip

    async def _plain_loop(self, client: ServiceBusClient) -> None:
        """One message after the other: each settlement confirmed, and in the background."""
        count = self._load.loop
        for _ in range(self._load.repeats):
            for what in ("loop_async", "loop_unconfirmed", "loop_unconfirmed_ahead"):
                await self.send(client, count)
                ahead = AHEAD if what == "loop_unconfirmed_ahead" else 0
                async with client.get_queue_receiver(
                    QUEUE, max_wait_time=_WAIT_S, prefetch_count=ahead
                ) as receiver:
                    if what != "loop_async":
                        receiver.settle_in_background()
                    with self._recorder.timing(what, count):
                        await _loop(receiver, count)
                        await receiver.flush()
        title = "for m in receiver: complete(m), async"
        self._emit(self._recorder.row("loop_async", title, "1 at each hop"))
        title = "for m in receiver: complete(m), settle_in_background, async"
        self._emit(self._recorder.row("loop_unconfirmed", title, "1 at each hop", UNCONFIRMED))
        title = f"the same, prefetch_count={AHEAD}"
        self._emit(
            self._recorder.row("loop_unconfirmed_ahead", title, "what is ready", UNCONFIRMED)
        )

    async def _small_receives(self, client: ServiceBusClient) -> None:
        """A loop of small batches, one call after the other."""
        for size, count in self._load.receives.items():
            what = f"receive_{size}"
            for _ in range(self._load.repeats):
                await self.send(client, count)
                async with client.get_queue_receiver(QUEUE, max_wait_time=_WAIT_S) as receiver:
                    with self._recorder.timing(what, count):
                        await _receive_all(receiver, size, count)
            title = f"receive_messages({size}) + complete_messages, one call after the other"
            self._emit(self._recorder.row(what, title, f"{size} at each hop"))

    async def _tasks(self, client: ServiceBusClient) -> None:
        each, count = self._load.tasks_each, self._load.tasks_each * loads.TASKS

        async with client.get_queue_sender(QUEUE) as sender:

            async def task() -> None:
                for _ in range(each):
                    await sender.send_messages(ServiceBusMessage(BODY))

            for _ in range(self._load.repeats):
                with self._hops("tasks", count):
                    await asyncio.gather(*(task() for _ in range(loads.TASKS)))
                await self.receive(client, count)
        self._row("tasks", "1,000 tasks, each awaits its own send", "")

    async def _keyed(self, client: ServiceBusClient) -> None:
        count = self._load.batched // 2

        async def batch(number: int) -> None:
            key = f"key-{number % KEYS}"
            messages = [ServiceBusMessage(BODY, partition_key=key) for _ in range(FRAME_MESSAGES)]
            await sender.send_messages(messages)

        async with client.get_queue_sender(QUEUE) as sender:
            for _ in range(self._load.repeats):
                with self._hops("send_keyed", count):
                    await at_once([batch] * (count // FRAME_MESSAGES))
                await self.receive(client, count)
        self._row("send_keyed", "send with PartitionKey, batches of 500", f"{KEYS} keys")

    async def _transactions(self, client: ServiceBusClient) -> None:
        """Transactions that send 10 messages each; counted are transactions."""
        count = self._load.transactions

        async def one(number: int) -> None:
            key = f"key-{number % KEYS}"
            async with client.transaction() as tx:
                messages = [ServiceBusMessage(BODY, partition_key=key) for _ in range(_OF_ONE)]
                await sender.send_messages(messages, tx=tx)

        async with client.get_queue_sender(QUEUE) as sender:
            for _ in range(self._load.repeats):
                with self._recorder.timing("transactions", count):
                    await at_once([one] * count)
                await self.receive(client, count * _OF_ONE)
        title = f"transactions of {_OF_ONE} messages, a second"
        self._emit(self._recorder.row("transactions", title, f"{CALLS} at once"))

    async def _singles(self, client: ServiceBusClient) -> None:
        took: list[float] = []
        async with client.get_queue_sender(QUEUE) as sender:
            for _ in range(self._load.single_sends):
                began = time.perf_counter()
                await sender.send_messages(ServiceBusMessage(BODY))
                took.append(time.perf_counter() - began)
        await self.receive(client, self._load.single_sends)
        for each in row.latency_rows(SYSTEM, "single_send", "one awaited send at a time", took):
            self._emit(each)

    async def send(self, client: ServiceBusClient, count: int, calls: int = CALLS) -> None:
        """Send so many messages in batches, `calls` of them at once."""
        async with client.get_queue_sender(QUEUE) as sender:

            async def batch(number: int) -> None:
                size = min(FRAME_MESSAGES, count - number * FRAME_MESSAGES)
                await sender.send_messages([ServiceBusMessage(BODY) for _ in range(size)])

            await at_once([batch] * -(-count // FRAME_MESSAGES), calls)

    async def receive(self, client: ServiceBusClient, count: int, calls: int = CALLS) -> list[int]:
        """Receive and complete so many messages; return how many each call brought."""
        gone, sizes = 0, list[int]()
        async with client.get_queue_receiver(QUEUE) as receiver:

            async def take() -> None:
                nonlocal gone
                while gone < count:
                    messages = await receiver.receive_messages(
                        FRAME_MESSAGES, max_wait_time=_WAIT_S
                    )
                    if not messages:
                        continue
                    await receiver.complete_messages(messages)
                    gone += len(messages)
                    sizes.append(len(messages))
                done.set()

            done = asyncio.Event()
            takers = [asyncio.create_task(take()) for _ in range(calls)]
            await done.wait()
            for each in takers:
                each.cancel()
            await asyncio.gather(*takers, return_exceptions=True)
        return sizes

    @contextmanager
    def _hops(self, what: str, count: int) -> Iterator[None]:
        frames, commits = self._bus.frames(), self._bus.commits()
        with self._recorder.timing(what, count):
            yield
        frames, commits = self._bus.frames() - frames, self._bus.commits() - commits
        parts = [f"{count / frames:.0f} a frame" if frames else "",
                 f"{count / commits:.0f} a commit" if commits else ""]  # fmt: skip
        self._frames[what] = "; ".join(part for part in parts if part)

    def _row(self, what: str, title: str, frames: str) -> None:
        text = "; ".join(part for part in (frames, self._frames[what]) if part)
        self._emit(self._recorder.row(what, title, text))


async def at_once(work: list[Callable[[int], Awaitable[None]]], calls: int = CALLS) -> None:
    """Make the calls, so many of them under way at any time."""
    numbered = iter(enumerate(work))

    async def worker() -> None:
        for number, call in numbered:
            await call(number)

    await asyncio.gather(*(worker() for _ in range(calls)))


async def _loop(receiver: ServiceBusReceiver, count: int) -> None:
    gone = 0
    async for message in receiver:
        await receiver.complete_message(message)
        gone += 1
        if gone == count:
            return


async def _receive_all(receiver: ServiceBusReceiver, size: int, count: int) -> None:
    gone = 0
    while gone < count:
        messages = await receiver.receive_messages(size)
        await receiver.complete_messages(messages)
        gone += len(messages)


def _sizes(count: int, most: int) -> Iterator[int]:
    while count > 0:
        yield min(most, count)
        count -= most
