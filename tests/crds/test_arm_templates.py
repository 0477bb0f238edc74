"""Templates of Azure Resource Manager become manifests, and each field is accounted for."""

import json
from typing import Any

import pytest

from bendybus.crds.conversion import Conversion, Outcome
from bendybus.crds.errors import ManifestError
from bendybus.crds.imports import arm, arm_template
from tests.crds.reports import reported

pytestmark = pytest.mark.requirement("R655")
SCHEMA = "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"


def template(*resources: Any, **parts: Any) -> dict[str, Any]:
    """Return a template."""
    return {
        "$schema": SCHEMA,
        "contentVersion": "1.0.0.0",
        "resources": list(resources),
        **parts,
    }


def resource(kind: str, name: str, **parts: Any) -> dict[str, Any]:
    """Return a resource of Service Bus; `kind`: below namespaces."""
    kind = f"Microsoft.ServiceBus/{kind}" if kind.startswith("namespaces") else kind
    return {"type": kind, "apiVersion": "2021-11-01", "name": name, **parts}


def converted(document: dict[str, Any], **given: Any) -> Conversion:
    return arm.parse("bus.json", json.dumps(document).encode(), given)


def specs(conversion: Conversion) -> dict[str, dict[str, Any]]:
    """Return each manifest's spec by kind and name."""
    return {
        f"{each['kind']} {each['metadata']['name']}": {
            name: value for name, value in each["spec"].items() if name != "namespaceRef"
        }
        for each in conversion.documents
    }


def problems(document: dict[str, Any], **given: Any) -> list[str]:
    with pytest.raises(ManifestError) as error:
        converted(document, **given)
    return [str(each) for each in error.value.problems]


NAMESPACE = resource("namespaces", "shop", sku={"name": "Standard"})


def test_a_quickstart_becomes_a_bus() -> None:
    document = template(
        resource(
            "namespaces",
            "[parameters('namespaceName')]",
            location="[parameters('location')]",
            sku={"name": "Standard"},
            tags={"a": "[utcNow()]"},
            resources=[
                resource(
                    "Queues",
                    "[parameters('queueName')]",
                    dependsOn=["[resourceId('Microsoft.ServiceBus/namespaces', 'x')]"],
                    properties={
                        "lockDuration": "PT5M",
                        "maxSizeInMegabytes": "1024",
                        "requiresSession": "false",
                        "deadLetteringOnMessageExpiration": True,
                        "enableExpress": "false",
                        "enablePartitioning": "[equals(1, 1)]",
                    },
                )
            ],
        ),
        parameters={
            "namespaceName": {"type": "string"},
            "queueName": {"type": "string", "defaultValue": "orders"},
            "location": {"type": "string", "defaultValue": "[resourceGroup().location]"},
        },
        outputs={"key": {"value": "[listKeys('x', 'y').primaryKey]"}},
    )

    [asked] = problems(document)
    assert asked.startswith("bus.json: resources[0].name: needs namespaceName")
    found = converted(document, namespaceName="shop")

    assert specs(found) == {
        "BusNamespace shop": {"sku": {"tier": "Standard"}},
        "Queue orders": {
            "lockDuration": "PT5M",
            "maxSizeInMegabytes": 1024,
            "requiresSession": False,
            "deadLetteringOnMessageExpiration": True,
            "enableExpress": False,
            "enablePartitioning": True,
        },
    }
    left = {each.path for each in reported(found)}
    assert left == {"resources[0].location", "resources[0].tags"}


def test_names_with_segments_topics_rules_and_policies() -> None:
    document = template(
        resource("namespaces", "shop", sku={"name": "Premium", "capacity": 1}),
        resource("namespaces/topics", "shop/news~all", properties={}),
        resource("namespaces/topics/subscriptions", "shop/news~all/eu"),
        resource(
            "namespaces/topics/subscriptions/rules",
            "shop/news~all/eu/only",
            properties={"filterType": "SqlFilter", "sqlFilter": {"sqlExpression": "region = 'eu'"}},
        ),
        resource(
            "namespaces/topics/subscriptions/rules",
            "shop/news~all/eu/labelled",
            properties={
                "filterType": "CorrelationFilter",
                "correlationFilter": {"label": "x", "properties": {"a": "b"}},
                "action": {},
            },
        ),
        resource("namespaces/queues", "shop/orders"),
        resource("namespaces/AuthorizationRules", "shop/app", properties={"Rights": ["Send"]}),
        resource(
            "namespaces/queues/authorizationRules",
            "shop/orders/reader",
            properties={"rights": ["Listen"]},
        ),
        resource("namespaces/authorizationRules", "shop/RootManageSharedAccessKey"),
        {"type": "Microsoft.Storage/storageAccounts", "name": "[uniqueString('x')]"},
    )

    found = specs(converted(document))

    assert found["BusNamespace shop"] == {
        "sku": {"tier": "Premium"},
        "premiumMessagingPartitions": 1,
        "authorizationRules": [
            {"name": "app", "rights": ["Send"]},
            {"name": "reader", "rights": ["Listen"], "entity": "orders"},
        ],
    }
    assert found["Topic news-all"] == {"entityName": "news/all"}
    assert found["Subscription news-all-eu"] == {
        "topicName": "news/all",
        "entityName": "eu",
        "rules": [
            {"name": "only", "sqlFilter": {"sqlExpression": "region = 'eu'"}},
            {
                "name": "labelled",
                "correlationFilter": {"label": "x", "properties": {"a": "b"}},
            },
        ],
    }
    assert found["Queue orders"] == {}


def test_copies_conditions_symbols_and_inner_templates() -> None:
    inner = template(
        resource("namespaces/queues", "[format('{0}/{1}', parameters('bus'), parameters('name'))]"),
        parameters={"bus": {"type": "string"}, "name": {"type": "string"}},
    )
    document = template(
        parameters={"names": {"type": "array", "defaultValue": ["a", "b"]}},
        variables={"copy": [{"name": "more", "count": 2, "input": "[copyIndex('more')]"}]},
    )
    document["resources"] = {
        "bus": NAMESPACE,
        "old": resource("namespaces", "[parameters('names')]", existing=True),
        "queues": resource(
            "namespaces/queues",
            "[concat('shop/', parameters('names')[copyIndex()], '-', variables('more')[1])]",
            copy={"name": "queues", "count": "[length(parameters('names'))]"},
            properties={"maxDeliveryCount": "[copyIndex('queues', 3)]"},
        ),
        "never": resource("namespaces/queues", "[uniqueString('x')]", condition=False),
        "module": {
            "type": "Microsoft.Resources/deployments",
            "name": "m",
            "properties": {
                "expressionEvaluationOptions": {"scope": "inner"},
                "parameters": {"bus": {"value": "shop"}, "name": {"value": "c"}},
                "template": inner,
            },
        },
    }

    found = specs(converted(document))

    assert found == {
        "BusNamespace shop": {"sku": {"tier": "Standard"}},
        "Queue a-1": {"maxDeliveryCount": 3},
        "Queue b-1": {"maxDeliveryCount": 4},
        "Queue c": {},
    }


def test_old_templates_have_times_of_dotnet_a_path_and_rules_with_nulls() -> None:
    rule = {"filterType": None, "correlationFilter": None, "sqlFilter": None, "action": None}
    document = template(
        NAMESPACE,
        resource("namespaces/queues", "shop/q", properties={"path": "q", "lockDuration": "00:00:30",
            "defaultMessageTimeToLive": "14.00:00:00", "userMetadata": "00:00:30",
            "autoDeleteOnIdle": "10675199.02:48:05.4775807"}),
        resource("namespaces/topics", "shop/t"),
        resource("namespaces/topics/subscriptions", "shop/t/s"),
        resource("namespaces/topics/subscriptions/rules", "shop/t/s/all", properties=rule),
        resource("namespaces/topics/subscriptions/rules", "shop/t/s/old", properties={
            "Filter": {"sqlExpression": "a = 1", "requiresPreprocessing": True}}),
    )  # fmt: skip

    found = converted(document)

    assert specs(found)["Queue q"] == {
        "lockDuration": "PT30S",
        "defaultMessageTimeToLive": "P14D",
        "autoDeleteOnIdle": "P10675199DT2H48M5.4775807S",
        "userMetadata": "00:00:30",
    }
    assert specs(found)["Subscription t-s"]["rules"] == [
        {"name": "all", "sqlFilter": {"sqlExpression": "1=1"}},
        {"name": "old", "sqlFilter": {"sqlExpression": "a = 1"}},
    ]
    assert [str(each) for each in reported(found)] == [
        "without effect: resources[1].properties.path: the name of the resource counts.",
        "without effect: resources[5].properties.Filter.requiresPreprocessing: expressions "
        "are not preprocessed.",
    ]


def test_a_nested_resource_of_another_provider_is_reported() -> None:
    logs = {"type": "providers/diagnosticSettings", "name": "Microsoft.Insights/service"}

    found = converted(template({**NAMESPACE, "resources": [logs]}))

    assert {each.path: each.outcome for each in found.findings}["resources[0].resources[0]"] is (
        Outcome.NO_EFFECT
    )


def test_a_nested_resource_may_have_the_whole_type_and_the_last_part_of_its_name() -> None:
    nested = resource("namespaces/queues", "orders")

    assert "Queue orders" in specs(converted(template({**NAMESPACE, "resources": [nested]})))


def test_values_of_parameters_come_from_outside_as_their_type() -> None:
    document = template(
        NAMESPACE,
        resource(
            "namespaces/queues",
            "[concat('shop/', parameters('name'))]",
            condition="[parameters('wanted')]",
            properties={"maxDeliveryCount": "[parameters('count')]"},
        ),
        parameters={
            "name": {"type": "string"},
            "count": {"type": "int"},
            "wanted": {"type": "bool"},
        },
    )
    file = {"parameters": {"count": {"value": 7}, "name": {"reference": {"keyVault": {}}}}}
    given = arm_template.parameter_values("p.json", file)

    found = specs(converted(document, **given, name="5", wanted="True"))

    assert found["Queue 5"] == {"maxDeliveryCount": 7}


def test_every_field_has_a_finding() -> None:
    document = template(
        resource("namespaces", "shop", sku={"name": "Basic", "tier": "Basic"}, properties={
            "zoneRedundant": True, "unknown": 1, "disableLocalAuth": False}),
        resource("namespaces/queues", "shop/orders", properties={"Unknown": 1, "status": "active"}),
        resource("namespaces/networkRuleSets", "shop/default"),
    )  # fmt: skip

    found = converted(document)

    outcomes = {each.path: each.outcome for each in found.findings}
    assert outcomes["resources[0].properties.unknown"] is Outcome.NOT_SUPPORTED
    assert outcomes["resources[0].properties.zoneRedundant"] is Outcome.NO_EFFECT
    assert outcomes["resources[1].properties.Unknown"] is Outcome.NOT_SUPPORTED
    assert outcomes["resources[1].properties.status"] is Outcome.TAKEN
    assert outcomes["resources[2]"] is Outcome.NOT_SUPPORTED


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (template(), "has no resource of Service Bus"),
        (template(NAMESPACE, resource("namespaces", "other")), "The file has shop, other, and"),
        (template(NAMESPACE, resource("namespaces/queues", "shop/a/b")), "must have 2 parts"),
        (template(NAMESPACE, resource("namespaces/queues", "a")), "must have 2 parts"),
        (template({**NAMESPACE, "resources": [resource("namespaces/topics/subscriptions", "a")]}),
         "resources[0].resources[0].name: must have 3 parts"),
        (template(NAMESPACE, resource("namespaces/queues", "shop/a", properties={
            "lockDuration": "PT10M"})), "resources[1].properties.lockDuration"),
        (template(NAMESPACE, resource("namespaces/queues", "shop/a", properties={
            "requiresSession": "maybe"})), "resources[1].properties.requiresSession"),
        (template(NAMESPACE, resource("namespaces/queues", "shop/a", properties={
            "maxDeliveryCount": "[nothing()]"})),
         "resources[1].properties.maxDeliveryCount: uses "),
        (template(NAMESPACE, {"name": "x"}), "resources[1].type: is missing"),
        (template(NAMESPACE, "text"), "must be an object"),
        (template(resource("namespaces", "shop", sku={"name": "Gold"})), "must be one of"),
        (template(NAMESPACE, resource("namespaces/queues", "shop/q", copy={"name": "c",
            "count": 10**9})), "a count of 0 to 20000"),
        (template(NAMESPACE, {"type": "Microsoft.Resources/deployments", "name": "m",
            "properties": {"templateLink": {"uri": "x"}}}), "has no template in it"),
        (template(NAMESPACE, resource("namespaces/topics/subscriptions/rules", "shop/t/s/r")),
         "which the file lacks. Add the subscription"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(document: dict[str, Any], words: str) -> None:
    assert any(words in each for each in problems(document))


def test_deep_and_many_resources_end() -> None:
    deep = resource("namespaces", "shop")
    for number in range(30):
        deep = resource("queues", f"n{number}", resources=[deep])
    assert any("nested more than 10 deep" in each for each in problems(template(deep)))

    many = [
        resource("namespaces/queues", "[concat('shop/', copyIndex())]",
                 copy={"name": f"c{number}", "count": 20_000})
        for number in range(3)
    ]  # fmt: skip
    assert any("more than 20000 resources" in each for each in problems(template(NAMESPACE, *many)))


def test_copies_with_the_same_problem_are_not_all_listed() -> None:
    wrong = resource(
        "namespaces/queues",
        "[concat('shop/', copyIndex())]",
        copy={"name": "c", "count": 1_000},
        properties={"maxDeliveryCount": f"[json('{'9' * 4_000}')]"},
    )

    found = problems(template(NAMESPACE, wrong))

    assert len(found) == 101
    assert found[0].endswith("properties.maxDeliveryCount: must be a number of 64 bits.")
    assert found[-1] == "bus.json: has 900 more problems."


def test_a_template_is_recognised() -> None:
    assert arm_template.is_template(template())
    assert not arm_template.is_template({"UserConfig": {}})
    assert not arm_template.is_template([])


def test_whole_numbers_may_have_a_point_and_a_wrong_bus_is_said_once() -> None:
    sku, queue = {"name": "Premium"}, {"maxDeliveryCount": 10.0}
    document = template(
        resource("namespaces", "shop", sku=sku, properties={"premiumMessagingPartitions": 2.0}),
        resource("namespaces/queues", "shop/q", properties=queue),
    )

    found = specs(converted(document))

    assert found["BusNamespace shop"]["premiumMessagingPartitions"] == 2
    assert found["Queue q"] == {"maxDeliveryCount": 10}
    document["resources"][0]["name"] = "-"
    assert len(problems(document)) == 1
