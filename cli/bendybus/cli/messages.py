"""Messages through the public client: the only module of the CLI that knows it.

Every function returns or yields plain dicts, so that commands print and tests compare them.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from bendybus.cli import finding, lines
from bendybus.cli.errors import CliError, NotFound, Unreachable
from bendybus.cli.finding import Choice
from bendybus.cli.lines import Outgoing
from bendybus.client import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from bendybus.client.exceptions import (
    MessagingEntityNotFoundError,
    ServiceBusConnectionError,
    ServiceBusError,
)
from bendybus.domain import limits

BATCH: Final = 500
_BATCH_BYTES: Final = limits.STANDARD_BATCH_BYTES_MAX // 2
_OVERHEAD_BYTES: Final = 128
_READ_AT_ONCE: Final = 100
_SHOWN: Final = (
    "message_id",
    "session_id",
    "partition_key",
    "subject",
    "content_type",
    "correlation_id",
    "to",
    "reply_to",
    "delivery_count",
    "enqueued_time_utc",
    "dead_letter_reason",
    "dead_letter_error_description",
)

Step = Callable[[int], None]


@contextmanager
def client(choice: Choice) -> Iterator[ServiceBusClient]:
    """Give a client of the bus; its errors become those of the CLI, with the same sentence."""
    try:
        with (
            finding.target(choice) as target,
            ServiceBusClient.from_connection_string(
                target.connection_string,
                connection_verify=target.ca_file and str(target.ca_file),
            ) as bus,
        ):
            yield bus
    except MessagingEntityNotFoundError as error:
        raise NotFound(str(error)) from error
    except ServiceBusConnectionError as error:
        raise Unreachable(str(error)) from error
    except (ServiceBusError, ValueError) as error:
        raise CliError(str(error)) from error


def send(bus: ServiceBusClient, queue: str, messages: Iterable[Outgoing], step: Step) -> int:
    """Send messages in batches that share a key, in the order of each key; return how many."""
    sent = 0
    with bus.get_queue_sender(queue) as sender:
        for chunk in _chunks(messages):
            for batch in _by_key(chunk).values():
                # Where MessageId is the key (duplicate detection), a batch has many keys.
                sender.send_messages(
                    [_message(each) for each in batch], split_by_partition_key=True
                )
                sent += len(batch)
                step(len(batch))
    return sent


def _chunks(messages: Iterable[Outgoing]) -> Iterator[list[Outgoing]]:
    """Return the messages in batches that fit the smallest limit of a batch."""
    chunk: list[Outgoing] = []
    size = 0
    for each in messages:
        own = len(each.body.encode()) + len(str(each.properties)) + _OVERHEAD_BYTES
        if chunk and (len(chunk) >= BATCH or size + own > _BATCH_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(each)
        size += own
    if chunk:
        yield chunk


def _by_key(messages: Iterable[Outgoing]) -> dict[object, list[Outgoing]]:
    """Return the messages by key: a batch is one unit and so goes to one partition."""
    groups: dict[object, list[Outgoing]] = {}
    for each in messages:
        properties = each.properties
        key = (properties.get("session_id"), properties.get("partition_key"))
        groups.setdefault(key, []).append(each)
    return groups


def _message(outgoing: Outgoing) -> ServiceBusMessage:
    return ServiceBusMessage(outgoing.body, **outgoing.properties)


def receive(
    bus: ServiceBusClient,
    queue: str,
    *,
    most: int,
    wait_s: float,
    delete: bool,
    complete: bool,
    dead_letters: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yield messages until `most`, or until none comes for `wait_s`.

    `delete`: receive-and-delete. `complete`: settle each batch after it was yielded; otherwise
    the messages are abandoned, so that somebody else gets them at once.
    """
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE if delete else ServiceBusReceiveMode.PEEK_LOCK
    options: dict[str, Any] = {"receive_mode": mode}
    if dead_letters:
        options["sub_queue"] = ServiceBusSubQueue.DEAD_LETTER
    with bus.get_queue_receiver(queue, **options) as receiver:
        left = most
        held: list[ServiceBusReceivedMessage] = []
        try:
            while left > 0:
                batch = receiver.receive_messages(
                    max_message_count=min(left, _READ_AT_ONCE), max_wait_time=wait_s
                )
                if not batch:
                    return
                left -= len(batch)
                if not (delete or complete):
                    held += batch
                for message in batch:
                    yield shown(message)
                if complete and not delete:
                    receiver.complete_messages(batch)
        finally:
            # Only at the end: a message given back now would be the next one received.
            for message in held:
                receiver.abandon_message(message)


def peek(
    bus: ServiceBusClient, queue: str, *, most: int, start: int, dead_letters: bool
) -> Iterator[dict[str, Any]]:
    """Yield messages without locking them, from sequence number `start` (0: the oldest)."""
    options: dict[str, Any] = {"sub_queue": ServiceBusSubQueue.DEAD_LETTER} if dead_letters else {}
    with bus.get_queue_receiver(queue, **options) as receiver:
        left = most
        while left > 0:
            arguments = {"sequence_number": start} if start else {}
            batch = receiver.peek_messages(min(left, _READ_AT_ONCE), **arguments)
            if not batch:
                return
            start = 0
            left -= len(batch)
            yield from (shown(message) for message in batch)


def purge(bus: ServiceBusClient, queue: str, *, dead_letters: bool) -> int:
    """Delete all messages that are not locked; return how many."""
    options: dict[str, Any] = {"sub_queue": ServiceBusSubQueue.DEAD_LETTER} if dead_letters else {}
    with bus.get_queue_receiver(queue, **options) as receiver:
        return int(receiver.purge_messages())


def resubmit(bus: ServiceBusClient, queue: str, *, most: int, wait_s: float, step: Step) -> int:
    """Send dead letters to their queue again, each completed after its copy is stored.

    At least once: a copy whose original could not be completed is sent again next time.
    """
    count = 0
    dead = ServiceBusSubQueue.DEAD_LETTER
    with (
        bus.get_queue_receiver(queue, sub_queue=dead) as receiver,
        bus.get_queue_sender(queue) as sender,
    ):
        while count < most:
            batch = receiver.receive_messages(
                max_message_count=min(most - count, _READ_AT_ONCE), max_wait_time=wait_s
            )
            if not batch:
                break
            for message in batch:
                sender.send_messages(_copy(message))
                receiver.complete_message(message)
                count += 1
                step(1)
    return count


def _copy(message: ServiceBusReceivedMessage) -> ServiceBusMessage:
    """Return the message as its sender made it, without what dead-lettering added."""
    added = {"DeadLetterReason", "DeadLetterErrorDescription"}
    names = ("message_id", "session_id", "partition_key", "subject", "content_type")
    properties = {name: getattr(message, name) for name in (*names, "correlation_id", "to")}
    return ServiceBusMessage(
        _body(message),
        application_properties={
            key: value
            for key, value in (message.application_properties or {}).items()
            if _text(key) not in added
        },
        reply_to=message.reply_to,
        reply_to_session_id=message.reply_to_session_id,
        **{name: value for name, value in properties.items() if value is not None},
    )


def shown(message: ServiceBusReceivedMessage) -> dict[str, Any]:
    """Return a message as a plain dict; what is not set is left out."""
    number = message.sequence_number or 0
    facts: dict[str, Any] = {"sequence_number": number, "partition": number >> 48}
    for name in _SHOWN:
        value = getattr(message, name, None)
        if value is not None:
            facts[name] = value if isinstance(value, str | int) else value.isoformat()
    properties = message.application_properties or {}
    if properties:
        facts["application_properties"] = {
            _text(key): _text(value) for key, value in properties.items()
        }
    return facts | lines.body(_body(message))


def _body(message: ServiceBusReceivedMessage) -> bytes:
    return b"".join(message.body)


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
