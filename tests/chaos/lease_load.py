"""Holders of sessions, who ask late in their locks, or whose lines are cut; see `lease_checking`.

Each session has one task that sends to it and receives from it, so that the task knows which
messages it should be given.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final

from bendybus.client import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from bendybus.client.aio import ServiceBusClient
from bendybus.client.exceptions import ServiceBusError
from tests.chaos.cluster import Cluster
from tests.chaos.history import History, Item, Kind, received

LEASES: Final = "leases"
# Longer than the locks of other queues: most asks come in its second half.
LEASE_S: Final = 8
WAIT_S: Final = 2.0
# The latest moment of an ask after the lock began: its wait ends before the lock does.
ASK_S_MAX: Final = LEASE_S - WAIT_S - 1.0
TIMEOUT_S: Final = 5.0
MESSAGES: Final = 3
# How long after the end of a lock its session must be free.
FREE_S_MAX: Final = 4.0


class LeaseLoad:
    """The tasks of one client that hold sessions, until `stop`."""

    def __init__(
        self,
        name: str,
        client: ServiceBusClient,
        history: History,
        stop: asyncio.Event,
        *,
        cluster: Cluster,
        front_end: int,
        seed: int,
    ) -> None:
        self.client = client
        self._name = name
        self._history = history
        self._stop = stop
        self._cluster = cluster
        self._front_end = front_end
        self._random = Random(seed)
        self._numbers = itertools.count()

    def tasks(self) -> list[Callable[[str], Coroutine[Any, Any, None]]]:
        """Return what is to be run, each as a task of its own."""
        return [*[self._hold] * 3, *[self._lose_line] * 2]

    async def possible_duplicates(self) -> set[str]:
        """Return the messages of which the client was told that they may be stored twice."""
        async with self.client.get_queue_sender(LEASES) as sender:
            return set(sender.possible_duplicates)

    async def rest(self) -> None:
        """Receive and complete what is left of one session; nothing if none is free."""
        receiver = self.client.get_queue_receiver(
            LEASES, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0.5
        )
        with contextlib.suppress(ServiceBusError):
            async with receiver:
                while await self._some(receiver, "drain", count=20, wait_s=0.5):
                    pass

    async def _hold(self, task: str) -> None:
        while not self._stop.is_set():
            session = f"{self._name}l-{next(self._numbers)}"
            if await self._sent(task, session):
                receiver = self.client.get_queue_receiver(
                    LEASES, session_id=session, max_wait_time=WAIT_S
                )
                with contextlib.suppress(ServiceBusError):
                    await self._held(receiver, task, session)
            await asyncio.sleep(0.05)

    async def _held(self, receiver: Any, task: str, session: str) -> None:
        """Hold a session, and ask for its messages at any moment of its lock."""
        if not await self._accepted(receiver, task, session):
            return
        try:
            for _ in range(MESSAGES):
                await self._later()
                if not await self._some(receiver, task):
                    return
                with contextlib.suppress(ServiceBusError):
                    await receiver.session.renew_lock(timeout=WAIT_S)
        finally:
            await self._closed(receiver, task, session)

    async def _lose_line(self, task: str) -> None:
        while not self._stop.is_set():
            session = f"{self._name}v-{next(self._numbers)}"
            if await self._sent(task, session):
                address = self._cluster.front_end_address(self._front_end)
                line = await asyncio.to_thread(self._cluster.lines.add, session, address)
                cut_off = ServiceBusClient.from_connection_string(
                    self._cluster.connection_string_of(line.address), retry_total=0
                )
                try:
                    receiver = cut_off.get_queue_receiver(
                        LEASES, session_id=session, max_wait_time=WAIT_S
                    )
                    with contextlib.suppress(ServiceBusError):
                        await self._cut(receiver, line, task, session)
                finally:
                    await asyncio.to_thread(line.cut)
                    with contextlib.suppress(TimeoutError, ServiceBusError):
                        await asyncio.wait_for(cut_off.close(), TIMEOUT_S)
            await asyncio.sleep(0.05)

    async def _cut(self, receiver: Any, line: Any, task: str, session: str) -> None:
        """Take a session and a message, lose the line, and let another client have it."""
        if not await self._accepted(receiver, task, session):
            return
        if not await self._some(receiver, task, settles=False):
            return
        ends_s = receiver.session.locked_until_utc.timestamp()
        began = time.time()
        await asyncio.to_thread(line.cut)
        self._history.add(Kind.CUT, LEASES, task, began, (), key=session, until_s=ends_s)
        heir = f"{task}-heir"
        while time.time() < ends_s + FREE_S_MAX:
            other = self.client.get_queue_receiver(LEASES, session_id=session, max_wait_time=WAIT_S)
            if await self._accepted(other, heir, session):
                try:
                    while await self._some(other, heir):
                        pass
                finally:
                    await self._closed(other, heir, session)
                return
            if self._stop.is_set() and time.time() > ends_s:
                return
            await asyncio.sleep(0.1 + 0.4 * self._random.random())

    async def _later(self) -> None:
        """Wait until any moment of the lock, but the end of the load."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), self._random.uniform(0, ASK_S_MAX))

    async def _sent(self, task: str, session: str) -> bool:
        bodies = [f"{session}.{n}" for n in range(MESSAGES)]
        messages = [ServiceBusMessage(body, message_id=body, session_id=session) for body in bodies]
        began, error = time.time(), None
        try:
            async with self.client.get_queue_sender(LEASES) as sender:
                await sender.send_messages(messages, timeout=TIMEOUT_S)
        except ServiceBusError as failed:
            error = failed
        items = map(Item, bodies)
        self._history.add(Kind.SEND, LEASES, task, began, items, error=error, key=session)
        return error is None

    async def _accepted(self, receiver: Any, task: str, session: str) -> bool:
        began, error, ends_s = time.time(), None, 0.0
        try:
            await receiver.__aenter__()
            ends_s = receiver.session.locked_until_utc.timestamp()
        except ServiceBusError as failed:
            error = failed
            with contextlib.suppress(ServiceBusError):
                await receiver.close()
        self._history.add(
            Kind.ACCEPT, LEASES, task, began, (), error=error, key=session, until_s=ends_s,
            through=f"front-end-{self._front_end}",
        )  # fmt: skip
        return error is None

    async def _closed(self, receiver: Any, task: str, session: str) -> None:
        began = time.time()
        with contextlib.suppress(ServiceBusError):
            await receiver.close()
        self._history.add(Kind.CLOSE, LEASES, task, began, (), key=session)

    async def _some(
        self,
        receiver: Any,
        task: str,
        *,
        count: int = 1,
        wait_s: float = WAIT_S,
        settles: bool = True,
    ) -> bool:
        """Receive and complete messages; False: there was none, or something failed."""
        session = str(receiver.session.session_id)
        ends_s = receiver.session.locked_until_utc.timestamp()
        began, messages, error = time.time(), [], None
        try:
            messages = await receiver.receive_messages(count, max_wait_time=wait_s)
        except ServiceBusError as failed:
            error = failed
        self._history.add(
            Kind.RECEIVE, LEASES, task, began, map(received, messages), error=error, key=session,
            until_s=ends_s, through=f"front-end-{self._front_end}",
        )  # fmt: skip
        for message in messages if settles else ():
            item, began, error = received(message), time.time(), None
            try:
                await receiver.complete_message(message)
            except ServiceBusError as failed:
                error = failed
            self._history.add(Kind.COMPLETE, LEASES, task, began, [item], error=error, key=session)
            if error is not None:
                return False
        return bool(messages)
