"""Manifests of Azure Service Operator become manifests of a bus."""

import json
from typing import Any

import pytest
import yaml

from bendybus.crds.conversion import Conversion, Outcome
from bendybus.crds.errors import ManifestError
from bendybus.crds.forms import Form
from bendybus.crds.imports import reading
from bendybus.crds.imports.asked import Asked
from tests.crds.reports import reported

pytestmark = pytest.mark.requirement("R659")
VERSION = "v1api20240101"
GROUP = {"armId": "/subscriptions/s/resourceGroups/g"}
IDS = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ServiceBus/namespaces"


def an_object(
    kind: str, name: str, owner: Any = None, version: str = VERSION, **spec: Any
) -> dict[str, Any]:
    """Return an object of the operator; `owner`: its name, or what the file has for it."""
    if isinstance(owner, str):
        owner = {"name": owner}
    return {
        "apiVersion": f"servicebus.azure.com/{version}",
        "kind": kind,
        "metadata": {"name": name},
        "spec": ({} if owner is None else {"owner": owner}) | spec,
    }


NAMESPACE = an_object("Namespace", "shop", {"name": "group"}, sku={"name": "Standard"})
TOPIC = an_object("NamespacesTopic", "news", "shop")
SUBSCRIPTION = an_object("NamespacesTopicsSubscription", "all", "news")


def as_yaml(*documents: Any) -> bytes:
    return yaml.safe_dump_all(documents, sort_keys=False).encode()


def converted(data: bytes, asked: Asked | None = None) -> Conversion:
    found = reading.documents("bus.yaml", data)
    assert reading.recognised("bus.yaml", found) is Form.ASO
    return reading.convert("bus.yaml", Form.ASO, found, asked or Asked())


def specs(*documents: Any) -> dict[str, dict[str, Any]]:
    """Return each manifest's spec by kind and name."""
    return {
        f"{each['kind']} {each['metadata']['name']}": {
            name: value for name, value in each["spec"].items() if name != "namespaceRef"
        }
        for each in converted(as_yaml(*documents)).documents
    }


def problems(*documents: Any) -> list[str]:
    with pytest.raises(ManifestError) as error:
        converted(as_yaml(*documents))
    return [str(each).removeprefix("bus.yaml: ") for each in error.value.problems]


def left(data: bytes) -> dict[str, str]:
    return {each.path: each.detail for each in reported(converted(data))}


def test_every_kind_becomes_its_part_of_the_bus() -> None:
    found = specs(
        an_object("Namespace", "shop", GROUP, sku={"name": "Premium", "tier": "Premium"},
                  premiumMessagingPartitions=2, azureName="shop-eu"),
        an_object("NamespacesQueue", "orders", "shop", lockDuration="PT1M", maxDeliveryCount=5),
        an_object("NamespacesTopic", "news", "shop", azureName="news~all"),
        an_object("NamespacesTopicsSubscription", "all", "news", requiresSession=True),
        an_object("NamespacesTopicsSubscriptionsRule", "eu", "all", azureName="only-eu",
                  filterType="SqlFilter", sqlFilter={"sqlExpression": "a = 1"}),
        an_object("NamespacesAuthorizationRule", "app", "shop", rights=["Send"]),
        an_object("QueueAuthorizationRule", "reader", "orders", rights=["Listen"]),
        an_object("TopicAuthorizationRule", "writer", "news", rights=["Manage"]),
    )  # fmt: skip

    assert found == {
        "BusNamespace shop-eu": {
            "sku": {"tier": "Premium"},
            "premiumMessagingPartitions": 2,
            "authorizationRules": [
                {"name": "app", "rights": ["Send"]},
                {"name": "reader", "rights": ["Listen"], "entity": "orders"},
                {"name": "writer", "rights": ["Manage"], "entity": "news/all"},
            ],
        },
        "Queue orders": {"lockDuration": "PT1M", "maxDeliveryCount": 5},
        "Topic news-all": {"entityName": "news/all"},
        "Subscription news-all-all": {
            "topicName": "news/all",
            "entityName": "all",
            "requiresSession": True,
            "rules": [{"name": "only-eu", "sqlFilter": {"sqlExpression": "a = 1"}}],
        },
    }


@pytest.mark.parametrize("prefix", ["v1api", "v1beta", "v1alpha1", "v1alpha1api", "v"])
@pytest.mark.parametrize("version", ["20210101preview", "20211101", "20221001preview", "20240101"])
def test_every_version_is_known(prefix: str, version: str) -> None:
    data = as_yaml({**NAMESPACE, "apiVersion": f"servicebus.azure.com/{prefix}{version}"})

    assert left(data) == {}


def test_a_later_version_is_read_as_the_last_one_that_is_known() -> None:
    assert left(as_yaml({**NAMESPACE, "apiVersion": "servicebus.azure.com/v1api20990101"})) == {
        "document 1.apiVersion": "'v1api20990101' is not known here: it is read as v1api20240101."
    }


def test_an_owner_may_be_a_resource_of_azure() -> None:
    found = specs(
        an_object("NamespacesQueue", "orders", {"armId": f"{IDS}/shop"}),
        an_object("NamespacesTopicsSubscription", "all", {"armId": f"{IDS}/shop/topics/a~b"}),
        TOPIC,
    )

    assert found["BusNamespace shop"] == {"sku": {"tier": "Standard"}}
    assert found["Subscription a-b-all"]["topicName"] == "a/b"
    # Its owner has no object here, and is called as the owner is.
    assert "Topic news" in found


def test_owners_are_looked_for_in_their_own_namespace_of_kubernetes() -> None:
    other = {**TOPIC, "metadata": {"name": "news", "namespace": "eu"}}
    mine = {**SUBSCRIPTION, "metadata": {"name": "all", "namespace": "eu"}}

    [said] = problems(NAMESPACE, TOPIC, mine)
    assert said == (
        "document 3.spec.owner.name: is 'news', and the file has no NamespacesTopic of that name "
        "in namespace 'eu'. Add its manifest."
    )
    other["spec"] = {"azureName": "eu-news", "owner": {"armId": f"{IDS}/shop"}}
    assert specs(NAMESPACE, TOPIC, other, mine)["Subscription eu-news-all"]


@pytest.mark.parametrize("as_text", [json.dumps, yaml.safe_dump])
def test_what_kubectl_prints_is_a_list_with_statuses(as_text: Any) -> None:
    status = {"conditions": [{"type": "Ready", "status": "True"}], "id": f"{IDS}/shop"}
    items = [{**each, "status": status} for each in (NAMESPACE, TOPIC)]
    items[0]["metadata"] = {"name": "shop", "uid": "1", "managedFields": [{"a": 1}]}
    data = as_text({"apiVersion": "v1", "kind": "List", "items": items, "metadata": {}}).encode()

    found = converted(data)

    assert reported(found) == []
    taken = {each.path for each in found.findings}
    place = "" if as_text is json.dumps else "document 1."
    for name in ("apiVersion", "kind", "metadata", "spec.owner", "status"):
        assert f"{place}items[0].{name}" in taken


def test_output_of_kustomize_has_other_documents() -> None:
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "app"}}
    group = {"apiVersion": "resources.azure.com/v1api20200601", "kind": "ResourceGroup"}
    other = an_object("NamespacesIpFilterRule", "x", "shop")

    assert left(as_yaml(deployment, NAMESPACE, group, other)) == {
        "document 1": "is Deployment, no resource of Service Bus.",
        "document 3": "is ResourceGroup, no resource of Service Bus.",
        "document 4.kind": "'NamespacesIpFilterRule' is not known here.",
    }


def test_every_field_has_one_finding() -> None:
    secrets = {"secrets": {"primaryKey": {"name": "keys", "key": "primary"}}}
    data = as_yaml(
        {**NAMESPACE, "data": {"a": 1},
         "spec": {**NAMESPACE["spec"], "azureName": "shop", "location": "eu",
         "tags": {"a": "b"}, "identity": {"type": "x"}, "operatorSpec": secrets,
         "zoneRedundant": True, "Owner": {"name": "x"}}},
        TOPIC,
        SUBSCRIPTION,
        an_object("NamespacesTopicsSubscriptionsRule", "r", "all", location="eu"),
    )  # fmt: skip

    found = [each for each in converted(data).findings if each.outcome is not Outcome.DEFAULT]

    paths = [each.path for each in found]
    assert sorted(set(paths)) == sorted(paths)
    spec = ("owner", "sku.name", "azureName", "location", "tags", "identity", "operatorSpec",
            "zoneRedundant", "Owner")  # fmt: skip
    assert {f"document 1.spec.{name}" for name in spec} <= set(paths)
    assert left(data).keys() == {
        *(f"document 1.spec.{name}" for name in spec[3:]),
        "document 1.data",
        "document 4.spec.location",
    }
    assert "makes Secrets" in left(data)["document 1.spec.operatorSpec"]


def test_a_rule_with_two_filters_has_the_one_of_its_type() -> None:
    rule = an_object("NamespacesTopicsSubscriptionsRule", "r", "all",
                     filterType="CorrelationFilter", sqlFilter={"sqlExpression": "a = 1"},
                     correlationFilter={"label": "x", "properties": {1: "a", "b.c": 2}},
    )  # fmt: skip
    documents = (NAMESPACE, TOPIC, SUBSCRIPTION, rule)

    [made] = specs(*documents)["Subscription news-all"]["rules"]

    assert made == {
        "name": "r",
        "correlationFilter": {"label": "x", "properties": {"1": "a", "b.c": "2"}},
    }
    assert left(as_yaml(*documents)) == {
        "document 4.spec.sqlFilter": "filterType is Correlation.",
        'document 4.spec.correlationFilter.properties["b.c"]': "became text, '2': files of Azure "
        "Service Operator have texts.",
    }


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"filterType": "CorrelationFilter"}, "correlationFilter: is missing. It is required."),
        ({"filterType": "Other"}, "filterType: 'Other' is not a type of filter."),
        ({"sqlFilter": {"sqlExpression": "a >"}}, "sqlFilter.sqlExpression: "),
        ({"sqlFilter": {}}, "sqlFilter.sqlExpression: is missing. It is required."),
        ({"sqlFilter": "a = 1"}, "sqlFilter: must be an object, { … } (got 'a = 1')."),
        ({"sqlFilter": {"sqlExpression": "1=1"}, "action": {"sqlExpression": "SET"}},
         "action.sqlExpression: "),
        ({"correlationFilter": {"contentType": ["x"]}}, "correlationFilter.contentType: must be"),
        ({"correlationFilter": {"properties": {"b.c": None}}},
         'correlationFilter.properties["b.c"]: must be text'),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_rule_is_said_at_its_field(spec: dict[str, Any], said: str) -> None:
    rule = an_object("NamespacesTopicsSubscriptionsRule", "r", "all", **spec)

    [first, *_] = problems(NAMESPACE, TOPIC, SUBSCRIPTION, rule)

    assert first.startswith(f"document 4.spec.{said}")


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ([NAMESPACE, NAMESPACE], "document 2.metadata.name: 'shop' is already the name of docu"),
        ([NAMESPACE, {**TOPIC, "spec": {}}], "document 2.spec.owner: must have a name, or an arm"),
        ([NAMESPACE, {**TOPIC, "spec": None}], "document 2.spec: must be an object"),
        ([NAMESPACE, {**TOPIC, "metadata": {}}], "document 2.metadata.name: is missing."),
        ([NAMESPACE, an_object("NamespacesTopic", "t", {"armId": f"{IDS}/s/topics/t"})],
         "document 2.spec.owner.armId: must be the id of a Namespace in Azure."),
        ([NAMESPACE, an_object("NamespacesTopic", "t", "shop", azureName=5)],
         "document 2.spec.azureName: must be text (got 5)."),
        ([NAMESPACE, SUBSCRIPTION], "document 2.spec.owner.name: is 'news', and the file has no"),
        ([NAMESPACE, "text"], "document 2: must be an object"),
        ([an_object("Namespace", "shop", sku={"name": "Gold"})], "document 1.spec.sku.name: must"),
        ([NAMESPACE, an_object("NamespacesQueue", "q", "shop", lockDuration="PT10M")],
         "document 2.spec.lockDuration: "),
        ([NAMESPACE, an_object("NamespacesQueue", "q", "shop", azureName="a b")],
         "document 2.spec.azureName: "),
        ([NAMESPACE, an_object("NamespacesQueue", "q", "shop"),
          an_object("NamespacesTopic", "q", "shop")], "document 2.metadata.name: 'q' is already"),
        ([NAMESPACE, an_object("Namespace", "eu", "g")], "document 2.spec: is of a second names"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said_with_its_place(documents: list[Any], said: str) -> None:
    assert problems(*documents)[0].startswith(said)


def test_one_of_two_namespaces_is_chosen() -> None:
    documents = (NAMESPACE, an_object("Namespace", "eu", "g", azureName="Shop-EU"), TOPIC)

    found = converted(as_yaml(*documents), Asked(only="shop-eu"))

    assert [each["metadata"]["name"] for each in found.documents] == ["shop-eu"]
