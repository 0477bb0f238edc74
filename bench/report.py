"""The tables of a run. Pure: from rows to what rich prints."""

from collections.abc import Sequence

from rich.table import Table

from bench.marks import Verdict
from bench.row import Row


def figures(rows: Sequence[Row]) -> Table:
    """Return all rows, system after system."""
    table = Table(title="256-byte bodies, durable; median (min–max)", title_justify="left")
    table.add_column("system", no_wrap=True)
    table.add_column("what")
    table.add_column("figure", justify="right", no_wrap=True)
    table.add_column("messages together at each hop")
    table.add_column("CPU µs a message, each process")
    before = ""
    for row in rows:
        if before and row.system != before:
            table.add_section()
        system = "" if row.system == before else row.system
        before = row.system
        figure = f"[yellow]{row.title}[/]" if not row.values else figure_of(row)
        what = row.note if not row.values else f"{row.title}{f' ({row.note})' if row.note else ''}"
        table.add_row(system, what, figure, row.frames, cpu_of(row))
    return table


def verdicts(found: Sequence[Verdict]) -> Table:
    """Return which marks are met."""
    table = Table(title="Marks, in this run", title_justify="left")
    for column in ("mark", "must be", "is", ""):
        table.add_column(column, justify="right" if column in ("must be", "is") else "left")
    for verdict in found:
        mark = verdict.mark
        sign = "≤" if mark.at_most else "≥"
        title = f"goal: {mark.title}" if mark.goal else mark.title
        value = "–" if verdict.value is None else number(verdict.value, mark.unit)
        table.add_row(title, f"{sign} {number(mark.limit, mark.unit)}", value, word(verdict.met))
    return table


def figure_of(row: Row) -> str:
    """Return the median and, if there is more than one value, the range."""
    text = number(row.median, row.unit)
    if len(row.values) == 1:
        return text
    least, most = (number(value, "") for value in (min(row.values), max(row.values)))
    return f"{text} ({least}–{most})"


def cpu_of(row: Row) -> str:
    """Return the processor time of each process, and of all together."""
    if not row.cpu_us:
        return ""
    parts = [
        f"{role} {' + '.join(number(usage, '') for usage in usages)}"
        for role, usages in row.cpu_us.items()
    ]
    return f"{'; '.join(parts)} = {number(cpu_sum(row), '')}"


def cpu_sum(row: Row) -> float:
    """Return the processor time of all processes together."""
    return sum(usage for usages in row.cpu_us.values() for usage in usages)


def number(value: float, unit: str) -> str:
    """Return a number as short as is honest."""
    text = f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return f"{text} {unit}".rstrip()


def word(met: bool | None) -> str:
    """Return the verdict in a word."""
    if met is None:
        return "[yellow]not measured[/]"
    return "[green]met[/]" if met else "[red]not met[/]"
