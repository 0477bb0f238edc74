"""Topics and subscriptions of a bus, as commands use them. Raises BusError."""

from typing import Any, Final

from bendybus.cli.bus.management import Management, chosen
from bendybus.domain import subscription_name
from bendybus.domain.entity_settings import SubscriptionDescription, TopicDescription
from bendybus.domain.errors import EntityNotFound
from bendybus.domain.filters.rule import Rule
from bendybus.v1 import management_pb2 as pb
from bendybus.wire import entities
from bendybus.wire import rules as rule_protos

_PAGE: Final = 1_000
_CLIENT: Final = pb.ENTITY_ORIGIN_CLIENT


def topics(bus: Management, *, orphaned: bool = False, runtime: bool = True) -> list[pb.Topic]:
    """Return all topics, by name; orphaned ones only if asked for. `runtime`: with their counts."""
    found: list[pb.Topic] = []
    request = pb.ListTopicsRequest(
        include_runtime=runtime, page_size=_PAGE, include_orphaned=orphaned
    )
    while True:
        page = bus.call("ListTopics", request)
        found.extend(page.topics)
        request.page_token = page.next_page_token
        if not page.next_page_token:
            return found


def subscriptions(
    bus: Management, topic_name: str, *, orphaned: bool = False, runtime: bool = True
) -> list[pb.Subscription]:
    """Return the subscriptions of a topic, by name; as `topics`. Raises EntityNotFound."""
    found: list[pb.Subscription] = []
    request = pb.ListSubscriptionsRequest(
        topic_name=topic_name, include_runtime=runtime, page_size=_PAGE, include_orphaned=orphaned
    )
    while True:
        page = bus.call("ListSubscriptions", request)
        found.extend(page.subscriptions)
        request.page_token = page.next_page_token
        if not page.next_page_token:
            return found


def subscriptions_of_listed(
    bus: Management, topic_name: str, *, orphaned: bool = False, runtime: bool = True
) -> list[pb.Subscription]:
    """Return the subscriptions of a topic of a list; none if it was deleted since."""
    try:
        return subscriptions(bus, topic_name, orphaned=orphaned, runtime=runtime)
    except EntityNotFound:
        return []


def topic(bus: Management, name: str) -> pb.Topic:
    """Return one topic with its counts. Raises EntityNotFound."""
    found: pb.Topic = bus.call(
        "GetTopic", pb.GetTopicRequest(name=name, include_runtime=True)
    ).topic
    return found


def subscription(
    bus: Management, topic_name: str, name: str, *, runtime: bool = True
) -> pb.Subscription:
    """Return one subscription, with its counts unless told not to. Raises EntityNotFound."""
    request = pb.GetSubscriptionRequest(topic_name=topic_name, name=name, include_runtime=runtime)
    found: pb.Subscription = bus.call("GetSubscription", request).subscription
    return found


def held_in(bus: Management, name: str) -> pb.Queue | pb.Subscription:
    """Return the queue or subscription of a name, with its counts. Raises EntityNotFound."""
    parts = subscription_name.split(name)
    return bus.queue(name) if parts is None else subscription(bus, *parts)


def detects_duplicates(bus: Management, name: str) -> bool:
    """Return whether duplicates are detected where the messages of `name` are sent to."""
    parts = subscription_name.split(name)
    found = bus.queue(name) if parts is None else topic(bus, parts[0])
    return found.description.requires_duplicate_detection


def create_topic(
    bus: Management, name: str, wanted: TopicDescription, *, migrated: bool = False
) -> Any:
    """Make a topic that belongs to no manifest."""
    request = pb.CreateTopicRequest(
        name=name, description=chosen(wanted), origin=_CLIENT, migrated=migrated
    )
    return bus.call("CreateTopic", request)


def create_subscription(
    bus: Management, topic_name: str, name: str, wanted: SubscriptionDescription
) -> Any:
    """Make a subscription that belongs to no manifest."""
    description = entities.description_to_proto(wanted)
    request = pb.CreateSubscriptionRequest(
        topic_name=topic_name, name=name, description=description, origin=_CLIENT
    )
    return bus.call("CreateSubscription", request)


def delete_topic(bus: Management, found: pb.Topic) -> Any:
    """Delete a topic and its subscriptions, with the origin that created it."""
    return bus.call("DeleteTopic", pb.DeleteTopicRequest(name=found.name, origin=found.origin))


def delete_subscription(bus: Management, found: pb.Subscription) -> Any:
    """Delete a subscription and its messages, with the origin that created it."""
    request = pb.DeleteSubscriptionRequest(
        topic_name=found.topic_name, name=found.name, origin=found.origin
    )
    return bus.call("DeleteSubscription", request)


def rules(bus: Management, topic_name: str, subscription_name: str) -> list[pb.Rule]:
    """Return the rules of a subscription, by name. Raises EntityNotFound."""
    found: list[pb.Rule] = []
    request = pb.ListRulesRequest(
        topic_name=topic_name, subscription_name=subscription_name, page_size=_PAGE
    )
    while True:
        page = bus.call("ListRules", request)
        found.extend(page.rules)
        request.page_token = page.next_page_token
        if not page.next_page_token:
            return found


def rule(bus: Management, topic_name: str, subscription_name: str, name: str) -> pb.Rule:
    """Return one rule. Raises EntityNotFound."""
    request = pb.GetRuleRequest(
        topic_name=topic_name, subscription_name=subscription_name, name=name
    )
    found: pb.Rule = bus.call("GetRule", request).rule
    return found


def create_rule(bus: Management, topic_name: str, subscription_name: str, wanted: Rule) -> Any:
    """Make a rule."""
    request = pb.CreateRuleRequest(
        topic_name=topic_name,
        subscription_name=subscription_name,
        rule=rule_protos.to_proto(wanted),
        origin=_CLIENT,
    )
    return bus.call("CreateRule", request)


def delete_rule(bus: Management, topic_name: str, subscription_name: str, name: str) -> Any:
    """Delete a rule."""
    request = pb.DeleteRuleRequest(
        topic_name=topic_name, subscription_name=subscription_name, name=name, origin=_CLIENT
    )
    return bus.call("DeleteRule", request)
