"""Configuration of Terraform in JSON (.tf.json) becomes manifests."""

from typing import Any

import pytest

from bendybus.crds.exports import writing
from bendybus.crds.forms import Form
from tests.crds.reports import reported
from tests.crds.terraform_documents import (
    configuration,
    converted,
    plan,
    problems,
    resource,
    specs,
)

pytestmark = pytest.mark.requirement("R658")
NAMESPACE = {"name": "shop", "sku": "Standard", "location": "${var.location}"}
OF_NAMESPACE = "${azurerm_servicebus_namespace.main.id}"


def shop(**blocks: Any) -> dict[str, Any]:
    """Return configuration of a namespace with more blocks."""
    return configuration(namespace={"main": NAMESPACE}, **blocks)


def test_references_say_what_belongs_to_what_and_where_messages_go() -> None:
    document = shop(
        topic={"news": {"name": "news", "namespace_id": OF_NAMESPACE}},
        subscription={
            "all": {
                "name": "all",
                "topic_id": "${azurerm_servicebus_topic.news.id}",
                "max_delivery_count": 5,
                "forward_to": "${azurerm_servicebus_queue.orders.name}",
            }
        },
        queue={"orders": [{"name": "orders", "namespace_id": OF_NAMESPACE}]},
    )

    found = specs(document)

    assert found["Subscription news-all"]["forwardTo"] == "orders"
    assert found["Subscription news-all"]["topicName"] == "news"
    assert "Queue orders" in found


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a = '$${b}'", "a = '${b}'"),
        ("a = '%%{b}'", "a = '%{b}'"),
        ("a = '$$${b}'", "a = '$${b}'"),
        ("a = '$$'", "a = '$$'"),
    ],
)
def test_escaped_texts_are_literal_in_configuration(written: str, meant: str) -> None:
    rule = {"name": "r", "filter_type": "SqlFilter", "sql_filter": written,
            "subscription_id": "${azurerm_servicebus_subscription.all.id}"}  # fmt: skip
    document = shop(
        topic={"news": {"name": "news", "namespace_id": OF_NAMESPACE}},
        subscription={"all": {"name": "all", "topic_id": "${azurerm_servicebus_topic.news.id}"}},
        subscription_rule={"r": rule},
    )

    [made] = specs(document)["Subscription news-all"]["rules"]

    assert made["sqlFilter"] == {"sqlExpression": meant}


@pytest.mark.parametrize("name", ["a${b}", "a$${b}", "%{c}"])
def test_names_of_properties_are_escaped_as_texts_are(name: str) -> None:
    def one(kind: str, **spec: Any) -> dict[str, Any]:
        return {"apiVersion": "bendybus.io/v1alpha1", "kind": kind,
                "metadata": {"name": kind.lower()}, "spec": spec}  # fmt: skip

    rules = [{"name": "r", "correlationFilter": {"properties": {name: name}}}]
    documents = [
        one("BusNamespace", sku={"tier": "Standard"}),
        one("Topic", entityName="news"),
        one("Subscription", topicName="news", entityName="all", rules=rules),
    ]

    values = {"location": "here", "resourceGroup": "g"}
    [file] = writing.write("bus.yaml", documents, Form.TERRAFORM, values).documents

    [made] = specs(file)["Subscription news-all"]["rules"]
    assert made["correlationFilter"] == {"properties": {name: name}}


@pytest.mark.parametrize("text", ["${b}", "$${b}", "%{b}", "%%{b}"])
def test_texts_of_plans_are_literal(text: str) -> None:
    document = plan(
        resource("namespace", "main", name="shop", sku="Standard"),
        resource("topic", "news", name="news"),
        resource("subscription", "all", name="all", max_delivery_count=10),
        resource("subscription_rule", "r", name="r", filter_type="CorrelationFilter",
                 correlation_filter=[{"label": text, "properties": {text: text}}]),
    )  # fmt: skip

    [made] = specs(document)["Subscription news-all"]["rules"]

    assert made["correlationFilter"] == {"label": text, "properties": {text: text}}


@pytest.mark.parametrize(
    ("field", "value", "place"),
    [
        ("lock_duration", "${var.lock}", "lock_duration"),
        ("lock_duration", "PT${var.lock}M", "lock_duration"),
        ("lock_duration", "%{if a}PT1M%{endif}", "lock_duration"),
        ("forward_to", "${azurerm_servicebus_queue.none.name}", "forward_to"),
        ("max_delivery_count", ["${var.count}"], "max_delivery_count[0]"),
    ],
)
def test_other_expressions_need_terraform(field: str, value: Any, place: str) -> None:
    queue = {"name": "orders", "namespace_id": OF_NAMESPACE, field: value}

    [said] = problems(shop(queue={"orders": queue}))

    assert said == (
        f"resource.azurerm_servicebus_queue.orders.{place}: is an expression: convert what "
        "terraform show -json prints of a plan."
    )


def test_values_that_only_azure_needs_may_be_expressions() -> None:
    left = {each.path for each in reported(converted(shop()))}

    assert left == {"resource.azurerm_servicebus_namespace.main.location"}
