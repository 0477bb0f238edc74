"""Load of what is forwarded; see `load`.

Three ways lead to `sorted`, which is in all partitions: out of `inbox`, a plain queue in one of
them; out of the subscription of `news`, a plain topic; and as dead letters of `letters`. A message
is recorded as sent to `sorted`, so that it must come there once, under one number.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final

from bendybus.client import ServiceBusMessage
from bendybus.client.aio import ServiceBusClient
from bendybus.client.exceptions import ResourceExistsError, ServiceBusError
from bendybus.client.management import ServiceBusAdministrationClient
from tests.chaos.history import History, Item, Kind, received

SORTED: Final = "sorted"
INBOX: Final = "inbox"
LETTERS: Final = "letters"
NEWS: Final = "news"
SUBSCRIPTION: Final = "all"
PLACES: Final = (SORTED, INBOX, LETTERS, NEWS)
TIMEOUT_S: Final = 5.0
KEYS: Final = 6


def create(administration: ServiceBusAdministrationClient, options: dict[str, Any]) -> None:
    """Create what forwards, and where to."""
    with contextlib.suppress(ResourceExistsError):
        administration.create_queue(SORTED, enable_partitioning=True, **options)
    with contextlib.suppress(ResourceExistsError):
        administration.create_queue(INBOX, forward_to=SORTED, **options)
    with contextlib.suppress(ResourceExistsError):
        administration.create_queue(
            LETTERS,
            enable_partitioning=True,
            forward_dead_lettered_messages_to=SORTED,
            **options,
        )
    with contextlib.suppress(ResourceExistsError):
        administration.create_topic(NEWS)
    with contextlib.suppress(ResourceExistsError):
        administration.create_subscription(NEWS, SUBSCRIPTION, forward_to=SORTED, **options)


class ForwardLoad:
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
        self._history = history
        self._random = Random(seed)
        self._stop = stop
        self._bodies = (f"{name}f-{n}" for n in itertools.count())

    def tasks(self) -> list[Callable[[str], Coroutine[Any, Any, None]]]:
        """Return what is to be run, each as a task of its own."""
        return [
            lambda task: self._send_to(self.client.get_queue_sender(INBOX), task),
            lambda task: self._send_to(self.client.get_topic_sender(NEWS), task),
            lambda task: self._send_to(self.client.get_queue_sender(LETTERS), task),
            self._dead_letter,
            self._receive,
        ]

    async def possible_duplicates(self) -> set[str]:
        """Return the messages of which the client was told that they may be stored twice."""
        found: set[str] = set()
        for opened in (
            self.client.get_queue_sender(INBOX),
            self.client.get_queue_sender(LETTERS),
            self.client.get_topic_sender(NEWS),
        ):
            async with opened as sender:
                found.update(sender.possible_duplicates)
        return found

    async def _pause(self) -> None:
        await asyncio.sleep(0.02 + 0.03 * self._random.random())

    async def _send_to(self, opened: Any, task: str) -> None:
        async with opened as sender:
            while not self._stop.is_set():
                body = next(self._bodies)
                key = f"k{self._random.randrange(KEYS)}" if self._random.random() < 0.6 else None
                message = ServiceBusMessage(body, message_id=body, partition_key=key)
                began, error = time.time(), None
                try:
                    await sender.send_messages(message, timeout=TIMEOUT_S)
                except ServiceBusError as failed:
                    error = failed
                self._history.add(Kind.SEND, SORTED, task, began, [Item(body)], error=error)
                await self._pause()

    async def _dead_letter(self, task: str) -> None:
        async with self.client.get_queue_receiver(LETTERS) as receiver:
            while not self._stop.is_set():
                await self.some_letters(receiver)

    async def some_letters(self, receiver: Any) -> None:
        """Dead-letter some messages, which go on by that; one whose call fails comes again."""
        with contextlib.suppress(ServiceBusError):
            for message in await receiver.receive_messages(10, max_wait_time=0.5):
                await receiver.dead_letter_message(message, reason="chaos")
            return
        await self._pause()

    async def _receive(self, task: str) -> None:
        async with self.client.get_queue_receiver(SORTED) as receiver:
            while not self._stop.is_set():
                await self.some_arrived(receiver, task)

    async def some_arrived(self, receiver: Any, task: str) -> None:
        """Receive and complete some messages where they all arrive."""
        began = time.time()
        try:
            messages = await receiver.receive_messages(20, max_wait_time=0.5)
        except ServiceBusError:
            await self._pause()
            return
        items = [received(message) for message in messages]
        if items:
            self._history.add(Kind.RECEIVE, SORTED, task, began, items)
        for message, item in zip(messages, items, strict=True):
            began, error = time.time(), None
            try:
                await receiver.complete_message(message)
            except ServiceBusError as failed:
                error = failed
            self._history.add(Kind.COMPLETE, SORTED, task, began, [item], error=error)
