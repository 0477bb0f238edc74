"""The tables of `reference/performance.md`, from the run of `make bench` beside it.

That run is `performance.json`, which `make bench ARGS="--json docs/reference/performance.json"`
writes. The page names what stands where, between two comments; `docs.generate` fills it in.
"""

import json
import re
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

from bench import marks, report
from bench.amqp import brokers
from bench.row import Row

RUN: Final = Path(__file__).parent / "reference" / "performance.json"
_PLACE: Final = re.compile(
    r"(<!-- figures: ([a-z ]+) -->\n).*?(<!-- end of figures -->\n)", re.DOTALL
)
MANY_NAMES: Final = {
    marks.MANY: "Bendybus",
    marks.MANY_OWN: "Bendybus, own client",
    marks.MANY_HTTP: "Bendybus, HTTP",
    brokers.ARTEMIS: "ActiveMQ Artemis",
    marks.CLASSIC_AMQP: "RabbitMQ classic",
    marks.QUORUM_AMQP: "RabbitMQ quorum",
    marks.RABBITMQ_HTTP: "RabbitMQ classic, HTTP",
}
_OWN: Final = (marks.MANY, marks.MANY_OWN, marks.MANY_HTTP)
# The bus in the table of all systems; the others are in one of their own.
PARTITIONS: Final = 4
_WORKS: Final = {
    "send": "send",
    "receive": "receive and settle",
    "request": "request and reply",
}
_MANY: Final = re.compile(r"many_[a-z]+_(\d+)")


class Run:
    """The rows of one run, by section."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.machine: dict[str, Any] = facts["machine"]
        self.sections: dict[str, list[Row]] = {}
        for each in facts["rows"]:
            self.sections.setdefault(each["section"], []).append(Row.from_json(each))

    @classmethod
    def read(cls) -> "Run":
        """Return the run that the page shows."""
        return cls(json.loads(RUN.read_text(encoding="utf-8")))

    def rows(self, sections: Sequence[str]) -> list[Row]:
        """Return the rows of some sections. Raises KeyError for one that was not run."""
        return list(chain.from_iterable(self.sections[name] for name in sections))

    def many(
        self, system: str, work: str, connections: int, partitions: int = PARTITIONS
    ) -> list[Row]:
        """Return the rate and the processor time of connections that await one message each.

        Empty if they were not measured. `partitions`: of the bus; others have none.
        """
        what = f"many_{work}_{connections}{f'_{partitions}' if system in _OWN else ''}"
        return [
            row
            for row in self.sections["many"]
            if row.system == system and row.what in (what, f"{what}_cpu") and row.values
        ]


def with_figures(page: str, run: Run) -> str:
    """Return the page with its tables as they were measured. Raises KeyError for unknown names."""

    def filled(place: re.Match[str]) -> str:
        begin, names, end = place.groups()
        make = TABLES.get(names) or (lambda found: _rows(found.rows(names.split())))
        return f"{begin}{make(run)}{end}"

    return _PLACE.sub(filled, page)


def _machine(run: Run) -> str:
    facts = ", ".join(f"{name} {value}" for name, value in run.machine.items())
    return f"`make bench`, {facts}.\n"


def _many(run: Run) -> str:
    lines = [
        [name, f"{title}, {count} connection{'s' if count > 1 else ''}", *_many_cells(*found)]
        for system, name in MANY_NAMES.items()
        for work, title in _WORKS.items()
        for count in _counts(run)
        if (found := run.many(system, work, count))
    ]
    return _table(["system", "what", "rate", "times", "CPU of all server processes"], lines)


def _partitions(run: Run) -> str:
    lines = []
    for partitions in (1, PARTITIONS, 16):
        for count in _counts(run):
            found = (run.many(marks.MANY, work, count, partitions) for work in _WORKS)
            cells = [", ".join(_short(row) for row in rows) for rows in found]
            lines.append([str(partitions), str(count), *cells])
    return _table(["partitions", "connections", *_WORKS.values()], lines)


def _marks(run: Run) -> str:
    lines = []
    for verdict in marks.judge(list(chain.from_iterable(run.sections.values()))):
        mark = verdict.mark
        is_now = "–" if verdict.value is None else report.number(verdict.value, mark.unit)
        limit = f"{'≤' if mark.at_most else '≥'} {report.number(mark.limit, mark.unit)}"
        met = {None: "not measured", True: "met", False: "**not met**"}[verdict.met]
        lines.append([f"goal: {mark.title}" if mark.goal else mark.title, limit, is_now, met])
    return _table(["mark", "must be", "is", ""], lines)


TABLES: Final[dict[str, Callable[[Run], str]]] = {
    "machine": _machine,
    "many": _many,
    "partitions": _partitions,
    "marks": _marks,
}


def _rows(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        what = f"{row.title}{f' ({row.note})' if row.note else ''}" if row.values else row.note
        figure = report.figure_of(row) if row.values else row.title
        lines.append([row.system, what, figure, row.frames, report.cpu_of(row)])
    head = ["system", "what", "figure", "messages together", "CPU µs a message, each process = sum"]
    # Columns in which nothing stands are left out.
    kept = [at for at in range(len(head)) if any(line[at] for line in lines)]
    return _table([head[at] for at in kept], [[line[at] for at in kept] for line in lines])


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table; what is the same as above stays empty in the first column."""
    parts = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    before = ""
    for first, *rest in lines:
        parts.append(f"| {' | '.join(['' if first == before else first, *rest])} |")
        before = first
    return "\n".join(parts) + "\n"


def _many_cells(rate: Row, cost: Row) -> list[str]:
    return [_short(rate), rate.note.partition(";")[0], _short(cost)]


def _short(row: Row) -> str:
    return report.figure_of(row).removesuffix(" CPU")


def _counts(run: Run) -> list[int]:
    found = (_MANY.match(row.what) for row in run.sections["many"])
    return sorted({int(each.group(1)) for each in found if each})
