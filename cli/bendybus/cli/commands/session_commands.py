"""`session …`: the sessions of a queue, and what receivers keep for them."""

import base64
from contextlib import closing
from itertools import islice
from typing import Annotated

import typer

from bendybus.cli.commands.entity_commands import SourceName
from bendybus.cli.errors import UsageError
from bendybus.cli.output import printing
from bendybus.cli.output.printing import Output, OutputOption

session_app = typer.Typer(help="Sessions of a queue or subscription that requires them.")

SessionName = Annotated[str, typer.Argument(help="Name of the session.")]


@session_app.command("list")
def session_list(
    context: typer.Context,
    queue: SourceName,
    most: Annotated[int, typer.Option("--max", min=1, help="Maximum number of sessions.")] = 1_000,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the sessions that have messages, a state or a receiver, with their counts."""
    from bendybus.cli.bus import sessions
    from bendybus.cli.output import session_views

    with closing(sessions.listed(context.obj, queue)) as listed:
        found = list(islice(listed, most + 1))
    session_views.show(found[:most], output)
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
    from bendybus.cli.bus import messages, sessions

    if text is not None and clear:
        raise UsageError("--clear: cannot be used with --set.")
    with messages.client(context.obj) as bus:
        if text is not None or clear:
            sessions.set_state(bus, queue, session_id, None if text is None else text.encode())
            state = None if text is None else text.encode()
        else:
            state = sessions.state(bus, queue, session_id)
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
