"""The load of `token_load` with asynchronous clients, as tasks of one event loop."""

import asyncio
import contextlib
import datetime as dt
import time
from collections.abc import AsyncIterator
from typing import Any

from azure.servicebus.aio import ServiceBusClient

from tests.azure_sdk.credentials import AsyncCredential
from tests.azure_sdk.token_ledger import Ledger
from tests.azure_sdk.token_load import (
    LATE,
    MESSAGES_MAX,
    MESSAGES_MAX_IN_SESSION,
    SESSIONS,
    SUBSCRIPTION,
    TENDED_S,
    WAIT_S,
    Clock,
    Plan,
    Target,
    due,
    message,
)


class AsyncLoad:
    """The load of asynchronous clients."""

    def __init__(self, target: Target, plan: Plan, ledger: Ledger, clock: Clock) -> None:
        self._target, self._plan, self._ledger, self._clock = target, plan, ledger, clock
        self.credentials: list[AsyncCredential] = []

    def run(self) -> None:
        """Run it to its end."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for queue in ("queue-aio", "topic-aio"):
                tasks.create_task(self._send(queue))
                tasks.create_task(self._receive(queue))
            tasks.create_task(self._send_sessions())
            for session in SESSIONS:
                tasks.create_task(self._receive_session(session))
            if self._plan.rests:
                tasks.create_task(self._send_rarely())
                tasks.create_task(self._hold())

    @contextlib.asynccontextmanager
    async def _client(self, *, rests: bool = False) -> AsyncIterator[ServiceBusClient]:
        credential = AsyncCredential(self._target.sign, self._plan.lives_s)
        if not rests:
            self.credentials.append(credential)
        made = ServiceBusClient(self._target.address, credential, **self._target.options)
        async with made as client:
            yield client

    @contextlib.asynccontextmanager
    async def _tried(self, queue: str, what: str, name: str = "") -> AsyncIterator[None]:
        try:
            yield
        except Exception as error:
            self._ledger.failed(queue, what, error, name)
            await asyncio.sleep(WAIT_S)

    async def _send(self, queue: str) -> None:
        async with self._client() as client:
            topic = queue.startswith("topic")
            opened = client.get_topic_sender if topic else client.get_queue_sender
            async with opened(queue) as sender:
                number = 0
                while self._clock.sends:
                    number += 1
                    name = f"{queue} {number}"
                    async with self._tried(queue, "sending", name):
                        await self._sent(sender, queue, name, due(number))
                    await asyncio.sleep(self._plan.pause_s)

    async def _sent(self, sender: Any, queue: str, name: str, after: dt.timedelta | None) -> None:
        if after is None:
            await sender.send_messages(message(name))
            self._ledger.sent(queue, name)
            return
        at = dt.datetime.now(dt.UTC) + after
        numbers = await sender.schedule_messages(message(name), at)
        self._ledger.sent(queue, name, at.timestamp())
        if after is LATE:
            await sender.cancel_scheduled_messages(numbers)
            self._ledger.was_cancelled(queue, name)

    async def _send_sessions(self) -> None:
        queue, number = "sessions-aio", 0
        async with self._client() as client, client.get_queue_sender(queue) as sender:
            while self._clock.sends:
                number += 1
                session = SESSIONS[number % len(SESSIONS)]
                name = f"{session} {number}"
                async with self._tried(queue, "sending", name):
                    await sender.send_messages(message(name, session))
                    self._ledger.sent(queue, name)
                await asyncio.sleep(self._plan.pause_s)

    async def _receive(self, queue: str) -> None:
        async with self._client() as client:
            receiver = (
                client.get_subscription_receiver(queue, SUBSCRIPTION)
                if queue.startswith("topic")
                else client.get_queue_receiver(queue)
            )
            async with receiver:
                while self._clock.receives(queue):
                    async with self._tried(queue, "receiving"):
                        await self._take(receiver, queue)

    async def _receive_session(self, session: str) -> None:
        queue, tended_s = "sessions-aio", time.monotonic()
        async with (
            self._client() as client,
            client.get_queue_receiver(queue, session_id=session) as receiver,
        ):
            while self._clock.receives(queue):
                async with self._tried(queue, "receiving in a session"):
                    await self._take(receiver, queue, session)
                    if time.monotonic() - tended_s > TENDED_S:
                        tended_s = time.monotonic()
                        await receiver.session.renew_lock()
                        await receiver.session.set_state(f"{tended_s}")
                        state = bytes(await receiver.session.get_state())
                        self._ledger.compared(queue, f"{tended_s}".encode(), state)

    async def _take(self, receiver: Any, queue: str, session: str = "") -> None:
        most = MESSAGES_MAX_IN_SESSION if session else MESSAGES_MAX
        messages = await receiver.receive_messages(most, max_wait_time=WAIT_S)
        for number, found in enumerate(messages):
            name = str(found)
            self._ledger.was_received(name, time.time(), session and f"{queue} {session}")
            if number % 10 == 0 and not session:
                await receiver.renew_message_lock(found)
            await receiver.complete_message(found)
            self._ledger.was_completed(queue, name)

    async def _send_rarely(self) -> None:
        """Send, and do nothing for longer than a token is good."""
        queue, number = "rest-aio", 0
        async with (
            self._client(rests=True) as client,
            client.get_queue_sender(queue) as sender,
        ):
            while self._clock.sends:
                number += 1
                name = f"{queue} {number}"
                async with self._tried(queue, "sending after a rest", name):
                    await sender.send_messages(message(name))
                    self._ledger.sent(queue, name)
                await asyncio.sleep(self._clock.rest_s(self._plan.rests_s))

    async def _hold(self) -> None:
        """Hold each message for longer than a token is good."""
        queue = "rest-aio"
        async with (
            self._client(rests=True) as client,
            client.get_queue_receiver(queue) as receiver,
        ):
            while self._clock.sends or self._clock.receives(queue):
                async with self._tried(queue, "holding"):
                    for found in await receiver.receive_messages(1, max_wait_time=WAIT_S):
                        self._ledger.was_received(str(found), time.time())
                        await asyncio.sleep(self._plan.rests_s)
                        await receiver.complete_message(found)
                        self._ledger.was_completed(queue, str(found))
