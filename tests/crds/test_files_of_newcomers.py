"""Files as newcomers brought them: formats of numbers, functions of Bicep, lists without rules."""

from typing import Any

import pytest

from bendybus.crds.bundle import NamespaceSettings
from bendybus.crds.conversion import Conversion
from bendybus.crds.errors import ManifestError
from bendybus.crds.forms import Form
from bendybus.crds.imports import reading
from bendybus.crds.imports.arm_evaluation import Budget, Evaluation
from bendybus.crds.imports.asked import Asked
from bendybus.domain.limits import Tier
from tests.crds.terraform_documents import data, raw_state, resource, shown_state

pytestmark = pytest.mark.requirement("R665")
IDS = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ServiceBus/namespaces/shop"


def value(text: str, **functions: Any) -> Any:
    return Evaluation({}, {}, {}, Budget(), functions=functions).value(text)


def converted(form: Form, document: Any, asked: Asked | None = None) -> Conversion:
    return reading.convert("f", form, [("", document)], asked or Asked())


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("[format('q-{0:D3}', 1)]", "q-001"),
        ("[format('{0:d2}{1:D}', -7, 12)]", "-0712"),
        ("[format('{0:000}', 7)]", "007"),
        ("[format('{0:X}{0:x4}', 255)]", "FF00ff"),
        ("[format('{0:N0}', 1234567)]", "1,234,567"),
        ("[format('{0:N}', 5)]", "5.00"),
        ("[format('{0,5}|{0,-5}|', 'ab')]", "   ab|ab   |"),
        ("[format('{0,4:D2}', 7)]", "  07"),
        ("[format('{0:D3}', 'text')]", "text"),
        ("[format('{{0:D3}}{0}', 7)]", "{0:D3}7"),
        ("[string(shallowMerge(createArray(createObject('a', 1), createObject('a', 2, 'b', 3))))]",
         '{"a":2,"b":3}'),
        ("[string(sort(createArray(3, 1, 2), lambda('x', 'y', less(lambdaVariables('x'), "
         "lambdaVariables('y')))))]", "[1,2,3]"),
        ("[string(mapValues(createObject('a', 1), lambda('x', add(lambdaVariables('x'), 1))))]",
         '{"a":2}'),
        ("[string(toObject(createArray('a', 'b'), lambda('x', toUpper(lambdaVariables('x')))))]",
         '{"A":"a","B":"b"}'),
        ("[string(toObject(createArray('a'), lambda('x', lambdaVariables('x')), "
         "lambda('x', length(lambdaVariables('x')))))]", '{"a":1}'),
        ("[string(groupBy(createArray('a1', 'b', 'a2'), lambda('x', take(lambdaVariables('x'), "
         "1))))]", '{"a":["a1","a2"],"b":["b"]}'),
        ("[base64ToString(base64('é'))]", "é"),
        ("[base64ToJson(base64('{\"a\": 7}')).a]", 7),
        ("[lastIndexOf('abcA', 'a')]", 3),
        ("[lastIndexOf(createArray(1, 2, 1), 1)]", 2),
        ("[indexFromEnd(createArray(1, 2, 3), 1)]", 3),
        ("[coalesce(tryIndexFromEnd(createArray(1), 2), 'none')]", "none"),
        ("[uriComponentToString(uriComponent('a b/ü'))]", "a b/ü"),
        ("[uriComponent('a b/')]", "a%20b%2F"),
    ],
)  # fmt: skip
def test_functions_that_bicep_writes_have_the_results_of_azure(text: str, made: Any) -> None:
    assert value(text) == made


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[format('{0:C2}', 7)]", "format() has the format 'C2', which is not known here. Write"),
        ("[base64ToString('?')]", "base64ToString() needs a text in base64"),
        ("[indexFromEnd(createArray(1), 2)]", "has no item 2 from the end, of 1."),
    ],
)
def test_what_a_function_does_not_take_is_said(text: str, words: str) -> None:
    with pytest.raises(Exception, match=r".") as error:
        value(text)
    assert words in str(error.value)


def function(output: str, *names: str) -> dict[str, Any]:
    parameters = [{"name": name, "type": "string"} for name in names]
    return {"parameters": parameters, "output": {"type": "string", "value": output}}


def test_functions_of_a_template_may_call_each_other_but_not_without_end() -> None:
    functions = {
        "my.pre": function("[concat('pre-', parameters('s'))]", "s"),
        "my.full": function("[format('{0}-x', my.pre(parameters('s')))]", "s"),
        "my.never": function("[my.never()]"),
    }

    assert value("[my.full('a')]", **functions) == "pre-a-x"
    with pytest.raises(Exception, match=r"my.never\(\) calls other functions too deeply\."):
        value("[my.never()]", **functions)


def test_a_list_of_subscriptions_without_rules_says_that_they_take_every_message() -> None:
    topic = {"id": f"{IDS}/topics/news", "name": "news"}
    subscription = {"id": f"{IDS}/topics/news/subscriptions/all", "name": "all"}
    rule = {"id": f"{IDS}/topics/news/subscriptions/all/rules/r", "filterType": "SqlFilter",
            "sqlFilter": {"sqlExpression": "a = 1"}}  # fmt: skip

    without = list(converted(Form.AZ, [topic, subscription]).remarks())
    with_rule = list(converted(Form.AZ, [topic, subscription, rule]).remarks())

    assert any(each.startswith("default: news/all.rules: $Default, which") for each in without)
    assert not any("$Default" in each for each in with_rule)


def test_settings_below_properties_are_those_of_the_resource() -> None:
    queue = {"id": f"{IDS}/queues/q", "name": "q", "location": "eu",
             "properties": {"lockDuration": "PT30S", "status": "Active", "createdAt": "x",
                            "maxDeliveryCounts": 3}}  # fmt: skip

    found = converted(Form.AZ, [queue])

    assert found.documents[1]["spec"]["lockDuration"] == "PT30S"
    assert [each.path for each in found.differences()] == ["[0].properties.maxDeliveryCounts"]


def test_numbers_in_filters_of_azure_become_texts_with_a_line() -> None:
    rule = {"id": f"{IDS}/topics/news/subscriptions/all/rules/r",
            "filterType": "CorrelationFilter",
            "correlationFilter": {"properties": {"n": 5, "b": True, "t": "x"}}}  # fmt: skip
    topic = {"id": f"{IDS}/topics/news"}
    subscription = {"id": f"{IDS}/topics/news/subscriptions/all"}

    found = converted(Form.AZ, [topic, subscription, rule])

    [made] = found.documents[2]["spec"]["rules"]
    assert made["correlationFilter"]["properties"] == {"n": "5", "b": "true", "t": "x"}
    assert len([each for each in found.differences() if "became text" in each.detail]) == 2


def test_a_policy_on_what_the_file_lacks_is_said() -> None:
    policy = {"id": f"{IDS}/topics/tt/authorizationRules/a", "rights": ["Send"]}

    found = converted(Form.AZ, [policy])

    assert "changed: [0]: is on 'tt', which this file lacks." in list(found.remarks())


@pytest.mark.parametrize("tier", list(Tier))
def test_a_config_json_is_for_the_bus_that_is_meant(tier: Tier) -> None:
    config = {"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [{"Name": "q"}]}]}}
    running = NamespaceSettings("mine", tier, 16 if tier is not Tier.PREMIUM else 2)
    asked = Asked(running=lambda: running, meant=True)

    found = converted(Form.EMULATOR, config, asked).bundle.namespace

    assert (found.tier, found.partition_count) == (tier, running.partition_count)
    own = converted(Form.EMULATOR, config).bundle.namespace
    assert (own.tier, own.partition_count) == (Tier.PREMIUM, 1)


def test_a_state_says_the_tier_of_a_namespace_that_it_reads() -> None:
    namespace = data("namespace", "hub", name="hub", sku="Premium", premium_messaging_partitions=2)
    topic = resource("topic", "news", name="news", namespace_id=f"{IDS[:-4]}hub")

    for document in (shown_state(namespace, topic), raw_state(namespace, topic)):
        found = converted(Form.TERRAFORM, document).bundle.namespace
        assert (found.name, found.tier, found.partition_count) == ("hub", Tier.PREMIUM, 2)


def test_a_duration_that_is_a_number_is_told_its_form() -> None:
    queue = {"id": f"{IDS}/queues/q", "lockDuration": 90}

    with pytest.raises(ManifestError, match="must be a duration in ISO 8601, such as PT30S"):
        converted(Form.AZ, [queue])
