"""A bus that is written in a form and read again is the same, but for what the report names."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings

from bendybus.crds import forms
from bendybus.crds.conversion import Conversion, Document
from bendybus.crds.errors import ManifestError
from bendybus.crds.exports import bus as exported
from bendybus.crds.exports import writing
from bendybus.crds.exports.bus import Bus, Entity
from bendybus.crds.forms import Form
from bendybus.crds.imports import reading
from bendybus.crds.imports.asked import Asked
from bendybus.domain import entity_settings
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.filters import rule, rule_set, sql_values
from bendybus.domain.filters.rule import CorrelationFilter, Rule, SqlFilter, SqlRuleAction
from bendybus.domain.limits import Tier
from tests.crds.generated_buses import buses

pytestmark = pytest.mark.requirement("R661")
IN_AZURE = (Form.ARM, Form.ASO, Form.TERRAFORM)
VALUES = {"location": "here", "resourceGroup": "group"}


def written(documents: list[Document], form: Form) -> writing.Written:
    return writing.write("bus.yaml", documents, form, VALUES)


def read_again(found: writing.Written, form: Form) -> Conversion:
    """Return the manifests of a file that was written."""
    text = writing.text(form, found.documents).encode("ascii")
    again = reading.documents("file", text)
    assert reading.recognised("file", again) is form
    return reading.convert("file", form, again, Asked())


def valid(documents: list[Document]) -> Bus:
    """Return the bus of manifests; a test is not for those of none."""
    try:
        reading.of_manifests("bus.yaml", [("", each) for each in documents])
    except ManifestError:
        assume(False)
    return exported.of_documents("bus.yaml", documents)


def _text(value: Any, form: Form) -> Any:
    if form is Form.EMULATOR or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rule(given: Rule, form: Form) -> Rule:
    """Return a rule as the form can have it."""
    wanted, action = given.filter, given.action
    if isinstance(wanted, rule.TrueFilter):
        wanted = SqlFilter("1=1")
    elif isinstance(wanted, rule.FalseFilter):
        wanted = SqlFilter("1=0")
    elif isinstance(wanted, SqlFilter):
        wanted = SqlFilter(sql_values.written(wanted.sql_expression, wanted.parameters))
    elif isinstance(wanted, CorrelationFilter):
        values = {name: _text(value, form) for name, value in wanted.properties.items()}
        wanted = replace(wanted, properties=values)
    if action is not None:
        action = SqlRuleAction(action.sql_expression)
    return Rule(given.name, wanted, action)


def _rules(rules: Sequence[Rule], form: Form) -> list[Rule]:
    """Return the rules of a subscription as the form can have them."""
    made = [_rule(each, form) for each in rules]
    if form is Form.EMULATOR:
        made = [each if each.name != "$Default" else replace(each, name="Default") for each in made]
    idle = Rule("$Default", SqlFilter("1=0"), None)
    if form is not Form.EMULATOR and len(made) > 1 and idle in made:
        made.remove(idle)
    name = "$Default" if form in (Form.ARM, Form.ASO) else "none"
    return made or [replace(idle, name=name)]


def expected(entity: Entity, form: Form, tier: Tier) -> dict[str, Any]:
    """Return the settings of an entity as the form can have them, by the table of forms."""
    made: dict[str, Any] = {}
    for setting in entity_settings.BY_KIND[entity.kind]:
        row, value = forms.BY_SETTING[setting.name], getattr(entity.description, setting.name)
        if setting.name == "rules":
            rules = value
            same = tuple(rules) == tuple(rule_set.DEFAULT)
            made["rules"] = [*rules] if same else _rules(value, form)
        elif setting.name == "authorization_rules":
            continue
        elif forms.lacks(form, entity.kind, setting.name):
            decided = setting.name == "enable_partitioning" and form is not Form.EMULATOR
            made[setting.name] = value if decided else setting.default
        elif row.bounds(form, entity.kind) != (None, None):
            least, most = row.bounds(form, entity.kind)
            nearest = most if value is None or (most is not None and value > most) else value
            made[setting.name] = max(nearest or 0, least or 0)
        else:
            made[setting.name] = value
    if tier is Tier.PREMIUM and "enable_express" in made:
        made["enable_express"] = False
    detects = made.get("requires_duplicate_detection", True)
    if form is Form.EMULATOR:
        # The bus decides, and a window has no effect where nothing is detected.
        made.pop("max_message_size_in_kilobytes", None)
        if not detects:
            made.pop("duplicate_detection_history_time_window_ms", None)
    return made


def found(entity: Entity, wanted: dict[str, Any]) -> dict[str, Any]:
    made = {name: getattr(entity.description, name) for name in wanted}
    return made | ({"rules": list(made["rules"])} if "rules" in made else {})


@pytest.mark.parametrize("form", [*IN_AZURE, Form.EMULATOR])
@settings(max_examples=150, deadline=None)
@given(documents=buses())
def test_what_is_written_and_read_again_is_the_same(form: Form, documents: list[Document]) -> None:
    before = valid(documents)

    again = read_again(written(documents, form), form)

    after = exported.of_documents("file", again.documents)
    entities = {each.path: each for each in after.entities}
    assert entities.keys() == {each.path for each in before.entities}
    for each in before.entities:
        wanted = expected(each, form, before.tier)
        assert found(entities[each.path], wanted) == wanted, each.path
    if form in IN_AZURE:
        assert (after.name, after.tier) == (before.name, before.tier)
        count = before.partition_count
        assert after.partition_count == (min(count, 4) if before.tier is Tier.PREMIUM else count)
        policies = [
            {(each.name, frozenset(each.rights), each.entity and each.entity.path) for each in one}
            for one in (before.policies, after.policies)
        ]
        assert policies[0] == policies[1]


@pytest.mark.parametrize("form", [*IN_AZURE, Form.EMULATOR])
@settings(max_examples=50, deadline=None)
@given(documents=buses())
def test_every_loss_is_in_the_report(form: Form, documents: list[Document]) -> None:
    before = valid(documents)

    made = written(documents, form)

    paths = {each.path for each in made.findings}
    for entity in before.entities:
        for setting in entity_settings.BY_KIND[entity.kind]:
            value = getattr(entity.description, setting.name)
            decided = setting.name == "enable_partitioning" and before.tier is Tier.PREMIUM
            if setting.is_list or setting.left_to_tier or decided:
                continue
            if forms.lacks(form, entity.kind, setting.name) and value != setting.default:
                assert f"{entity.place}.{setting.manifest_name}" in paths


def test_entities_come_after_what_they_need() -> None:
    documents: list[Document] = [
        {"apiVersion": "bendybus.io/v1alpha1", "kind": "Queue", "metadata": {"name": name},
         "spec": {"forwardTo": to} if to else {}}
        for name, to in (("a", "b"), ("b", "c"), ("c", ""))
    ]  # fmt: skip

    bus = exported.of_documents("bus.yaml", documents)

    assert [each.name for each in bus.entities] == ["c", "b", "a"]
    [_, c, b, a] = written(documents, Form.ARM).documents[0]["resources"]
    assert [json.dumps(each["dependsOn"]).count("'c'") for each in (c, b, a)] == [0, 1, 0]
    assert bus.entities[2].kind is EntityKind.QUEUE
