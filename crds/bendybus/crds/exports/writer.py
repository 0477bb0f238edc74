"""Settings, rules and policies of entities, as the forms of other programs have them.

A writer of one form asks this module for them, and arranges them. A value that the form cannot
hold becomes a finding.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic.alias_generators import to_camel

from bendybus.crds import forms
from bendybus.crds.conversion import Finding, Outcome
from bendybus.crds.exports.bus import Bus, Entity
from bendybus.crds.forms import Form
from bendybus.domain import entity_settings, limits
from bendybus.domain.entity_settings import Setting, SettingType
from bendybus.domain.filters import rule, rule_set, sql_values
from bendybus.domain.filters.rule import Rule, SqlFilter, SqlRuleAction
from bendybus.domain.limits import Tier

# Names of namespaces in Azure.
_NAMESPACE: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{4,48}[A-Za-z0-9]")
# Names of what is in them.
_NAME: Final = re.compile(r"[A-Za-z0-9](.*[A-Za-z0-9])?")
# Partitions of a Premium namespace in Azure.
_AZURE_PARTITIONS_MAX: Final = 4


class Writer:
    """One bus, written in one form, with findings about its losses."""

    def __init__(self, form: Form, bus: Bus) -> None:
        self.form = form
        self.findings: list[Finding] = list(bus.lost)
        self._bus = bus
        self._title = forms.TITLES[form]

    def changed(self, path: str, detail: str) -> None:
        """Note that something has another value there."""
        self.findings.append(Finding(path, Outcome.CHANGED, detail))

    def lost(self, path: str, detail: str) -> None:
        """Note that something is not there."""
        self.findings.append(Finding(path, Outcome.NOT_SUPPORTED, detail))

    def namespace_name(self) -> str:
        """Return the name of the namespace; where Azure has no such names, with a finding."""
        name = self._bus.name
        if not _NAMESPACE.fullmatch(name):
            self.changed(
                f"BusNamespace {name}",
                "needs another name: 6 to 50 letters, digits and -, a letter first.",
            )
        return name

    def check_name(self, place: str, name: str) -> None:
        """Note a name that nothing in Azure can have."""
        if self.form is not Form.EMULATOR and not _NAME.fullmatch(name):
            self.changed(place, "needs another name: in Azure a letter or digit is first and last.")

    def partitions(self) -> int:
        """Return the number of partitions of a Premium namespace in Azure."""
        count = min(self._bus.partition_count, _AZURE_PARTITIONS_MAX)
        if count < self._bus.partition_count:
            self.changed(
                f"BusNamespace {self._bus.name}.premiumMessagingPartitions",
                f"{self._bus.partition_count} became {count}, the most that Azure has.",
            )
        return count

    def settings(self, entity: Entity) -> dict[str, Any]:
        """Return the settings that are not what the form takes where they are left out."""
        self.check_name(entity.place, entity.name)
        made: dict[str, Any] = {}
        for setting in entity_settings.BY_KIND[entity.kind]:
            if setting.is_list:
                continue
            value = self._bounded(entity, setting, getattr(entity.description, setting.name))
            if self._is_left_out(entity, setting, value):
                continue
            name = forms.BY_SETTING[setting.name].names(self.form)[0]
            made[name] = value
            if setting.type is SettingType.DURATION:
                made[name] = forms.shown(setting, value)
            elif setting.type is SettingType.STATUS:
                made[name] = value.value
        for each in entity.back:
            self.changed(
                f"{entity.place}.forwardDeadLetteredMessagesTo",
                f"leads to {each}, which forwards back: apply it once without, then with it.",
            )
        return made

    def _is_left_out(self, entity: Entity, setting: Setting, value: Any) -> bool:
        if forms.lacks(self.form, entity.kind, setting.name):
            # The namespace decides it in Premium, and has its own finding.
            of_bus = setting.name == "enable_partitioning" and self._bus.tier is Tier.PREMIUM
            if value != setting.default and not of_bus and not self._of_tier(setting, value):
                shown = forms.shown(setting, value)
                self.lost(
                    f"{entity.place}.{setting.manifest_name}",
                    f"{shown:.200} has no place in files of {self._title}.",
                )
            return True
        if forms.said_always(self.form, entity.kind, setting.name):
            return False
        return bool(value == setting.default) or self._of_tier(setting, value)

    def _of_tier(self, setting: Setting, value: Any) -> bool:
        """Whether a value is what the tier decides."""
        default_kb = limits.message_bytes_default(self._bus.tier) // limits.KB
        return setting.left_to_tier and value in (0, default_kb)

    def _bounded(self, entity: Entity, setting: Setting, value: Any) -> Any:
        most = forms.BY_SETTING[setting.name].most.get(self.form)
        if most is None or (value is not None and value <= most):
            return value
        if setting.name.startswith("duplicate") and not getattr(
            entity.description, "requires_duplicate_detection", False
        ):
            # It has no effect.
            return forms.absent(self.form, entity.kind, setting.name)
        own = "without end" if value is None else forms.shown(setting, value)
        self.changed(
            f"{entity.place}.{setting.manifest_name}",
            f"{own} became {forms.shown(setting, most)}, the most that {self._title} takes.",
        )
        return most

    def rules(self, entity: Entity) -> list[tuple[str, dict[str, Any]]]:
        """Return names and properties of rules as templates have them; none: the default rule."""
        rules: Sequence[Rule] = getattr(entity.description, "rules", rule_set.DEFAULT)
        if tuple(rules) == tuple(rule_set.DEFAULT):
            return []
        if not rules:
            self.lost(
                f"{entity.place}.rules",
                "are none, so it takes no message; there a new one takes all. Disable it.",
            )
        elif self.form is not Form.EMULATOR and not any(
            each.name.lower() == rule.DEFAULT_NAME.lower() for each in rules
        ):
            self.findings.append(
                Finding(
                    f"{entity.place}.rules",
                    Outcome.DEFAULT,
                    "Azure may keep $Default, which takes every message, beside them: delete it "
                    "there.",
                )
            )
        made = []
        for each in rules:
            place = f"{entity.place}.rules {each.name}"
            if each.name.lower() != rule.DEFAULT_NAME.lower():
                self.check_name(place, each.name)
            made.append((each.name, self._rule(place, each)))
        return made

    def _rule(self, place: str, given: Rule) -> dict[str, Any]:
        made: dict[str, Any] = {}
        wanted = given.filter
        if isinstance(wanted, rule.CorrelationFilter):
            made["filterType"] = "CorrelationFilter"
            made["correlationFilter"] = dict(self._correlation(place, wanted))
        else:
            made["filterType"] = "SqlFilter"
            made["sqlFilter"] = {"sqlExpression": self._sql(place, wanted)}
        if given.action is not None:
            made["action"] = {"sqlExpression": self._sql(f"{place}.action", given.action)}
        return made

    def _sql(self, place: str, wanted: rule.Filter | SqlRuleAction) -> str:
        if isinstance(wanted, SqlFilter | SqlRuleAction):
            if not wanted.parameters:
                return wanted.sql_expression
            self.changed(f"{place}.parameters", "became part of the expression.")
            return sql_values.written(wanted.sql_expression, wanted.parameters)
        return "1=1" if isinstance(wanted, rule.TrueFilter) else "1=0"

    def _correlation(self, place: str, wanted: rule.CorrelationFilter) -> Iterator[tuple[str, Any]]:
        for name in rule.SYSTEM_PROPERTIES:
            value = getattr(wanted, name)
            if value is not None:
                yield to_camel(name), value
        if wanted.properties:
            yield "properties", self._values(place, wanted.properties)

    def _values(self, place: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return application properties; in Azure's files they are texts."""
        made: dict[str, Any] = {}
        for name, value in values.items():
            made[name] = value
            if not isinstance(value, str) and self.form is not Form.EMULATOR:
                made[name] = str(value).lower() if isinstance(value, bool) else str(value)
                self.changed(
                    f"{place}.{name}",
                    f"became text, {made[name]!r}: files of {self._title} have no other values.",
                )
        return made


def azure_name(name: str) -> str:
    """Return the name of an entity as names of resources have it: a slash is `~`."""
    return name.replace("/", "~")
