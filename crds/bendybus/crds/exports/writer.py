"""Settings, rules and policies of entities, as the forms of other programs have them.

A writer of one form asks this module for them, and arranges them. A value that the form cannot
hold becomes a finding.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from bendybus.crds import forms
from bendybus.crds.conversion import Finding, Outcome
from bendybus.crds.exports.bus import Bus, Entity
from bendybus.crds.exports.rules import RuleWriter, Written
from bendybus.crds.forms import Form
from bendybus.domain import entity_settings, limits
from bendybus.domain.entity_settings import Setting, SettingType
from bendybus.domain.filters import rule, rule_set
from bendybus.domain.filters.rule import Rule
from bendybus.domain.limits import Tier

# Names of namespaces in Azure.
_NAMESPACE: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{4,48}[A-Za-z0-9]")
_NAMESPACE_ENDS: Final = ("-sb", "-mgmt")
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
        self._rules = RuleWriter(form, self.findings)

    def changed(self, path: str, detail: str) -> None:
        """Note that something has another value there."""
        self.findings.append(Finding(path, Outcome.CHANGED, detail))

    def lost(self, path: str, detail: str) -> None:
        """Note that something is not there."""
        self.findings.append(Finding(path, Outcome.NOT_SUPPORTED, detail))

    def namespace_name(self) -> str:
        """Return the name of the namespace; where Azure has no such names, with a finding."""
        name = self._bus.name
        if not _NAMESPACE.fullmatch(name) or name.lower().endswith(_NAMESPACE_ENDS):
            self.changed(
                f"BusNamespace {name}",
                "needs another name: 6 to 50 letters, digits and -, a letter first, and neither "
                "-sb nor -mgmt at its end.",
            )
        return name

    def check_name(self, place: str, name: str) -> None:
        """Note a name that nothing in Azure or in the emulator can have."""
        if not _NAME.fullmatch(name):
            self.changed(place, "needs another name: a letter or digit is first and last there.")

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
            name = getattr(entity.description, each)
            self.changed(
                f"{entity.place}.{entity_settings.BY_NAME[each].manifest_name}",
                f"leads to {name}, which forwards back: apply it once without, then with it.",
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
        of_express = setting.name == "enable_express" and self._bus.tier is Tier.PREMIUM
        if of_express and value:
            self.lost(f"{entity.place}.{setting.manifest_name}", "Premium namespaces have none.")
            return True
        if forms.said_always(self.form, entity.kind, setting.name):
            return False
        return bool(value == setting.default) or self._of_tier(setting, value)

    def _of_tier(self, setting: Setting, value: Any) -> bool:
        """Whether a value is what the tier decides."""
        default_kb = limits.message_bytes_default(self._bus.tier) // limits.KB
        return setting.left_to_tier and value in (0, default_kb)

    def _bounded(self, entity: Entity, setting: Setting, value: Any) -> Any:
        """Return the nearest value that the form's program takes."""
        row = forms.BY_SETTING[setting.name]
        least, most = row.bounds(self.form, entity.kind)
        if setting.name.startswith("duplicate") and not getattr(
            entity.description, "requires_duplicate_detection", False
        ):
            # It has no effect.
            usual = forms.absent(self.form, entity.kind, setting.name)
            return value if most is None else usual
        made = value
        if most is not None:
            made = most if value is None else min(value, most)
        if least is not None and made is not None:
            made = max(made, least)
        if self.form is Form.EMULATOR and setting.type is SettingType.DURATION and made is not None:
            # It takes whole seconds.
            made = -(-made // limits.SECOND_MS) * limits.SECOND_MS
        if made != value:
            own = "without end" if value is None else forms.shown(setting, value)
            bounds = {least: "the least that", most: "the most that"}
            self.changed(
                f"{entity.place}.{setting.manifest_name}",
                f"{own} became {forms.shown(setting, made)}, {bounds.get(made, 'as')} "
                f"{self._title} takes{'' if made in bounds else ' whole seconds'}.",
            )
        return made

    def rules(self, entity: Entity) -> list[Written]:
        """Return names and properties of rules as templates have them; none: the default rule."""
        rules: Sequence[Rule] = getattr(entity.description, "rules", rule_set.DEFAULT)
        made = self._rules.written(entity.place, rules)
        for name, _ in made:
            if name.lower() != rule.DEFAULT_NAME.lower():
                self.check_name(f"{entity.place}.rules {name}", name)
        return made


def azure_name(name: str) -> str:
    """Return the name of an entity as names of resources have it: a slash is `~`."""
    return name.replace("/", "~")
