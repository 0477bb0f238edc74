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


ID = "resourceId('Microsoft.Resources/deployments', 'bus')"


@pytest.mark.parametrize("listed", [True, False], ids=["list", "symbols"])
def test_an_output_of_another_module_is_its_value(listed: bool) -> None:
    target = ID if listed else "'first'"
    bus = module("bus", BUS, name="shop", location="[utcNow()]")
    queue = module("queue", QUEUE, bus=f"[reference({target}, '2022-09-01').outputs.name.value]")
    document = template()
    document["resources"] = [queue, bus] if listed else {"second": queue, "first": bus}

    assert [*specs(converted(document))] == ["BusNamespace shop", "Queue orders"]


def test_what_is_no_output_here_is_asked_for_once() -> None:
    elsewhere = ID.replace("'bus'", "'elsewhere'")
    name = f"[reference({elsewhere}).outputs.name.value]"
    document = template(
        module("bus", BUS, name="shop", location="here"), module("queue", QUEUE, bus=name)
    )

    [said] = problems(document)

    asked = "reference.outputs.name.value"
    assert said.endswith(f"give it with --set {asked}=VALUE.")
    assert "Queue orders" in specs(converted(document, **{asked: "shop"}))


def test_outputs_that_need_each_other_end() -> None:
    inside = template(
        resource("namespaces", "[parameters('name')]"),
        parameters={"name": {"type": "string"}},
        outputs={"name": {"type": "string", "value": "[parameters('name')]"}},
    )
    document = template(
        *(
            module(own, inside, name=f"[reference({ID.replace('bus', other)}).outputs.name.value]")
            for own, other in (("a", "b"), ("b", "a"))
        )
    )

    assert all("too often" in said for said in problems(document))


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
