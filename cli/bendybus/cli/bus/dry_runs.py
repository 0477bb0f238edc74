"""What `create … --dry-run` finds out: whether the bus would refuse. Raises BusError."""

from typing import Any

from bendybus.cli.bus import topics
from bendybus.cli.bus.management import Management
from bendybus.domain import lifecycle, subscription_name
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import EntityNotFound
from bendybus.domain.filters import rule_set
from bendybus.domain.filters.rule import Rule
from bendybus.domain.filters.rule_set import RuleAction, RuleChange
from bendybus.domain.lifecycle import EntityAction, EntityState
from bendybus.wire import entities


def create_queue_or_topic(bus: Management, name: str) -> None:
    """Check that neither a queue nor a topic has the name."""
    try:
        _refuse(bus.queue(name), EntityKind.QUEUE, name)
    except EntityNotFound as error:
        if error.metadata.get("kind") == EntityKind.TOPIC:
            _refuse(topics.topic(bus, name), EntityKind.TOPIC, name)


def create_subscription(bus: Management, topic: str, name: str) -> None:
    """Check that the topic exists, and has no subscription of the name."""
    topics.topic(bus, topic)
    try:
        found = topics.subscription(bus, topic, name, runtime=False)
    except EntityNotFound:
        return
    _refuse(found, EntityKind.SUBSCRIPTION, subscription_name.compose(topic, name))


def create_rule(bus: Management, topic: str, subscription: str, wanted: Rule) -> None:
    """Check that the subscription exists, and has no rule of the name."""
    found = topics.subscription(bus, topic, subscription, runtime=False)
    known = entities.description_from_proto(found.description).rules
    path = subscription_name.compose(found.topic_name, found.name)
    rule_set.changed(known, RuleChange(RuleAction.CREATE, wanted), path)


def _refuse(found: Any, kind: EntityKind, name: str) -> None:
    """Raise what creates of a name that is taken are refused with."""
    state = EntityState.ORPHANED if found.orphaned else EntityState.LIVE
    lifecycle.after(state, EntityAction.CREATE, name, facts={}, kind=kind)
