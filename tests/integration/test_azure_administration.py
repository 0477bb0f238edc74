"""Administration with the client of azure-servicebus, unmodified, over TLS."""

import html
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.servicebus.management import (
    CorrelationRuleFilter,
    EntityAvailabilityStatus,
    EntityStatus,
    FalseRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from bendybus.client import ServiceBusMessage, management
from tests.integration.secured import POLICIES
from tests.integration.test_administration_over_http import entry
from tests.integration.web import WebBus

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R496")]
FOREVER = timedelta(days=10675199, hours=2, minutes=48, seconds=5, microseconds=477581)


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBus]:
    made = WebBus(tmp_path_factory.mktemp("bus"), POLICIES)
    yield made
    made.end()


@pytest.fixture
def azure(bus: WebBus) -> Iterator[ServiceBusAdministrationClient]:
    with bus.azure() as client:
        yield client


def test_a_queue_is_created_as_the_service_creates_one(
    azure: ServiceBusAdministrationClient,
) -> None:
    made = azure.create_queue("created")

    found = azure.get_queue("created")
    for queue in (made, found):
        assert queue.name == "created"
        assert queue.lock_duration == timedelta(minutes=1)
        assert queue.max_size_in_megabytes == 1024
        assert queue.max_delivery_count == 10
        assert queue.default_message_time_to_live == FOREVER
        assert queue.auto_delete_on_idle == FOREVER
        assert queue.duplicate_detection_history_time_window == timedelta(minutes=10)
        assert queue.status == EntityStatus.ACTIVE
        assert queue.availability_status == EntityAvailabilityStatus.AVAILABLE
        assert queue.max_message_size_in_kilobytes == 256
        assert queue.enable_batched_operations
        assert not queue.enable_partitioning
        assert not queue.enable_express
        assert not queue.requires_session
        assert queue.forward_to is None
        assert queue.user_metadata is None
        assert not queue.authorization_rules


def test_each_setting_of_a_queue_comes_back_as_it_was_given(
    azure: ServiceBusAdministrationClient,
) -> None:
    azure.create_queue("dead")
    given: dict[str, Any] = {
        "auto_delete_on_idle": timedelta(minutes=10),
        "dead_lettering_on_message_expiration": True,
        "default_message_time_to_live": timedelta(hours=3),
        "duplicate_detection_history_time_window": timedelta(minutes=7),
        "enable_partitioning": True,
        "lock_duration": timedelta(seconds=31),
        "max_delivery_count": 14,
        "requires_duplicate_detection": True,
        "requires_session": True,
        "status": EntityStatus.SEND_DISABLED,
        "user_metadata": 'quotes " and <tags> & ends',
    }

    azure.create_queue(
        "settings", max_size_in_megabytes=3072, forward_dead_lettered_messages_to="dead", **given
    )

    found = azure.get_queue("settings")
    assert {name: getattr(found, name) for name in given} == given
    # Of a partitioned entity, that of all its partitions together.
    assert found.max_size_in_megabytes == 16 * 3072
    assert found.forward_dead_lettered_messages_to is not None
    assert found.forward_dead_lettered_messages_to.startswith("sb://")
    assert found.forward_dead_lettered_messages_to.endswith("/dead")


def test_an_update_replaces_a_description(azure: ServiceBusAdministrationClient) -> None:
    azure.create_queue("target")
    azure.create_queue("updated", max_delivery_count=5, forward_to="target")
    queue = azure.get_queue("updated")
    queue.lock_duration = timedelta(seconds=40)
    queue.forward_to = None

    azure.update_queue(queue)

    found = azure.get_queue("updated")
    assert (found.lock_duration, found.max_delivery_count) == (timedelta(seconds=40), 5)
    assert found.forward_to is None


def test_partitioning_cannot_be_changed(azure: ServiceBusAdministrationClient) -> None:
    azure.create_queue("plain")
    queue = azure.get_queue("plain")
    queue.enable_partitioning = True

    with pytest.raises(HttpResponseError, match="enablePartitioning cannot be changed") as raised:
        azure.update_queue(queue)

    assert raised.value.status_code == 400
    assert not azure.get_queue("plain").enable_partitioning


def test_what_exists_is_not_created_again_and_what_does_not_is_not_found(
    azure: ServiceBusAdministrationClient,
) -> None:
    azure.create_queue("once")
    azure.create_topic("once-topic")

    with pytest.raises(ResourceExistsError):
        azure.create_queue("ONCE")
    with pytest.raises(ResourceExistsError):
        azure.create_topic("once")
    azure.delete_queue("once")
    with pytest.raises(ResourceNotFoundError):
        azure.get_queue("once")
    with pytest.raises(ResourceNotFoundError):
        azure.delete_queue("once")
    with pytest.raises(ResourceNotFoundError):
        azure.get_topic("nothing")
    with pytest.raises(ResourceNotFoundError):
        azure.get_subscription("once-topic", "nothing")
    with pytest.raises(ResourceNotFoundError):
        azure.get_rule("once-topic", "nothing", "nothing")
    with pytest.raises(ResourceNotFoundError):
        azure.create_subscription("nothing", "nothing")


def test_counts_are_those_of_all_partitions(
    bus: WebBus, azure: ServiceBusAdministrationClient
) -> None:
    azure.create_queue("counted", enable_partitioning=True)
    with bus.secured.client() as client, client.get_queue_sender("counted") as sender:
        sender.send_messages([ServiceBusMessage("x" * 100) for _ in range(20)])
        for key in range(12):
            sender.send_messages(ServiceBusMessage("y", partition_key=str(key)))
        sender.schedule_messages(ServiceBusMessage("later"), datetime.now(UTC) + timedelta(hours=1))
        with client.get_queue_receiver("counted") as receiver:
            [first] = receiver.receive_messages(1)
            receiver.dead_letter_message(first)

    found = azure.get_queue_runtime_properties("counted")

    assert (found.active_message_count, found.dead_letter_message_count) == (31, 1)
    assert (found.scheduled_message_count, found.total_message_count) == (1, 33)
    assert found.size_in_bytes is not None
    assert found.size_in_bytes > 2_000
    assert found.created_at_utc is not None
    assert found.accessed_at_utc is not None
    assert abs(found.accessed_at_utc - datetime.now(UTC)) < timedelta(minutes=5)


def test_lists_show_everything_once_over_many_pages(
    bus: WebBus,
    azure: ServiceBusAdministrationClient,
) -> None:
    names = [f"many-{number:03}" for number in range(230)]
    for name in names:
        azure.create_queue(name)

    listed = [queue.name for queue in azure.list_queues() if queue.name.startswith("many-")]
    runtimes = [queue.name for queue in azure.list_queues_runtime_properties()]

    assert listed == names
    assert set(names) <= set(runtimes)
    assert [topic.name for topic in azure.list_topics() if topic.name in names] == []
    page = bus.ask("GET", "/$Resources/queues?api-version=2021-05&enrich=true&$skip=1&$top=1000")
    assert page.text.count("<entry") == 100
    [following] = re.findall('rel="next" href="(.*?)"', page.text)
    assert html.unescape(following) == (
        f"https://{bus.https}/$Resources/queues?api-version=2021-05&enrich=true&$skip=101&$top=100"
    )


@pytest.mark.requirement("R572")
@pytest.mark.parametrize("option", ["$filter", "$Filter", "$orderby"])
@pytest.mark.parametrize(
    "path",
    [
        "$Resources/queues",
        "$Resources/topics",
        "chosen/subscriptions",
        "chosen/subscriptions/a/rules",
    ],
)
def test_a_choice_from_a_list_is_refused_and_not_ignored(
    azure: ServiceBusAdministrationClient, bus: WebBus, path: str, option: str
) -> None:
    with suppress(ResourceExistsError):
        azure.create_topic("chosen")
        azure.create_subscription("chosen", "a")
    asked = f"/{path}?api-version=2021-05"

    refused = bus.ask("GET", f"{asked}&{option}=startswith(path,'a')%20eq%20true")

    assert refused.status == 400
    assert f"{option.lower()}: is not supported: list everything" in refused.text
    assert bus.ask("GET", f"{asked}&{option}=").status == 200


def test_a_topic_with_subscriptions_and_their_rules(
    bus: WebBus,
    azure: ServiceBusAdministrationClient,
) -> None:
    azure.create_topic("news", enable_partitioning=True, user_metadata="about news")
    azure.create_subscription("news", "all", lock_duration=timedelta(seconds=11))
    unused = azure.get_subscription_runtime_properties("news", "all")
    azure.create_subscription("news", "some", requires_session=True)
    azure.create_rule("news", "some", "sql", filter=SqlRuleFilter("a = 1"))
    azure.create_rule("news", "all", "label", filter=CorrelationRuleFilter(label="l"))

    topic = azure.get_topic_runtime_properties("news")
    subscription = azure.get_subscription("news", "all")

    assert (topic.subscription_count, azure.get_topic("news").user_metadata) == (2, "about news")
    shown = bus.ask("GET", "/news").text
    assert "<SqlFilterCount>3</SqlFilterCount>" in shown
    assert "<CorrelationFilterCount>1</CorrelationFilterCount>" in shown
    assert unused.accessed_at_utc == unused.created_at_utc
    # A change of its rules is a use.
    changed = azure.get_subscription_runtime_properties("news", "all")
    assert changed.accessed_at_utc != unused.accessed_at_utc
    assert subscription.lock_duration == timedelta(seconds=11)
    assert azure.get_subscription("news", "some").requires_session
    assert [each.name for each in azure.list_subscriptions("news")] == ["all", "some"]
    assert [each.name for each in azure.list_rules("news", "some")] == ["$Default", "sql"]
    rules = "/news/subscriptions/some/rules"
    first, second = (bus.ask("GET", f"{rules}?$skip={skip}&$top=1").text for skip in (0, 1))
    assert f"<id>https://{bus.https}/news/Subscriptions/some/Rules/%24Default</id>" in first
    assert ('rel="next"' in first, 'rel="next"' in second) == (True, False)
    azure.delete_rule("news", "some", "$Default")
    assert [each.name for each in azure.list_rules("news", "some")] == ["sql"]
    azure.delete_subscription("news", "all")
    assert [each.name for each in azure.list_subscriptions("news")] == ["some"]
    assert azure.get_subscription_runtime_properties("news", "some").total_message_count == 0
    azure.delete_topic("news")
    with pytest.raises(ResourceNotFoundError):
        azure.get_topic("news")


def test_each_kind_of_rule_comes_back_as_it_was_given(
    azure: ServiceBusAdministrationClient,
) -> None:
    azure.create_topic("rules")
    azure.create_subscription("rules", "all")
    moment = datetime(2026, 7, 5, 11, 12, 13)
    properties: dict[str, Any] = {
        "text": "a", "int": 7, "long": 2**40, "float": 0.5, "yes": True, "at": moment,
    }  # fmt: skip
    correlation = CorrelationRuleFilter(
        correlation_id="c", message_id="m", to="t", reply_to="r", label="l", session_id="s",
        reply_to_session_id="rs", content_type="ct", properties=properties,
    )  # fmt: skip
    sql = SqlRuleFilter("a = @a AND b < @b", parameters={"@a": "text", "@b": 5})
    action = SqlRuleAction("SET c = @c", parameters={"@c": moment})

    azure.create_rule("rules", "all", "correlation", filter=correlation)
    azure.create_rule("rules", "all", "sql", filter=sql, action=action)
    azure.create_rule("rules", "all", "true", filter=TrueRuleFilter())
    azure.create_rule("rules", "all", "false", filter=FalseRuleFilter())

    same: Any = azure.get_rule("rules", "all", "correlation").filter
    assert vars(same) == vars(correlation)
    rule: Any = azure.get_rule("rules", "all", "sql")
    assert rule.filter.sql_expression == "a = @a AND b < @b"
    assert rule.filter.parameters == {"@a": "text", "@b": 5}
    assert rule.action.sql_expression == "SET c = @c"
    assert isinstance(azure.get_rule("rules", "all", "true").filter, TrueRuleFilter)
    assert isinstance(azure.get_rule("rules", "all", "false").filter, FalseRuleFilter)
    rule.filter = SqlRuleFilter("a = 2")
    azure.update_rule("rules", "all", rule)
    rule = azure.get_rule("rules", "all", "sql")
    assert rule.filter.sql_expression == "a = 2"


def test_a_parameter_without_a_value_does_not_hide_the_rules(
    bus: WebBus, azure: ServiceBusAdministrationClient
) -> None:
    azure.create_topic("nulls")
    azure.create_subscription("nulls", "all")
    with bus.secured.administration() as administration:
        without_value = management.SqlRuleFilter("a = @p", parameters={"@p": None})
        administration.create_rule("nulls", "all", "null", filter=without_value)

    assert [rule.name for rule in azure.list_rules("nulls", "all")] == ["$Default", "null"]
    shown = bus.ask("GET", "/nulls/subscriptions/all/rules/null").text
    [described] = re.findall("<RuleDescription.*?>(.*)</RuleDescription>", shown)
    same = entry(described, "Rule")
    updated = bus.ask("PUT", "/nulls/subscriptions/all/rules/null", same, If_Match="*")
    assert (updated.status, updated.text.count('i:nil="true"')) == (200, 1)


def test_the_namespace_says_its_tier(azure: ServiceBusAdministrationClient) -> None:
    found = azure.get_namespace_properties()

    assert (found.name, found.messaging_sku) == ("test", "Standard")


def test_a_wrong_key_is_refused(bus: WebBus) -> None:
    wrong = pytest.raises(ClientAuthenticationError, match="not signed with a key of policy")
    with bus.azure(key="wrong") as azure, wrong:
        azure.get_queue("any")


@pytest.mark.parametrize("name", ["sender", "listener"])
def test_administration_needs_the_right_to_manage(bus: WebBus, name: str) -> None:
    key = {"sender": "send-key", "listener": "listen-key"}[name]
    lacking = pytest.raises(ClientAuthenticationError, match="does not grant Manage")
    with bus.azure(key=key, name=name) as azure, lacking:
        azure.create_queue("forbidden")


def test_what_is_not_allowed_is_refused_in_a_sentence(
    azure: ServiceBusAdministrationClient,
) -> None:
    with pytest.raises(HttpResponseError, match="lockDuration: must be PT5S to PT5M"):
        azure.create_queue("long", lock_duration=timedelta(minutes=6))


def test_the_name_of_a_rule_is_that_of_the_path(
    bus: WebBus, azure: ServiceBusAdministrationClient
) -> None:
    azure.create_topic("named")
    azure.create_subscription("named", "all")
    rule = entry('<Filter i:type="FalseFilter"/><Name>other</Name>', "Rule")

    made = bus.ask("PUT", "/named/subscriptions/all/rules/one", rule)

    assert (made.status, "<Name>one</Name>" in made.text) == (201, True)
    assert bus.ask("GET", "/named/subscriptions/all/rules/other").status == 404


def test_health_is_also_a_name_of_a_queue(
    bus: WebBus, azure: ServiceBusAdministrationClient
) -> None:
    azure.create_queue("health")

    assert azure.get_queue("health").name == "health"
    assert bus.ask("GET", "/health", token="").text.startswith('{"status": "healthy"')
