"""Plans and states of Terraform become manifests."""

from typing import Any

import pytest

from bendybus.crds.imports.asked import Asked
from tests.crds.reports import reported
from tests.crds.terraform_documents import (
    IDS,
    converted,
    data,
    module,
    plan,
    problems,
    raw_state,
    references,
    resource,
    shown_state,
    specs,
    written,
)

pytestmark = pytest.mark.requirement("R658")
NAMESPACE = resource("namespace", "main", name="shop", sku="Standard")
TOPIC = resource("topic", "news", name="news")
ROOT = "planned_values.root_module"


def subscription(label: str, index: Any = None, **values: Any) -> dict[str, Any]:
    return resource(
        "subscription", label, index, **{"name": label, "max_delivery_count": 10, **values}
    )


def calls(**modules: Any) -> dict[str, Any]:
    """Return a module's calls: of each, what is passed, and what is in it."""
    return {
        name: {"expressions": passed, "module": inside}
        for name, (passed, inside) in modules.items()
    }


def test_a_plan_finds_parents_by_the_references_of_its_configuration() -> None:
    document = plan(
        NAMESPACE,
        TOPIC,
        resource("topic", "other", name="other"),
        subscription("all"),
        resource("subscription_rule", "r", name="r", filter_type="SqlFilter", sql_filter="a = 1"),
        root={
            "resources": [
                written("topic", "news", namespace_id=["azurerm_servicebus_namespace.main.id"]),
                written("subscription", "all", topic_id=["azurerm_servicebus_topic.other.id",
                                                         "azurerm_servicebus_topic.other"]),
                written("subscription_rule", "r",
                        subscription_id=["azurerm_servicebus_subscription.all.id"]),
            ]
        },
    )  # fmt: skip

    found = specs(document)

    assert found["Subscription other-all"] == {
        "topicName": "other",
        "entityName": "all",
        "maxDeliveryCount": 10,
        "enableBatchedOperations": False,
        "rules": [{"name": "r", "sqlFilter": {"sqlExpression": "a = 1"}}],
    }


@pytest.mark.parametrize("key", ["a", "x]y", 'q"', "module.z", 0, 10])
def test_each_instance_belongs_to_the_one_with_its_index(key: Any) -> None:
    document = plan(
        NAMESPACE,
        resource("topic", "t", key, name="first"),
        resource("topic", "t", 7, name="second"),
        subscription("all", key),
        root={"resources": [
            written("subscription", "all", topic_id=["azurerm_servicebus_topic.t", "each.key"])
        ]},
    )  # fmt: skip

    assert specs(document)["Subscription first-all"]["topicName"] == "first"


def test_a_reference_to_one_instance_means_no_other() -> None:
    root = {"resources": [
        written("subscription", "all", topic_id=['azurerm_servicebus_topic.t["gone"].id'])
    ]}  # fmt: skip
    document = plan(
        NAMESPACE, resource("topic", "t", "here", name="first"), subscription("all"), root=root
    )

    [said] = problems(document)

    assert said == (
        f"{ROOT}.resources[2].values.topic_id: is not known before the plan is applied, and its "
        "references name none of them: give its name with --set "
        "'azurerm_servicebus_subscription.all.topic_id=NAME'."
    )


@pytest.mark.parametrize("module_key", ["eu", "x]y", "a.module.b", 'q"'])
def test_modules_get_their_parents_by_variables_and_outputs(module_key: str) -> None:
    shown = module_key.replace('"', '\\"')
    topics, subscriptions = f'module.topics["{shown}"]', f'module.subs["{shown}"]'
    of_topics = {
        "resources": [written("topic", "this", namespace_id=["var.namespace_id"])],
        "outputs": {
            "id": {"expression": {"references": ["azurerm_servicebus_topic.this.id"]}},
        },
    }
    of_subscriptions = {"resources": [written("subscription", "all", topic_id=["var.topic_id"])]}
    document = plan(
        NAMESPACE,
        modules=[
            module(topics, resource("topic", "this", name="news")),
            module('module.topics["us"]', resource("topic", "this", name="old")),
            module(subscriptions, subscription("all")),
        ],
        root={"module_calls": calls(
            topics=(references(namespace_id=["azurerm_servicebus_namespace.main.id"]), of_topics),
            subs=(references(topic_id=["module.topics", "each.key"]), of_subscriptions),
        )},
    )  # fmt: skip
    root = document["configuration"]["root_module"]
    root["module_calls"]["subs"]["expressions"] = references(
        topic_id=[f'module.topics["{shown}"].id', f'module.topics["{shown}"]']
    )

    found = specs(document)

    assert found["Subscription news-all"]["topicName"] == "news"
    assert "Topic old" in found


def test_outputs_of_modules_within_modules() -> None:
    inner = {
        "resources": [written("topic", "this")],
        "outputs": {"id": {"expression": {"references": ["azurerm_servicebus_topic.this.id"]}}},
    }
    outer = {
        "module_calls": calls(inner=({}, inner)),
        "outputs": {"id": {"expression": {"references": ["module.inner.id", "module.inner"]}}},
    }
    document = plan(
        NAMESPACE,
        TOPIC,
        subscription("all"),
        modules=[
            module(
                "module.outer",
                modules=[
                    module("module.outer.module.inner", resource("topic", "this", name="deep"))
                ],
            )
        ],
        root={
            "resources": [written("subscription", "all", topic_id=["module.outer.id"])],
            "module_calls": calls(outer=({}, outer)),
        },
    )

    assert specs(document)["Subscription deep-all"]["topicName"] == "deep"


def test_what_follows_a_more_exact_reference_says_no_more() -> None:
    exact = 'azurerm_servicebus_topic.t["a"]'
    document = plan(
        NAMESPACE,
        resource("topic", "t", "a", name="first"),
        resource("topic", "t", "b", name="second"),
        subscription("all"),
        root={"resources": [
            written("subscription", "all",
                    topic_id=[f"{exact}.id", exact, "azurerm_servicebus_topic.t"])
        ]},
    )  # fmt: skip

    assert specs(document)["Subscription first-all"]["topicName"] == "first"


def test_a_data_source_is_not_a_resource_of_the_same_name() -> None:
    theirs = data("topic", "news", name="theirs", id=f"{IDS}/shop/topics/theirs")
    read = {"values": {"root_module": module("", theirs)}}
    document = plan(
        NAMESPACE,
        TOPIC,
        subscription("mine"),
        subscription("other"),
        root={"resources": [
            written("subscription", "mine", topic_id=["azurerm_servicebus_topic.news.id"]),
            written("subscription", "other", topic_id=["data.azurerm_servicebus_topic.news.id"]),
        ]},
        prior_state=read,
    )  # fmt: skip

    found = specs(document)

    assert found["Subscription news-mine"]["topicName"] == "news"
    assert found["Subscription theirs-other"]["topicName"] == "theirs"
    assert "Topic theirs" not in found


@pytest.mark.requirement("R664")
def test_a_namespace_that_another_file_makes() -> None:
    read = {"values": {"root_module": module("", data("namespace", "hub", name="hub"))}}
    queue = resource("queue", "orders", name="orders")
    root = {"resources": [
        written("queue", "orders", namespace_id=["data.azurerm_servicebus_namespace.hub.id"])
    ]}  # fmt: skip

    found = specs(plan(queue, root=root, prior_state=read))

    assert found == {"BusNamespace hub": {"sku": {"tier": "Standard"}}, "Queue orders": {}}
    read["values"]["root_module"]["resources"][0]["values"] |= {
        "sku": "Premium", "premium_messaging_partitions": 2, "location": "eu"
    }  # fmt: skip
    premium = {"sku": {"tier": "Premium"}, "premiumMessagingPartitions": 2}
    assert specs(plan(queue, root=root, prior_state=read))["BusNamespace hub"] == premium
    # It was not read yet: the only namespace of the plan is not meant.
    [said] = problems(plan(NAMESPACE, queue, root=root))
    assert "--set 'azurerm_servicebus_queue.orders.namespace_id=NAME'" in said


def test_what_is_ambiguous_is_asked_for_by_its_address() -> None:
    document = plan(
        NAMESPACE, TOPIC, resource("topic", "more", name="more"), subscription("all", "a"),
        root={"resources": [written("subscription", "all", topic_id=["each.value"])]},
    )  # fmt: skip
    address = 'azurerm_servicebus_subscription.all["a"].topic_id'

    [said] = problems(document)

    assert said.endswith(f"give its name with --set '{address}=NAME'.")
    for given in ("more", "shop/more", f"{IDS}/shop/topics/more"):
        assert "Subscription more-all" in specs(document, Asked({address: given}))
    [said] = problems(document, Asked({address: "a/b/c"}))
    assert said.endswith("is given as 'a/b/c', and must be NAMESPACE/TOPIC.")
    [said] = problems(document, Asked({address: "more", "topic": "x"}))
    assert said == "needs no 'topic', which is given. Leave it out."


def test_a_shown_state_and_its_file_say_the_same() -> None:
    resources = [
        resource("namespace", "main", name="shop", sku="Premium", capacity=1,
                 premium_messaging_partitions=2, local_auth_enabled=True,
                 public_network_access_enabled=True, minimum_tls_version="1.2",
                 identity=[], id=f"{IDS}/shop", endpoint="https://shop"),
        resource("topic", "news", name="news/all", namespace_id=f"{IDS}/shop",
                 id=f"{IDS}/shop/topics/news~all", status="Active",
                 batched_operations_enabled=True),
        subscription("all", topic_id=f"{IDS}/shop/topics/news~all", forward_to="",
                     default_message_ttl="P1D", requires_session=True),
        resource("namespace_authorization_rule", "app", name="app", namespace_id=f"{IDS}/shop",
                 listen=True, send=True, manage=False),
        resource("topic_authorization_rule", "a", name="reader", listen=True, send=False,
                 manage=False, topic_id=f"{IDS}/shop/topics/news~all"),
        data("queue", "other", name="not-ours"),
    ]  # fmt: skip

    found = specs(shown_state(*resources))

    assert found["BusNamespace shop"] == {
        "sku": {"tier": "Premium"},
        "premiumMessagingPartitions": 2,
        "authorizationRules": [
            {"name": "app", "rights": ["Listen", "Send"]},
            {"name": "reader", "rights": ["Listen"], "entity": "news/all"},
        ],
    }
    assert found["Subscription news-all-all"] == {
        "topicName": "news/all",
        "entityName": "all",
        "defaultMessageTimeToLive": "P1D",
        "maxDeliveryCount": 10,
        "requiresSession": True,
        "enableBatchedOperations": False,
    }
    assert specs(raw_state(*resources)) == found


def test_old_versions_name_parents_and_settings_otherwise() -> None:
    document = shown_state(
        NAMESPACE,
        resource("topic", "news", name="news", namespace_name="shop", resource_group_name="g",
                 enable_partitioning=True, enable_express=False, max_size_in_megabytes=1024),
        subscription("all", topic_name="news", namespace_name="shop", resource_group_name="g",
                     enable_batched_operations=True),
        resource("subscription_rule", "r", name="r", subscription_name="all", topic_name="news",
                 namespace_name="shop", filter_type="SqlFilter", sql_filter="1=1"),
        resource("queue", "q", name="q", namespace_name="shop", partitioning_enabled=True,
                 enable_partitioning=True, max_size_in_megabytes=81920),
    )  # fmt: skip

    found = specs(document)

    assert found["Topic news"]["enablePartitioning"] is True
    assert found["Subscription news-all"]["enableBatchedOperations"] is True
    assert found["Subscription news-all"]["rules"]
    # The size of all 16 partitions together, as it is read back.
    assert found["Queue q"] == {"enablePartitioning": True, "maxSizeInMegabytes": 5120}


def test_spellings_that_differ_are_refused() -> None:
    queue = resource("queue", "q", name="q", namespace_id=f"{IDS}/shop",
                     partitioning_enabled=True, enable_partitioning=False)  # fmt: skip

    assert problems(shown_state(NAMESPACE, queue)) == [
        "values.root_module.resources[1].values.enable_partitioning: is not values.root_module."
        "resources[1].values.partitioning_enabled, the same. Remove one."
    ]


def test_two_namespaces_need_a_choice() -> None:
    document = shown_state(
        NAMESPACE,
        resource("namespace", "eu", name="shop-eu", sku="Basic"),
        resource("queue", "q", name="q", namespace_id=f"{IDS}/SHOP"),
        resource("queue", "r", name="r", namespace_id=f"{IDS}/shop-eu"),
    )

    [said] = problems(document)

    assert said.startswith("values.root_module.resources[1].values: is of a second namespace.")
    assert specs(document, Asked(only="shop-eu")) == {
        "BusNamespace shop-eu": {"sku": {"tier": "Basic"}},
        "Queue r": {},
    }
    left = {each.path for each in reported(converted(document, Asked(only="Shop-EU")))}
    assert left == {f"values.root_module.resources[{at}].values" for at in (0, 2)}
