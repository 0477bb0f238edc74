"""Config.json of the official emulator becomes manifests, and every field is in the report."""

import json

import pytest
import yaml

from bendybus.crds import bundling, emulator_config, loading
from bendybus.crds.bundle import NamespaceSettings
from bendybus.crds.conversion import Outcome
from bendybus.crds.imports.asked import Asked
from bendybus.crds.loading import Loaded
from bendybus.domain.entity_settings import (
    EntityStatus,
    QueueDescription,
    SubscriptionDescription,
)
from bendybus.domain.filters.rule import CorrelationFilter, SqlFilter, SqlRuleAction
from bendybus.domain.limits import Tier
from tests.crds.emulator_documents import (
    EXAMPLE,
    QUEUE,
    RULE,
    convert,
    document,
    found,
    queue,
    rule,
    topic_with,
)


@pytest.mark.requirement("R500")
def test_the_example_becomes_a_bus() -> None:
    conversion = emulator_config.parse("Config.json", EXAMPLE.read_bytes())

    by_name = {each.name: each.description for each in conversion.bundle.entities}
    express = by_name["shipments/Subscriptions/express"]
    returns = by_name["shipments/Subscriptions/returns"]
    assert conversion.bundle.namespace == NamespaceSettings("sbemulatorns", Tier.PREMIUM, 1)
    assert by_name["orders"] == QueueDescription(
        lock_duration_ms=30_000,
        max_delivery_count=5,
        dead_lettering_on_message_expiration=True,
        default_message_time_to_live_ms=3_600_000,
        requires_duplicate_detection=True,
        duplicate_detection_history_time_window_ms=60_000,
    )
    assert by_name["carts"] == QueueDescription(requires_session=True)
    assert isinstance(express, SubscriptionDescription)
    assert express.rules[0].filter == SqlFilter("carrier = 'air' AND weight < 20")
    assert express.rules[0].action == SqlRuleAction("SET priority = 'high'")
    assert isinstance(returns, SubscriptionDescription)
    assert returns.rules[0].filter == CorrelationFilter(
        label="return", properties={"country": "FR"}
    )


@pytest.mark.requirement("R500")
def test_the_manifests_describe_the_same_bus() -> None:
    conversion = emulator_config.parse("Config.json", EXAMPLE.read_bytes())

    text = yaml.safe_dump_all([json.loads(json.dumps(each)) for each in conversion.documents])

    read = [loading.parse("f", each) for each in yaml.safe_load_all(text)]
    again = bundling.bundle([each for each in read if isinstance(each, Loaded)])
    assert again.namespace == conversion.bundle.namespace
    assert [(each.name, each.description, each.left_out) for each in again.entities] == [
        (each.name, each.description, each.left_out) for each in conversion.bundle.entities
    ]


@pytest.mark.requirement("R500")
def test_a_file_with_a_byte_order_mark_and_other_case_means_the_same() -> None:
    text = EXAMPLE.read_text(encoding="utf-8").replace('"LockDuration"', '"lockduration"')

    conversion = emulator_config.parse("Config.json", b"\xef\xbb\xbf" + text.encode())

    plain = emulator_config.parse("Config.json", EXAMPLE.read_bytes())
    assert conversion.bundle == plain.bundle


@pytest.mark.requirement("R500")
def test_what_differs_is_changed_with_the_reason() -> None:
    conversion = convert(
        queues=[
            queue(
                DuplicateDetectionHistoryTimeWindow="PT5S",
                DefaultMessageTimeToLive="P1Y2M3DT4H",
                LockDuration="PT0.5M",
            )
        ]
    )

    report = found(conversion)
    assert report[f"{QUEUE}.Properties.DuplicateDetectionHistoryTimeWindow"] == (
        "changed",
        "PT5S became PT20S, the shortest that Azure has.",
    )
    assert report[f"{QUEUE}.Properties.DefaultMessageTimeToLive"] == (
        "rewritten",
        "P1Y2M3DT4H became P428DT4H: a year is 365 days, a month 30.",
    )
    assert report[f"{QUEUE}.Properties.LockDuration"] == (
        "rewritten",
        "PT0.5M became PT30S: the same, as manifests write it.",
    )


@pytest.mark.requirement("R500")
@pytest.mark.parametrize("status", ["senddisabled", "SendDisabled", "SENDDISABLED"])
def test_a_status_is_compared_without_case(status: str) -> None:
    conversion = convert(queues=[queue(Status=status)])

    assert conversion.bundle.entities[0].description.status is EntityStatus.SEND_DISABLED


@pytest.mark.requirement("R500")
def test_what_has_no_effect_is_said_with_the_reason() -> None:
    rules = rule(
        FilterType="Correlation",
        CorrelationFilter={"Label": "x"},
        SqlFilter={"SqlExpression": "1 = 1"},
    )
    conversion = convert(
        queues=[queue(EnablePartitioning=True, LockDurations="PT1M")],
        topics=[topic_with(rules)],
        Loging={"Type": "File"},
    )

    dropped = {
        each.path: each.detail
        for each in conversion.findings
        if each.outcome in (Outcome.NOT_SUPPORTED, Outcome.NO_EFFECT)
    }
    assert {each.path for each in conversion.differences()} == {
        "UserConfig.Loging",
        f"{QUEUE}.Properties.EnablePartitioning",
        f"{QUEUE}.Properties.LockDurations",
    }
    assert dropped == {
        "UserConfig.Logging": "logs are files in the data folder; bendybus logs shows them.",
        "UserConfig.Loging": "is not a known field. Did you mean Logging?",
        f"{QUEUE}.Properties.EnablePartitioning": "partitions are chosen for the bus, with "
        "--premium.",
        f"{QUEUE}.Properties.LockDurations": "is not a known field. Did you mean LockDuration?",
        f"{RULE}.Properties.SqlFilter": "FilterType is Correlation.",
    }


@pytest.mark.requirement("R500")
def test_absent_fields_have_the_defaults_of_azure_and_the_report_says_so() -> None:
    conversion = convert(queues=[{"Name": name} for name in "abcd"])

    assert {each.description for each in conversion.bundle.entities} == {QueueDescription()}
    assert list(conversion.remarks())[1:] == [
        "default: DefaultMessageTimeToLive of 4 entities: messages do not expire, as in Azure; the "
        "emulator has PT1H.",
        "default: MaxDeliveryCount of 4 entities: 10, as in Azure; the emulator has 3.",
    ]


@pytest.mark.requirement("R500")
def test_an_empty_destination_is_none_and_null_is_absent() -> None:
    conversion = convert(
        queues=[queue(ForwardTo="", ForwardDeadLetteredMessagesTo="", RequiresSession=None)]
    )

    assert [each.description for each in conversion.bundle.entities] == [QueueDescription()]
    assert found(conversion)[f"{QUEUE}.Properties.ForwardTo"] == ("taken", "is empty: none.")


@pytest.mark.requirement("R500")
def test_a_subscription_without_rules_takes_every_message() -> None:
    conversion = convert(topics=[{"Name": "t", "Subscriptions": [{"Name": "s", "Rules": []}]}])

    [_, subscription] = conversion.bundle.entities
    assert not subscription.has_rules


@pytest.mark.requirement("R500")
def test_names_that_kubernetes_has_not_are_kept_on_the_bus() -> None:
    conversion = convert(queues=[{"Name": "Sales/Orders_1"}, {"Name": "sales-orders-1"}])

    assert [each.name for each in conversion.bundle.entities] == [
        "Sales/Orders_1",
        "sales-orders-1",
    ]
    assert [each["metadata"]["name"] for each in conversion.documents[1:]] == [
        "sales-orders-1",
        "sales-orders-1-2",
    ]


@pytest.mark.requirement("R500")
def test_two_hundred_entities_and_any_partition_count_are_possible() -> None:
    queues = [queue(f"q{number}") for number in range(200)]

    conversion = emulator_config.convert("c", document(queues=queues), Asked(premium=16))

    assert len(conversion.bundle.entities) == 200
    assert conversion.bundle.namespace.partition_count == 16
