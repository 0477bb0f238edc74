"""`receive`, `peek`, `purge` and `deadletter …`: reading and removing messages."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from bendybus.cli.bus import bus_choice
from bendybus.cli.bus.management import Management
from bendybus.cli.commands import entity_commands
from bendybus.cli.commands.entity_commands import SourceName
from bendybus.cli.errors import CliError, NotFound, Unreachable, UsageError
from bendybus.cli.output import printing
from bendybus.cli.output.printing import Output, OutputOption
from bendybus.cli.output.tables import Column
from bendybus.domain import entity
from bendybus.domain.sub_queue import SubQueue

_ALL: Final = 2**31 - 1
_BODY: Final = Column("BODY", cut=16, room=24, text=True)
_KEY: Final = Column("KEY", cut=6, text=True)
_ID: Final = Column("ID", cut=8, room=18, text=True)
# As wide as the number of the last of 16 partitions.
_NUMBER: Final = Column("SEQUENCE", room=16)
_PLAIN_COLUMNS: Final = (_NUMBER, "PARTITION", _ID, _KEY, "DELIVERIES", _BODY)
_DEAD_COLUMNS: Final = (_NUMBER, _ID, _KEY, Column("REASON", cut=12, text=True), _BODY)
_WIDE_COLUMNS: Final = (
    _NUMBER, "PARTITION", Column("ID", text=True), Column("KEY", text=True), "DELIVERIES",
    Column("ENQUEUED", text=True), Column("SUBJECT", text=True), "REASON",
    Column("BODY", text=True),
)  # fmt: skip
deadletter_app = typer.Typer(help="Messages that could not be processed.")

Most = Annotated[int, typer.Option("--max", min=1, help="Maximum number of messages.")]
Wait = Annotated[float, typer.Option(min=0, help="Seconds without a message after which to end.")]
Session = Annotated[str | None, typer.Option("--session", help="Only messages of this session.")]
DeadLetters = Annotated[bool, typer.Option("--dead-letters", help="Use the dead-letter sub-queue.")]
Undelivered = Annotated[
    bool,
    typer.Option(
        "--transfer-dead-letters", help="Use the sub-queue of messages that could not be forwarded."
    ),
]


class Mode(StrEnum):
    """How messages are received."""

    PEEK_LOCK = "peek-lock"
    RECEIVE_AND_DELETE = "receive-and-delete"


class PurgedState(StrEnum):
    """The states of messages."""

    ACTIVE = "active"
    DEFERRED = "deferred"
    SCHEDULED = "scheduled"


def receive(
    context: typer.Context,
    queue: SourceName,
    most: Annotated[
        int | None, typer.Option("--max", min=1, help="Maximum number of messages; default 1.")
    ] = None,
    wait: Wait = 5.0,
    mode: Annotated[
        Mode, typer.Option(help="The same for both: what was printed is removed from the queue.")
    ] = Mode.PEEK_LOCK,
    complete: Annotated[
        bool, typer.Option(help="Complete printed messages, or release them uncounted.")
    ] = True,
    abandon: Annotated[
        str, typer.Option(help="Abandon printed messages for this long instead: PT5M, PT2H, …")
    ] = "",
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more until Ctrl-C.")] = False,
    dead_letters: DeadLetters = False,
    undelivered: Undelivered = False,
    session: Session = None,
    next_session: Annotated[
        bool, typer.Option("--next-session", help="Accept the next session that is free.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Receive messages, print them, and complete them."""
    from bendybus.cli.bus import messages
    from bendybus.cli.bus.messages import Receive

    if follow and not complete:
        raise UsageError(
            "--follow: cannot be used with --no-complete; use peek to read without completing."
        )
    if mode is Mode.RECEIVE_AND_DELETE and not complete:
        raise UsageError(
            "--no-complete: cannot be used with --mode receive-and-delete, which deletes "
            "messages when they are printed."
        )
    if abandon and (mode is Mode.RECEIVE_AND_DELETE or not complete):
        raise UsageError("--abandon: cannot be used with --no-complete or receive-and-delete.")
    if (session is not None) + next_session + dead_letters > 1:
        raise UsageError("--session, --next-session, --dead-letters: only one of them is allowed.")
    if undelivered and (session is not None or next_session):
        raise UsageError("--transfer-dead-letters: sub-queues have no sessions. Leave one out.")
    sub_queue = _sub_queue(dead_letters, undelivered)
    shown = _Shown(output, dead_letters=bool(sub_queue))
    wanted = Receive(
        most if most is not None else _ALL if follow else 1,
        max(wait, 0.1),
        complete=complete,
        sub_queue=sub_queue,
        follow=follow,
        session=session,
        next_session=next_session,
        abandon_ms=messages.abandon_ms(abandon),
    )
    with messages.client(context.obj) as bus:
        early = messages.receive(bus, queue, wanted, shown)
    shown.end()
    if early:
        printing.note(
            "Stopped early: the locks expire, so messages that were not completed were released. "
            "Use peek to show any number of messages."
        )


def peek(
    context: typer.Context,
    queue: SourceName,
    most: Most = 10,
    start: Annotated[int, typer.Option("--from", min=0, help="Sequence number; 0: oldest.")] = 0,
    dead_letters: DeadLetters = False,
    undelivered: Undelivered = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show messages without locking or removing them."""
    from bendybus.cli.bus import messages

    sub_queue = _sub_queue(dead_letters, undelivered)
    shown = _Shown(output, dead_letters=bool(sub_queue))
    with messages.client(context.obj) as bus:
        messages.peek(bus, queue, most=most, start=start, sub_queue=sub_queue, show=shown)
    shown.end()


def purge(
    context: typer.Context,
    queue: SourceName,
    dead_letters: DeadLetters = False,
    undelivered: Undelivered = False,
    states: Annotated[
        list[PurgedState] | None,
        typer.Option("--state", help="Only messages in this state. Repeatable."),
    ] = None,
    older_than: Annotated[
        str, typer.Option(help="Only messages enqueued or scheduled longer ago: PT1H, P7D.")
    ] = "",
    yes: entity_commands.Yes = False,
    dry_run: entity_commands.DryRun = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete all messages of a queue, except those that a receiver has locked."""
    from bendybus.cli.bus import messages

    sub_queue = _sub_queue(dead_letters, undelivered)
    if dry_run and older_than:
        raise UsageError("--dry-run: messages are not counted by age. Leave out --older-than.")
    if dry_run:
        deleted = _would_purge(context, queue, sub_queue, states or list(PurgedState))
    else:
        before = messages.moment_before(older_than)
        named = " and ".join(states or []) or "all"
        what = f"{named} {'dead letters' if sub_queue else 'messages'}"
        entity_commands.confirm(f"Delete {what} of {queue!r}?", yes)
        with messages.client(context.obj) as bus:
            deleted = messages.purge(bus, queue, sub_queue=sub_queue, states=states, before=before)
    done = "would be deleted" if dry_run else "deleted"
    facts = {"queue": queue, "deleted": deleted, "dry_run": dry_run}
    printing.result(facts, f"{deleted} {done} from {queue!r}", output)


def _sub_queue(dead_letters: bool, undelivered: bool) -> str:
    """Return what the client calls the sub-queue that the options name; "": none."""
    if dead_letters and undelivered:
        raise UsageError("--dead-letters, --transfer-dead-letters: only one of them is allowed.")
    return "deadletter" if dead_letters else "transferdeadletter" if undelivered else ""


def _would_purge(
    context: typer.Context, queue: str, sub_queue: str, states: Sequence[PurgedState]
) -> int:
    name, named = entity.split_path(queue)
    dead_letters = sub_queue == "deadletter" or named is SubQueue.DEAD_LETTER
    undelivered = sub_queue == "transferdeadletter" or named is SubQueue.TRANSFER_DEAD_LETTER
    if (dead_letters or undelivered) and set(states) != set(PurgedState):
        raise UsageError("--dry-run: dead letters are not counted by state. Leave out --state.")
    with entity_commands.connected(context) as bus:
        found = bus.holding(name)
        away = entity_commands.away_from(bus, found)
    if away:
        raise Unreachable(f"Not all messages of {queue!r} can be counted. {' '.join(away)}")
    counts = found.runtime.count_details
    if undelivered:
        return counts.transfer_dead_letter_message_count
    if dead_letters:
        return counts.dead_letter_message_count
    by_state = {
        PurgedState.ACTIVE: max(0, counts.active_message_count - counts.locked_message_count),
        PurgedState.SCHEDULED: counts.scheduled_message_count,
        PurgedState.DEFERRED: counts.deferred_message_count,
    }
    return sum(by_state[state] for state in set(states))


@deadletter_app.command("list")
def deadletter_list(
    context: typer.Context,
    queue: SourceName,
    most: Most = 10,
    undelivered: Undelivered = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show dead letters and their reasons."""
    peek(context, queue, most, 0, not undelivered, undelivered, output)


@deadletter_app.command("resubmit")
def deadletter_resubmit(
    context: typer.Context,
    queue: SourceName,
    most: Most = _ALL,
    wait: Wait = 2.0,
    numbers: Annotated[
        list[int] | None,
        typer.Option("--number", min=1, help="Only this sequence number; repeatable."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE: only if reason, subject, … or a property has this value."),
    ] = None,
    undelivered: Undelivered = False,
    to: Annotated[
        str, typer.Option("--to", help="The queue or topic to send them to instead.")
    ] = "",
    dry_run: entity_commands.DryRun = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send dead letters to their queue again.

    Each is completed after its copy is stored.

    Those of a subscription are sent to its topic, so that other subscriptions get them again, too.

    In a queue that detects duplicates the copy gets a MessageId of its own.

    The original one stays in the property ResubmittedMessageId.
    """
    from bendybus.cli.bus import messages, resubmit

    destination = resubmit.destination(queue, to, undelivered=undelivered)
    wanted = resubmit.Resubmit(
        most,
        max(wait, 0.1),
        destination,
        frozenset(numbers or ()),
        tuple(resubmit.parse_where(text) for text in where or ()),
        detects=_detects_duplicates(context, destination),
        dry_run=dry_run,
        sub_queue=_sub_queue(not undelivered, undelivered),
    )
    with messages.client(context.obj) as bus, printing.progress("resubmitting", None) as step:
        done = resubmit.resubmit(bus, queue, wanted, step)
    how = "would be sent again" if dry_run else "sent again"
    letters = "dead letter" if done.resubmitted == 1 else "dead letters"
    facts = {"queue": queue, "resubmitted": done.resubmitted, "dry_run": dry_run}
    printing.result(facts, f"{done.resubmitted} {letters} of {queue!r} {how}", output)
    if done.stopped:
        printing.note(
            f"Stopped after {done.seen} dead letters: the locks of skipped ones expire. "
            "Repeat the command for the rest."
        )
    for number, why in done.refused:
        printing.note(f"Not sent again: dead letter {number}: {why}")
    if done.later:
        printing.note(
            f"Not sent again: {done.later} that were sent after this command began. Copies of its "
            "own become dead letters again if they expire, or are refused, as before."
        )
    if done.refused:
        count = len(done.refused)
        raise CliError(f"{count} of {queue!r} could not be sent again and stay dead letters.")
    if done.resubmitted < most and (done.missing or not numbers):
        _check_nothing_is_away(context, queue)
    if done.missing:
        numbers_found = ", ".join(map(str, done.missing))
        raise NotFound(f"--number: no dead letter of {queue!r} has the number {numbers_found}.")


def _check_nothing_is_away(context: typer.Context, queue: str) -> None:
    """Raise Unreachable if a partition does not serve: its dead letters were not seen."""
    from bendybus.domain.errors import Unauthorized

    name, _ = entity.split_path(queue)
    with entity_commands.connected(context) as bus:
        try:
            away = entity_commands.away_from(bus, bus.holding(name))
        except Unauthorized:
            return
    if away:
        raise Unreachable(
            f"Not all dead letters of {queue!r} were seen. {' '.join(away)} Repeat the command "
            "when all partitions serve."
        )


def _detects_duplicates(context: typer.Context, queue: str) -> bool:
    """Return whether a queue would drop a copy; True, too, when the key may not ask for that."""
    from bendybus.domain.errors import Unauthorized

    with bus_choice.target(context.obj) as target:
        try:
            with Management(target.connection_string, ca_file=target.ca_file) as bus:
                return bus.detects_duplicates(queue)
        except Unauthorized:
            return True


class _Shown:
    """Prints batches of messages as they arrive."""

    def __init__(self, output: Output, *, dead_letters: bool) -> None:
        self._output = output
        self._wide = output is Output.WIDE
        self._dead = dead_letters
        columns: Sequence[str | Column] = _DEAD_COLUMNS if dead_letters else _PLAIN_COLUMNS
        self._table = printing.Table(_WIDE_COLUMNS if self._wide else columns)
        self._any = False

    def __call__(self, batch: Sequence[dict[str, Any]]) -> Iterator[None]:
        """Print messages; yields when each is flushed to the output."""
        if self._output.structured:
            for message in batch:
                printing.structured(message, self._output)
                yield
        else:
            self._any = True
            yield from self._table.each([self._row(message) for message in batch])

    def end(self) -> None:
        """Print the header alone, when there was nothing."""
        if not self._any and not self._output.structured:
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
