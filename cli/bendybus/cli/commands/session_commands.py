"""`session …`: the sessions of a queue, and what receivers keep for them."""

import base64
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bendybus.cli.commands.entity_commands import SourceName
from bendybus.cli.errors import UsageError
from bendybus.cli.output import printing
from bendybus.cli.output.printing import Output, OutputOption
from bendybus.cli.output.tables import Column

# The client takes longer to load than most commands.
if TYPE_CHECKING:
    from bendybus.client.management import SessionRuntimeProperties

session_app = typer.Typer(help="Sessions of a queue or subscription that requires them.")
SessionName = Annotated[str, typer.Argument(help="Name of the session.")]
_COLUMNS = (
    Column("SESSION", text=True),
    "ACTIVE",
    "DEFERRED",
    "SCHEDULED",
    "LOCKED",
    "STATE",
    Column("LOCKED UNTIL", text=True),
)


@session_app.command("list")
def session_list(
    context: typer.Context,
    queue: SourceName,
    most: Annotated[int, typer.Option("--max", min=1, help="Maximum number of sessions.")] = 1_000,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the sessions that have messages, a state or a receiver, with their counts."""
    from bendybus.cli.bus import messages

    with closing(messages.list_sessions(context.obj, queue)) as listed:
        found = list(islice(listed, most + 1))
    _show(found[:most], output)
    if len(found) > most:
        printing.note(f"There are more than {most} sessions; --max shows more of them.")


@session_app.command("state")
def session_state(
    context: typer.Context,
    queue: SourceName,
    session_id: SessionName,
    text: Annotated[str | None, typer.Option("--set", help="Set the state to this text.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Clear the state.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what receivers keep for a session, which must not be locked; or set or clear it."""
    from bendybus.cli.bus import messages

    if text is not None and clear:
        raise UsageError("--clear: cannot be used with --set.")
    with messages.client(context.obj) as bus:
        if text is not None or clear:
            messages.set_session_state(
                bus, queue, session_id, None if text is None else text.encode()
            )
            state = None if text is None else text.encode()
        else:
            state = messages.session_state(bus, queue, session_id)
    if output.structured:
        printing.structured({"session_id": session_id, **_as_json(state)}, output)
    elif text is not None or clear:
        done = "cleared" if clear else "set"
        printing.line(f"state of session {session_id!r} of {queue!r}: {done}")
    elif state is None:
        printing.note(f"Nothing is kept for session {session_id!r} of {queue!r}.")
    else:
        printing.line(state.decode(errors="backslashreplace"))


def _as_json(state: bytes | None) -> dict[str, str | None]:
    if state is None:
        return {"state": None}
    try:
        return {"state": state.decode()}
    except UnicodeDecodeError:
        return {"state_base64": base64.b64encode(state).decode()}


def _show(sessions: Sequence["SessionRuntimeProperties"], output: Output) -> None:
    """Print sessions with their counts."""
    if output.structured:
        for each in sessions:
            printing.structured(_session_as_json(each), output)
        return
    printing.table(_COLUMNS, [_row(each) for each in sessions])


def _session_as_json(session: "SessionRuntimeProperties") -> dict[str, Any]:
    """Return what a session holds."""
    until = session.locked_until_utc
    return {
        "session_id": session.session_id,
        "active_message_count": session.active_message_count,
        "deferred_message_count": session.deferred_message_count,
        "scheduled_message_count": session.scheduled_message_count,
        "locked_message_count": session.locked_message_count,
        "state_size_in_bytes": session.state_size_in_bytes,
        "locked_until_utc": until and until.isoformat(timespec="milliseconds"),
    }


def _row(session: "SessionRuntimeProperties") -> list[object]:
    state, until = session.state_size_in_bytes, session.locked_until_utc
    return [
        session.session_id,
        session.active_message_count,
        session.deferred_message_count,
        session.scheduled_message_count,
        session.locked_message_count,
        None if state is None else printing.size(state),
        until and until.astimezone().isoformat(" ", "seconds"),
    ]
