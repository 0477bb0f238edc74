"""Messages and sessions of a bus, through the public client: received, peeked at, purged."""

import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bendybus.cli import errors
from bendybus.cli.bus import bus_choice
from bendybus.cli.bus.bus_choice import Choice, Target
from bendybus.cli.errors import CliError, NotFound, UsageError
from bendybus.cli.output import json_lines, json_values, output_pipe
from bendybus.client import (
    NEXT_AVAILABLE_SESSION,
    AutoLockRenewer,
    ServiceBusClient,
    ServiceBusMessageState,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
)
from bendybus.client.amqp import AmqpMessageBodyType
from bendybus.client.exceptions import (
    AzureError,
    MessageLockLostError,
    MessageNotFoundError,
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    OutcomeUnknownError,
    ServiceBusConnectionError,
)
from bendybus.client.management import ServiceBusAdministrationClient, SessionRuntimeProperties
from bendybus.client.messages import raw_amqp_message
from bendybus.domain import durations, limits
from bendybus.domain.errors import InvalidArgument

READ_AT_ONCE: Final = 100
# Locks end: what is only to be looked at is given back before they do.
_SPARE_SHARE: Final = 0.5
# How long a command may follow a session: a year.
_FOLLOWED_S: Final = 365 * 86_400.0
# How long what the reader of a pipe has read may wait to be settled.
_UNSETTLED_S: Final = 0.5
# What dead-lettering adds; it is shown under names of its own.
ADDED_PROPERTIES: Final = ("DeadLetterReason", "DeadLetterErrorDescription")
_NUMBERS: Final = ("delivery_count",)
_FACTS: Final = ("dead_letter_reason", "dead_letter_error_description", "dead_letter_source")
# Prints messages, which are plain dicts, before anything else happens to them; yields after each.
Show = Callable[[Sequence[dict[str, Any]]], Iterator[None]]
# How long a session is waited for that a command names.
_WAIT_S = 5.0


@contextmanager
def client(choice: Choice) -> Iterator[ServiceBusClient]:
    """Give a client of the bus; its errors become those of the CLI."""
    with (
        bus_choice.target(choice) as target,
        translated(target),
        ServiceBusClient.from_connection_string(
            target.connection_string,
            connection_verify=target.ca_file and str(target.ca_file),
            tracing=False,
        ) as bus,
    ):
        yield bus


@contextmanager
def translated(target: Target) -> Iterator[None]:
    """Turn the client's errors into those of the CLI."""
    try:
        yield
    except (MessagingEntityNotFoundError, MessageNotFoundError) as error:
        raise NotFound(str(error)) from error
    except AzureError as error:
        raise errors.of_client(error, target.address, use_tls=target.use_tls) from error
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Receive:
    """What to receive: at most `most` messages, until none arrives for `wait_s`."""

    most: int
    wait_s: float
    complete: bool = True
    # As the client names it; "": none.
    sub_queue: str = ""
    follow: bool = False
    session: str | None = None
    next_session: bool = False
    # Instead of completing: how long they are not received again; 0: not.
    abandon_ms: int = 0


def receive(bus: ServiceBusClient, queue: str, wanted: Receive, show: Show) -> bool:
    """Receive messages, show each, then complete it: nothing that may not have been read.

    Without `complete` they are given back in the end, uncounted; returns whether that was before
    all was received that was asked for, since locks do not last for ever.
    """
    options: dict[str, Any] = _of(wanted.sub_queue)
    if wanted.next_session or wanted.session is not None:
        options["session_id"] = NEXT_AVAILABLE_SESSION if wanted.next_session else wanted.session
        options["max_wait_time"] = wanted.wait_s
        if wanted.follow:
            # Of the session; nothing else would keep it while no message comes.
            options["auto_lock_renewer"] = AutoLockRenewer(_FOLLOWED_S)
    if wanted.complete and output_pipe.is_pipe(sys.stdout):
        # The reader of the pipe takes messages as slowly as it likes.
        options["auto_lock_renewer"] = AutoLockRenewer(_FOLLOWED_S)
    receiver = bus.get_queue_receiver(queue, **options)
    if wanted.next_session and not _has_session(receiver):
        return False
    with receiver:
        left = wanted.most
        held: dict[int, ServiceBusReceivedMessage] = {}
        give_back_at = float("inf")

        def settle(read: Sequence[ServiceBusReceivedMessage]) -> None:
            _settle(receiver, read, wanted.abandon_ms)
            for message in read:
                del held[id(message)]

        try:
            while left > 0:
                if time.monotonic() >= give_back_at:
                    return True
                batch = receiver.receive_messages(min(left, READ_AT_ONCE), wanted.wait_s)
                if not batch:
                    if wanted.follow and wanted.complete:
                        continue
                    return False
                left -= len(batch)
                held |= {id(message): message for message in batch}
                if not wanted.complete:
                    for _ in show([shown(message) for message in batch]):
                        pass
                    if give_back_at == float("inf"):
                        give_back_at = time.monotonic() + patience_s(batch[0])
                    continue
                _read(batch, show, settle)
        finally:
            # Only at the end: a message given back now would be the next one received.
            give_back(receiver, list(held.values()))
    return False


def _read(
    batch: Sequence[ServiceBusReceivedMessage],
    show: Show,
    settle: Callable[[Sequence[ServiceBusReceivedMessage]], None],
) -> None:
    """Show messages, and settle those that were read: in a pipe, by its reader.

    What a slow reader has is settled a moment later: if this process is ended, it does not come
    again.
    """
    showing = show([shown(message) for message in batch])
    if not output_pipe.is_pipe(sys.stdout):
        for _ in showing:
            pass
        settle(batch)
        return
    read: list[ServiceBusReceivedMessage] = []
    settle_at_s = time.monotonic() + _UNSETTLED_S
    try:
        for message, _ in zip(batch, showing, strict=True):
            try:
                output_pipe.wait_until_taken(sys.stdout)
            except KeyboardInterrupt:
                # It may have been taken since the last look.
                if output_pipe.is_taken(sys.stdout):
                    read.append(message)
                raise
            read.append(message)
            if time.monotonic() >= settle_at_s:
                now_read, read = read, []
                settle(now_read)
                settle_at_s = time.monotonic() + _UNSETTLED_S
    finally:
        settle(read)


def _settle(
    receiver: ServiceBusReceiver, read: Sequence[ServiceBusReceivedMessage], abandon_ms: int
) -> None:
    if abandon_ms:
        for message in read:
            receiver.abandon_message(message, delay=abandon_ms / 1_000)
    elif read:
        receiver.complete_messages(list(read))


def _has_session(receiver: ServiceBusReceiver) -> bool:
    """Whether a session became free in time; it is locked then."""
    assert receiver.session is not None
    try:
        receiver.session.get_state()
    except OperationTimeoutError as error:
        if isinstance(error, OutcomeUnknownError):
            raise
        return False
    return True


def give_back(receiver: ServiceBusReceiver, held: Sequence[ServiceBusReceivedMessage]) -> None:
    """Release messages, uncounted; one whose completion was under way may be gone."""
    with suppress(MessageLockLostError, ServiceBusConnectionError, OperationTimeoutError):
        receiver.release_messages(list(held))


def peek(
    bus: ServiceBusClient, queue: str, *, most: int, start: int, sub_queue: str, show: Show
) -> None:
    """Show messages without locking them, from sequence number `start` (0: the oldest)."""
    with bus.get_queue_receiver(queue, **_of(sub_queue)) as receiver:
        left = most
        while left > 0:
            arguments = {"sequence_number": start} if start else {}
            batch = receiver.peek_messages(min(left, READ_AT_ONCE), **arguments)
            if not batch:
                return
            start = 0
            left -= len(batch)
            for _ in show([shown(message) for message in batch]):
                pass


def purge(
    bus: ServiceBusClient,
    queue: str,
    *,
    sub_queue: str,
    states: Sequence[str] | None = None,
    before: datetime | None = None,
) -> int:
    """Delete unlocked messages, of these states and enqueued before then; return their number."""
    wanted = [ServiceBusMessageState[state.upper()] for state in states] if states else None
    with bus.get_queue_receiver(queue, **_of(sub_queue)) as receiver:
        return int(receiver.purge_messages(before_enqueued_time_utc=before, states=wanted))


def moment_before(older_than: str) -> datetime | None:
    """Return when a duration ago was; None: no duration is given. Raises UsageError."""
    if not older_than:
        return None
    try:
        ago = timedelta(milliseconds=duration_ms("--older-than", older_than))
        return datetime.now(UTC) - ago
    except OverflowError as error:
        raise _no_duration("--older-than", older_than) from error


def duration_ms(option: str, text: str) -> int:
    """Return the duration of an option. Raises UsageError."""
    try:
        found = durations.parse(option, text)
    except InvalidArgument as error:
        raise _no_duration(option, text) from error
    if not found:
        raise _no_duration(option, text)
    return found


def abandon_ms(text: str) -> int:
    """Return the delay of `--abandon`; "": 0. Raises UsageError."""
    if not text:
        return 0
    found = duration_ms("--abandon", text)
    if found > limits.ABANDON_DELAY_MS_MAX:
        most = durations.render(limits.ABANDON_DELAY_MS_MAX)
        raise UsageError(f"--abandon: must be at most {most} (got {text!r}).")
    return found


def _no_duration(option: str, text: str) -> UsageError:
    return UsageError(f"{option}: {text[:40]!r}: must be like PT1H or P7D.")


def _of(sub_queue: str) -> dict[str, Any]:
    """Return the options of a receiver of a sub-queue."""
    return {"sub_queue": sub_queue} if sub_queue else {}


def shown(message: ServiceBusReceivedMessage) -> dict[str, Any]:
    """Return a message as a dict without unset properties, as `json_lines.parse` reads it."""
    number = message.sequence_number or 0
    facts: dict[str, Any] = {"sequence_number": number, "partition": message.partition}
    for name in (*json_lines.TEXTS, *_NUMBERS, *_FACTS):
        value = getattr(message, name, None)
        if value is not None:
            facts[name] = value
    if message.time_to_live is not None:
        milliseconds = round(message.time_to_live.total_seconds() * 1_000)
        facts["time_to_live"] = durations.render(durations.bounded(milliseconds))
    for name in ("scheduled_enqueue_time_utc", "enqueued_time_utc"):
        moment = getattr(message, name)
        if moment is not None:
            facts[name] = moment.isoformat()
    if message.state.value:
        facts["state"] = message.state.name.lower()
    properties = json_values.properties_to_json(message.application_properties or {})
    for name in ADDED_PROPERTIES:
        properties.pop(name, None)
    if properties:
        facts["application_properties"] = properties
    for name, value in raw_amqp_message.own_fields(message).items():
        if name in json_lines.AMQP_MAPS:
            facts[name] = json_values.properties_to_json(value)
        else:
            facts[name] = json_values.to_json(_text(value) if name == "user_id" else value)
    return facts | _body(message)


def _text(value: bytes) -> str | bytes:
    """Return bytes as text where they are UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _body(message: ServiceBusReceivedMessage) -> dict[str, Any]:
    kind = message.body_type
    if kind is AmqpMessageBodyType.DATA:
        return json_lines.body(b"".join(message.body))
    found = message.body if kind is AmqpMessageBodyType.VALUE else list(message.body)
    return {"body_type": kind.value, "body": json_values.to_json(found)}


def patience_s(message: ServiceBusReceivedMessage) -> float:
    """Return how long locks that are as old as this one's may be kept."""
    until = message.locked_until_utc
    if until is None:
        raise CliError("The bus returned a message without a lock.")
    return max(0.0, (until.timestamp() - time.time()) * _SPARE_SHARE)


def list_sessions(choice: Choice, queue: str) -> Generator[SessionRuntimeProperties]:
    """Yield the sessions with messages, a state or a receiver, by partition and name."""
    with _administration(choice) as bus:
        yield from bus.list_queue_sessions_runtime_properties(queue)


def session_state(bus: ServiceBusClient, queue: str, session_id: str) -> bytes | None:
    """Return what is kept for a session, which must be free; None: nothing."""
    with _locked(bus, queue, session_id) as receiver:
        assert receiver.session is not None
        return receiver.session.get_state()


def set_session_state(
    bus: ServiceBusClient, queue: str, session_id: str, wanted: bytes | None
) -> None:
    """Keep something for a session, which must be free; None: nothing any more."""
    with _locked(bus, queue, session_id) as receiver:
        assert receiver.session is not None
        receiver.session.set_state(wanted)


def _locked(bus: ServiceBusClient, queue: str, session_id: str) -> ServiceBusReceiver:
    return bus.get_queue_receiver(queue, session_id=session_id, max_wait_time=_WAIT_S)


@contextmanager
def _administration(choice: Choice) -> Iterator[ServiceBusAdministrationClient]:
    with (
        bus_choice.target(choice) as target,
        translated(target),
        ServiceBusAdministrationClient.from_connection_string(
            target.connection_string,
            connection_verify=target.ca_file and str(target.ca_file),
            tracing=False,
        ) as bus,
    ):
        yield bus
