"""Operations of the administration client, over HTTPS. See operation_table."""

from datetime import timedelta

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.servicebus.management import CorrelationRuleFilter, SqlRuleAction, SqlRuleFilter

from tests.azure_sdk.operation_table import SUBSCRIPTION, Entity, operation, several

MANY = 110
TRIES = 100


@operation
def administer_queue(entity: Entity) -> None:
    client, name, other = entity.administration(), entity.name, f"{entity.name}-2"
    queue = client.get_queue(name)
    assert (queue.lock_duration, queue.max_delivery_count) == (timedelta(minutes=1), 10)
    queue.lock_duration, queue.max_delivery_count = timedelta(seconds=30), 7
    client.update_queue(queue)
    found = client.get_queue(name)
    assert (found.lock_duration, found.max_delivery_count) == (timedelta(seconds=30), 7)
    entity.sender().send_messages(several(3))
    assert client.get_queue_runtime_properties(name).active_message_count == 3
    assert client.create_queue(other, requires_session=True).requires_session
    with pytest.raises(ResourceExistsError):
        client.create_queue(other)
    client.delete_queue(other)
    with pytest.raises(ResourceNotFoundError):
        client.get_queue(other)


@operation
def administer_topic(entity: Entity) -> None:
    client, name = entity.administration(), entity.name
    client.create_subscription(name, "more", requires_session=True)
    subscription = client.get_subscription(name, "more")
    assert subscription.requires_session
    subscription.max_delivery_count = 3
    client.update_subscription(subscription=subscription, topic_name=name)
    assert client.get_subscription(name, "more").max_delivery_count == 3
    listed = [each.name for each in client.list_subscriptions(name)]
    assert listed == [SUBSCRIPTION, "more"]
    assert client.get_topic_runtime_properties(name).subscription_count == 2
    client.delete_subscription(name, "more")
    with pytest.raises(ResourceNotFoundError):
        client.get_subscription(name, "more")


@operation
def administer_rules(entity: Entity) -> None:
    client, place = entity.administration(), (entity.name, SUBSCRIPTION)
    sql = SqlRuleFilter("colour = @colour AND size > @size", {"@colour": "red", "@size": 3})
    client.create_rule(*place, "sql", filter=sql, action=SqlRuleAction("SET seen = 'yes'"))
    correlation = CorrelationRuleFilter(label="news", properties={"number": 7, "text": "x"})
    client.create_rule(*place, "correlation", filter=correlation)
    client.delete_rule(*place, "$Default")
    assert [each.name for each in client.list_rules(*place)] == ["correlation", "sql"]
    found = client.get_rule(*place, "sql")
    assert (found.filter.sql_expression, found.filter.parameters) == (
        sql.sql_expression,
        sql.parameters,
    )
    assert found.action.sql_expression == "SET seen = 'yes'"
    found = client.get_rule(*place, "correlation")
    assert (found.filter.label, found.filter.properties) == ("news", correlation.properties)


@operation
def list_queues(entity: Entity) -> None:
    client = entity.administration()
    names = [f"{entity.name}-{number:03}" for number in range(MANY)]
    for name in names:
        client.create_queue(name)
    for _ in range(TRIES):
        # While others create and delete queues, what is on which page changes.
        listed = [each.name for each in client.list_queues()]
        if (found := [name for name in listed if name in names]) == names:
            break
    assert found == names
    for name in names:
        client.delete_queue(name)


@operation
def show_namespace(entity: Entity) -> None:
    assert entity.administration().get_namespace_properties().messaging_sku == "Standard"


@operation
def administer_without_right(entity: Entity) -> None:
    client = entity.administration(right="Listen")
    with pytest.raises(ClientAuthenticationError):
        client.get_queue(entity.name)
    with pytest.raises(ClientAuthenticationError):
        client.create_queue(f"{entity.name}-2")
