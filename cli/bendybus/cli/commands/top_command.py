"""`top`: the entities of a bus with their traffic and counts, live."""

import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from bendybus.cli.bus import bus_choice
from bendybus.cli.bus.bus_choice import Choice
from bendybus.cli.commands.entity_commands import connected
from bendybus.cli.errors import CliError
from bendybus.cli.local import control
from bendybus.cli.output import printing, sums
from bendybus.cli.output.printing import Output, OutputOption
from bendybus.cli.output.sums import Sum
from bendybus.cli.output.tables import Column
from bendybus.crds.bundle import KINDS
from bendybus.wire import entities

_METRICS_S: Final = 2.0
_COLUMNS: Final = (
    Column("NAME", cut=16, text=True), "IN/S", "OUT/S", "ACTIVE", "DEAD", "SCHEDULED", "SIZE",
)  # fmt: skip
_SAMPLE: Final = re.compile(
    r'^bendybus_(incoming|outgoing)_messages_total\{entity="((?:[^"\\]|\\.)*)"\} (\S+)$',
    re.MULTILINE,
)
_ESCAPED: Final = re.compile(r"\\(.)")
# By the lower-case name of an entity: how many came in, and went out, so far.
Counters = Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Rates:
    """Messages a second."""

    incoming: float = 0.0
    outgoing: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """An entity at one moment. None: not known."""

    kind: str
    name: str
    rates: Rates | None
    active: Sum | None
    dead: Sum | None
    scheduled: Sum | None
    size: Sum | None
    reachable: bool

    @property
    def order(self) -> tuple[float, int, str]:
        """Where it stands: the busiest first, then the fullest."""
        moved = self.rates.incoming + self.rates.outgoing if self.rates else 0.0
        return (-moved, -(self.active.at_least if self.active else 0), self.name.lower())


def top(
    context: typer.Context,
    most: Annotated[
        int, typer.Option("--max", min=1, help="Maximum number of entities: the busiest.")
    ] = 20,
    interval: Annotated[
        float, typer.Option(min=0.5, max=3_600, help="Seconds between two readings.")
    ] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="Show one reading and end; so does a pipe.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the busiest queues, topics and subscriptions, live: rates of a local bus, and counts."""
    urls = _metrics_urls(context.obj)
    live = sys.stdout.isatty() and not once and not output.structured
    with connected(context) as bus:
        before, at = _readings(urls), time.monotonic()
        while True:
            # Rates need two readings.
            time.sleep(interval)
            after, now = _readings(urls), time.monotonic()
            rates = rates_between(before, after, now - at) if urls else None
            found = list(bus.everything())
            rows = sorted((_row(each, rates) for each in found), key=lambda row: row.order)
            if live:
                printing.clear()
            _show(rows[:most], output)
            if len(rows) > most and not output.structured:
                printing.note(f"{len(rows) - most} more; --max shows more of them.")
            if not live:
                sums.check_whole(found)
                return
            if sentence := sums.lacking(found):
                printing.note(sentence)
            before, at = after, now


def _show(rows: Sequence[Row], output: Output) -> None:
    if output.structured:
        for row in rows:
            printing.structured(_as_json(row), output)
        return
    printing.table(_COLUMNS, [_cells(row) for row in rows])


def _cells(row: Row) -> list[object]:
    rates = row.rates
    return [
        row.name,
        f"{rates.incoming:.1f}" if rates else None,
        f"{rates.outgoing:.1f}" if rates else None,
        row.active,
        row.dead,
        row.scheduled,
        row.size,
    ]


def _as_json(row: Row) -> dict[str, Any]:
    rates = row.rates
    return {
        "kind": row.kind,
        "name": row.name,
        "incoming_per_s": round(rates.incoming, 3) if rates else None,
        "outgoing_per_s": round(rates.outgoing, 3) if rates else None,
        "active": _number(row.active),
        "dead": _number(row.dead),
        "scheduled": _number(row.scheduled),
        "size_bytes": _number(row.size),
        "reachable": row.reachable,
    }


def _number(figure: Sum | None) -> int | None:
    """Return a figure beside `reachable`, which says whether it is whole."""
    return None if figure is None else figure.at_least


def _row(entity: Any, rates: dict[str, Rates] | None) -> Row:
    kind, name = KINDS[entities.kind_of(entity)], entities.name_of(entity)
    moved = None if rates is None else rates.get(name.lower(), Rates())
    # A topic holds only what is scheduled: the rest is its subscriptions'.
    holds = kind != "Topic"
    return Row(
        *(kind, name, moved),
        sums.count(entity, "active_message_count") if holds else None,
        sums.count(entity, "dead_letter_message_count") if holds else None,
        sums.count(entity, "scheduled_message_count") if kind != "Subscription" else None,
        sums.size(entity, printing.size),
        not sums.missing(entity),
    )


def _metrics_urls(choice: Choice) -> list[str]:
    """Return where a local bus's front ends have their metrics; of another bus, nothing."""
    named = choice.connection_string or choice.cluster is not None
    if named or (choice.data is None and choice.environment.get(bus_choice.VARIABLE)):
        return []
    run = bus_choice.local_bus(choice)
    try:
        processes = control.ask(run["control"], {"action": "ps"})["processes"]
    except CliError:
        processes = run["processes"]
    return [each["metrics"] for each in processes if each["role"] == "frontend"]


def _readings(urls: Sequence[str]) -> dict[str, Counters]:
    """Return what each front end that answers counts."""
    return {url: counters(text) for url in urls if (text := _text(url))}


def _text(url: str) -> str:
    # Without the proxies of the environment: it is this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_METRICS_S) as answer:
            text: bytes = answer.read()
    except (urllib.error.URLError, OSError):
        # It starts again at the moment: it has no rates until it was read twice.
        return ""
    return text.decode("utf-8", "replace")


def counters(text: str) -> Counters:
    """Return what a front end counts, from its metrics."""
    found: dict[str, tuple[float, float]] = {}
    for way, label, value in _SAMPLE.findall(text):
        name = _ESCAPED.sub(lambda each: {"n": "\n"}.get(each[1], each[1]), label).lower()
        incoming, outgoing = found.get(name, (0.0, 0.0))
        if way == "incoming":
            incoming += float(value)
        else:
            outgoing += float(value)
        found[name] = (incoming, outgoing)
    return found


def rates_between(
    before: Mapping[str, Counters], after: Mapping[str, Counters], seconds: float
) -> dict[str, Rates]:
    """Return the rates between two readings of all front ends, those of each added up.

    One that was restarted counts from 0; one that did not answer twice adds nothing.
    """
    found: dict[str, Rates] = {}
    for front_end in before.keys() & after.keys():
        for name, counts in after[front_end].items():
            old = before[front_end].get(name, (0.0, 0.0))
            incoming, outgoing = (_rate(*pair, seconds) for pair in zip(old, counts, strict=True))
            others = found.get(name, Rates())
            found[name] = Rates(others.incoming + incoming, others.outgoing + outgoing)
    return found


def _rate(old: float, new: float, seconds: float) -> float:
    return max(0.0, new - old if new >= old else new) / seconds if seconds > 0 else 0.0
