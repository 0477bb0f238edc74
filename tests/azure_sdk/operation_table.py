"""Operations of official SDKs: the table, and what those of the Python SDK are written with.

`operations.toml` says what each is and what it leaves behind, for all SDKs; counts over gRPC judge.
A function beside `@operation` does the one of its name as a program would, with clients that have
no more rights than that needs. The rows of docs/reference/azure-sdks.md are the same table.
"""

import asyncio
import inspect
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from azure.servicebus import ServiceBusMessage

SUBSCRIPTION: Final = "all"
WAIT_S: Final = 20.0
LAYOUTS: Final = ("plain", "partitioned")
TABLE: Final = Path(__file__).parent / "operations.toml"


@dataclass(frozen=True, slots=True)
class Counts:
    """Message counts after an operation."""

    active: int = 0
    scheduled: int = 0
    dead_letter: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """An operation; see the table's file for the fields."""

    name: str
    area: str
    title: str
    on: str
    left: Counts
    options: Mapping[str, Any] = field(default_factory=dict)
    without: Mapping[str, str] = field(default_factory=dict)
    layouts: Sequence[str] = LAYOUTS

    @property
    def has_topic(self) -> bool:
        """Whether it is a topic, whose subscription is called as SUBSCRIPTION says."""
        return self.on.startswith("topic")

    @property
    def has_sessions(self) -> bool:
        """Whether messages are received in sessions."""
        return self.on in ("sessions", "topic-sessions")


def rows(sdk: str) -> list[Row]:
    """Return the operations that an SDK has."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    found = [
        Row(name, **{**entry, "left": Counts(**entry.get("left", {}))})
        for name, entry in table.items()
    ]
    return [each for each in found if sdk not in each.without]


def cases(sdk: str) -> list[tuple[Row, str]]:
    """Return the operations that an SDK has, each with the layouts that it is done on."""
    return [(row, layout) for row in rows(sdk) for layout in row.layouts]


@dataclass(slots=True)
class Entity:
    """A queue or topic, and clients for it: one with the right to send, one with that to listen."""

    name: str
    has_topic: bool
    sending: Any
    listening: Any
    # Makes an administration client, from a right.
    administering: Callable[[str], Any]
    stack: ExitStack = field(default_factory=ExitStack)

    def administration(self, right: str = "Manage") -> Any:
        """Return an open administration client."""
        return self.stack.enter_context(self.administering(right))

    def sender(self) -> Any:
        """Return an open sender."""
        if self.has_topic:
            return self.stack.enter_context(self.sending.get_topic_sender(self.name))
        return self.stack.enter_context(self.sending.get_queue_sender(self.name))

    def receiver(self, **options: Any) -> Any:
        """Return an open receiver."""
        options.setdefault("max_wait_time", WAIT_S)
        return self.stack.enter_context(self.new_receiver(**options))

    def new_receiver(self, **options: Any) -> Any:
        """Return a receiver that is not open."""
        if self.has_topic:
            client = self.listening
            return client.get_subscription_receiver(self.name, SUBSCRIPTION, **options)
        return self.listening.get_queue_receiver(self.name, **options)

    def send(self, *messages: Any) -> None:
        """Send messages, one by one."""
        sender = self.sender()
        for message in messages:
            sender.send_messages(message)


Perform = Callable[[Entity], None]
PERFORMED: Final[dict[str, Perform]] = {}


def operation(perform: Perform) -> Perform:
    """Take a function as that of the row with its name."""
    PERFORMED[perform.__name__] = perform
    return perform


def take(receiver: Any, count: int) -> list[Any]:
    """Receive so many messages; fewer if there are none for a while."""
    found: list[Any] = []
    while len(found) < count:
        more = receiver.receive_messages(max_message_count=count - len(found))
        if not more:
            break
        found += more
    return found


def texts(messages: list[Any]) -> list[str]:
    """Return the bodies."""
    return [str(each) for each in messages]


def several(count: int, **options: Any) -> list[ServiceBusMessage]:
    """Return messages whose bodies are their numbers."""
    return [ServiceBusMessage(str(number), **options) for number in range(count)]


def complete_all(receiver: Any, count: int) -> list[Any]:
    """Receive so many messages and complete each."""
    found = take(receiver, count)
    for message in found:
        receiver.complete_message(message)
    assert len(found) == count
    return found


class Loop:
    """An event loop in a thread of its own, for clients of `azure.servicebus.aio`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, work: Any) -> Any:
        """Run a coroutine; return its result."""

        async def done() -> Any:
            return await work

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(120)

    def close(self) -> None:
        """End the loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Blocking:
    """Wraps an object of `azure.servicebus.aio` in the interface of its synchronous counterpart."""

    def __init__(self, loop: Loop, of: Any) -> None:
        self._run = loop.run
        self._loop = loop
        self._of = of

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)
        if name == "session":
            return Blocking(self._loop, found)
        return self._called(found) if callable(found) else found

    def _called(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            given = tuple(each._of if isinstance(each, Blocking) else each for each in given)
            return self._plain(function(*given, **named))

        return call

    def _plain(self, result: Any) -> Any:
        if inspect.isawaitable(result):
            return self._run(result)
        if hasattr(result, "__aenter__") or hasattr(result, "__aiter__"):
            return Blocking(self._loop, result)
        return result

    def __enter__(self) -> "Blocking":
        self._run(self._of.__aenter__())
        return self

    def __exit__(self, *error: Any) -> None:
        self._run(self._of.__aexit__(*error))

    def __iter__(self) -> Iterator[Any]:
        items = aiter(self._of)
        while True:
            try:
                yield self._run(anext(items))
            except StopAsyncIteration:
                return
