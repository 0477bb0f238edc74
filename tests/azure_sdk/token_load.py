"""Load with azure-servicebus whose tokens expire while it runs; see `tokens`.

Each sender and receiver has a client and a credential of its own. This module has the plan, and the
load of synchronous clients; `token_load_aio` has that of asynchronous clients.
"""

import contextlib
import datetime as dt
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from azure.servicebus import ServiceBusClient, ServiceBusMessage

from bendybus.domain import shared_access
from tests.azure_sdk.credentials import Credential, Sign
from tests.azure_sdk.token_ledger import Ledger

SUBSCRIPTION: Final = "all"
SESSIONS: Final = ("a", "b")
# Of messages that are not to wait long; of those that are cancelled.
SOON: Final = dt.timedelta(seconds=1)
LATE: Final = dt.timedelta(hours=1)
# A session is renewed, and its state is compared, so often.
TENDED_S: Final = 5.0
WAIT_S: Final = 1.0
# From the end of a token until its links are detached: clocks may differ.
DETACHED_S: Final = shared_access.CLOCK_SKEW_S + 1
# How many messages a call receives. The SDK releases what comes while its program does anything
# else: in a session only one may be on its way, or what is released comes after the next one.
MESSAGES_MAX: Final = 20
MESSAGES_MAX_IN_SESSION: Final = 1
# For what was sent last, at the end.
DRAIN_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How long clients send, in seconds, and how long their tokens are good.

    Tokens must last at least 10 s: the SDK renews them in the last tenth of their lifetime, in
    whole seconds.
    """

    runs_s: float
    lives_s: int
    # Between two messages of a sender.
    pause_s: float = 0.1

    @property
    def rests_s(self) -> float:
        """How long programs do nothing that rest: until the bus has detached their links."""
        return self.lives_s + DETACHED_S

    @property
    def rests(self) -> bool:
        """Whether there is time for programs that rest."""
        return self.runs_s > 2 * self.rests_s

    @property
    def tokens_min(self) -> int:
        """How many tokens a client that works all the time puts at least."""
        return 1 + int(self.runs_s // self.lives_s)


@dataclass(frozen=True, slots=True)
class Target:
    """The bus, as clients of the SDK are told of it."""

    address: str
    sign: Sign
    options: dict[str, Any]


def message(name: str, session: str = "") -> ServiceBusMessage:
    """Return a message with that name."""
    return ServiceBusMessage(name, message_id=name, session_id=session or None)


def due(number: int) -> dt.timedelta | None:
    """Return when a message is due from now on; None: it is sent without a schedule."""
    if number % 20 == 7:
        return LATE
    return SOON if number % 5 == 3 else None


class Clock:
    """When senders end, and when receivers have everything."""

    def __init__(self, plan: Plan, ledger: Ledger) -> None:
        self._ledger = ledger
        self.ends_s = time.monotonic() + plan.runs_s

    @property
    def sends(self) -> bool:
        """Whether senders go on."""
        return time.monotonic() < self.ends_s

    def rest_s(self, rests_s: float) -> float:
        """Return how long a sender rests, at most to the end."""
        return max(0.0, min(rests_s, self.ends_s - time.monotonic()))

    def receives(self, queue: str) -> bool:
        """Whether the receivers of a queue go on."""
        now = time.monotonic()
        # The last send may be under way when the time is over.
        settles_s = self.ends_s + 2 * SOON.total_seconds()
        return now < settles_s or (
            now < self.ends_s + DRAIN_S and bool(self._ledger.missing(queue))
        )


class SyncLoad:
    """The load of synchronous clients, in threads."""

    def __init__(self, target: Target, plan: Plan, ledger: Ledger, clock: Clock) -> None:
        self._target, self._plan, self._ledger, self._clock = target, plan, ledger, clock
        self.credentials: list[Credential] = []

    def run(self) -> None:
        """Run it to its end."""
        tasks: list[Callable[[], None]] = [
            partial(self._send, "queue-sync"),
            partial(self._receive, "queue-sync"),
            partial(self._send, "topic-sync"),
            partial(self._receive, "topic-sync"),
            self._send_sessions,
            *(partial(self._receive_session, session) for session in SESSIONS),
            *((self._send_rarely, self._hold) if self._plan.rests else ()),
        ]
        with ThreadPoolExecutor(len(tasks)) as pool:
            for done in [pool.submit(task) for task in tasks]:
                done.result()

    @contextlib.contextmanager
    def _client(self, *, rests: bool = False) -> Iterator[ServiceBusClient]:
        credential = Credential(self._target.sign, self._plan.lives_s)
        if not rests:
            self.credentials.append(credential)
        with ServiceBusClient(self._target.address, credential, **self._target.options) as client:
            yield client

    @contextlib.contextmanager
    def _tried(self, queue: str, what: str, name: str = "") -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._ledger.failed(queue, what, error, name)
            time.sleep(WAIT_S)

    def _send(self, queue: str) -> None:
        with self._client() as client:
            topic = queue.startswith("topic")
            opened = client.get_topic_sender if topic else client.get_queue_sender
            with opened(queue) as sender:
                number = 0
                while self._clock.sends:
                    number += 1
                    name = f"{queue} {number}"
                    with self._tried(queue, "sending", name):
                        self._sent(sender, queue, name, due(number))
                    time.sleep(self._plan.pause_s)

    def _sent(self, sender: Any, queue: str, name: str, after: dt.timedelta | None) -> None:
        if after is None:
            sender.send_messages(message(name))
            self._ledger.sent(queue, name)
            return
        at = dt.datetime.now(dt.UTC) + after
        numbers = sender.schedule_messages(message(name), at)
        self._ledger.sent(queue, name, at.timestamp())
        if after is LATE:
            sender.cancel_scheduled_messages(numbers)
            self._ledger.was_cancelled(queue, name)

    def _send_sessions(self) -> None:
        queue = "sessions-sync"
        with self._client() as client, client.get_queue_sender(queue) as sender:
            number = 0
            while self._clock.sends:
                number += 1
                session = SESSIONS[number % len(SESSIONS)]
                name = f"{session} {number}"
                with self._tried(queue, "sending", name):
                    sender.send_messages(message(name, session))
                    self._ledger.sent(queue, name)
                time.sleep(self._plan.pause_s)

    def _receive(self, queue: str) -> None:
        with self._client() as client:
            receiver = (
                client.get_subscription_receiver(queue, SUBSCRIPTION)
                if queue.startswith("topic")
                else client.get_queue_receiver(queue)
            )
            with receiver:
                while self._clock.receives(queue):
                    with self._tried(queue, "receiving"):
                        self._take(receiver, queue)

    def _receive_session(self, session: str) -> None:
        queue, tended_s = "sessions-sync", time.monotonic()
        with (
            self._client() as client,
            client.get_queue_receiver(queue, session_id=session) as receiver,
        ):
            while self._clock.receives(queue):
                with self._tried(queue, "receiving in a session"):
                    self._take(receiver, queue, session)
                    if time.monotonic() - tended_s > TENDED_S:
                        tended_s = time.monotonic()
                        receiver.session.renew_lock()
                        receiver.session.set_state(f"{tended_s}")
                        state = bytes(receiver.session.get_state())
                        self._ledger.compared(queue, f"{tended_s}".encode(), state)

    def _take(self, receiver: Any, queue: str, session: str = "") -> None:
        most = MESSAGES_MAX_IN_SESSION if session else MESSAGES_MAX
        for number, found in enumerate(receiver.receive_messages(most, max_wait_time=WAIT_S)):
            name = str(found)
            self._ledger.was_received(name, time.time(), session and f"{queue} {session}")
            if number % 10 == 0 and not session:
                receiver.renew_message_lock(found)
            receiver.complete_message(found)
            self._ledger.was_completed(queue, name)

    def _send_rarely(self) -> None:
        """Send, and do nothing for longer than a token is good."""
        queue, number = "rest-sync", 0
        with (
            self._client(rests=True) as client,
            client.get_queue_sender(queue) as sender,
        ):
            while self._clock.sends:
                number += 1
                name = f"{queue} {number}"
                with self._tried(queue, "sending after a rest", name):
                    sender.send_messages(message(name))
                    self._ledger.sent(queue, name)
                time.sleep(self._clock.rest_s(self._plan.rests_s))

    def _hold(self) -> None:
        """Hold each message for longer than a token is good."""
        queue = "rest-sync"
        with (
            self._client(rests=True) as client,
            client.get_queue_receiver(queue) as receiver,
        ):
            while self._clock.sends or self._clock.receives(queue):
                with self._tried(queue, "holding"):
                    for found in receiver.receive_messages(1, max_wait_time=WAIT_S):
                        self._ledger.was_received(str(found), time.time())
                        time.sleep(self._plan.rests_s)
                        receiver.complete_message(found)
                        self._ledger.was_completed(queue, str(found))
