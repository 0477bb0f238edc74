"""Conversion of entity properties: models of applications ↔ descriptions of the contract."""

import inspect
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from bendybus.client import arguments
from bendybus.client.entities.models import (
    AccessRights,
    AuthorizationRule,
    EntityAvailabilityStatus,
    EntityStatus,
    MessagingSku,
    NamespaceProperties,
    NamespaceType,
    QueueProperties,
    SubscriptionProperties,
    TopicProperties,
)
from bendybus.client.entities.runtime import AVAILABILITY
from bendybus.client.exceptions import HttpResponseError, from_management_error
from bendybus.domain import durations, entity_settings, limits
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Setting, SettingType
from bendybus.domain.errors import InvalidArgument, InvalidOperation
from bendybus.v1 import management_pb2

# By kind: the message that describes an entity, and its properties; some of these are read-only.
Description = (
    management_pb2.QueueDescription
    | management_pb2.TopicDescription
    | management_pb2.SubscriptionDescription
)
Entity = management_pb2.Queue | management_pb2.Topic | management_pb2.Subscription
_TYPES: Final[Mapping[EntityKind, tuple[type[Description], type[Any]]]] = {
    EntityKind.QUEUE: (management_pb2.QueueDescription, QueueProperties),
    EntityKind.TOPIC: (management_pb2.TopicDescription, TopicProperties),
    EntityKind.SUBSCRIPTION: (management_pb2.SubscriptionDescription, SubscriptionProperties),
}
# Those of azure-servicebus. Settings that it does not have are attributes and options as well.
_PARAMETERS: Final = {
    kind: frozenset(inspect.signature(model).parameters) for kind, (_, model) in _TYPES.items()
}
# Rules have calls of their own; authorization rules are below.
_SETTINGS: Final = {
    kind: tuple(each for each in settings if not each.is_list)
    for kind, settings in entity_settings.BY_KIND.items()
}
_NOT_SUPPORTED: Final = {
    "filtering_messages_before_publishing": "filtering messages before publishing",
}
# Options of a call, as azure-core takes them; only `timeout` has an effect.
_OPTIONS: Final = frozenset({
    "timeout", "logging_enable", "logging_body", "headers", "user_agent", "user_agent_overwrite",
    "request_id", "auto_request_id", "cookies", "proxies", "permit_redirects", "redirect_max",
    "retry_total", "retry_connect", "retry_read", "retry_status", "retry_mode", "retry_on_methods",
    "retry_backoff_factor", "retry_backoff_max", "connection_timeout", "read_timeout",
    "connection_verify", "connection_cert", "connection_data_block_size", "network_span_namer",
    "tracing_attributes", "raw_request_hook", "raw_response_hook", "error_map", "api_version",
})  # fmt: skip
_STATUSES: Final = {
    EntityStatus.ACTIVE: management_pb2.ENTITY_STATUS_ACTIVE,
    EntityStatus.DISABLED: management_pb2.ENTITY_STATUS_DISABLED,
    EntityStatus.SEND_DISABLED: management_pb2.ENTITY_STATUS_SEND_DISABLED,
    EntityStatus.RECEIVE_DISABLED: management_pb2.ENTITY_STATUS_RECEIVE_DISABLED,
}
_STATUS_NAMES: Final = {wire: status for status, wire in _STATUSES.items()}


def to_description(given: Mapping[str, Any], kind: EntityKind) -> Description:
    """Return the description of a kind with the settings that are given.

    Raises, as azure-servicebus does, InvalidArgumentError (a ValueError) for a text that is no
    number or duration, and HttpResponseError for what the service would refuse.
    """
    for name, what in _NOT_SUPPORTED.items():
        if given.get(name):
            raise from_management_error(
                InvalidOperation(f"{what.capitalize()} are not supported by Bendybus yet.")
            )
    made = _TYPES[kind][0]()
    for setting in _SETTINGS[kind]:
        value = given.get(setting.attribute)
        if value is not None:
            _assign(made, setting, value)
    rules = given.get("authorization_rules")
    if rules is not None and not isinstance(made, management_pb2.SubscriptionDescription):
        # An empty list is one, too.
        made.authorization_rules.SetInParent()
        made.authorization_rules.rules.extend(map(_to_authorization_rule, rules))
    return made


def _to_authorization_rule(given: AuthorizationRule) -> management_pb2.AuthorizationRule:
    rights = [getattr(each, "value", each) for each in given.rights or ()]
    try:
        return management_pb2.AuthorizationRule(
            name=given.key_name or "",
            rights=rights,
            primary_key=given.primary_key or "",
            secondary_key=given.secondary_key or "",
        )
    except (TypeError, ValueError, AttributeError):
        # Without the value: it has keys.
        raise _refused(
            "authorization_rules", "must be a list of AuthorizationRule, with texts in each"
        ) from None


def _authorization_rules(
    entity: management_pb2.Queue | management_pb2.Topic,
) -> list[AuthorizationRule] | None:
    """Return the models of the policies that an entity has itself; None: lists do not say."""
    if not entity.description.HasField("authorization_rules"):
        return None
    return [
        AuthorizationRule(
            type="SharedAccessAuthorizationRule",
            claim_type="SharedAccessKey",
            claim_value="None",
            rights=[AccessRights(each) for each in rule.rights],
            key_name=rule.name,
            primary_key=rule.primary_key,
            secondary_key=rule.secondary_key,
        )
        for rule in entity.description.authorization_rules.rules
    ]


def to_properties(queue: management_pb2.Queue) -> QueueProperties:
    """Return the model of a queue."""
    own = {"authorization_rules": _authorization_rules(queue)}
    made: QueueProperties = _model(EntityKind.QUEUE, queue, own)
    return made


def to_topic(topic: management_pb2.Topic) -> TopicProperties:
    """Return the model of a topic."""
    own = {
        "authorization_rules": _authorization_rules(topic),
        "filtering_messages_before_publishing": False,
        "size_in_bytes": topic.runtime.size_in_bytes,
    }
    made: TopicProperties = _model(EntityKind.TOPIC, topic, own)
    return made


def to_subscription(subscription: management_pb2.Subscription) -> SubscriptionProperties:
    """Return the model of a subscription; its name is that within its topic."""
    made: SubscriptionProperties = _model(EntityKind.SUBSCRIPTION, subscription, {})
    return made


def _model(kind: EntityKind, entity: Entity, own: Mapping[str, Any]) -> Any:
    """Return the model of an entity: its settings, what every kind has, and its `own` values."""
    values = {
        **own,
        **{each.attribute: _shown(each, entity.description) for each in _SETTINGS[kind]},
        "availability_status": AVAILABILITY.get(
            entity.runtime.availability_status, EntityAvailabilityStatus.UNKNOWN
        ),
    }
    if not isinstance(entity, management_pb2.Subscription):
        values["max_size_in_megabytes"] = entity.reported_size_in_megabytes
    more = {name: values.pop(name) for name in values.keys() - _PARAMETERS[kind]}
    made = _TYPES[kind][1](entity.name, **values)
    made.update(more)
    return made


def _shown(setting: Setting, description: Description) -> object:
    """Return the value of a setting as models have it."""
    value = getattr(description, setting.name)
    if setting.type is SettingType.DURATION:
        return timedelta(milliseconds=limits.TIME_TO_LIVE_MS_MAX if value < 0 else value)
    if setting.type is SettingType.STATUS:
        return _STATUS_NAMES.get(value, EntityStatus.UNKNOWN)
    # "" on the wire is None here.
    return value or None if setting.is_text else value


def to_namespace(response: management_pb2.GetNamespaceResponse) -> NamespaceProperties:
    """Return the model of a namespace, with its partitions and version as extras."""
    made = NamespaceProperties(
        response.name,
        alias=None,
        created_at_utc=None,
        messaging_sku=MessagingSku(response.tier),
        messaging_units=None,
        modified_at_utc=None,
        namespace_type=NamespaceType.MESSAGING,
    )
    made.update(
        partition_count=response.partition_count,
        partitions=[
            {
                "partition": one.partition,
                "available": one.available,
                "address": one.address,
                "conditions": list(one.conditions),
            }
            for one in response.partitions
        ],
        version=response.version,
    )
    return made


def check_names(given: Mapping[str, Any], kind: EntityKind) -> None:
    """Raise TypeError for a name that is neither a property nor an option."""
    known = {*_OPTIONS, *_PARAMETERS[kind], *(each.attribute for each in _SETTINGS[kind])}
    for name in given.keys() - known:
        raise TypeError(f"{name!r} is neither a property of a {kind} nor an option of this call")


def update_of(
    properties: object, overrides: Mapping[str, Any], kind: EntityKind
) -> tuple[str, Description]:
    """Return (name, description) that an update leads to, with `overrides`."""
    check_names(overrides, kind)
    if not hasattr(properties, "items"):
        raise TypeError(
            f"{kind}: must be its properties, or a mapping with them "
            f"(got {type(properties).__name__})"
        )
    given = {**dict(properties.items()), **overrides}
    name = given.get("name")
    if not name:
        raise TypeError(f"{kind}: its `name` is required")
    return arguments.text("name", name), to_description(given, kind)


def _assign(made: Description, setting: Setting, value: Any) -> None:
    name = setting.attribute
    if setting.type is SettingType.DURATION:
        value = _milliseconds(name, value)
    elif setting.type is SettingType.STATUS:
        value = _status(value)
    try:
        setattr(made, setting.name, value)
    except (TypeError, ValueError) as exc:
        sentence = f"invalid value {value!a:.100}: {exc}"
        if isinstance(value, str) and isinstance(getattr(made, setting.name), (int, str)):
            raise arguments.invalid(name, sentence) from None
        raise _refused(name, sentence) from None


def _milliseconds(name: str, value: timedelta | str) -> int:
    if isinstance(value, timedelta):
        milliseconds = durations.bounded(value // timedelta(milliseconds=1))
    else:
        try:
            milliseconds = durations.parse(name, value)
        except InvalidArgument as exc:
            sentence = exc.message.removeprefix(f"{name}: ")
            if isinstance(value, str):
                raise arguments.invalid(name, sentence) from None
            raise _refused(name, sentence) from None
    return -1 if milliseconds is None else milliseconds


def _status(value: object) -> management_pb2.EntityStatus:
    try:
        return _STATUSES[EntityStatus(value)]
    except (ValueError, KeyError):
        allowed = ", ".join(status.value for status in _STATUSES)
        raise _refused("status", f"must be one of {allowed} (got {value!r})") from None


def _refused(field: str, sentence: str) -> HttpResponseError:
    error: HttpResponseError = from_management_error(InvalidArgument(field, sentence))
    return error
