"""Load of data pipelines; see `load`.

`drained` is a queue in all partitions. Pipelines take its drain lease in turn, read each partition
up to its stable tail and settle that range: what becomes visible late, below a tail, is lost by it.
Between two leases receivers work as always. Producers send with a fence and repeat what failed.
"""

import asyncio
import contextlib
import itertools
import time
import uuid
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from bendybus.client import ServiceBusMessage
from bendybus.client.aio import DrainLease, PartitionBrowser, PartitionSender, ServiceBusClient
from bendybus.client.exceptions import ProducerFencedError, ResourceExistsError, ServiceBusError
from bendybus.client.management import ServiceBusAdministrationClient
from tests.chaos.history import History, Item, Kind, received

DRAINED: Final = "drained"
TIMEOUT_S: Final = 5.0
LEASE_S: Final = 5.0
# What a pipeline does before it gives the lease back.
ROUNDS: Final = 4


def create(administration: ServiceBusAdministrationClient, options: dict[str, Any]) -> None:
    """Create the queue."""
    with contextlib.suppress(ResourceExistsError):
        administration.create_queue(DRAINED, enable_partitioning=True, **options)


class PipelineLoad:
    """The tasks of one client, until `stop`."""

    def __init__(
        self,
        name: str,
        client: ServiceBusClient,
        history: History,
        seed: int,
        stop: asyncio.Event,
    ) -> None:
        self.client = client
        self._name = name
        self._history = history
        self._random = Random(seed)
        self._stop = stop
        self._bodies = (f"{name}p-{n}" for n in itertools.count())

    def tasks(self) -> list[Callable[[str], Coroutine[Any, Any, None]]]:
        """Return what is to be run, each as a task of its own."""
        return [self._send, self._schedule, self._produce, self._drain, self._receive]

    async def possible_duplicates(self) -> set[str]:
        """Return the messages of which the client was told that they may be stored twice."""
        async with self.client.get_queue_sender(DRAINED) as sender:
            return set(sender.possible_duplicates)

    async def _pause(self) -> None:
        await asyncio.sleep(0.02 + 0.03 * self._random.random())

    def _made(self, count: int) -> list[ServiceBusMessage]:
        return [
            ServiceBusMessage(body, message_id=body)
            for body in itertools.islice(self._bodies, count)
        ]

    # Sends

    async def _send(self, task: str) -> None:
        async with self.client.get_queue_sender(DRAINED) as sender:
            while not self._stop.is_set():
                messages = self._made(self._random.choice((1, 1, 4)))
                began, error = time.time(), None
                try:
                    await sender.send_messages(messages, timeout=TIMEOUT_S)
                except ServiceBusError as failed:
                    error = failed
                self._sent(task, began, messages, error)
                await self._pause()

    async def _schedule(self, task: str) -> None:
        async with self.client.get_queue_sender(DRAINED) as sender:
            while not self._stop.is_set():
                messages = self._made(1)
                due = datetime.now(UTC) + timedelta(seconds=self._random.uniform(0, 1))
                began, error = time.time(), None
                try:
                    await sender.schedule_messages(messages, due, timeout=TIMEOUT_S)
                except ServiceBusError as failed:
                    error = failed
                self._sent(task, began, messages, error)
                await self._pause()

    async def _produce(self, task: str) -> None:
        """Send frames with a fence until each is stored, and after each one of a late attempt."""
        producer, epoch = uuid.uuid4().bytes, 1
        async with self.client.get_partition_sender(queue_name=DRAINED) as sender:
            partitions = await self._partitions(sender)
            while partitions and not self._stop.is_set():
                partition = self._random.choice(partitions)
                epoch += 1
                if await self._frame(sender, task, partition, producer, epoch):
                    await self._frame(sender, task, partition, producer, epoch - 1)
                await self._pause()

    async def _frame(
        self, sender: PartitionSender, task: str, partition: int, producer: bytes, epoch: int
    ) -> bool:
        """Send some messages until they are stored or refused; whether they are stored."""
        messages = self._made(self._random.choice((1, 3)))
        began = time.time()
        error = await self._until_known(
            lambda: sender.send(
                partition,
                messages,
                producer_id=producer,
                epoch=epoch,
                ordinals=range(1, len(messages) + 1),
                timeout=TIMEOUT_S,
            )
        )
        self._sent(task, began, messages, error)
        return error is None

    async def _partitions(self, sender: PartitionSender) -> list[int]:
        while not self._stop.is_set():
            with contextlib.suppress(ServiceBusError):
                found = await sender.describe_partitions(timeout=TIMEOUT_S)
                return [each.partition for each in found.partitions]
            await self._pause()
        return []

    async def _until_known(
        self, send: Callable[[], Coroutine[Any, Any, Any]]
    ) -> BaseException | None:
        """Repeat a send until it is stored, or refused; an error if that is not known."""
        while True:
            try:
                await send()
            except ProducerFencedError as error:
                return error
            except ServiceBusError:
                if self._stop.is_set():
                    # Perhaps one of the attempts was stored.
                    return asyncio.CancelledError()
                await self._pause()
            else:
                return None

    def _sent(
        self,
        task: str,
        began: float,
        messages: list[ServiceBusMessage],
        error: BaseException | None,
    ) -> None:
        items = [Item(str(each)) for each in messages]
        self._history.add(Kind.SEND, DRAINED, task, began, items, error=error)

    # Pipelines

    async def _drain(self, task: str) -> None:
        async with self.client.get_partition_browser(queue_name=DRAINED) as browser:
            while not self._stop.is_set():
                with contextlib.suppress(ServiceBusError):
                    lease = await browser.acquire_drain_lease(
                        self._name, duration=LEASE_S, timeout=TIMEOUT_S
                    )
                    await self._rounds(browser, lease, task)
                    await lease.release(timeout=TIMEOUT_S)
                await asyncio.sleep(self._random.random())

    async def _rounds(self, browser: PartitionBrowser, lease: DrainLease, task: str) -> None:
        for _ in range(ROUNDS):
            for partition in sorted(lease.ready):
                await self._range(browser, lease, partition, task)
            await self._pause()
            await lease.renew(timeout=TIMEOUT_S)

    async def _range(
        self, browser: PartitionBrowser, lease: DrainLease, partition: int, task: str
    ) -> None:
        began = time.time()
        page = await browser.browse(partition, timeout=TIMEOUT_S)
        items = [Item(str(each), each.sequence_number or 0) for each in page.messages]
        if items:
            self._history.add(Kind.RECEIVE, DRAINED, task, began, items)
        began, error = time.time(), None
        try:
            await lease.settle_up_to(partition, page.next_after, timeout=TIMEOUT_S)
        except ServiceBusError as failed:
            error = failed
        if items:
            # An attempt before the one that was refused may have settled them.
            unknown = None if error is None else asyncio.CancelledError()
            self._history.add(Kind.COMPLETE, DRAINED, task, began, items, error=unknown)
        if error is not None:
            raise error

    # Receivers

    async def _receive(self, task: str) -> None:
        async with self.client.get_queue_receiver(DRAINED) as receiver:
            while not self._stop.is_set():
                await self.some_drained(receiver, task)
                await asyncio.sleep(self._random.random())

    async def some_drained(self, receiver: Any, task: str) -> None:
        """Receive and complete some messages of the queue, if no pipeline has it."""
        began = time.time()
        try:
            messages = await receiver.receive_messages(20, max_wait_time=0.5)
        except ServiceBusError:
            await self._pause()
            return
        items = [received(message) for message in messages]
        if items:
            self._history.add(Kind.RECEIVE, DRAINED, task, began, items)
        for message, item in zip(messages, items, strict=True):
            began, error = time.time(), None
            try:
                await receiver.complete_message(message)
            except ServiceBusError as failed:
                error = failed
            self._history.add(Kind.COMPLETE, DRAINED, task, began, [item], error=error)
