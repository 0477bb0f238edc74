"""`send`, `receive`, `peek`, `purge`, `deadletter …`: messages, for people and for scripts."""

import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bendybus.cli.bus import bus_choice
from bendybus.cli.bus.management import Management
from bendybus.cli.commands import entity_commands
from bendybus.cli.commands.entity_commands import OutputOption, QueueName
from bendybus.cli.commands.process_commands import JsonFlag
from bendybus.cli.errors import CliError, NotFound, UsageError
from bendybus.cli.output import printing
from bendybus.cli.output.printing import Output
from bendybus.cli.output.tables import Column

if TYPE_CHECKING:
    from bendybus.cli.bus.send_messages import Progress
    from bendybus.cli.output.json_lines import Fields, Outgoing

_ALL: Final = 2**31 - 1
_BODY: Final = Column("BODY", cut=16, room=24)
_KEY: Final = Column("KEY", cut=6)
_ID: Final = Column("ID", cut=8, room=18)
# As wide as the number of the last of 16 partitions.
_NUMBER: Final = Column("SEQUENCE", room=16)
_PLAIN_COLUMNS: Final = (_NUMBER, "PARTITION", _ID, _KEY, "DELIVERIES", _BODY)
_DEAD_COLUMNS: Final = (_NUMBER, _ID, _KEY, Column("REASON", cut=12), _BODY)
_WIDE_COLUMNS: Final = (
    _NUMBER, "PARTITION", "ID", "KEY", "DELIVERIES", "ENQUEUED", "SUBJECT", "REASON",
    "BODY",
)  # fmt: skip
# What is said with an option; as a property of the application it would have no effect.
_OPTION_OF: Final = {"time_to_live": "--ttl", "scheduled_enqueue_time_utc": "--at"}
deadletter_app = typer.Typer(help="Messages that could not be processed.")

Most = Annotated[int, typer.Option("--max", min=1, help="Maximum number of messages.")]
Wait = Annotated[float, typer.Option(min=0, help="Seconds without a message after which to end.")]
DeadLetters = Annotated[bool, typer.Option("--dead-letters", help="Of the dead-letter sub-queue.")]


class Mode(StrEnum):
    """How messages are received."""

    PEEK_LOCK = "peek-lock"
    RECEIVE_AND_DELETE = "receive-and-delete"


def send(
    context: typer.Context,
    queue: QueueName,
    body: Annotated[
        str | None, typer.Argument(help="The message; - or nothing: --from-file, or stdin.")
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(help="JSON lines: a body, or an object with `body`; - is stdin."),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="The whole file, or stdin, is one body, as it is.")
    ] = False,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", "-p", help="NAME=VALUE: message_id, subject, … or your own."),
    ] = None,
    ttl: Annotated[str, typer.Option(help="Time to live: seconds, or ISO-8601 (PT30S).")] = "",
    at: Annotated[str, typer.Option(help="When it becomes active: ISO-8601; UTC.")] = "",
    count: Annotated[int, typer.Option(min=1, help="Send every message this many times.")] = 1,
    key_field: Annotated[str, typer.Option(help="Field that becomes PartitionKey.")] = "",
    session_field: Annotated[str, typer.Option(help="Field that becomes SessionId.")] = "",
    id_field: Annotated[str, typer.Option(help="Field that becomes MessageId.")] = "",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where the import of this file stopped.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Send messages: one from the command line, or one per line."""
    from bendybus.cli.bus import messages, send_messages
    from bendybus.cli.output.json_lines import Fields

    if body == "-":
        body = None
    if body is not None and from_file is not None:
        raise UsageError("Give a body or --from-file, not both.")
    file = None if from_file is None or str(from_file) == "-" else from_file
    if resume and (file is None or raw or count > 1):
        raise UsageError("--resume goes with --from-file FILE, without --raw and --count.")
    progress = send_messages.read_progress(file) if resume and file else send_messages.Progress()
    fields = Fields(key_field, session_field, id_field)
    source = _read_raw(file) if raw and body is None else _outgoing(body, file, fields)
    options = _options(properties or [], ttl, at)
    total = count if body is not None else None
    try:
        with messages.client(context.obj) as bus, printing.progress("sending", total) as step:
            send_messages.send(bus, queue, _given(source, options, count), step, progress)
    except (CliError, KeyboardInterrupt) as error:
        if body is None and count == 1 and not raw:
            _say_where_it_stopped(file, queue, progress, error)
        raise
    if resume and file:
        send_messages.forget_progress(file)
    if as_json:
        printing.json_line({"queue": queue, "sent": progress.sent})
    else:
        printing.line(f"{progress.sent} sent to {queue!r}")


def _say_where_it_stopped(
    file: Path | None, queue: str, progress: "Progress", error: BaseException
) -> None:
    """Say how much of an import is stored, and how to go on."""
    from bendybus.cli.bus import send_messages

    if not progress.sent and not progress.uncertain and not progress.through:
        return
    said = f"Stopped: {progress.sent} messages are stored"
    if progress.uncertain:
        said += f", and of {progress.uncertain} more it is not known"
    if file is not None and send_messages.keep_progress(file, queue, progress):
        printing.note(f"{said}. The same command with --resume goes on from there.")
        return
    if progress.through:
        said += f": all up to line {progress.through}"
    if progress.also:
        said += f", {len(progress.also)} of them after it" if progress.through else ""
    printing.note(f"{said}.")


def _outgoing(body: str | None, file: Path | None, fields: "Fields") -> "Iterator[Outgoing]":
    from bendybus.cli.output import json_lines

    if body is not None:
        yield json_lines.parse(body, 1, fields)
        return
    for number, line in enumerate(_read(file), 1):
        if line.strip() or number == 1:
            yield json_lines.parse(line, number, fields)


def _read(path: Path | None) -> Iterator[str]:
    if path is None:
        if sys.stdin.isatty():
            printing.note("Reading messages from the keyboard, one a line; Ctrl-D ends.")
        for number, line in enumerate(sys.stdin.buffer, 1):
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise CliError(
                    f"stdin, line {number}: is not UTF-8 text. Send it as UTF-8, or use --raw."
                ) from error
        return
    try:
        with path.open(encoding="utf-8") as file:
            yield from file
    except OSError as error:
        raise _unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise CliError(f"{path} is not UTF-8 text. Save it as UTF-8, or use --raw.") from error


def _read_raw(path: Path | None) -> "Iterator[Outgoing]":
    from bendybus.cli.output.json_lines import Outgoing

    try:
        yield Outgoing(sys.stdin.buffer.read() if path is None else path.read_bytes(), line=1)
    except OSError as error:
        raise _unreadable(path or Path("stdin"), error) from error


def _unreadable(path: Path, error: OSError) -> CliError:
    reason = (error.strerror or "cannot be read").lower()
    return CliError(f"{path}: {reason}. Check the path after --from-file.")


def _options(properties: Sequence[str], ttl: str, at: str) -> dict[str, Any]:
    """Return the properties that every message gets."""
    from bendybus.cli.output import json_lines

    made: dict[str, Any] = {}
    application: dict[str, Any] = {}
    for text in properties:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--property: must be NAME=VALUE (got {text!r}).")
        if name in _OPTION_OF:
            raise UsageError(
                f"--property: {name} cannot be set as a property; use {_OPTION_OF[name]}."
            )
        (made if name in json_lines.TEXTS else application)[name] = value
    try:
        if ttl:
            made["time_to_live"] = json_lines.duration("--ttl", ttl)
            if not made["time_to_live"]:
                raise UsageError("--ttl: must be greater than 0; 0 expires at once.")
        if at:
            made["scheduled_enqueue_time_utc"] = json_lines.moment("--at", at)
    except ValueError as error:
        raise UsageError(f"{error}.") from error
    return made | ({"application_properties": application} if application else {})


def _given(
    source: "Iterator[Outgoing]", options: dict[str, Any], count: int
) -> "Iterator[Outgoing]":
    """Return the messages with what the command line says of all of them."""
    from dataclasses import replace

    name = "application_properties"
    for each in source:
        if options:
            both = {**each.properties, **options}
            if name in each.properties and name in options:
                both[name] = {**each.properties[name], **options[name]}
            each = replace(each, properties=both)
        for _ in range(count):
            yield each


def receive(
    context: typer.Context,
    queue: QueueName,
    most: Annotated[
        int | None, typer.Option("--max", min=1, help="Maximum number of messages; default 1.")
    ] = None,
    wait: Wait = 5.0,
    mode: Annotated[
        Mode, typer.Option(help="Lock until settled, or take at once.")
    ] = Mode.PEEK_LOCK,
    complete: Annotated[
        bool, typer.Option(help="Complete what was printed; or give it back, uncounted.")
    ] = True,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more until Ctrl-C.")] = False,
    dead_letters: DeadLetters = False,
    output: OutputOption = Output.TABLE,
    as_json: JsonFlag = False,
) -> None:
    """Receive messages, print them, and complete them."""
    from bendybus.cli.bus import messages
    from bendybus.cli.bus.messages import Receive

    if follow and not complete:
        raise UsageError("--follow: cannot be used with --no-complete; peek shows what is there.")
    if mode is Mode.RECEIVE_AND_DELETE and not complete:
        raise UsageError(
            "--no-complete: cannot be used with --mode receive-and-delete, which leaves nothing to "
            "give back."
        )
    shown = _Shown(Output.JSON if as_json else output, dead_letters)
    wanted = Receive(
        most if most is not None else _ALL if follow else 1,
        max(wait, 0.1),
        delete=mode is Mode.RECEIVE_AND_DELETE,
        complete=complete,
        dead_letters=dead_letters,
        follow=follow,
    )
    with messages.client(context.obj) as bus:
        early = messages.receive(bus, queue, wanted, shown)
    shown.end()
    if early:
        printing.note(
            "Stopped early: locks do not last longer, and what was shown was given back. peek "
            "shows any number of messages."
        )


def peek(
    context: typer.Context,
    queue: QueueName,
    most: Most = 10,
    start: Annotated[int, typer.Option("--from", min=0, help="Sequence number; 0: oldest.")] = 0,
    dead_letters: DeadLetters = False,
    output: OutputOption = Output.TABLE,
    as_json: JsonFlag = False,
) -> None:
    """Show messages and leave them where they are."""
    from bendybus.cli.bus import messages

    shown = _Shown(Output.JSON if as_json else output, dead_letters)
    with messages.client(context.obj) as bus:
        messages.peek(bus, queue, most=most, start=start, dead_letters=dead_letters, show=shown)
    shown.end()


def purge(
    context: typer.Context,
    queue: QueueName,
    dead_letters: DeadLetters = False,
    yes: entity_commands.Yes = False,
    dry_run: entity_commands.DryRun = False,
    as_json: JsonFlag = False,
) -> None:
    """Delete all messages of a queue, except those that a receiver has locked."""
    from bendybus.cli.bus import messages

    if dry_run:
        deleted = _would_purge(context, queue, dead_letters)
    else:
        what = "dead letters" if dead_letters else "messages"
        entity_commands.confirm(f"Delete all {what} of queue {queue!r}?", yes)
        with messages.client(context.obj) as bus:
            deleted = messages.purge(bus, queue, dead_letters=dead_letters)
    if as_json:
        printing.json_line({"queue": queue, "deleted": deleted, "dry_run": dry_run})
    elif dry_run:
        printing.line(f"{deleted} would be deleted from {queue!r}")
    else:
        printing.line(f"{deleted} deleted from {queue!r}")


def _would_purge(context: typer.Context, queue: str, dead_letters: bool) -> int:
    with entity_commands.connected(context) as bus:
        counts = bus.queue(queue).runtime.count_details
    if dead_letters:
        return counts.dead_letter_message_count
    unlocked = counts.active_message_count - counts.locked_message_count
    return max(0, unlocked) + counts.scheduled_message_count + counts.deferred_message_count


@deadletter_app.command("list")
def deadletter_list(
    context: typer.Context,
    queue: QueueName,
    most: Most = 10,
    output: OutputOption = Output.TABLE,
    as_json: JsonFlag = False,
) -> None:
    """Show dead letters, and why they are."""
    peek(context, queue, most, 0, True, output, as_json)


@deadletter_app.command("resubmit")
def deadletter_resubmit(
    context: typer.Context,
    queue: QueueName,
    most: Most = _ALL,
    wait: Wait = 2.0,
    numbers: Annotated[
        list[int] | None, typer.Option("--number", min=1, help="Only the one of this number.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE: only where reason, subject, … or a property is this."),
    ] = None,
    dry_run: entity_commands.DryRun = False,
    as_json: JsonFlag = False,
) -> None:
    """Send dead letters to their queue again.

    Each is completed after its copy is stored.

    In a queue that detects duplicates the copy gets a MessageId of its own.

    The original one stays in the property ResubmittedMessageId.
    """
    from bendybus.cli.bus import messages, resubmit

    wanted = resubmit.Resubmit(
        most,
        max(wait, 0.1),
        frozenset(numbers or ()),
        tuple(resubmit.parse_where(text) for text in where or ()),
        detects=_detects_duplicates(context, queue),
        dry_run=dry_run,
    )
    with messages.client(context.obj) as bus, printing.progress("resubmitting", None) as step:
        done = resubmit.resubmit(bus, queue, wanted, step)
    if as_json:
        printing.json_line({"queue": queue, "resubmitted": done.resubmitted, "dry_run": dry_run})
    else:
        how = "would be sent again" if dry_run else "sent again"
        printing.line(f"{done.resubmitted} dead letters of {queue!r} {how}")
    if done.stopped:
        printing.note(
            f"Stopped after {done.seen} dead letters: locks of those that were passed over do not "
            "last longer. Repeat the command for the rest."
        )
    if done.missing:
        numbers_found = ", ".join(map(str, done.missing))
        raise NotFound(f"--number: no dead letter of {queue!r} has the number {numbers_found}.")


def _detects_duplicates(context: typer.Context, queue: str) -> bool:
    """Return whether a queue would drop a copy; True, too, when the key may not ask for that."""
    from bendybus.domain.errors import Unauthorized

    with bus_choice.target(context.obj) as target:
        try:
            with Management(target.connection_string, ca_file=target.ca_file) as bus:
                return bus.queue(queue).description.requires_duplicate_detection
        except Unauthorized:
            return True


class _Shown:
    """Prints batches of messages as they come."""

    def __init__(self, output: Output, dead_letters: bool) -> None:
        self._output = output
        self._wide = output is Output.WIDE
        self._dead = dead_letters
        columns: Sequence[str | Column] = _DEAD_COLUMNS if dead_letters else _PLAIN_COLUMNS
        self._table = printing.Table(_WIDE_COLUMNS if self._wide else columns)
        self._any = False

    def __call__(self, batch: Sequence[dict[str, Any]]) -> None:
        """Print a batch; flushed to the output when this returns."""
        if self._output in (Output.JSON, Output.YAML):
            for message in batch:
                printing.structured(message, self._output)
        else:
            self._any = True
            self._table.rows([self._row(message) for message in batch])

    def end(self) -> None:
        """Print the header alone, when there was nothing."""
        if not self._any and self._output in (Output.TABLE, Output.WIDE):
            self._table.rows([], header=True)

    def _row(self, message: dict[str, Any]) -> list[object]:
        number, reason = message["sequence_number"], message.get("dead_letter_reason")
        key = message.get("session_id") or message.get("partition_key")
        body = message.get("body", message.get("body_base64", ""))
        if message.get("body_type"):
            body = printing.json_text({message["body_type"]: body})
        base = [message["partition"], message.get("message_id"), key, message.get("delivery_count")]
        if self._wide:
            more = (message.get("enqueued_time_utc"), message.get("subject"), reason)
            return [number, *base, *more, body]
        if self._dead:
            return [number, message.get("message_id"), key, reason, body]
        return [number, *base, body]
