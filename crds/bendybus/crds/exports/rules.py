"""The rules of subscriptions, as the forms of other programs have them.

A rule that a form cannot hold is written as a rule that takes no message, with a line in the
report. If it were left out, the default rule might remain, which takes every message.

Azure makes the rule $Default, which takes every message, with each subscription. Templates and
manifests of the operator can write over it; Terraform cannot.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic.alias_generators import to_camel

from bendybus.crds import forms
from bendybus.crds.conversion import Finding, Outcome
from bendybus.crds.forms import Form
from bendybus.domain import limits
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters import rule, rule_set, sql_values
from bendybus.domain.filters.rule import Rule, SqlFilter, SqlRuleAction

# A rule by name, with its properties as templates have them.
Written = tuple[str, dict[str, Any]]
# The expressions for filters that take every message, or none.
EVERY: Final = "1=1"
NONE: Final = "1=0"
_OVER_DEFAULT: Final = (Form.ARM, Form.ASO)
# The name of a rule that takes no message, where $Default cannot be written.
_NONE_NAME: Final = "none"
_DEFAULT: Final = rule.DEFAULT_NAME.lower()


class _LostRule(Exception):
    """A form cannot hold a rule. Its text is why, in a sentence."""


class RuleWriter:
    """Writes the rules of subscriptions in one form, with findings about their losses."""

    def __init__(self, form: Form, findings: list[Finding]) -> None:
        self._form = form
        self._findings = findings
        self._title = forms.TITLES[form]

    def written(self, place: str, rules: Sequence[Rule]) -> list[Written]:
        """Return the rules of the subscription at `place`; none: it has the default rule."""
        if tuple(rules) == tuple(rule_set.DEFAULT):
            return []
        at = f"{place}.rules"
        made = [self._one(f"{at} {each.name}", each) for each in rules]
        has_default = any(name.lower() == _DEFAULT for name, _ in made)
        if self._form is Form.TERRAFORM:
            self._of_terraform(at, has_default)
        elif self._form is Form.EMULATOR:
            made = [(self._renamed(at, name, made), properties) for name, properties in made]
        if has_default or (made and self._form not in _OVER_DEFAULT):
            return made
        name = rule.DEFAULT_NAME if self._form in _OVER_DEFAULT else _NONE_NAME
        what = "lack $Default, which Azure makes" if made else "are none"
        self._note(at, Outcome.REWRITTEN, f"{what}: rule {name}, with {NONE}, takes no message.")
        return [(name, _sql(NONE)), *made]

    def _note(self, place: str, outcome: Outcome, detail: str) -> None:
        self._findings.append(Finding(place, outcome, detail))

    def _of_terraform(self, place: str, has_default: bool) -> None:
        if has_default:
            detail = "Azure makes $Default itself: run terraform import for it before you apply."
        else:
            detail = "Azure may keep $Default, which takes every message, beside them: delete it."
        self._note(place, Outcome.CHANGED, detail)

    def _renamed(self, place: str, name: str, made: Sequence[Written]) -> str:
        """Return a name that the emulator takes."""
        if name.lower() != _DEFAULT:
            return name
        taken = {each.lower() for each, _ in made}
        found, number = "Default", 1
        while found.lower() in taken:
            number += 1
            found = f"Default-{number}"
        what = f"is called {found}: names in {self._title} have no $."
        self._note(f"{place} {name}", Outcome.CHANGED, what)
        return found

    def _one(self, place: str, given: Rule) -> Written:
        before = len(self._findings)
        try:
            return given.name, self._rule(place, given)
        except _LostRule as error:
            # The findings about its values are void.
            del self._findings[before:]
            self._note(place, Outcome.NOT_SUPPORTED, f"{error}: it takes no message there.")
            return given.name, _sql(NONE)

    def _rule(self, place: str, given: Rule) -> dict[str, Any]:
        wanted = given.filter
        if isinstance(wanted, rule.CorrelationFilter):
            made: dict[str, Any] = {
                "filterType": "CorrelationFilter",
                "correlationFilter": dict(self._correlation(place, wanted)),
            }
        else:
            made = _sql(self._text(place, wanted))
        if given.action is not None:
            made["action"] = {"sqlExpression": self._text(f"{place}.action", given.action)}
        return made

    def _text(self, place: str, wanted: rule.Filter | SqlRuleAction) -> str:
        if not isinstance(wanted, SqlFilter | SqlRuleAction):
            return EVERY if isinstance(wanted, rule.TrueFilter) else NONE
        if not wanted.parameters:
            return wanted.sql_expression
        text = self._inlined(wanted)
        if len(text) > limits.SQL_TEXT_CHARS_MAX:
            raise _LostRule(
                f"has {len(text):,} characters with its parameters in it, and Azure takes "
                f"{limits.SQL_TEXT_CHARS_MAX:,}"
            )
        self._note(f"{place}.parameters", Outcome.REWRITTEN, "became part of the expression.")
        return text

    def _inlined(self, wanted: SqlFilter | SqlRuleAction) -> str:
        try:
            return sql_values.written(wanted.sql_expression, wanted.parameters)
        except InvalidArgument as error:
            raise _LostRule(f"has parameter {error.message.removesuffix('.')}") from error

    def _correlation(self, place: str, wanted: rule.CorrelationFilter) -> Iterator[tuple[str, Any]]:
        for name in rule.SYSTEM_PROPERTIES:
            value = getattr(wanted, name)
            if value == "" and self._form is Form.TERRAFORM:
                # The provider leaves it out, and the filter would take more messages.
                raise _LostRule(f"has an empty {to_camel(name)}, which {self._title} leaves out")
            if value is not None:
                yield to_camel(name), value
        if wanted.properties:
            yield "properties", self._values(place, wanted.properties)

    def _values(self, place: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return application properties in the order of names; in Azure's files they are texts."""
        made: dict[str, Any] = {}
        for name, value in sorted(values.items()):
            if isinstance(value, float) and not math.isfinite(value):
                raise _LostRule(f"has the number {value} for {name!r:.60}, which no file holds")
            made[name] = value
            if not isinstance(value, str) and self._form is not Form.EMULATOR:
                made[name] = str(value).lower() if isinstance(value, bool) else str(value)
                self._note(
                    f"{place}.{name}",
                    Outcome.CHANGED,
                    f"became text, {made[name]!r}: files of {self._title} have no other values.",
                )
        return made


def _sql(expression: str) -> dict[str, Any]:
    return {"filterType": "SqlFilter", "sqlFilter": {"sqlExpression": expression}}
