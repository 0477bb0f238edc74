"""`send`, `receive`, `peek`, `purge`, `deadletter …`: messages, for people and for scripts."""

import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bendybus.cli import entity_commands, lines, printing
from bendybus.cli.errors import CliError, UsageError
from bendybus.cli.lines import Fields, Outgoing
from bendybus.cli.printing import Output
from bendybus.cli.process_commands import JsonFlag

_BODY_SHOWN: Final = 60
_ALL: Final = 2**31 - 1
deadletter_app = typer.Typer(help="Messages that could not be processed.")

Queue = Annotated[str, typer.Argument(help="Name of the queue.")]
Most = Annotated[int, typer.Option("--max", min=1, help="At most so many.")]
Wait = Annotated[float, typer.Option(min=0, help="Seconds without a message after which to end.")]
DeadLetters = Annotated[bool, typer.Option("--dead-letters", help="Of the dead-letter sub-queue.")]


class Mode(StrEnum):
    """How messages are received."""

    PEEK_LOCK = "peek-lock"
    RECEIVE_AND_DELETE = "receive-and-delete"


def send(
    context: typer.Context,
    queue: Queue,
    body: Annotated[
        str | None, typer.Argument(help="The message; else --from-file or stdin.")
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option(help="JSON lines: a body, or an object with `body`.")
    ] = None,
    key_field: Annotated[str, typer.Option(help="Field that becomes PartitionKey.")] = "",
    session_field: Annotated[str, typer.Option(help="Field that becomes SessionId.")] = "",
    id_field: Annotated[str, typer.Option(help="Field that becomes MessageId.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Send messages: one from the command line, or one per line."""
    from bendybus.cli import messages

    fields = Fields(key_field, session_field, id_field)
    if body is not None and from_file is not None:
        raise UsageError("Give a body or --from-file, not both.")
    source: Iterable[str] = [body] if body is not None else _read(from_file)
    total = 1 if body is not None else None
    with messages.client(context.obj) as bus, printing.progress("sending", total) as step:
        sent = messages.send(bus, queue, _outgoing(source, fields), step)
    if as_json:
        printing.json_line({"queue": queue, "sent": sent})
    else:
        printing.line(f"{sent} sent to {queue!r}")


def _read(path: Path | None) -> Iterator[str]:
    if path is None:
        if sys.stdin.isatty():
            printing.note("Reading messages from the keyboard, one a line; Ctrl-D ends.")
        yield from sys.stdin
        return
    try:
        with path.open(encoding="utf-8") as file:
            yield from file
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise CliError(f"{path}: {reason}. Check the path after --from-file.") from error
    except UnicodeDecodeError as error:
        raise CliError(f"{path} is not UTF-8 text. Save it as UTF-8.") from error


def _outgoing(source: Iterable[str], fields: Fields) -> Iterator[Outgoing]:
    for number, line in enumerate(source, 1):
        if line.strip() or number == 1:
            yield lines.parse(line, number, fields)


def receive(
    context: typer.Context,
    queue: Queue,
    most: Most = 1,
    wait: Wait = 5.0,
    mode: Annotated[
        Mode, typer.Option(help="Lock until settled, or take at once.")
    ] = Mode.PEEK_LOCK,
    complete: Annotated[
        bool, typer.Option(help="Complete what was printed, or give it back.")
    ] = True,
    dead_letters: DeadLetters = False,
    output: entity_commands.OutputOption = Output.TABLE,
    as_json: JsonFlag = False,
) -> None:
    """Receive messages, print them, and complete them."""
    from bendybus.cli import messages

    with messages.client(context.obj) as bus:
        found = messages.receive(
            bus,
            queue,
            most=most,
            wait_s=wait,
            delete=mode is Mode.RECEIVE_AND_DELETE,
            complete=complete,
            dead_letters=dead_letters,
        )
        _show(found, Output.JSON if as_json else output)


def peek(
    context: typer.Context,
    queue: Queue,
    most: Most = 10,
    start: Annotated[int, typer.Option("--from", min=0, help="Sequence number; 0: oldest.")] = 0,
    dead_letters: DeadLetters = False,
    output: entity_commands.OutputOption = Output.TABLE,
    as_json: JsonFlag = False,
) -> None:
    """Show messages and leave them where they are."""
    from bendybus.cli import messages

    with messages.client(context.obj) as bus:
        found = messages.peek(bus, queue, most=most, start=start, dead_letters=dead_letters)
        _show(found, Output.JSON if as_json else output)


def purge(
    context: typer.Context,
    queue: Queue,
    dead_letters: DeadLetters = False,
    yes: entity_commands.Yes = False,
    as_json: JsonFlag = False,
) -> None:
    """Delete every message of a queue that is not locked."""
    from bendybus.cli import messages

    what = f"dead letters of queue {queue!r}" if dead_letters else f"messages of queue {queue!r}"
    entity_commands.confirm(f"Delete all {what}?", yes)
    with messages.client(context.obj) as bus:
        deleted = messages.purge(bus, queue, dead_letters=dead_letters)
    if as_json:
        printing.json_line({"queue": queue, "deleted": deleted})
    else:
        printing.line(f"{deleted} deleted from {queue!r}")


@deadletter_app.command("list")
def deadletter_list(
    context: typer.Context,
    queue: Queue,
    most: Most = 10,
    output: entity_commands.OutputOption = Output.TABLE,
    as_json: JsonFlag = False,
) -> None:
    """Show dead letters, and why they are."""
    peek(context, queue, most, 0, True, output, as_json)


@deadletter_app.command("resubmit")
def deadletter_resubmit(
    context: typer.Context,
    queue: Queue,
    most: Most = _ALL,
    wait: Wait = 2.0,
    as_json: JsonFlag = False,
) -> None:
    """Send dead letters to their queue again."""
    from bendybus.cli import messages

    with messages.client(context.obj) as bus, printing.progress("resubmitting", None) as step:
        count = messages.resubmit(bus, queue, most=most, wait_s=wait, step=step)
    if as_json:
        printing.json_line({"queue": queue, "resubmitted": count})
    else:
        printing.line(f"{count} dead letters of {queue!r} sent again")


def _show(found: Iterable[dict[str, Any]], output: Output) -> None:
    """Print messages: JSON as they come, a table when all are there."""
    if output is Output.JSON:
        for message in found:
            printing.json_line(message)
        return
    wide = output is Output.WIDE
    columns = ["SEQUENCE", "PARTITION", "ID", "KEY", "DELIVERIES"]
    columns += ["ENQUEUED", "SUBJECT"] if wide else []
    rows = []
    reasons = False
    for message in found:
        reasons = reasons or "dead_letter_reason" in message
        rows.append(message)
    columns += ["REASON", "BODY"] if reasons else ["BODY"]
    printing.table(columns, (_row(message, wide, reasons) for message in rows))


def _row(message: dict[str, Any], wide: bool, reasons: bool) -> list[object]:
    key = message.get("session_id") or message.get("partition_key")
    row: list[object] = [
        message["sequence_number"],
        message["partition"],
        message.get("message_id"),
        key,
        message.get("delivery_count"),
    ]
    row += [message.get("enqueued_time_utc"), message.get("subject")] if wide else []
    row += [message.get("dead_letter_reason")] if reasons else []
    body = message.get("body", message.get("body_base64", ""))
    shortened = body if wide or len(body) <= _BODY_SHOWN else body[: _BODY_SHOWN - 1] + "…"
    return [*row, shortened]
