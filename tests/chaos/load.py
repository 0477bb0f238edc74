"""Load of every kind through shared clients: several tasks on each, as applications have them.

Each task does one call after the other and records it. Messages are named by their bodies; a body
is sent by one call, and never again. Places: `orders` takes everything, `taken` is received and
deleted. Time-outs are short, so that outcomes of every kind come up.
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

from bendybus.client import ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from bendybus.client.aio import ServiceBusClient
from bendybus.client.exceptions import ServiceBusError
from tests.chaos import amqp_load
from tests.chaos.amqp_load import AmqpLoad
from tests.chaos.cluster import Cluster
from tests.chaos.forward_load import ForwardLoad
from tests.chaos.history import History, Item, Kind, Outcome, outcome_of, received
from tests.chaos.lease_load import LeaseLoad
from tests.chaos.more_load import MoreLoad
from tests.chaos.pipeline_load import PipelineLoad
from tests.chaos.transaction_load import TransactionLoad

ORDERS: Final = "orders"
TAKEN: Final = "taken"
DEAD: Final = "orders/dead"
TIMEOUT_S: Final = 5.0
KEYS: Final = 4
# A pause between two calls of a task: what is tested is faults, not speed.
PAUSE_S: Final = 0.03

_DISPOSITIONS: Final = {
    Kind.COMPLETE: 12,
    Kind.ABANDON: 3,
    Kind.DEFER: 2,
    Kind.DEAD_LETTER: 2,
}


class Load:
    """The tasks of one client. `stop` ends the sends; receivers end with `stop` as well."""

    def __init__(
        self,
        name: str,
        client: ServiceBusClient,
        history: History,
        seed: int,
        *,
        cluster: Cluster,
        front_end: int,
        amqp_senders: int = amqp_load.SENDERS,
    ) -> None:
        self.name = name
        self.client = client
        self.stop = asyncio.Event()
        # Numbers of messages that were deferred, or perhaps.
        self.deferred: dict[int, str] = {}
        self._history = history
        self._random = Random(seed)
        self._bodies = (f"{name}-{n}" for n in itertools.count())
        self.more = MoreLoad(name, client, history, seed + 50, self.stop)
        self.forwarding = ForwardLoad(name, client, history, seed + 70, self.stop)
        self.transactions = TransactionLoad(name, client, history, seed + 90, self.stop)
        self.pipelines = PipelineLoad(name, client, history, seed + 30, self.stop)
        self.amqp = AmqpLoad(
            name,
            cluster.amqp_connection_string(front_end),
            history,
            seed + 20,
            self.stop,
            amqp_senders,
        )
        self.leases = LeaseLoad(
            *(name, client, history, self.stop),
            cluster=cluster,
            front_end=front_end,
            seed=seed + 10,
        )

    async def run(self) -> None:
        """Go on until `stop`."""
        work: list[Callable[[str], Coroutine[Any, Any, None]]] = [
            *[self._keyless] * 3,
            *[self._keyed] * 2,
            self._batches,
            self._scheduled,
            *[self._receive] * 2,
            self._receive_dead,
            self._receive_deferred,
            self._take,
            self._send_taken,
            *self.more.tasks(),
            *self.forwarding.tasks(),
            *self.transactions.tasks(),
            *self.pipelines.tasks(),
            *self.leases.tasks(),
            *self.amqp.tasks(),
        ]
        async with asyncio.TaskGroup() as tasks:
            for number, each in enumerate(work):
                tasks.create_task(each(f"{self.name}.{number}"), name=f"{self.name}.{number}")

    async def possible_duplicates(self) -> set[str]:
        """Return the messages of which the client was told that they may be stored twice."""
        found = await self.more.possible_duplicates()
        found |= await self.forwarding.possible_duplicates()
        found |= await self.transactions.possible_duplicates()
        found |= await self.pipelines.possible_duplicates()
        found |= await self.leases.possible_duplicates()
        for place in (ORDERS, TAKEN):
            async with self.client.get_queue_sender(place) as sender:
                found.update(sender.possible_duplicates)
        return found

    async def _pause(self) -> None:
        await asyncio.sleep(PAUSE_S * (0.5 + self._random.random()))

    # Sends

    async def _keyless(self, task: str) -> None:
        async with self.client.get_queue_sender(ORDERS) as sender:
            while not self.stop.is_set():
                await self._send(sender, ORDERS, task, 1)
                await self._pause()

    async def _keyed(self, task: str) -> None:
        async with self.client.get_queue_sender(ORDERS) as sender:
            while not self.stop.is_set():
                # Keys of this task alone: their order is known.
                key = f"{task}-k{self._random.randrange(KEYS)}"
                await self._send(sender, ORDERS, task, self._random.choice((1, 1, 3)), key)
                await self._pause()

    async def _batches(self, task: str) -> None:
        async with self.client.get_queue_sender(ORDERS) as sender:
            while not self.stop.is_set():
                await self._send(sender, ORDERS, task, self._random.randint(2, 20))
                await self._pause()

    async def _send_taken(self, task: str) -> None:
        async with self.client.get_queue_sender(TAKEN) as sender:
            while not self.stop.is_set():
                await self._send(sender, TAKEN, task, 1)
                await self._pause()

    async def _send(self, sender: Any, place: str, task: str, count: int, key: str = "") -> None:
        bodies = [next(self._bodies) for _ in range(count)]
        messages = [
            ServiceBusMessage(body, message_id=body, partition_key=key or None) for body in bodies
        ]
        began = time.time()
        error = await self._tried(
            sender.send_messages(messages if count > 1 else messages[0], timeout=TIMEOUT_S)
        )
        self._history.add(Kind.SEND, place, task, began, map(Item, bodies), error=error, key=key)

    async def _scheduled(self, task: str) -> None:
        async with self.client.get_queue_sender(ORDERS) as sender:
            while not self.stop.is_set():
                bodies = [next(self._bodies) for _ in range(self._random.randint(1, 3))]
                due_s = time.time() + self._random.uniform(0.5, 3)
                due = datetime.fromtimestamp(due_s, UTC)
                began, numbers = time.time(), [0] * len(bodies)
                error: BaseException | None = None
                try:
                    numbers = await sender.schedule_messages(
                        [ServiceBusMessage(body, message_id=body) for body in bodies],
                        due,
                        timeout=TIMEOUT_S,
                    )
                except ServiceBusError as failed:
                    error = failed
                # The bus counts in whole milliseconds.
                items = list(map(Item, bodies, numbers))
                self._history.add(
                    Kind.SCHEDULE, ORDERS, task, began, items, error=error, due_s=due_s - 0.001
                )
                if error is None and self._random.random() < 0.4:
                    began = time.time()
                    error = await self._tried(
                        sender.cancel_scheduled_messages(numbers, timeout=TIMEOUT_S)
                    )
                    self._history.add(Kind.CANCEL, ORDERS, task, began, items, error=error)
                await self._pause()

    # Receives

    async def _receive(self, task: str) -> None:
        async with self.client.get_queue_receiver(ORDERS) as receiver:
            while not self.stop.is_set():
                count = self._random.choice((1, 5, 30))
                messages = await self.receive(receiver, ORDERS, task, count)
                await self._settle(receiver, ORDERS, task, messages)

    async def _receive_dead(self, task: str) -> None:
        sub_queue = ServiceBusSubQueue.DEAD_LETTER
        async with self.client.get_queue_receiver(ORDERS, sub_queue=sub_queue) as receiver:
            while not self.stop.is_set():
                for message in await self.receive(receiver, DEAD, task, 5):
                    await self.settle(receiver, DEAD, task, Kind.COMPLETE, message)

    async def _take(self, task: str) -> None:
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        async with self.client.get_queue_receiver(TAKEN, receive_mode=mode) as receiver:
            while not self.stop.is_set():
                await self.receive(receiver, TAKEN, task, self._random.choice((1, 10)), Kind.TAKE)

    async def _receive_deferred(self, task: str) -> None:
        async with self.client.get_queue_receiver(ORDERS) as receiver:
            while not self.stop.is_set():
                await self._pause()
                for number in self._random.sample(
                    sorted(self.deferred), min(2, len(self.deferred))
                ):
                    await self.complete_deferred(receiver, task, number)

    async def receive(
        self, receiver: Any, place: str, task: str, count: int, kind: Kind = Kind.RECEIVE
    ) -> Sequence[Any]:
        """Receive, and record it."""
        began, messages, error = time.time(), [], None
        try:
            messages = await receiver.receive_messages(count, max_wait_time=0.5)
        except ServiceBusError as failed:
            error = failed
        items = [received(message) for message in messages]
        if items or error is not None:
            self._history.add(kind, place, task, began, items, error=error)
        if error is not None:
            await self._pause()
        return messages

    async def _settle(self, receiver: Any, place: str, task: str, messages: Sequence[Any]) -> None:
        if len(messages) > 5:
            await self.complete_all(receiver, place, task, messages)
            return
        for message in messages:
            [kind] = self._random.choices(list(_DISPOSITIONS), list(_DISPOSITIONS.values()))
            await self.settle(receiver, place, task, kind, message)

    async def complete_all(
        self, receiver: Any, place: str, task: str, messages: Sequence[Any]
    ) -> None:
        """Complete messages in one call, and record the outcome of each."""
        began = time.time()
        error = await self._tried(receiver.complete_messages(list(messages)))
        failures = {id(message): each for message, each in getattr(error, "failures", ())}
        for message in messages:
            item = Item(str(message), message.sequence_number)
            told = failures.get(id(message)) if failures else error
            self._history.add(Kind.COMPLETE, place, task, began, [item], error=told)

    async def settle(self, receiver: Any, place: str, task: str, kind: Kind, message: Any) -> None:
        """Settle one message, and record it."""
        call = {
            Kind.COMPLETE: receiver.complete_message,
            Kind.ABANDON: receiver.abandon_message,
            Kind.DEFER: receiver.defer_message,
            Kind.DEAD_LETTER: receiver.dead_letter_message,
        }[kind]
        began = time.time()
        error = await self._tried(call(message))
        item = Item(str(message), message.sequence_number)
        self._history.add(kind, place, task, began, [item], error=error)
        if kind is Kind.DEFER and outcome_of(error) is not Outcome.FAILED:
            self.deferred[item.number] = item.body

    async def complete_deferred(self, receiver: Any, task: str, number: int) -> bool:
        """Receive a deferred message by its number and complete it; whether it is gone."""
        began = time.time()
        try:
            [message] = await receiver.receive_deferred_messages(number)
        except (ServiceBusError, ValueError):
            return False
        item = Item(str(message), message.sequence_number)
        self._history.add(Kind.RECEIVE, ORDERS, task, began, [item], key="deferred")
        began = time.time()
        error = await self._tried(receiver.complete_message(message))
        self._history.add(Kind.COMPLETE, ORDERS, task, began, [item], error=error)
        if outcome_of(error) is Outcome.OK:
            self.deferred.pop(number, None)
        return error is None

    async def _tried(self, call: Awaitable[Any]) -> BaseException | None:
        try:
            await call
        except ServiceBusError as error:
            return error
        return None
