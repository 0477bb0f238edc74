"""What `az servicebus` prints becomes manifests."""

import json
from typing import Any

import pytest

from bendybus.crds.errors import ManifestError
from bendybus.crds.forms import Form
from bendybus.crds.imports import arm, az, reading
from bendybus.crds.imports.asked import Asked
from tests.crds.reports import reported

pytestmark = pytest.mark.requirement("R656")
IDS = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ServiceBus/namespaces"


def printed(path: str, **parts: Any) -> dict[str, Any]:
    """Return a resource as it is printed; `path`: below the namespaces."""
    return {
        "id": f"{IDS}/{path}",
        "name": path.rpartition("/")[2],
        "resourceGroup": "g",
        "type": "Microsoft.ServiceBus/Namespaces/Queues",
        "countDetails": {"activeMessageCount": 3},
        "createdAt": "2026-01-01T00:00:00Z",
        **parts,
    }


def converted(document: Any, premium: int | None = None) -> dict[str, Any]:
    """Return the specs of the manifests by kind and name."""
    found = reading.convert("stdin", Form.AZ, [("", document)], Asked(premium=premium))
    # As it is read from a pipe.
    assert json.loads(json.dumps(document)) == document
    return {
        f"{each['kind']} {each['metadata']['name']}": {
            name: value for name, value in each["spec"].items() if name != "namespaceRef"
        }
        for each in found.documents
    }


def test_a_list_of_queues_is_a_bus() -> None:
    found = converted(
        [
            printed("shop/queues/orders", lockDuration="PT1M", maxDeliveryCount=5, forwardTo=None),
            printed("shop/queues/a~b", status="Disabled", enablePartitioning=True),
        ]
    )

    assert found == {
        "BusNamespace shop": {"sku": {"tier": "Standard"}},
        "Queue orders": {"lockDuration": "PT1M", "maxDeliveryCount": 5},
        "Queue a-b": {"entityName": "a/b", "status": "Disabled", "enablePartitioning": True},
    }


@pytest.mark.requirement("R664")
def test_a_list_of_a_premium_namespace_says_its_tier_by_the_size_of_messages() -> None:
    large = printed("shop/queues/orders", maxMessageSizeInKilobytes=1024)

    found = converted([printed("shop/queues/a"), large])

    assert found["BusNamespace shop"] == {
        "sku": {"tier": "Premium"}, "premiumMessagingPartitions": 1
    }  # fmt: skip
    assert found["Queue orders"] == {"maxMessageSizeInKilobytes": 1024}


@pytest.mark.requirement("R664")
@pytest.mark.parametrize("size", [None, 1024])
def test_partitions_are_given_where_the_namespace_is_only_named(size: int | None) -> None:
    found = converted([printed("shop/queues/orders", maxMessageSizeInKilobytes=size)], premium=4)

    assert found["BusNamespace shop"]["premiumMessagingPartitions"] == 4


@pytest.mark.requirement("R664")
def test_partitions_are_not_given_beside_those_of_the_file() -> None:
    own = printed("shop", sku={"name": "Premium", "tier": "Premium"})

    with pytest.raises(ManifestError) as error:
        converted([own], premium=4)

    assert "[0]: says itself how many partitions it has. Leave --premium" in str(error.value)


def test_a_destination_that_the_list_lacks_is_said() -> None:
    queues = [printed("shop/queues/a", forwardTo="B"), printed("shop/queues/b", forwardTo="c/d")]

    found = reading.convert("stdin", Form.AZ, [("", queues)], Asked())

    assert [str(each) for each in found.differences()] == [
        "changed: [1].forwardTo: leads to 'c/d', which this file lacks."
    ]


def test_rules_alone_name_the_subscription_that_they_need() -> None:
    rule = printed("shop/topics/news/subscriptions/all/rules/r", filterType="SqlFilter")

    with pytest.raises(ManifestError) as error:
        converted([rule])

    assert (
        "[0]: is a rule of subscription 'all' of topic 'news', which the file lacks. Add the"
        in str(error.value)
    )


def test_a_namespace_with_what_is_in_it() -> None:
    found = converted(
        [
            printed("shop", sku={"name": "Premium", "tier": "Premium", "capacity": 1},
                    premiumMessagingPartitions=2, status="Active", zoneRedundant=True),
            printed("shop/topics/news", defaultMessageTimeToLive="14 days, 0:00:00"),
            printed("shop/topics/news/subscriptions/all", lockDuration="0:01:00",
                    autoDeleteOnIdle="10675199 days, 2:48:05.477581"),
            printed("shop/topics/news/subscriptions/all/rules/only", filterType="SqlFilter",
                    sqlFilter={"sqlExpression": "a = 1", "compatibilityLevel": 20}),
            printed("shop/AuthorizationRules/app", rights=["Listen", "Send"]),
        ]
    )  # fmt: skip

    assert found["BusNamespace shop"] == {
        "sku": {"tier": "Premium"},
        "premiumMessagingPartitions": 2,
        "authorizationRules": [{"name": "app", "rights": ["Listen", "Send"]}],
    }
    assert found["Topic news"] == {"defaultMessageTimeToLive": "P14D"}
    assert found["Subscription news-all"] == {
        "topicName": "news",
        "entityName": "all",
        "lockDuration": "PT1M",
        "autoDeleteOnIdle": "P10675199DT2H48M5.4775807S",
        "rules": [{"name": "only", "sqlFilter": {"sqlExpression": "a = 1"}}],
    }


def test_null_is_the_same_as_absent() -> None:
    absent = {"alternateName": None, "encryption": None, "unknown": None, "zoneRedundant": None}

    found = arm.of_resources(
        "stdin", Form.AZ, Asked(), lambda reader: az.read(reader, [printed("shop", **absent)])
    )

    assert reported(found) == []


def test_one_resource_by_itself() -> None:
    assert converted(printed("shop/queues/orders"))["Queue orders"] == {}


@pytest.mark.parametrize(
    ("document", "is_printed"),
    [
        (printed("shop/queues/orders"), True),
        ([printed("shop")], True),
        ([], False),
        ({"UserConfig": {}}, False),
        ([printed("shop"), {"id": "x"}], False),
    ],
)
def test_what_the_command_prints_is_recognised(document: Any, is_printed: bool) -> None:
    assert az.is_printed(document) is is_printed


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([printed("shop/queues/orders"), {"id": "x"}], "[1].id: names no resource"),
        (printed("shop/queues/"), "id: has no name for its last part"),
        ([printed("shop/queues/orders", lockDuration="PT10M")], "[0].lockDuration"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(document: Any, words: str) -> None:
    with pytest.raises(ManifestError) as error:
        converted(document)
    assert words in str(error.value)


def test_a_list_of_nothing_has_nothing() -> None:
    found = reading.documents("stdin", b"[]")

    with pytest.raises(ManifestError) as error:
        reading.convert("stdin", reading.recognised("stdin", found), found, Asked())

    assert str(error.value) == "stdin: has no resource of Service Bus."
