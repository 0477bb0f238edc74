"""Rules of subscriptions in forms of other programs: no subscription takes more there than here."""

from typing import Any

import pytest

from bendybus.crds.conversion import Finding, Outcome
from bendybus.crds.exports import manifests, writing
from bendybus.crds.exports.rules import RuleWriter
from bendybus.crds.forms import Form
from bendybus.crds.imports import reading
from bendybus.crds.imports.asked import Asked
from bendybus.crds.imports.importer import manifest
from bendybus.domain.entity_settings import SubscriptionDescription
from bendybus.domain.filters import rule
from bendybus.domain.filters.rule import (
    CorrelationFilter,
    FalseFilter,
    Rule,
    SqlFilter,
    SqlRuleAction,
)
from bendybus.domain.filters.rule_set import RuleSet
from bendybus.domain.filters.values import Timestamp

pytestmark = pytest.mark.requirement("R663")
PLACE = "subscription news/Subscriptions/all"
MINE = Rule("mine", SqlFilter("a = 1"))
DEFAULT = Rule("$Default", SqlFilter("a = 1"))
NOTHING = {"filterType": "SqlFilter", "sqlFilter": {"sqlExpression": "1=0"}}
OVER_DEFAULT = [Form.ARM, Form.ASO]
OTHERS = [Form.TERRAFORM, Form.EMULATOR]


def written(form: Form, *rules: Rule) -> tuple[dict[str, Any], list[str]]:
    """Return the rules by name, and what the report says."""
    findings: list[Finding] = []
    made = RuleWriter(form, findings).written(PLACE, rules)
    return dict(made), list(map(str, findings))


@pytest.mark.parametrize("form", OVER_DEFAULT)
def test_templates_write_over_the_default_rule_that_azure_makes(form: Form) -> None:
    made, said = written(form, MINE)

    assert list(made) == ["$Default", "mine"]
    assert made["$Default"] == NOTHING
    assert said == [
        f"rewritten: {PLACE}.rules: lack $Default, which Azure makes: rule $Default, with 1=0, "
        "takes no message."
    ]


@pytest.mark.parametrize("form", [*OVER_DEFAULT, *OTHERS])
def test_a_subscription_without_rules_takes_no_message_elsewhere(form: Form) -> None:
    made, said = written(form)

    name = "$Default" if form in OVER_DEFAULT else "none"
    assert made == {name: NOTHING}
    assert f"are none: rule {name}, with 1=0, takes no message." in said[-1]


def test_terraform_cannot_write_over_the_default_rule() -> None:
    made, said = written(Form.TERRAFORM, MINE)
    mine, own = written(Form.TERRAFORM, DEFAULT)

    assert (list(made), list(mine)) == (["mine"], ["$Default"])
    assert said == [
        f"changed: {PLACE}.rules: Azure may keep $Default, which takes every message, beside them: "
        "delete it."
    ]
    assert own == [
        f"changed: {PLACE}.rules: Azure makes $Default itself: run terraform import for it before "
        "you apply."
    ]


def test_the_emulator_has_no_rule_of_that_name() -> None:
    made, said = written(Form.EMULATOR, DEFAULT, Rule("default", FalseFilter()))

    assert list(made) == ["Default-2", "default"]
    assert said == [
        f"changed: {PLACE}.rules $Default: is called Default-2: names in the emulator have no $."
    ]


@pytest.mark.parametrize("form", [*OVER_DEFAULT, *OTHERS])
def test_an_expression_that_is_too_long_with_its_parameters_takes_nothing(form: Form) -> None:
    long = SqlFilter("a = @p", {"p": "x" * 1_020})
    fits = SqlFilter("a = @p", {"p": "x" * 1_018})
    action = Rule("r", MINE.filter, SqlRuleAction("SET a = @p", {"p": "x" * 1_020}))

    lost, said = written(form, Rule("$Default", long))
    kept, _ = written(form, Rule("$Default", fits))
    changing, again = written(form, action)

    assert NOTHING in lost.values()
    assert (
        "not supported: subscription news/Subscriptions/all.rules $Default: has 1,026 characters "
        "with its parameters in it, and Azure takes 1,024: it takes no message there." in said
    )
    assert NOTHING not in kept.values()
    assert changing["r"] == NOTHING
    assert any("rules r: has 1,030 characters" in each for each in again)


def test_terraform_leaves_empty_texts_out_so_the_rule_takes_nothing() -> None:
    empty = Rule("r", CorrelationFilter(correlation_id="", label="x"))

    made, said = written(Form.TERRAFORM, empty)
    arm, _ = written(Form.ARM, empty)

    assert made == {"r": NOTHING}
    assert (
        f"not supported: {PLACE}.rules r: has an empty correlationId, which Terraform leaves out: "
        "it takes no message there." in said
    )
    assert arm["r"]["correlationFilter"] == {"correlationId": "", "label": "x"}


@pytest.mark.parametrize("form", [*OVER_DEFAULT, *OTHERS])
def test_properties_are_in_the_order_of_their_names(form: Form) -> None:
    names = ["z", "b", "m", "a"]
    mine = Rule("r", CorrelationFilter(properties=dict.fromkeys(names, "1")))

    made, _ = written(form, mine)

    assert list(made["r"]["correlationFilter"]["properties"]) == sorted(names)


def test_a_rule_that_no_manifest_holds_takes_nothing_there() -> None:
    date = Rule("r", SqlFilter("a = @p", {"p": Timestamp(0)}))
    description = SubscriptionDescription(rules=RuleSet((date,)))
    findings: list[Finding] = []
    bus = reading.of_manifests("b", [("", manifest("BusNamespace", "shop", {}))]).bundle.namespace

    [made] = manifests.entities(bus, [("news/Subscriptions/all", description)], findings)

    assert made["spec"]["rules"] == [{"name": "r", "booleanFilter": False}]
    assert [str(each) for each in findings] == [
        "not supported: subscription news/Subscriptions/all.rules r: has a value that is no text, "
        "number, true or false: it takes no message there."
    ]


def again(form: Form, *rules: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Finding]]:
    """Return the rules of a subscription that is written and read again, and the report."""
    spec = {"topicName": "news", "entityName": "all", "rules": list(rules)}
    documents = [
        manifest("BusNamespace", "shop-bus", {}),
        manifest("Topic", "news", {}),
        manifest("Subscription", "all", spec),
    ]
    file = writing.write("b", documents, form, {"location": "x", "resourceGroup": "g"})
    data = writing.text(form, file.documents).encode()
    found = reading.convert("f", form, reading.documents("f", data), Asked())
    [made] = [each for each in found.documents if each["kind"] == "Subscription"]
    return made["spec"]["rules"], list(found.findings)


@pytest.mark.parametrize("form", OVER_DEFAULT)
def test_what_keeps_the_default_rule_away_is_no_rule_here(form: Form) -> None:
    mine = {"name": "mine", "sqlFilter": {"sqlExpression": "a = 1"}}

    found, report = again(form, mine)

    assert found == [mine]
    assert "keeps away the one that Azure makes." in {each.detail for each in report}


def test_a_file_without_the_default_rule_says_that_azure_may_keep_it() -> None:
    mine = {"name": "mine", "sqlFilter": {"sqlExpression": "a = 1"}}

    found, report = again(Form.TERRAFORM, mine)

    assert found == [mine]
    said = [each for each in report if each.path == "news/all.rules"]
    assert [(each.outcome, each.detail) for each in said] == [
        (
            Outcome.DEFAULT,
            "only those of the file; Azure may keep $Default, which takes every message.",
        )
    ]


@pytest.mark.parametrize("form", OVER_DEFAULT)
def test_the_default_rule_alone_is_kept_whatever_it_takes(form: Form) -> None:
    never = {"name": rule.DEFAULT_NAME, "sqlFilter": {"sqlExpression": "1=0"}}

    assert again(form, never)[0] == [never]
