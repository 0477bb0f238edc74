"""The reference page of Spark's format: its options and columns, from their tables."""

from typing import Final

from bendybus.spark import columns, option_table
from bendybus.spark.option_table import READ, WRITE, Option, Use

_HEAD: Final = """\
# Spark: options and columns
Of the format `bendybus`: `spark.read`, `spark.readStream`, `DataFrame.write` and
`DataFrame.writeStream`. [How to use it](../../spark/README.md).

"""
_TABLE: Final = "| option | default | what |\n|---|---|---|"


def page() -> str:
    """Return the page."""
    reads = [each for each in option_table.OPTIONS if each.uses & READ]
    writes = [each for each in option_table.OPTIONS if each.uses & WRITE]
    parts = [
        _section("Options of reads and writes", [each for each in reads if each in writes]),
        _section("Options of reads", [each for each in reads if each not in writes]),
        _section("Options of writes", [each for each in writes if each not in reads]),
        _columns(),
    ]
    return _HEAD + "\n".join(parts)


def _section(title: str, options: list[Option]) -> str:
    rows = [f"| `{each.name}` | {each.default} | {each.means}{_only(each)} |" for each in options]
    return "\n".join((f"## {title}", _TABLE, *rows)) + "\n"


def _only(option: Option) -> str:
    if option.uses & READ and option.uses & WRITE:
        return ""
    kinds = {Use.BATCH_READ: "batch", Use.STREAM_READ: "streaming", Use.BATCH_WRITE: "batch"}
    return f" ({kinds[option.uses]} only)" if option.uses in kinds else ""


def _columns() -> str:
    rows = [
        f"| `{each.name}` | {each.type} | {'' if each.nullable else 'never null'} "
        f"| {_written(each)} | {each.holds} |"
        for each in (*columns.COLUMNS, *columns.WRITTEN_ONLY)
    ]
    table = "| column | type | | written | what |\n|---|---|---|---|---|"
    return "\n".join(("## Columns", table, *rows)) + "\n"


def _written(column: columns.Column) -> str:
    if column in columns.WRITTEN_ONLY:
        return "only"
    return "yes" if column.written else "passed over"
