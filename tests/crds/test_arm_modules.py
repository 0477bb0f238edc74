"""Templates inside templates, as Bicep compiles modules: only what is needed is evaluated."""

from typing import Any

import pytest

from tests.crds.test_arm_templates import converted, problems, resource, specs, template

pytestmark = pytest.mark.requirement("R655")


def module(name: str, inside: dict[str, Any], /, **parameters: Any) -> dict[str, Any]:
    """Return a deployment that passes these values to the template inside."""
    return {
        "type": "Microsoft.Resources/deployments",
        "apiVersion": "2022-09-01",
        "name": name,
        "properties": {
            "expressionEvaluationOptions": {"scope": "inner"},
            "mode": "Incremental",
            "parameters": {each: {"value": value} for each, value in parameters.items()},
            "template": inside,
        },
    }


BUS = template(
    resource("namespaces", "[parameters('name')]", location="[parameters('location')]"),
    parameters={"name": {"type": "string"}, "location": {"type": "string"}},
    outputs={"name": {"type": "string", "value": "[parameters('name')]"}},
)
QUEUE = template(
    resource("namespaces/queues", "[format('{0}/orders', parameters('bus'))]"),
    parameters={"bus": {"type": "string"}},
)


def test_a_location_that_is_passed_is_not_asked_for() -> None:
    document = template(
        module("bus", BUS, name="[variables('name')]", location="[resourceGroup().location]"),
        variables={"name": "shop"},
    )

    assert specs(converted(document)) == {"BusNamespace shop": {"sku": {"tier": "Standard"}}}


def test_a_name_that_only_azure_knows_is_asked_for_once() -> None:
    name = "[reference(resourceId('Microsoft.Resources/deployments', 'bus')).outputs.name.value]"
    document = template(
        module("bus", BUS, name="shop", location="here"), module("queue", QUEUE, bus=name)
    )

    [said] = problems(document)

    asked = "reference.outputs.name.value"
    assert said.endswith(f"give it with --set {asked}=VALUE.")
    assert "Queue orders" in specs(converted(document, **{asked: "shop"}))


def test_values_are_passed_for_each_copy() -> None:
    inside = template(
        resource("namespaces/queues", "[concat('shop/', parameters('name'))]"),
        parameters={"name": {"type": "string"}},
    )
    each = module("queues", inside, name="[format('q{0}', copyIndex())]")
    document = template(
        resource("namespaces", "shop"), {**each, "copy": {"name": "queues", "count": 3}}
    )

    assert [*specs(converted(document))] == [
        "BusNamespace shop",
        "Queue q0",
        "Queue q1",
        "Queue q2",
    ]
