"""Load of sessions and of a topic; see `load`."""

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
from tests.chaos.history import History, Item, Kind, Outcome, outcome_of, received

# A queue of sessions, and the subscription of a topic, which is recorded as one place.
SESSIONS: Final = "sessions"
EVENTS: Final = "events"
SUBSCRIPTION: Final = "all"
# What a receiver of a session does before it gives that up, at most.
SESSION_MESSAGES: Final = 20
NAMES: Final = 3
TIMEOUT_S: Final = 5.0


class MoreLoad:
    """The tasks of one client with sessions and a topic, until `stop`."""

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
        self._bodies = (f"{name}m-{n}" for n in itertools.count())

    def tasks(self) -> list[Callable[[str], Coroutine[Any, Any, None]]]:
        """Return what is to be run, each as a task of its own."""
        return [self._send_sessions, *[self._sessions] * 2, self._publish, self._subscribe]

    async def possible_duplicates(self) -> set[str]:
        """Return the messages of which the client was told that they may be stored twice."""
        found: set[str] = set()
        async with self.client.get_topic_sender(EVENTS) as sender:
            found.update(sender.possible_duplicates)
        return found

    async def _pause(self) -> None:
        await asyncio.sleep(0.02 + 0.03 * self._random.random())

    async def _send(self, sender: Any, place: str, task: str, session: str = "") -> None:
        bodies = [next(self._bodies) for _ in range(self._random.choice((1, 1, 3)))]
        messages = [
            ServiceBusMessage(body, message_id=body, session_id=session or None) for body in bodies
        ]
        began, error = time.time(), None
        try:
            await sender.send_messages(messages, timeout=TIMEOUT_S)
        except ServiceBusError as failed:
            error = failed
        items = map(Item, bodies)
        self._history.add(Kind.SEND, place, task, began, items, error=error, key=session)
        await self._pause()

    async def _send_sessions(self, task: str) -> None:
        async with self.client.get_queue_sender(SESSIONS) as sender:
            while not self._stop.is_set():
                # Sessions of this task alone: their order is known.
                session = f"{task}-s{self._random.randrange(NAMES)}"
                await self._send(sender, SESSIONS, task, session)

    async def _publish(self, task: str) -> None:
        async with self.client.get_topic_sender(EVENTS) as sender:
            while not self._stop.is_set():
                await self._send(sender, EVENTS, task)

    async def _sessions(self, task: str) -> None:
        while not self._stop.is_set():
            await self.one_session(task, self._random.choice((0, 0, 5)))

    async def one_session(
        self, task: str, prefetch: int = 0, wait_s: float = 1.0, place: str = SESSIONS
    ) -> bool:
        """Receive some messages of one session; False: none was free, or the bus is away."""
        receiver = self.client.get_queue_receiver(
            place,
            session_id=NEXT_AVAILABLE_SESSION,
            max_wait_time=wait_s,
            prefetch_count=prefetch,
        )
        with contextlib.suppress(ServiceBusError):
            async with receiver:
                for _ in range(SESSION_MESSAGES):
                    if not await self._some(receiver, task, place):
                        break
            return True
        await self._pause()
        return False

    async def _some(self, receiver: Any, task: str, place: str) -> bool:
        """Work some messages off; False: the session is to be given up.

        After a failure those behind it are not touched: they would overtake it.
        """
        began = time.time()
        messages = await receiver.receive_messages(self._random.randint(1, 4), max_wait_time=0.5)
        items = [received(message) for message in messages]
        if items:
            session = str(messages[0].session_id)
            self._history.add(Kind.RECEIVE, place, task, began, items, key=session)
        for message, item in zip(messages, items, strict=True):
            abandons = self._random.random() < 0.1 and not self._stop.is_set()
            kind = Kind.ABANDON if abandons else Kind.COMPLETE
            settle = receiver.abandon_message if abandons else receiver.complete_message
            session = str(message.session_id)
            if not await self._settled(settle(message), kind, task, item, session, place):
                return False
            if abandons:
                return False
        return bool(messages)

    async def _settled(
        self, call: Any, kind: Kind, task: str, item: Item, session: str = "", place: str = SESSIONS
    ) -> bool:
        began, error = time.time(), None
        try:
            await call
        except ServiceBusError as failed:
            error = failed
        self._history.add(kind, place, task, began, [item], error=error, key=session)
        return outcome_of(error) is Outcome.OK

    async def _subscribe(self, task: str) -> None:
        async with self.client.get_subscription_receiver(EVENTS, SUBSCRIPTION) as receiver:
            while not self._stop.is_set():
                await self.some_events(receiver, task)

    async def some_events(self, receiver: Any, task: str) -> None:
        """Receive and complete some messages of the subscription."""
        began = time.time()
        try:
            messages = await receiver.receive_messages(10, max_wait_time=0.5)
        except ServiceBusError:
            await self._pause()
            return
        items = [received(message) for message in messages]
        if items:
            self._history.add(Kind.RECEIVE, EVENTS, task, began, items)
        for message, item in zip(messages, items, strict=True):
            call = receiver.complete_message(message)
            await self._settled(call, Kind.COMPLETE, task, item, place=EVENTS)
