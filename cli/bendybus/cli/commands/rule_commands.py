"""`create`, `describe`, `delete` of rules, and what `get` shows of them."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from bendybus.cli.bus import management
from bendybus.cli.bus.management import Management
from bendybus.cli.commands import completion, entity_commands
from bendybus.cli.commands.entity_commands import DryRun, Name, TopicName, Yes
from bendybus.cli.errors import UsageError
from bendybus.cli.output import entity_views, printing
from bendybus.cli.output.printing import Output, OutputOption
from bendybus.domain.errors import BusError
from bendybus.domain.filters import rule as rule_domain
from bendybus.domain.filters.rule import (
    CorrelationFilter,
    FalseFilter,
    Filter,
    Rule,
    SqlFilter,
    SqlRuleAction,
    TrueFilter,
)

WORDS: Final = ("rule", "rules")
RuleName = Annotated[
    str,
    typer.Argument(
        help="Name of the rule within its subscription.", autocompletion=completion.rule_names
    ),
]
NewRule = Annotated[str, typer.Argument(help="Name of the rule within its subscription.")]
_FIELDS: Final = {name.replace("_", "-"): name for name in rule_domain.SYSTEM_PROPERTIES}
# Other spellings: as in filters, and as `send --property` has them.
_SPELLINGS: Final = {name.replace("-", ""): name for name in _FIELDS} | {"subject": "label"}


@entity_commands.create_app.command("rule")
def create_rule(
    context: typer.Context,
    topic: TopicName,
    subscription: Name,
    rule: NewRule,
    sql: Annotated[str | None, typer.Option(help="SQL filter: match if this is true.")] = None,
    equal: Annotated[
        list[str] | None,
        typer.Option(
            "--equal",
            help="PROPERTY=TEXT, or label=TEXT, session-id=TEXT …: match if all are equal.",
        ),
    ] = None,
    nothing: Annotated[bool, typer.Option("--none", help="Match no message.")] = False,
    action: Annotated[str | None, typer.Option(help="SQL action on the copy: SET a = 1.")] = None,
    dry_run: DryRun = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create a rule of a subscription; without a filter, it takes every message."""
    entity_commands.refuse_on_a_cluster(context, "create rule")
    wanted = Rule(
        rule,
        wanted_filter(sql, equal or (), nothing=nothing),
        None if action is None else SqlRuleAction(_text("--action", action)),
    )
    try:
        rule_domain.check(wanted, partitioned=False)
    except BusError as error:
        raise UsageError(error.message) from error
    with entity_commands.connected(context) as bus:
        answer = None
        if dry_run:
            management.try_create_rule(bus, topic, subscription, wanted)
        else:
            answer = management.create_rule(bus, topic, subscription, wanted)
    entity_commands.say_created("Rule", rule, answer, output)


@entity_commands.describe_app.command("rule")
def describe_rule(
    context: typer.Context,
    topic: TopicName,
    subscription: Name,
    rule: RuleName,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a rule: its filter and its action."""
    with entity_commands.connected(context) as bus:
        found = management.find_rule(bus, topic, subscription, rule)
    entity_views.show_rules([found], output)


@entity_commands.delete_app.command("rule")
def delete_rule(
    context: typer.Context,
    topic: TopicName,
    subscription: Name,
    rule: RuleName,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete a rule; messages that its subscription has stay."""
    entity_commands.refuse_on_a_cluster(context, "delete rule")
    with entity_commands.connected(context) as bus:
        found = management.find_rule(bus, topic, subscription, rule)
        what = f"rule {found.name!r}"
        if dry_run:
            printing.line(f"{what}: would be deleted")
            return
        entity_commands.confirm(f"Delete {what}?", yes)
        answer: Any = management.delete_rule(bus, topic, subscription, found.name)
    lagging = entity_commands.lagging(entity_commands.missing(answer))
    printing.line(f"{what}: deleted{lagging}")


def show(bus: Management, *, topic: str, subscription: str, output: Output) -> None:
    """Print the rules of a subscription for `get`."""
    if not subscription:
        raise UsageError("get rules needs a topic and a subscription: get rules TOPIC NAME.")
    entity_views.show_rules(management.list_rules(bus, topic, subscription), output)


def wanted_filter(sql: str | None, equal: Sequence[str], *, nothing: bool) -> Filter:
    """Return the filter that the options describe. Raises UsageError."""
    if (sql is not None) + bool(equal) + nothing > 1:
        raise UsageError("--sql, --equal, --none: only one of them is allowed.")
    if nothing:
        return FalseFilter()
    if sql is not None:
        return SqlFilter(_text("--sql", sql))
    if not equal:
        return TrueFilter()
    texts: dict[str, str] = {}
    properties: dict[str, Any] = {}
    for each in equal:
        name, sign, text = each.partition("=")
        if not sign or not name:
            raise UsageError(f"--equal: must be PROPERTY=TEXT (got {each!r}).")
        system, name = _property(name)
        wanted = texts if system else properties
        if name in wanted:
            raise UsageError(f"--equal: a property is given twice (got {each!r}). Leave one out.")
        wanted[name] = text
    return CorrelationFilter(**texts, properties=properties)


def _property(given: str) -> tuple[bool, str]:
    """Return whether a system property is meant, and the name of the property."""
    if given in _FIELDS:
        return True, _FIELDS[given]
    scope, dot, name = given.partition(".")
    if dot and scope.lower() == "user" and name:
        return False, name
    in_system = bool(dot) and scope.lower() == "sys"
    bare = name if in_system else given
    known = _SPELLINGS.get(bare.replace("-", "").replace("_", "").lower())
    if in_system and known is None:
        raise UsageError(f"--equal {given}: must be sys. and one of {', '.join(_FIELDS)}.")
    if known is not None and not in_system:
        # One of the two readings would take no message, and nothing would show it.
        raise UsageError(
            f"--equal {given}: write {known} for the property of the message, or user.{given} for "
            "an application property of this name."
        )
    return (True, _FIELDS[known]) if known is not None else (False, given)


def _text(option: str, text: str) -> str:
    """Return the text of an option: an unset variable of a shell must not mean every message."""
    if not text.strip():
        raise UsageError(f"{option}: must not be empty. Leave it out, or give an expression.")
    return text
