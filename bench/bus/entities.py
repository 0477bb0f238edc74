"""Sessions, topics and forwarding of Bendybus, 4 partitions, through the public client."""

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from bench import loads, row
from bench.bus import running
from bench.bus.measure import BODY, CALLS, at_once
from bench.loads import FRAME_MESSAGES, Loads
from bench.recorder import Recorder
from bench.row import Row
from bendybus.client import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from bendybus.client.aio import ServiceBusClient, ServiceBusSender
from bendybus.client.aio.management import ServiceBusAdministrationClient
from bendybus.client.management import CorrelationRuleFilter

SYSTEM: Final = "Bendybus"
# Sessions whose messages are received while others of the same queue wait.
ACTIVE: Final = 16
RECEIVED_AT_ONCE: Final = 100
_WAIT_S: Final = 30.0
# Longer than a run.
_LOCK: Final = "PT5M"
_CREATED_AT_ONCE: Final = 16


def measure(load: Loads, folder: Path, emit: Callable[[Row], None]) -> None:
    """Measure sessions, then topics, then forwarding."""
    with running.bus(folder, loads.PARTITIONS, running.PARTITION_SERVERS) as bus:
        asyncio.run(_measured(bus, load, emit))


async def _measured(bus: running.Bus, load: Loads, emit: Callable[[Row], None]) -> None:
    where = bus.connection_string
    async with (
        ServiceBusClient.from_connection_string(where) as client,
        ServiceBusAdministrationClient.from_connection_string(where) as administration,
    ):
        bench = EntityBench(bus, load, emit, client, administration)
        await bench.sessions()
        await bench.accepts()
        await bench.topics()
        await bench.forwarding()


class EntityBench:
    """All measurements of one bus. Each makes the entities that it needs."""

    def __init__(
        self,
        bus: running.Bus,
        load: Loads,
        emit: Callable[[Row], None],
        client: ServiceBusClient,
        administration: ServiceBusAdministrationClient,
    ) -> None:
        self._load = load
        self._emit = emit
        self._client = client
        self._administration = administration
        self._recorder = Recorder(SYSTEM, bus.roles)

    # Sessions

    async def sessions(self) -> None:
        """The same work beside few and beside many other sessions that have messages."""
        for live in (ACTIVE, self._load.sessions):
            name = f"sessions-{live}"
            await self._administration.create_queue(
                name, enable_partitioning=True, requires_session=True, lock_duration=_LOCK
            )
            await self._send_to_sessions(name, (f"idle-{n}" for n in range(live - ACTIVE)), 1)
            names, each = [f"s{n}" for n in range(ACTIVE)], self._load.in_sessions // ACTIVE
            for _ in range(self._load.repeats):
                with self._recorder.timing(f"session_send_{live}", each * ACTIVE):
                    await self._send_to_sessions(name, names, each)
                with self._recorder.timing(f"session_receive_{live}", each * ACTIVE):
                    await asyncio.gather(*(self._drain(name, which, each) for which in names))
            frames = f"{ACTIVE} sessions at once, {live:,} live"
            self._emit(self._recorder.row(
                f"session_send_{live}", "send with SessionId, batches of 500", frames))  # fmt: skip
            title = f"receive {RECEIVED_AT_ONCE} of a session + complete_messages"
            self._emit(self._recorder.row(f"session_receive_{live}", title, frames))

    async def accepts(self) -> None:
        """How long one, and many receivers, wait for a session that becomes available."""
        name = "accepts"
        await self._administration.create_queue(
            name, enable_partitioning=True, requires_session=True, lock_duration=_LOCK
        )
        took: list[float] = []
        async with self._client.get_queue_sender(name) as sender:
            for number in range(self._load.accepts):
                receiver = self._waiting_receiver(name)
                opening = asyncio.ensure_future(receiver.__aenter__())
                # So that it waits at the partitions by then.
                await asyncio.sleep(0.01)
                began = time.perf_counter()
                await sender.send_messages(ServiceBusMessage(BODY, session_id=f"s{number}"))
                await opening
                took.append(time.perf_counter() - began)
                await receiver.complete_messages(await receiver.receive_messages(1))
                await receiver.close()
        for each in row.latency_rows(
            SYSTEM, "session_accept", "send to a new session until its receiver has it", took
        ):
            self._emit(each)
        await self._accept_together(name)

    async def _accept_together(self, name: str) -> None:
        count = self._load.waiting_receivers
        receivers = [self._waiting_receiver(name) for _ in range(count)]
        opening = [asyncio.ensure_future(each.__aenter__()) for each in receivers]
        await asyncio.sleep(1.0)
        with self._recorder.timing("session_accepts", count):
            await self._send_to_sessions(name, (f"t{n}" for n in range(count)), 1)
            await asyncio.gather(*opening)
        await asyncio.gather(*(each.close() for each in receivers))
        title = f"{count:,} receivers wait, each gets its own session"
        self._emit(self._recorder.row("session_accepts", title, "counted are receivers"))

    def _waiting_receiver(self, name: str) -> Any:
        return self._client.get_queue_receiver(
            name, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=_WAIT_S
        )

    async def _send_to_sessions(self, queue: str, sessions: Iterable[str], each: int) -> None:
        """Send so many messages to each session, in batches."""
        names = list(sessions)
        total = [name for name in names for _ in range(each)]

        async def batch(number: int) -> None:
            part = total[number * FRAME_MESSAGES : (number + 1) * FRAME_MESSAGES]
            messages = [ServiceBusMessage(BODY, session_id=name) for name in part]
            await sender.send_messages(messages, split_by_partition_key=True)

        async with self._client.get_queue_sender(queue) as sender:
            await at_once([batch] * -(-len(total) // FRAME_MESSAGES), CALLS)

    async def _drain(self, queue: str, session: str, count: int) -> None:
        receiver = self._client.get_queue_receiver(queue, session_id=session, max_wait_time=_WAIT_S)
        async with receiver:
            while count > 0:
                messages = await receiver.receive_messages(RECEIVED_AT_ONCE)
                await receiver.complete_messages(messages)
                count -= len(messages)

    # Topics

    async def topics(self) -> None:
        """Publish to subscriptions that all want the message, then to one of very many."""
        for wanting in self._load.subscriptions:
            name = f"topic-{wanting}"
            await self._administration.create_topic(name, enable_partitioning=True)
            await self._create([f"s{n}" for n in range(wanting)], name)
            count = max(FRAME_MESSAGES, self._load.published // wanting)
            for _ in range(self._load.repeats):
                with self._recorder.timing(f"publish_{wanting}", count):
                    await self._publish(name, count)
            self._emit(self._recorder.row(
                f"publish_{wanting}", "publish, batches of 500",
                f"subscriptions that want it: {wanting}"))  # fmt: skip
            await self._administration.delete_topic(name)
        name, many = "topic-many", self._load.other_subscriptions
        await self._administration.create_topic(name, enable_partitioning=True)
        await self._create([f"s{n}" for n in range(many)], name, by_correlation=True)
        for _ in range(self._load.repeats):
            with self._recorder.timing("publish_one_of_many", self._load.published):
                await self._publish(name, self._load.published, correlation_id="s7")
        self._emit(self._recorder.row(
            "publish_one_of_many", "publish, batches of 500",
            f"subscriptions that want it: 1 of {many:,}, by correlation filters"))  # fmt: skip
        await self._administration.delete_topic(name)

    async def _create(
        self, subscriptions: list[str], topic: str, *, by_correlation: bool = False
    ) -> None:
        async def create(number: int) -> None:
            subscription = subscriptions[number]
            await self._administration.create_subscription(topic, subscription)
            if by_correlation:
                await self._administration.create_rule(
                    topic,
                    subscription,
                    "only",
                    filter=CorrelationRuleFilter(correlation_id=subscription),
                )
                await self._administration.delete_rule(topic, subscription, "$Default")

        await at_once([create] * len(subscriptions), _CREATED_AT_ONCE)

    async def _publish(self, topic: str, count: int, **properties: Any) -> None:
        async with self._client.get_topic_sender(topic) as sender:
            await _send(sender, count, **properties)

    # Forwarding

    async def forwarding(self) -> None:
        """Send to a queue that forwards, until all of it can be received at the destination."""
        target, source, count = "forwarded", "forwards", self._load.forwarded
        await self._administration.create_queue(target, enable_partitioning=True)
        await self._administration.create_queue(source, enable_partitioning=True, forward_to=target)
        for _ in range(self._load.repeats):
            with self._recorder.timing("forward", count):
                async with self._client.get_queue_sender(source) as sender:
                    await _send(sender, count)
                await self._receive_all(target, count)
        self._emit(self._recorder.row(
            "forward", "send, forward_to, receive + complete_messages",
            "batches of 500"))  # fmt: skip

        for what, title, via in (
            ("direct", "one send until it is received", target),
            ("forward", "one send until it is received, forwarded once", source),
        ):
            took = await self._until_received(via, target)
            for each in row.latency_rows(SYSTEM, f"{what}_latency", title, took):
                self._emit(each)

    async def _until_received(self, sent_to: str, received_from: str) -> list[float]:
        """Send one after the other; return how many seconds each took until it was received."""
        took: list[float] = []
        async with (
            self._client.get_queue_sender(sent_to) as sender,
            self._client.get_queue_receiver(received_from, max_wait_time=_WAIT_S) as receiver,
        ):
            for _ in range(self._load.accepts):
                waiting = asyncio.ensure_future(receiver.receive_messages(1))
                # So that it waits at the partitions by then.
                await asyncio.sleep(0.01)
                began = time.perf_counter()
                await sender.send_messages(ServiceBusMessage(BODY))
                received = await waiting
                took.append(time.perf_counter() - began)
                await receiver.complete_messages(received)
        return took

    async def _receive_all(self, queue: str, count: int) -> None:
        async with self._client.get_queue_receiver(queue, max_wait_time=_WAIT_S) as receiver:
            while count > 0:
                messages = await receiver.receive_messages(FRAME_MESSAGES)
                await receiver.complete_messages(messages)
                count -= len(messages)


async def _send(sender: ServiceBusSender, count: int, **properties: Any) -> None:
    async def batch(_: int) -> None:
        messages = [ServiceBusMessage(BODY, **properties) for _ in range(FRAME_MESSAGES)]
        await sender.send_messages(messages)

    await at_once([batch] * (count // FRAME_MESSAGES), CALLS)
