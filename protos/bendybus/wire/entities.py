"""Entities ↔ protobuf: descriptions, catalogue entries, rules, and references to their queues.

-1 ms on the wire is None here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from bendybus.domain import (
    authorization_rules,
    bounds,
    durations,
    entity,
    limits,
    subscription_name,
)
from bendybus.domain.entity import Entity, Fingerprint, Origin
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import (
    BY_KIND,
    BY_NAME,
    TYPES,
    Description,
    EntityStatus,
    Setting,
    SettingType,
    SubscriptionDescription,
    values_of,
)
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters import rule as rules
from bendybus.domain.filters.rule import (
    CorrelationFilter,
    FalseFilter,
    Filter,
    Rule,
    SqlFilter,
    SqlRuleAction,
    TrueFilter,
)
from bendybus.domain.filters.rule_set import RuleAction, RuleChange, RuleSet
from bendybus.domain.filters.values import Value
from bendybus.domain.shared_access import Policy, Right
from bendybus.domain.sub_queue import SubQueue
from bendybus.internal.v1 import entity_pb2, partition_pb2
from bendybus.v1 import management_pb2, message_pb2
from bendybus.wire import message_properties

_STATUS_TO_WIRE: Final = {
    EntityStatus.ACTIVE: management_pb2.ENTITY_STATUS_ACTIVE,
    EntityStatus.DISABLED: management_pb2.ENTITY_STATUS_DISABLED,
    EntityStatus.SEND_DISABLED: management_pb2.ENTITY_STATUS_SEND_DISABLED,
    EntityStatus.RECEIVE_DISABLED: management_pb2.ENTITY_STATUS_RECEIVE_DISABLED,
}
_STATUS_FROM_WIRE: Final = {wire: status for status, wire in _STATUS_TO_WIRE.items()}
_ORIGIN_TO_WIRE: Final = {
    Origin.CLIENT: management_pb2.ENTITY_ORIGIN_CLIENT,
    Origin.MANIFEST: management_pb2.ENTITY_ORIGIN_MANIFEST,
}
_ORIGIN_FROM_WIRE: Final = {wire: origin for origin, wire in _ORIGIN_TO_WIRE.items()}
_KIND_TO_WIRE: Final = {
    EntityKind.QUEUE: entity_pb2.ENTITY_KIND_QUEUE,
    EntityKind.TOPIC: entity_pb2.ENTITY_KIND_TOPIC,
    EntityKind.SUBSCRIPTION: entity_pb2.ENTITY_KIND_SUBSCRIPTION,
}
_KIND_FROM_WIRE: Final = {wire: kind for kind, wire in _KIND_TO_WIRE.items()}
_DESCRIPTIONS: Final[Mapping[EntityKind, type[Any]]] = {
    EntityKind.QUEUE: management_pb2.QueueDescription,
    EntityKind.TOPIC: management_pb2.TopicDescription,
    EntityKind.SUBSCRIPTION: management_pb2.SubscriptionDescription,
}
_KIND_OF: Final = {type_: kind for kind, type_ in _DESCRIPTIONS.items()}
# The largest number that the field of a setting can hold.
_NUMBER_MAX: Final[Mapping[str, int]] = {
    each.name: 2**31 - 1 if each.cpp_type == each.CPPTYPE_INT32 else bounds.NUMBER_MAX
    for type_ in _KIND_OF
    for each in type_.DESCRIPTOR.fields
}
_NUMBERS: dict[SubQueue, partition_pb2.SubQueue] = {
    SubQueue.MAIN: partition_pb2.SUB_QUEUE_MAIN,
    SubQueue.DEAD_LETTER: partition_pb2.SUB_QUEUE_DEAD_LETTER,
    SubQueue.TRANSFER: partition_pb2.SUB_QUEUE_TRANSFER,
    SubQueue.TRANSFER_DEAD_LETTER: partition_pb2.SUB_QUEUE_TRANSFER_DEAD_LETTER,
}
_ACTION_TO_WIRE: Final = {
    RuleAction.CREATE: entity_pb2.RuleChange.CREATE,
    RuleAction.UPDATE: entity_pb2.RuleChange.UPDATE,
    RuleAction.DELETE: entity_pb2.RuleChange.DELETE,
}
_ACTION_FROM_WIRE: Final = {wire: action for action, wire in _ACTION_TO_WIRE.items()}


def description_to_proto(description: Description) -> Any:
    """Return the description with every field set, as the message of its kind."""
    return changes_to_proto(values_of(description), description.kind)


def changes_to_proto(changes: Mapping[str, Any], kind: EntityKind = EntityKind.QUEUE) -> Any:
    """Return the kind's description with these fields; the opposite of `description_changes`.

    Raises InvalidArgument for a number that is too large for its field.
    """
    values = {name: _to_wire(BY_NAME[name], value) for name, value in changes.items()}
    return _DESCRIPTIONS[kind](**values)


def _to_wire(setting: Setting, value: Any) -> Any:
    match setting.type:
        case SettingType.DURATION:
            return -1 if value is None else value
        case SettingType.STATUS:
            return _STATUS_TO_WIRE[value]
        case SettingType.RULES:
            return _rules_to_proto(value)
        case SettingType.AUTHORIZATION_RULES:
            return authorization_rules_to_proto(value)
        case SettingType.WHOLE if value > (most := _NUMBER_MAX[setting.name]):
            raise InvalidArgument(setting.manifest_name, f"must be at most {most} (got {value}).")
    return value


def description_changes(proto: Any) -> dict[str, Any]:
    """Return the fields that are set, as `descriptions.merged` takes them.

    Raises InvalidArgument for an unknown status.
    """
    return {
        setting.name: _from_wire(setting, getattr(proto, setting.name))
        for setting in BY_KIND[_KIND_OF[type(proto)]]
        if proto.HasField(setting.name)
    }


def _from_wire(setting: Setting, value: Any) -> Any:
    match setting.type:
        case SettingType.DURATION if setting.endless:
            return durations.bounded(value)
        case SettingType.STATUS:
            if value not in _STATUS_FROM_WIRE:
                allowed = ", ".join(EntityStatus)
                raise InvalidArgument("status", f"must be one of {allowed} (got {value}).")
            return _STATUS_FROM_WIRE[value]
        case SettingType.RULES:
            return rules_from_proto(value)
        case SettingType.AUTHORIZATION_RULES:
            return authorization_rules_from_proto(value)
    return value


def description_from_proto(proto: Any) -> Any:
    """Return a new entity's description, of the message's kind: defaults where nothing is set."""
    return TYPES[_KIND_OF[type(proto)]](**description_changes(proto))


def kind_to_proto(kind: EntityKind) -> entity_pb2.EntityKind:
    """Return the wire's word for a kind."""
    return _KIND_TO_WIRE[kind]


def kind_from_proto(proto: entity_pb2.EntityKind) -> EntityKind:
    """Return the kind. Raises InvalidArgument for an unknown one."""
    kind = _KIND_FROM_WIRE.get(proto)
    if kind is None:
        raise InvalidArgument("kind", f"unknown kind of entity: {proto}; a later version knows it.")
    return kind


def knows_kind(proto: entity_pb2.EntityKind) -> bool:
    """Whether this version has a kind."""
    return proto in _KIND_FROM_WIRE


def origin_to_proto(origin: Origin) -> management_pb2.EntityOrigin:
    """Return the wire's word for an origin."""
    return _ORIGIN_TO_WIRE[origin]


def origin_from_proto(proto: management_pb2.EntityOrigin) -> Origin:
    """Return the origin; unspecified is a client."""
    return _ORIGIN_FROM_WIRE.get(proto, Origin.CLIENT)


def entity_to_proto(value: Entity) -> entity_pb2.Entity:
    """Return a catalogue entry as partitions and front ends exchange it."""
    return entity_pb2.Entity(
        name=value.name,
        uid=value.uid,
        generation=value.generation,
        origin=origin_to_proto(value.origin),
        kind=kind_to_proto(value.kind),
        partition_count=value.partition_count,
        home_partition=value.home_partition,
        deleted=value.deleted,
        created_at_ms=value.created_at_ms,
        updated_at_ms=value.updated_at_ms,
        orphaned=value.orphaned,
        manifest_uid=value.manifest_uid,
        auto_deleted=value.auto_deleted,
        manifest_rules=value.manifest_rules,
        plain_numbers=value.plain_numbers,
        # The field has the name of the kind.
        **{value.kind.value: description_to_proto(value.description)},
    )


def entity_from_proto(proto: entity_pb2.Entity) -> Entity:
    """Return the entry that `proto` carries."""
    origin = origin_from_proto(proto.origin)
    kind = kind_from_proto(proto.kind)
    return Entity(
        name=proto.name,
        uid=proto.uid,
        generation=proto.generation,
        origin=origin,
        description=description_from_proto(getattr(proto, kind.value)),
        partition_count=proto.partition_count,
        home_partition=proto.home_partition,
        deleted=proto.deleted,
        created_at_ms=proto.created_at_ms,
        updated_at_ms=proto.updated_at_ms,
        orphaned=proto.orphaned,
        manifest_uid=entity.manifest_of(proto.manifest_uid, uid=proto.uid, origin=origin),
        auto_deleted=proto.auto_deleted,
        manifest_rules=proto.manifest_rules,
        plain_numbers=proto.plain_numbers,
    )


def _seen(value: Entity) -> dict[str, Any]:
    """Return what clients see of every kind, without its runtime facts."""
    return {
        "uid": value.uid,
        "generation": value.generation,
        "origin": origin_to_proto(value.origin),
        "description": description_to_proto(value.description),
        "partition_count": value.partition_count,
        "home_partition": value.home_partition,
        "orphaned": value.orphaned,
    }


def queue_to_proto(value: Entity) -> management_pb2.Queue:
    """Return a queue as clients see it, without its runtime facts."""
    return management_pb2.Queue(name=value.name, **_seen(value))


def topic_to_proto(value: Entity, subscription_count: int) -> management_pb2.Topic:
    """Return a topic as clients see it, without its runtime facts."""
    return management_pb2.Topic(
        name=value.name, subscription_count=subscription_count, **_seen(value)
    )


def listed(seen: Any) -> Any:
    """Return a queue or topic as it is in lists: without its keys, which may be many."""
    seen.description.ClearField("authorization_rules")
    return seen


def listed_subscription(value: Entity) -> management_pb2.Subscription:
    """Return a subscription as it is in lists: without its rules, which may be many."""
    described = value.description
    assert isinstance(described, SubscriptionDescription), value
    proto = subscription_to_proto(replace(value, description=replace(described, rules=RuleSet())))
    proto.description.ClearField("rules")
    return proto


def subscription_to_proto(value: Entity) -> management_pb2.Subscription:
    """Return a subscription as clients see it, without its runtime facts."""
    parts = subscription_name.split(value.name)
    assert parts is not None, value.name
    return management_pb2.Subscription(
        topic_name=parts[0],
        name=parts[1],
        manifest_rules=value.manifest_rules,
        **_seen(value),
    )


def kind_of(seen: Any) -> EntityKind:
    """Return what an entity is that clients see."""
    return _KIND_OF[type(seen.description)]


def name_of(seen: Any) -> str:
    """Return the name of an entity that clients see; of a subscription TOPIC/Subscriptions/NAME."""
    if kind_of(seen) is EntityKind.SUBSCRIPTION:
        return subscription_name.compose(seen.topic_name, seen.name)
    return str(seen.name)


def fingerprint_to_proto(value: Fingerprint) -> entity_pb2.Fingerprint:
    """Return the header of a partition's file."""
    return entity_pb2.Fingerprint(
        namespace_name=value.namespace_name,
        namespace_uid=value.namespace_uid,
        tier=value.tier.value,
        partition_count=value.partition_count,
        partition=value.partition,
        incarnation=value.incarnation,
    )


def fingerprint_from_proto(proto: entity_pb2.Fingerprint) -> Fingerprint:
    """Return the header that `proto` carries."""
    return Fingerprint(
        namespace_name=proto.namespace_name,
        namespace_uid=proto.namespace_uid,
        tier=limits.Tier(proto.tier),
        partition_count=proto.partition_count,
        partition=proto.partition,
        incarnation=proto.incarnation,
    )


def ref_to_proto(entity: Entity, sub_queue: SubQueue) -> partition_pb2.EntityRef:
    """Return the reference."""
    return partition_pb2.EntityRef(
        uid=entity.uid, generation=entity.generation, sub_queue=_NUMBERS[sub_queue]
    )


def number_of(sub_queue: SubQueue) -> partition_pb2.SubQueue:
    """Return the name of a sub-queue on the contract."""
    return _NUMBERS[sub_queue]


def sub_queue_of(proto: partition_pb2.EntityRef) -> SubQueue:
    """Return the sub-queue that is meant; the main one where none is named.

    Raises InvalidArgument for one that this version does not know.
    """
    try:
        return SubQueue(proto.sub_queue or SubQueue.MAIN)
    except ValueError:
        raise InvalidArgument(
            "sub_queue", f"unknown sub-queue: {proto.sub_queue}; a later version may know it."
        ) from None


def _rules_to_proto(given: Iterable[Rule]) -> management_pb2.RuleSet:
    """Return the rules of a subscription."""
    return management_pb2.RuleSet(rules=[rule_to_proto(each) for each in given])


def rules_from_proto(proto: management_pb2.RuleSet) -> RuleSet:
    """Return the rules of a subscription. Raises InvalidArgument for too many or a bad one."""
    bounds.check_number("rules", len(proto.rules), limits.RULES_PER_SUBSCRIPTION)
    return RuleSet(map(rule_from_proto, proto.rules))


def authorization_rules_to_proto(given: Iterable[Policy]) -> management_pb2.AuthorizationRuleSet:
    """Return the policies on an entity."""
    return management_pb2.AuthorizationRuleSet(
        rules=[
            management_pb2.AuthorizationRule(
                name=each.name,
                rights=sorted(each.rights),
                **dict(zip(("primary_key", "secondary_key"), each.keys, strict=False)),
            )
            for each in given
        ]
    )


def authorization_rules_from_proto(
    proto: management_pb2.AuthorizationRuleSet,
) -> tuple[Policy, ...]:
    """Return the policies on an entity. Raises InvalidArgument for too many or an unknown right."""
    field = authorization_rules.FIELD
    bounds.check_number(field, len(proto.rules), limits.AUTHORIZATION_RULES_MAX)
    for each in proto.rules:
        bounds.check_number(f"{field}.rights", len(each.rights), len(Right))
    return tuple(
        authorization_rules.rule(each.name, each.rights, each.primary_key, each.secondary_key)
        for each in proto.rules
    )


def rule_to_proto(rule: Rule) -> management_pb2.Rule:
    """Return a rule as it travels."""
    made = management_pb2.Rule(name=rule.name, created_at_ms=rule.created_at_ms)
    match rule.filter:
        case TrueFilter():
            made.boolean_filter = True
        case FalseFilter():
            made.boolean_filter = False
        case SqlFilter(sql_expression=text, parameters=parameters):
            made.sql_filter.sql_expression = text
            _set_values(made.sql_filter.parameters, parameters)
        case CorrelationFilter(properties=properties):
            # Also of a filter without any text, which is refused by name.
            made.correlation_filter.SetInParent()
            for field in rules.SYSTEM_PROPERTIES:
                text = getattr(rule.filter, field)
                if text is not None:
                    setattr(made.correlation_filter, field, text)
            _set_values(made.correlation_filter.properties, properties)
    if rule.action is not None:
        made.action.sql_expression = rule.action.sql_expression
        _set_values(made.action.parameters, rule.action.parameters)
    return made


def rule_from_proto(proto: management_pb2.Rule) -> Rule:
    """Return the rule that `proto` carries, not checked. Raises InvalidArgument."""
    action = None
    if proto.HasField("action"):
        action = SqlRuleAction(
            proto.action.sql_expression, _values("action.parameters", proto.action.parameters)
        )
    bounds.check_number("created_at", proto.created_at_ms, bounds.TIME_MS_MAX)
    return Rule(proto.name, _filter(proto), action, proto.created_at_ms)


def rule_change_to_proto(change: RuleChange) -> entity_pb2.RuleChange:
    """Return a change of a rule as it travels to the registrar."""
    return entity_pb2.RuleChange(
        kind=_ACTION_TO_WIRE[change.action], rule=rule_to_proto(change.rule)
    )


def rule_change_from_proto(proto: entity_pb2.RuleChange) -> RuleChange:
    """Return the change of a rule. Raises InvalidArgument for an unknown kind."""
    action = _ACTION_FROM_WIRE.get(proto.kind)
    if action is None:
        raise InvalidArgument("rule_change", f"unknown kind {proto.kind}; a later version has it.")
    return RuleChange(action, rule_from_proto(proto.rule))


def _filter(proto: management_pb2.Rule) -> Filter:
    match proto.WhichOneof("filter"):
        case "sql_filter":
            sql = proto.sql_filter
            return SqlFilter(sql.sql_expression, _values("filter.parameters", sql.parameters))
        case "correlation_filter":
            wanted = proto.correlation_filter
            texts = {
                name: getattr(wanted, name)
                for name in rules.SYSTEM_PROPERTIES
                if wanted.HasField(name)
            }
            return CorrelationFilter(
                **texts, properties=_values("filter.properties", wanted.properties)
            )
        case "boolean_filter":
            return TrueFilter() if proto.boolean_filter else FalseFilter()
        case _:
            raise InvalidArgument(
                "filter", "is missing, or of a kind that this version does not know."
            )


def _values(field: str, given: Mapping[str, message_pb2.Value]) -> dict[str, Value]:
    bounds.check_number(field, len(given), limits.RULE_VALUES_MAX)
    return {name: message_properties.from_rule_value(value) for name, value in given.items()}


def _set_values(entries: object, given: Mapping[str, Value]) -> None:
    for name, value in given.items():
        entries[name].CopyFrom(message_properties.to_value(value))  # type: ignore[index]
