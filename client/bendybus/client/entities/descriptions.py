"""Conversion of entity properties: models of applications ↔ descriptions of the contract."""

import inspect
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from bendybus.client import arguments
from bendybus.client.entities.models import (
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
from bendybus.domain import durations, limits
from bendybus.domain.errors import InvalidArgument, InvalidOperation
from bendybus.v1 import management_pb2

_DURATIONS: Final = (
    "lock_duration",
    "default_message_time_to_live",
    "auto_delete_on_idle",
    "duplicate_detection_history_time_window",
)
_PLAIN: Final = (
    "dead_lettering_on_message_expiration",
    "dead_lettering_on_filter_evaluation_exceptions",
    "enable_partitioning",
    "max_delivery_count",
    "max_message_size_in_kilobytes",
    "max_size_in_megabytes",
    "requires_duplicate_detection",
    "requires_session",
    "forward_to",
    "forward_dead_lettered_messages_to",
    "user_metadata",
)
# "" on the wire is None here.
_OPTIONAL: Final = ("forward_to", "forward_dead_lettered_messages_to", "user_metadata")
# Properties of an entity by the message that describes it; some are read-only.
_PROPERTIES: Final = {
    description: frozenset(inspect.signature(model).parameters)
    for description, model in (
        (management_pb2.QueueDescription, QueueProperties),
        (management_pb2.TopicDescription, TopicProperties),
        (management_pb2.SubscriptionDescription, SubscriptionProperties),
    )
}
_NOT_SUPPORTED: Final = {
    "authorization_rules": "authorization rules",
    "enable_express": "express entities",
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


def to_description(given: Mapping[str, Any], described: type[Any]) -> Any:
    """Return the description with the fields that are set, as a message of this type.

    Raises, as azure-servicebus does, InvalidArgumentError (a ValueError) for a text that is no
    number or duration, and HttpResponseError for what the service would refuse.
    """
    for name, what in _NOT_SUPPORTED.items():
        if given.get(name):
            raise from_management_error(
                InvalidOperation(f"{what.capitalize()} are not supported by Bendybus yet.")
            )
    made = described()
    fields = described.DESCRIPTOR.fields_by_name
    for name in _PLAIN:
        if name in fields and given.get(name) is not None:
            _assign(made, name, given[name])
    for name in _DURATIONS:
        if f"{name}_ms" in fields and given.get(name) is not None:
            setattr(made, f"{name}_ms", _milliseconds(name, given[name]))
    if given.get("status") is not None:
        made.status = _status(given["status"])
    return made


def to_properties(queue: management_pb2.Queue) -> QueueProperties:
    """Return the model of a queue."""
    return QueueProperties(
        queue.name, authorization_rules=[], enable_express=False, **_properties(queue)
    )


def to_topic(topic: management_pb2.Topic) -> TopicProperties:
    """Return the model of a topic."""
    return TopicProperties(
        topic.name,
        authorization_rules=[],
        enable_express=False,
        filtering_messages_before_publishing=False,
        size_in_bytes=topic.runtime.size_in_bytes,
        support_ordering=True,
        **_properties(topic),
    )


def to_subscription(subscription: management_pb2.Subscription) -> SubscriptionProperties:
    """Return the model of a subscription; its name is that within its topic."""
    return SubscriptionProperties(subscription.name, **_properties(subscription))


def _properties(entity: Any) -> dict[str, Any]:
    """Return the properties that entities of every kind have, and those of its description."""
    description = entity.description
    fields = description.DESCRIPTOR.fields_by_name
    values = {name: getattr(description, name) for name in _PLAIN if name in fields}
    for name in _DURATIONS:
        if f"{name}_ms" not in fields:
            continue
        milliseconds = getattr(description, f"{name}_ms")
        endless = limits.TIME_TO_LIVE_MS_MAX if milliseconds < 0 else milliseconds
        values[name] = timedelta(milliseconds=endless)
    if "max_size_in_megabytes" in values:
        # A bus before 0.7 does not say what is reported.
        values["max_size_in_megabytes"] = (
            entity.reported_size_in_megabytes or description.max_size_in_megabytes
        )
    for name in _OPTIONAL:
        if name in values:
            values[name] = values[name] or None
    values["availability_status"] = AVAILABILITY.get(
        entity.runtime.availability_status, EntityAvailabilityStatus.UNKNOWN
    )
    values["enable_batched_operations"] = True
    values["status"] = _STATUS_NAMES.get(description.status, EntityStatus.UNKNOWN)
    return values


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


def check_names(given: Mapping[str, Any], described: type[Any]) -> None:
    """Raise TypeError for a name that is neither a property nor an option."""
    for name in given.keys() - _OPTIONS - _PROPERTIES[described]:
        kind = described.DESCRIPTOR.name.removesuffix("Description").lower()
        raise TypeError(f"{name!r} is neither a property of a {kind} nor an option of this call")


def update_of(
    properties: Any, overrides: Mapping[str, Any], described: type[Any]
) -> tuple[str, Any]:
    """Return (name, description) that an update leads to, with `overrides`."""
    check_names(overrides, described)
    kind = described.DESCRIPTOR.name.removesuffix("Description").lower()
    if not hasattr(properties, "items"):
        raise TypeError(
            f"{kind}: must be its properties, or a mapping with them "
            f"(got {type(properties).__name__})"
        )
    given = {**dict(properties.items()), **overrides}
    name = given.get("name")
    if not name:
        raise TypeError(f"{kind}: its `name` is required")
    return arguments.text("name", name), to_description(given, described)


def _assign(made: Any, name: str, value: Any) -> None:
    try:
        setattr(made, name, value)
    except (TypeError, ValueError) as exc:
        sentence = f"invalid value {value!a:.100}: {exc}"
        if isinstance(value, str) and isinstance(getattr(made, name), (int, str)):
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


def _status(value: Any) -> management_pb2.EntityStatus:
    try:
        return _STATUSES[EntityStatus(value)]
    except (ValueError, KeyError):
        allowed = ", ".join(status.value for status in _STATUSES)
        raise _refused("status", f"must be one of {allowed} (got {value!r})") from None


def _refused(field: str, sentence: str) -> HttpResponseError:
    error: HttpResponseError = from_management_error(InvalidArgument(field, sentence))
    return error
