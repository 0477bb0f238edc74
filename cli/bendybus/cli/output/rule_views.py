"""Rules as table rows and as JSON."""

from collections.abc import Sequence
from datetime import UTC, datetime
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
    if output.structured:
        for each in known:
            created = datetime.fromtimestamp(each.created_at_ms / 1_000, UTC)
            facts = {**as_json(each), "createdAt": created.isoformat(timespec="milliseconds")}
            printing.structured(facts, output)
        return
    table(known)


def as_json(rule: Rule) -> dict[str, Any]:
    """Return a rule with the names of manifests, as an entry of `spec.rules`."""
    stored = rule_json.to_json(rule)
    found = stored["filter"]
    made: dict[str, Any] = {"name": rule.name}
    if isinstance(found, bool):
        made["booleanFilter"] = found
    elif "sql" in found:
        made["sqlFilter"] = _sql_as_json(found)
    else:
        texts = {_camel(name): text for name, text in found["correlation"].items()}
        made["correlationFilter"] = texts | _unless_empty("properties", found["values"])
    if "action" in stored:
        made["action"] = _sql_as_json(stored["action"])
    return made


def _sql_as_json(stored: dict[str, Any]) -> dict[str, Any]:
    return {"sqlExpression": stored["sql"]} | _unless_empty("parameters", stored["values"])


def _unless_empty(name: str, values: dict[str, Any]) -> dict[str, Any]:
    return {name: values} if values else {}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


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
