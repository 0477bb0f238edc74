"""Load of transactions; see `load`.

Requests are completed in transactions only, each together with the sending of its answer: to the
queue of the request, or to `answers`, which they reach through a transfer queue, in the partition
of the request or in another one. Both parts are recorded, under the name of the transaction.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, Final

from bendybus.client import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from bendybus.client.aio import ServiceBusClient
from bendybus.client.exceptions import OutcomeUnknownError, ResourceExistsError, ServiceBusError
from bendybus.client.management import ServiceBusAdministrationClient
from tests.chaos.history import History, Item, Kind, Outcome, outcome_of, received

REQUESTS: Final = "requests"
REQUEST_SESSIONS: Final = "request-sessions"
ANSWERS: Final = "answers"
PLACES: Final = (REQUESTS, REQUEST_SESSIONS, ANSWERS)
# The subject of what is sent in a transaction.
ANSWER: Final = "answer"
KEYS: Final = 3
# What a receiver of a session does before it gives that up, at most.
SESSION_RECEIVES: Final = 10
COMMITS_MAX: Final = 3
TIMEOUT_S: Final = 5.0
# Some commits end before the faults do, so that there are unknown outcomes.
COMMIT_S: Final = (0.3, TIMEOUT_S)


def create(administration: ServiceBusAdministrationClient, options: dict[str, Any]) -> None:
    """Create the queues of requests and answers."""
    for name in PLACES:
        sessions = name == REQUEST_SESSIONS
        with contextlib.suppress(ResourceExistsError):
            administration.create_queue(
                name, enable_partitioning=True, requires_session=sessions, **options
            )


class TransactionLoad:
    """The tasks of one client with transactions, until `stop`."""

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
        self._bodies = (f"{name}t-{n}" for n in itertools.count())

    def tasks(self) -> list[Callable[[str], Coroutine[Any, Any, None]]]:
        """Return what is to be run, each as a task of its own."""
        return [self._send, self._answer, self._answer_sessions, self._receive_answers]

    async def possible_duplicates(self) -> set[str]:
        """Return the messages of which the client was told that they may be stored twice."""
        found: set[str] = set()
        for place in PLACES:
            async with self.client.get_queue_sender(place) as sender:
                found.update(sender.possible_duplicates)
        return found

    async def _pause(self) -> None:
        await asyncio.sleep(0.02 + 0.03 * self._random.random())

    # Requests

    async def _send(self, task: str) -> None:
        async with (
            self.client.get_queue_sender(REQUESTS) as requests,
            self.client.get_queue_sender(REQUEST_SESSIONS) as sessions,
        ):
            while not self._stop.is_set():
                by_session = self._random.random() < 0.5
                # Keys of this task and of one queue alone: the order of what it sends is known, and
                # so is that of the answers, since those of a key go through one transfer queue.
                key = f"{task}-{'s' if by_session else 'k'}{self._random.randrange(KEYS)}"
                bodies = [next(self._bodies) for _ in range(self._random.choice((1, 1, 3)))]
                place = REQUEST_SESSIONS if by_session else REQUESTS
                messages = [_message(body, place, key) for body in bodies]
                began, error = time.time(), None
                try:
                    sender = sessions if by_session else requests
                    await sender.send_messages(messages, timeout=TIMEOUT_S)
                except ServiceBusError as failed:
                    error = failed
                items = map(Item, bodies)
                self._history.add(Kind.SEND, place, task, began, items, error=error, key=key)
                await self._pause()

    # Answers

    async def _answer(self, task: str) -> None:
        async with self.client.get_queue_receiver(REQUESTS) as receiver:
            while not self._stop.is_set():
                await self.some_requests(receiver, task)

    async def some_requests(self, receiver: Any, task: str) -> None:
        """Answer some requests; those whose transaction is not done come again."""
        with contextlib.suppress(ServiceBusError):
            for messages in await self._groups(receiver, REQUESTS, task):
                if not await self._worked_off(receiver, REQUESTS, task, messages):
                    await self._abandon(receiver, task, messages)
            return
        await self._pause()

    async def _answer_sessions(self, task: str) -> None:
        while not self._stop.is_set():
            await self.one_session(task)

    async def one_session(self, task: str, wait_s: float = 1.0) -> None:
        """Answer requests of one session, in their order: it is given up after a failure."""
        receiver = self.client.get_queue_receiver(
            REQUEST_SESSIONS, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=wait_s
        )
        with contextlib.suppress(ServiceBusError):
            async with receiver:
                for _ in range(SESSION_RECEIVES):
                    groups = await self._groups(receiver, REQUEST_SESSIONS, task)
                    for messages in groups:
                        if not await self._worked_off(receiver, REQUEST_SESSIONS, task, messages):
                            return
                    if not groups:
                        return
            return
        await self._pause()

    async def _groups(self, receiver: Any, place: str, task: str) -> list[list[Any]]:
        """Receive some messages; return those beside each other that a transaction can have."""
        began = time.time()
        # At the end many at a time; a transaction has an answer for each, and 100 at most.
        count = 40 if self._stop.is_set() else self._random.randint(1, 3)
        messages = await receiver.receive_messages(count, max_wait_time=0.5)
        if messages:
            items = [received(each) for each in messages]
            self._history.add(Kind.RECEIVE, place, task, began, items)
        return [
            list(each)
            for _, each in itertools.groupby(messages, lambda m: (_key(m), _is_answer(m)))
        ]

    async def _worked_off(
        self, receiver: Any, place: str, task: str, messages: Sequence[Any]
    ) -> bool:
        """Answer requests, or complete answers; whether that is known to be done."""
        if _is_answer(messages[0]):
            return await self._complete(receiver, place, task, messages)
        if self._random.random() < 0.15 and not self._stop.is_set():
            # They stay locked, so that another transaction can have them at once.
            await self._together(receiver, place, task, messages, commits=False)
        return await self._together(receiver, place, task, messages)

    async def _together(
        self,
        receiver: Any,
        place: str,
        task: str,
        messages: Sequence[Any],
        *,
        commits: bool = True,
    ) -> bool:
        """Complete requests of one key and send their answers in one transaction."""
        key = _key(messages[0])
        to, answer_key = self._random.choice(
            ((place, key), (ANSWERS, key), (ANSWERS, f"{key}-other"))
        )
        bodies = [next(self._bodies) for _ in messages]
        answers = [_message(body, to, answer_key, ANSWER) for body in bodies]
        tx, began = self.client.transaction(), time.time()
        try:
            for message in messages:
                await receiver.complete_message(message, tx=tx)
            async with self.client.get_queue_sender(to) as sender:
                await sender.send_messages(answers, tx=tx)
            if not commits:
                raise ServiceBusError("rolled back on purpose")
        except ServiceBusError as failed:
            with contextlib.suppress(ServiceBusError):
                await tx.rollback()
            # Before the commit every failure is definite.
            error: ServiceBusError | None = ServiceBusError(f"not committed: {failed!r}")
        else:
            began = time.time()
            error = await self._committed(tx)
        session = key if place == REQUEST_SESSIONS else ""
        for message in messages:
            done = [Item(str(message), message.sequence_number)]
            self._history.add(
                *(Kind.COMPLETE, place, task, began, done),
                error=error,
                key=session,
                transaction=bodies[0],
            )
        self._history.add(
            *(Kind.SEND, to, task, began, map(Item, bodies)),
            error=error,
            key=answer_key,
            transaction=bodies[0],
        )
        return outcome_of(error) is Outcome.OK

    async def _committed(self, tx: Any) -> ServiceBusError | None:
        """Commit; if the outcome is unknown, ask again as often as not."""
        unknown: ServiceBusError | None = None
        for _ in range(self._random.choice((1, COMMITS_MAX))):
            try:
                await tx.commit(timeout=self._random.choice(COMMIT_S))
                return None
            except OutcomeUnknownError as error:
                unknown = error
            except ServiceBusError as error:
                return error
        return unknown

    async def _receive_answers(self, task: str) -> None:
        async with self.client.get_queue_receiver(ANSWERS) as receiver:
            while not self._stop.is_set():
                await self.some_answers(receiver, task)

    async def some_answers(self, receiver: Any, task: str) -> None:
        """Receive and complete some answers that were sent to another queue."""
        with contextlib.suppress(ServiceBusError):
            for messages in await self._groups(receiver, ANSWERS, task):
                await self._complete(receiver, ANSWERS, task, messages)
            return
        await self._pause()

    # Settlements of one message

    async def _complete(
        self, receiver: Any, place: str, task: str, messages: Sequence[Any]
    ) -> bool:
        """Complete messages one after the other; False: the last one failed."""
        for message in messages:
            call = receiver.complete_message(message)
            session = _key(message) if place == REQUEST_SESSIONS else ""
            if not await self._settled(call, Kind.COMPLETE, place, task, message, session):
                return False
        return True

    async def _abandon(self, receiver: Any, task: str, messages: Sequence[Any]) -> None:
        for message in messages:
            call = receiver.abandon_message(message)
            await self._settled(call, Kind.ABANDON, REQUESTS, task, message)

    async def _settled(
        self, call: Any, kind: Kind, place: str, task: str, message: Any, session: str = ""
    ) -> bool:
        began, error = time.time(), None
        try:
            await call
        except ServiceBusError as failed:
            error = failed
        item = Item(str(message), message.sequence_number)
        self._history.add(kind, place, task, began, [item], error=error, key=session)
        return outcome_of(error) is Outcome.OK


def _message(body: str, place: str, key: str, subject: str | None = None) -> ServiceBusMessage:
    by_session = place == REQUEST_SESSIONS
    return ServiceBusMessage(
        body,
        message_id=body,
        subject=subject,
        session_id=key if by_session else None,
        partition_key=None if by_session else key,
    )


def _key(message: Any) -> str:
    return str(message.session_id or message.partition_key)


def _is_answer(message: Any) -> bool:
    """Whether it is an answer."""
    return bool(message.subject == ANSWER)
