"""What `create … --dry-run` finds out: whether the bus would refuse. Raises BusError."""

from typing import Any

from bendybus.cli.bus.management import Management
from bendybus.domain import lifecycle, subscription_name
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import EntityNotFound
from bendybus.domain.filters import rule_set
from bendybus.domain.filters.rule import Rule
from bendybus.domain.filters.rule_set import RuleAction, RuleChange
from bendybus.domain.lifecycle import EntityAction, EntityState
from bendybus.wire import entities


def create(bus: Management, kind: EntityKind, name: str) -> None:
    """Check that no entity has the name, and that the topic of a subscription exists."""
    parts = subscription_name.split(name) if kind is EntityKind.SUBSCRIPTION else None
    if parts:
        bus.entity(EntityKind.TOPIC, parts[0])
    try:
        _refuse(bus.entity(kind if parts else EntityKind.QUEUE, name), name)
    except EntityNotFound as error:
        if not parts and error.metadata.get("kind") == EntityKind.TOPIC:
            _refuse(bus.entity(EntityKind.TOPIC, name), name)


def create_rule(bus: Management, topic: str, subscription: str, wanted: Rule) -> None:
    """Check that the subscription exists, and has no rule of the name."""
    path = subscription_name.compose(topic, subscription)
    found = bus.entity(EntityKind.SUBSCRIPTION, path, runtime=False)
    known = entities.description_from_proto(found.description).rules
    rule_set.changed(known, RuleChange(RuleAction.CREATE, wanted), entities.name_of(found))


def _refuse(found: Any, name: str) -> None:
    """Raise what creates of a name that is taken are refused with."""
    state = EntityState.ORPHANED if found.orphaned else EntityState.LIVE
    kind = entities.kind_of(found)
    lifecycle.after(state, EntityAction.CREATE, name, facts={}, kind=kind)
