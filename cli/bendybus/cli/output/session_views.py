"""Sessions as a table, JSON or YAML."""

from collections.abc import Sequence
from typing import Any

from bendybus.cli.output import printing
from bendybus.cli.output.printing import Output
from bendybus.cli.output.tables import Column
from bendybus.client.management import SessionRuntimeProperties

_COLUMNS = (
    Column("SESSION", text=True),
    "ACTIVE",
    "DEFERRED",
    "SCHEDULED",
    "LOCKED",
    "STATE",
    Column("LOCKED UNTIL", text=True),
)


def show(sessions: Sequence[SessionRuntimeProperties], output: Output) -> None:
    """Print sessions with their counts."""
    if output.structured:
        for each in sessions:
            printing.structured(as_json(each), output)
        return
    printing.table(_COLUMNS, [_row(each) for each in sessions])


def as_json(session: SessionRuntimeProperties) -> dict[str, Any]:
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


def _row(session: SessionRuntimeProperties) -> list[object]:
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
