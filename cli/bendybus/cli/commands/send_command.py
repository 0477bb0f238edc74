"""`send`: one message from the command line, or one per line of a file or of stdin."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer

from bendybus.cli.bus import setting_texts
from bendybus.cli.commands import completion
from bendybus.cli.errors import CliError, UsageError
from bendybus.cli.output import printing
from bendybus.cli.output.input_lines import InputLines
from bendybus.cli.output.printing import Output, OutputOption

if TYPE_CHECKING:
    from bendybus.cli.bus.send_messages import Progress
    from bendybus.cli.output.json_lines import Fields, Outgoing

# Set by an option; as an application property it would have no effect.
_OPTION_OF: Final = {"time_to_live": "--ttl", "scheduled_enqueue_time_utc": "--at"}


def send(
    context: typer.Context,
    queue: Annotated[
        str,
        typer.Argument(
            help="Name of the queue or topic.", autocompletion=completion.destination_names
        ),
    ],
    body: Annotated[
        str | None, typer.Argument(help="The body; without it, or -: --from-file or stdin.")
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(help="JSON lines: a body, or an object with `body`; - is stdin."),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Send the whole file, or stdin, as one body.")
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
        bool, typer.Option("--resume", help="Continue an interrupted import of this file.")
    ] = False,
    output: OutputOption = Output.TABLE,
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
        raise UsageError("--resume requires --from-file FILE, without --raw and --count.")
    progress = send_messages.Progress()
    if resume and file:
        progress = send_messages.read_progress(file, queue)
    fields = Fields(key_field, session_field, id_field)
    source = _read_raw(file) if raw and body is None else _outgoing(body, file, fields)
    options = _options(properties or [], ttl, at)
    total = count if body is not None else None
    # A bar would be drawn over what is typed.
    bar = printing.progress("sending", total, shown=body is not None or not _is_keyboard(file))
    try:
        with messages.client(context.obj) as bus, bar as step:
            send_messages.send(bus, queue, _given(source, options, count), step, progress)
    except (CliError, KeyboardInterrupt) as error:
        if count > 1:
            _say_what_is_stored(progress, error)
        elif body is None and not raw:
            _say_where_it_stopped(file, queue, progress, error)
        raise
    if file and not raw:
        send_messages.forget_progress(file)
    facts = {"queue": queue, "sent": progress.sent}
    printing.result(facts, f"{progress.sent} sent to {queue!r}", output)


def _stopped(progress: "Progress") -> str:
    said = f"Stopped: {progress.sent} messages are stored"
    if progress.uncertain:
        said += f", and {progress.uncertain} more may be stored"
    return said


def _say_what_is_stored(progress: "Progress", error: BaseException) -> None:
    """Print how many copies are stored: what is sent several times cannot be resumed."""
    unsent = progress.taken - progress.sent - progress.uncertain
    interrupted = unsent and isinstance(error, KeyboardInterrupt)
    if progress.sent or progress.uncertain or interrupted:
        more = f"; {unsent} were read and not sent" if unsent else ""
        printing.note(f"{_stopped(progress)}{more}.")


def _say_where_it_stopped(
    file: Path | None, queue: str, progress: "Progress", error: BaseException
) -> None:
    """Print how much of an import is stored, and how to continue."""
    from bendybus.cli.bus import send_messages

    unsent = progress.taken - progress.sent - progress.uncertain
    if not progress.sent and not progress.uncertain and not progress.through:
        if unsent and isinstance(error, KeyboardInterrupt):
            printing.note(f"Not sent: {unsent} lines that were read.")
        return
    said = _stopped(progress)
    if unsent:
        said += f"; {unsent} lines were read and not sent"
    if file is not None and send_messages.keep_progress(file, queue, progress):
        printing.note(f"{said}. Repeat the command with --resume to continue.")
        return
    if progress.through:
        said += f": all up to line {progress.through}"
    if progress.also:
        said += f", {len(progress.also)} of them after it" if progress.through else ""
    printing.note(f"{said}.")


def _outgoing(body: str | None, file: Path | None, fields: "Fields") -> "Iterator[Outgoing | None]":
    from bendybus.cli.output import json_lines

    if body is not None:
        yield json_lines.parse(body, 1, fields)
        return
    number = 0
    for line in _read(file):
        if line is None:
            yield None
            continue
        number += 1
        # A blank line is a message, too: an empty one.
        yield json_lines.parse(line, number, fields)


def _read(path: Path | None) -> Iterator[str | None]:
    """Yield the lines of a file or of stdin; None: no more came for a moment."""
    if path is None:
        if _is_keyboard(path):
            printing.note("Reading messages from the keyboard, one per line; Ctrl-D ends.")
        yield from _decoded(sys.stdin.buffer, "stdin")
        return
    try:
        with path.open("rb") as file:
            yield from _decoded(file, str(path))
    except OSError as error:
        raise _unreadable(path, error) from error


def _decoded(file: BinaryIO, name: str) -> Iterator[str | None]:
    number, lines = 0, InputLines(file)
    try:
        for line in lines:
            number += line is not None
            yield line if line is None else line.decode("utf-8")
    except UnicodeDecodeError as error:
        do = "Save" if file is not sys.stdin.buffer else "Send"
        raise CliError(
            f"{name}, line {number}: is not UTF-8 text. {do} it as UTF-8, or use --raw."
        ) from error
    except KeyboardInterrupt:
        if lines.unfinished:
            printing.note(f"Not sent: {lines.unfinished} bytes of a line that has no end yet.")
        raise


def _read_raw(path: Path | None) -> "Iterator[Outgoing | None]":
    from bendybus.cli.output.json_lines import Outgoing

    if _is_keyboard(path):
        printing.note("Reading one message from the keyboard; Ctrl-D ends it.")
    try:
        yield Outgoing(sys.stdin.buffer.read() if path is None else path.read_bytes(), line=1)
    except OSError as error:
        raise _unreadable(path or Path("stdin"), error) from error


def _is_keyboard(path: Path | None) -> bool:
    return path is None and sys.stdin.isatty()


def _unreadable(path: Path, error: OSError) -> CliError:
    reason = (error.strerror or "cannot be read").lower()
    return CliError(f"{path}: {reason}. Check the path after --from-file.")


def _options(properties: Sequence[str], ttl: str, at: str) -> dict[str, Any]:
    """Return the properties that every message gets."""
    from bendybus.cli.output import json_lines

    made: dict[str, Any] = {}
    application: dict[str, Any] = {}
    for name, value in setting_texts.by_name("--property", "NAME=VALUE", properties).items():
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
    source: "Iterator[Outgoing | None]", options: dict[str, Any], count: int
) -> "Iterator[Outgoing | None]":
    """Return the messages with the properties from the command line."""
    from dataclasses import replace

    name = "application_properties"
    for each in source:
        if each is None:
            yield None
            continue
        if options:
            both = {**each.properties, **options}
            if name in each.properties and name in options:
                both[name] = {**each.properties[name], **options[name]}
            each = replace(each, properties=both)
        for _ in range(count):
            yield each
