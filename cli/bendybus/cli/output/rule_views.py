"""Rules as table rows and as JSON."""

from collections.abc import Sequence
from typing import Any

from bendybus.cli.output import printing
from bendybus.cli.output.printing import Output
from bendybus.cli.output.tables import Column
from bendybus.domain.filters import rule as rule_domain
from bendybus.domain.filters import rule_json
from bendybus.domain.filters.rule import CorrelationFilter, FalseFilter, Rule, SqlFilter
from bendybus.v1 import management_pb2 as pb
from bendybus.wire import rules


def show(found: Sequence[pb.Rule], output: Output) -> None:
    """Print rules."""
    known = [rules.from_proto(each) for each in found]
    if output in (Output.JSON, Output.YAML):
        for each in known:
            printing.structured(rule_json.to_json(each), output)
        return
    table(known)


def table(known: Sequence[Rule]) -> None:
    """Print rules as a table."""
    columns = [Column("NAME", text=True), Column("FILTER", wrap=30), Column("ACTION", wrap=20)]
    printing.table(columns, [_row(each) for each in known])


def _row(rule: Rule) -> list[object]:
    return [rule.name, _filter(rule), None if rule.action is None else rule.action.sql_expression]


def _filter(rule: Rule) -> str:
    match rule.filter:
        case SqlFilter(sql_expression=text):
            return text
        case CorrelationFilter(properties=properties):
            wanted: dict[str, Any] = {
                f"sys.{system}": getattr(rule.filter, field)
                for field, system in rule_domain.SYSTEM_PROPERTIES.items()
            }
            wanted = {name: value for name, value in wanted.items() if value is not None}
            return ", ".join(
                f"{name} = {value!r}" for name, value in (wanted | {**properties}).items()
            )
        case FalseFilter():
            return "no message"
        case _:
            return "every message"
