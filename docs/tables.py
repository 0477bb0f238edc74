"""Reference pages of errors and limits, from the tables of the code. Used by `docs.generate`."""

import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Final

from bendybus.client import exceptions
from bendybus.domain import durations, errors, limits
from bendybus.domain.errors import BusError
from bendybus.frontend.core.quota import bounds
from bendybus.frontend.core.quota.bounds import Bounds
from bendybus.wire import statuses

_BOUNDS_BEGIN: Final = "<!-- The table of bounds: from code, by `make docs`. -->\n"
_BOUNDS_END: Final = "<!-- End of the table of bounds. -->\n"

# What a reader of the page does about each; the facts beside it come from the code.
ADVICE: Final[dict[str, str]] = {
    "INTERNAL": "A defect, or a status that no server of ours made. Look into the servers' logs.",
    "UNAVAILABLE": "Wait and repeat; the client does so automatically. Check that the bus runs.",
    "PARTITION_UNAVAILABLE": "Repeat later, or send without a partition key. "
    "`bendybus describe queue QUEUE` says which partition is away.",
    "DISK_LOW": "Receive or purge messages, or give the volumes more room: the condition `DiskLow` "
    "shows which. `send_messages` does not retry it.",
    "SERVER_BUSY": "Wait `retry_after_ms` and repeat; the client does. Send less at a time.",
    "SERVICE_TIMEOUT": "Repeat: it was not done. Pass a longer `timeout`: with 15 s or less a send "
    "may end before another partition is tried.",
    "OUTCOME_UNKNOWN": "The message may be stored. The client has repeated it under its name until "
    "the time was over; sending it again may store it twice. Detect duplicates where that matters.",
    "ENTITY_DISABLED": "Set the queue's `status` to Active.",
    "GENERATION_MISMATCH": "Repeat; servers bring each other up to date. For an update: read the "
    "queue again first.",
    "INVALID_ARGUMENT": "Correct the value that `field` names.",
    "INVALID_OPERATION": "Change the combination that the sentence names.",
    "PARTITIONING_IMMUTABLE": "Create a queue of another name with the partitioning you want.",
    "MANAGED_BY_MANIFEST": "Edit the manifest and apply it.",
    "RETAINED_DATA": "Adopt the data with the manifest, or purge it: "
    "[retained data](../how-to/retained-data.md).",
    "ENTITY_ORPHANED": "Receive what it holds; [adopt or purge it](../how-to/retained-data.md).",
    "ENTITY_NOT_FOUND": "Create the queue, or correct its name.",
    "ENTITY_ALREADY_EXISTS": "Choose another name, or update what is there.",
    "MESSAGE_NOT_FOUND": "The message was settled, or is not deferred (or scheduled) any more.",
    "SESSION_CANNOT_BE_LOCKED": "Another receiver has the session: accept it again later, or "
    "accept the next available session.",
    "ENTITY_DRAINED": "A data pipeline drains the entity: receive from another subscription, or "
    "stop the pipeline.",
    "DRAIN_LEASE_LOST": "Run one data pipeline a queue or subscription. Start this one again to "
    "take the lease.",
    "PRODUCER_FENCED": "A later attempt of the same pipeline runs: stop the earlier one.",
    "SESSION_LOCK_LOST": "Accept the session again; its messages come again in their order. Renew "
    "the session's lock, or choose a longer `lockDuration`.",
    "MESSAGE_LOCK_LOST": "The message comes again: settle that one. Renew locks, or choose a "
    "longer `lockDuration`.",
    "MESSAGE_SIZE_EXCEEDED": "Send less at a time, or a reference to data kept elsewhere.",
    "QUOTA_EXCEEDED": "Receive, purge, or look at the dead letters: they count, too.",
    "UNAUTHENTICATED": "Use the connection string of this bus; `cause` says what is wrong with the "
    "token. See [security](security.md).",
    "UNAUTHORIZED": "Use a key of a policy with the right to do this.",
}
_CONSTANT: Final = re.compile(r"^([A-Z][A-Z_]+)\b[^#]*(?:  # (.+))?$")
_BASES: Final = ("KB", "MB", "SECOND_MS", "MINUTE_MS", "DAY_MS")
_SECTION: Final = re.compile(r"^# ([A-Z].+)$")


def errors_page() -> str:
    """Return what can go wrong: on the wire, in the client, and what to do."""
    parts = [
        "# Errors\n",
        "`reason` is stable: it is `google.rpc.ErrorInfo.reason` (domain `bendybus.io`) of a unary "
        "call, `Error.reason` inside a stream, and `error.reason` in the Python client, "
        "`error.error_code` in an HttpResponseError of administration. The "
        "sentence with it is for people and may change. Retryable errors are repeated by the "
        "client until its `retry_total` or the time given is over.\n",
        "| reason | gRPC status | Python client raises | retry | when | what to do |\n"
        "|---|---|---|---|---|---|",
    ]
    rows = [_error(kind) for kind in sorted(errors.all_errors(), key=lambda kind: kind.reason)]
    return "\n".join((*parts, *rows)) + "\n"


def _error(kind: type[BusError]) -> str:
    made = errors.InvalidArgument("x", "y") if kind is errors.InvalidArgument else kind("x")
    raised = type(exceptions.from_bus_error(made)).__name__
    managing = type(exceptions.from_management_error(made)).__name__
    if managing != raised:
        raised = f"{raised}; administration: {managing}"
    first_line = (inspect.getdoc(kind) or "").splitlines()[0]
    when = first_line.removeprefix("Raised when ").rstrip(".")
    cells = (
        f"`{kind.reason}`",
        statuses.CODES[kind].name,
        raised,
        "yes" if kind.retryable else "no",
        when.partition("; base of")[0],
        ADVICE[kind.reason],
    )
    return f"| {' | '.join(cells)} |"


def limits_page() -> str:
    """Return every limit and default, by section of the module."""
    parts = [
        "# Limits and defaults\n",
        "From `domain/bendybus/domain/limits.py`. Those of Service Bus first; *our own bounds* "
        "are of this implementation.\n",
    ]
    for title, rows in _sections(limits):
        parts.append(f"## {title}\n\n| name | value | |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def with_bounds(page: str) -> str:
    """Return a page with the table of what callers may hold of a front end in its place."""
    before, _, rest = page.partition(_BOUNDS_BEGIN)
    _, _, after = rest.partition(_BOUNDS_END)
    head = "| what | a connection | a policy | all | beyond that it |\n|---|---|---|---|---|\n"
    rows = (
        f"| {each.what} | {' | '.join(_bound(each, most) for most in _levels(each))} "
        f"| {each.beyond} |"
        for each in bounds.TABLE
    )
    return before + _BOUNDS_BEGIN + head + "\n".join(rows) + "\n" + _BOUNDS_END + after


def _levels(of: Bounds) -> tuple[int, int, int]:
    return of.connection, of.policy, of.all


def _bound(of: Bounds, most: int) -> str:
    if most == bounds.UNBOUNDED:
        return "–"
    return f"{most / limits.MB:.0f} MB" if of.in_bytes else f"{most:,}"


def _sections(module: ModuleType) -> Iterator[tuple[str, list[str]]]:
    title, rows = "", list[str]()
    for line in inspect.getsource(module).splitlines():
        if line.startswith("def "):
            break
        if section := _SECTION.match(line):
            if rows:
                yield title, rows
            title, rows = section.group(1), []
        elif (constant := _CONSTANT.match(line)) and constant.group(1) not in _BASES:
            name, note = constant.groups()
            rows.append(f"| `{name}` | {_shown(name, getattr(module, name))} | {note or ''} |")
    yield title, rows


def _shown(name: str, value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(entry) for entry in value)
    assert isinstance(value, int), name
    if "_MS" in name:
        return f"{value:,} ms" if value == limits.TIME_TO_LIVE_MS_MAX else durations.render(value)
    if "_BYTES" in name:
        if value < limits.KB:
            return f"{value} bytes"
        large = value >= limits.MB
        return f"{value // limits.MB} MB" if large else f"{value // limits.KB} KB"
    for unit in ("_KB", "_MB"):
        if unit in name:
            return f"{value:,} {unit[1:]}"
    return f"{value:,}"
