"""The bus as the room uses it: one client a connection, and the seams of reading and writing.

`Bus` is what planners and readers work with, over `PartitionBrowser`; `ConnectedSender` stores the
frames of sink/task_writer.py. Clients are made when they are first needed, one for each process and
connection: Python workers of Spark are forked, and used again for task after task. `TokenFile`
reads its file whenever a token is needed, so that the file may be replaced.
"""

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

from bendybus.client import (
    PartitionBrowser,
    ServiceBusClient,
    ServiceBusMessageState,
    ServiceBusSubQueue,
)
from bendybus.client.connection_string import parse_connection_string
from bendybus.client.exceptions import ServiceBusError
from bendybus.spark import bus_errors
from bendybus.spark.bus_errors import one_line
from bendybus.spark.errors import OptionError
from bendybus.spark.options import Connection, Entity, ReadOptions
from bendybus.spark.sink import messages
from bendybus.spark.sink.lane import Fence, Frame, Sent
from bendybus.spark.sink.messages import Target
from bendybus.spark.source.ranges import Extent

VARIABLE: Final = "BENDYBUS_CONNECTION_STRING"
# Of one process. The one that was used least recently is closed for another one.
_CLIENTS_MAX: Final = 8
_lock = threading.Lock()
_clients: dict[tuple[int, Connection, str], ServiceBusClient] = {}


@dataclass(frozen=True, slots=True)
class Page:
    """Messages of one partition in columns, and where the next page goes on."""

    batch: Any
    next_after: int
    complete: bool
    incarnation: str
    low_watermark: int


class Lease(Protocol):
    """The right to remove messages, alone."""

    @property
    def epoch(self) -> int:
        """Rises with every lease of the entity."""

    @property
    def ready(self) -> frozenset[int]:
        """Partitions that may be read."""

    @property
    def waiting(self) -> Sequence[Any]:
        """The others, with `partition`, `locked_message_count` and `error`."""

    def renew(self) -> None:
        """Extend it, and look again which partitions are ready."""

    def release(self) -> None:
        """End it."""

    def settle_up_to(self, partition: int, number: int, *, incarnation: str) -> int:
        """Delete active messages up to a number of an incarnation; return how many."""


class Bus(Protocol):
    """One entity of the bus."""

    def extents(self) -> list[Extent]:
        """Return where each partition begins and ends."""

    def number_at(self, partition: int, time: datetime) -> int:
        """Return the number after which everything was enqueued at a time or later."""

    def page(self, partition: int, after: int, upto: int, *, bodies: bool) -> Page:
        """Return messages of a range."""

    def lease(self, owner: str, duration_s: float) -> Lease:
        """Take the drain lease."""

    def partition_of(self, key: str) -> int:
        """Return the partition of a key."""


class ConnectedBus:
    """The real one. Makes its client when it is first needed in a process."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._partition_of: Any = None
        self._made: Any = None

    def extents(self) -> list[Extent]:
        """Return where each partition begins and ends."""
        found = self._browser().describe_partitions(timeout=self._options.timeout_s)
        self._partition_of = found.partition_of
        return [_extent(each) for each in found.partitions]

    def number_at(self, partition: int, time: datetime) -> int:
        """Return the number after which everything was enqueued at a time or later."""
        browser = self._browser()
        found: int = browser.sequence_number_at(partition, time, timeout=self._options.timeout_s)
        return found

    def page(self, partition: int, after: int, upto: int, *, bodies: bool) -> Page:
        """Return messages of a range."""
        options = self._options
        found = self._browser().browse(
            partition,
            after=after,
            upto=upto,
            max_messages=options.fetch_messages,
            max_bytes=options.fetch_bytes,
            states=[ServiceBusMessageState[state.upper()] for state in options.states],
            bodies=bodies,
            timeout=options.timeout_s,
        )
        return Page(
            found.batch, found.next_after, found.complete, found.incarnation, found.low_watermark
        )

    def lease(self, owner: str, duration_s: float) -> Lease:
        """Take the drain lease."""
        browser, timeout_s = self._browser(), self._options.timeout_s
        found: Lease = browser.acquire_drain_lease(owner, duration=duration_s, timeout=timeout_s)
        return found

    def partition_of(self, key: str) -> int:
        """Return the partition of a key."""
        if self._partition_of is None:
            self.extents()
        found: int = self._partition_of(key)
        return found

    def __reduce__(self) -> Any:
        # Spark pickles what reads; connections are made where they are used.
        return ConnectedBus, (self._options,)

    def _browser(self) -> Any:
        if self._made is None:
            self._made = self._new_browser()
        return self._made

    def _new_browser(self) -> Any:
        options = self._options
        return browser_of(client(options.connection), options.entity)


def browser_of(client: ServiceBusClient, entity: Entity) -> PartitionBrowser:
    """Return what reads an entity by number."""
    sub_queue = ServiceBusSubQueue(entity.sub_queue) if entity.sub_queue else None
    if entity.subscription:
        return client.get_partition_browser(
            topic_name=entity.name, subscription_name=entity.subscription, sub_queue=sub_queue
        )
    return client.get_partition_browser(queue_name=entity.name, sub_queue=sub_queue)


def _extent(found: Any) -> Extent:
    error: ServiceBusError | None = found.error
    if error is not None:
        return Extent(found.partition, unavailable=one_line(error.message))
    return Extent(
        found.partition,
        found.incarnation,
        found.low_watermark,
        found.stable_tail,
        found.first_number,
        found.active_message_count,
        found.size_in_bytes,
    )


class ConnectedSender:
    """One entity of the bus, to write to."""

    def __init__(self, connection: Connection, path: str, timeout_s: float) -> None:
        self._path = path
        self._timeout_s = timeout_s
        # The path of a topic is sent to like that of a queue.
        self._sender = client(connection).get_partition_sender(queue_name=path)

    def target(self) -> Target:
        """Return what is to be known of it."""
        with bus_errors.translated(self._path):
            found = self._sender.describe_partitions(timeout=self._timeout_s)
        return Target(
            self._path,
            tuple(sorted(each.partition for each in found.partitions)),
            found.partition_of,
            found.detects_duplicates,
            found.requires_session,
            found.max_message_size,
        )

    def fence(self, partition: int, producer_id: bytes, within_s: float | None = None) -> Fence:
        """Return how far a producer came in a partition."""
        found: Any = self._sender.fence(partition, producer_id, timeout=within_s or self._timeout_s)
        return Fence(found.epoch, found.ordinal, found.mark)

    def move(
        self, partition: int, producer_id: bytes, fence: Fence, *, replace: bool = False
    ) -> None:
        """Write how far a producer came; without `replace`, where its epoch has no fence yet."""
        self._sender.send(
            partition,
            [],
            producer_id=producer_id,
            epoch=fence.epoch,
            ordinals=[fence.ordinal],
            mark=fence.mark,
            replace=replace,
            timeout=self._timeout_s,
        )

    def send(self, partition: int, producer_id: bytes, epoch: int, frame: Frame) -> Sent:
        """Store a frame; returns when it is."""
        found: Any = self._sender.send(
            partition,
            messages.batch_of(frame.messages),
            producer_id=producer_id,
            epoch=epoch,
            ordinals=frame.ordinals,
            mark=frame.mark,
            timeout=self._timeout_s,
        )
        return Sent(found.stored, found.repeated, found.duplicates)


def client(connection: Connection) -> ServiceBusClient:
    """Return the client of a connection. Raises OptionError."""
    string = _string(connection)
    key = (os.getpid(), connection, string)
    with _lock:
        found = _clients.pop(key, None)
        if found is None:
            found = _made(connection, string)
            # Those of the parent of this process are not to be closed here.
            for other in [each for each in _clients if each[0] != key[0]]:
                del _clients[other]
            while len(_clients) >= _CLIENTS_MAX:
                _clients.pop(next(iter(_clients))).close()
        _clients[key] = found
        return found


def address(connection: Connection) -> str:
    """Return the address of a bus, which stays when its keys change. Raises OptionError."""
    if connection.endpoint:
        return connection.endpoint
    try:
        return parse_connection_string(_string(connection)).endpoint
    except ValueError as error:
        raise OptionError(f"option connectionString: {error}") from None


class TokenFile:
    """A credential: a shared access signature in a file that may be replaced."""

    def __init__(self, path: str) -> None:
        self._path = path

    @property
    def signature(self) -> str:
        """The signature that the file has now."""
        return _read("tokenFile", self._path)


def _made(connection: Connection, string: str) -> ServiceBusClient:
    # Without the option the client looks at BENDYBUS_CA_FILE.
    trust: dict[str, Any] = {"connection_verify": connection.ca_file} if connection.ca_file else {}
    try:
        if connection.endpoint:
            credential = TokenFile(connection.token_file)
            _read("tokenFile", connection.token_file)
            return ServiceBusClient(connection.endpoint, credential, **trust)
        return ServiceBusClient.from_connection_string(string, **trust)
    except ValueError as error:
        what = "endpoint" if connection.endpoint else "connectionString"
        raise OptionError(f"option {what}: {error}") from None


def _string(connection: Connection) -> str:
    if connection.endpoint:
        return ""
    if connection.string_file:
        return _read("connectionStringFile", connection.string_file)
    string = connection.string or os.environ.get(VARIABLE, "")
    if not string:
        raise OptionError(
            "option connectionStringFile: is required; name a file with the connection string "
            f"that driver and executors can read, or set {VARIABLE} for both"
        )
    return string


def _read(option: str, path: str) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise OptionError(
            f"option {option}: {path} cannot be read: {reason}; the file must be there on the "
            "driver and on every executor"
        ) from None
    if not text:
        raise OptionError(f"option {option}: {path} is empty")
    return text
