"""What the administration clients of both surfaces share: connection, spans, models of rules."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf.message import Message

from bendybus.client import arguments
from bendybus.client.core import clients, settings, tracing
from bendybus.client.core.connection import SharedConnection
from bendybus.client.core.tracing import NoOperation, Operation
from bendybus.client.entities import requests
from bendybus.client.entities.models import (
    ApiVersion,
    CorrelationRuleFilter,
    FalseRuleFilter,
    RuleProperties,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)
from bendybus.client.messages import values
from bendybus.domain import limits
from bendybus.v1 import management_pb2, message_pb2

# Names of operations in spans that differ from those of their requests.
_NAMES: Final = {
    "GetNamespace": "get_namespace_properties",
    "ListSessionCounts": "list_sessions_runtime_properties",
}


class BaseAdministrationClient:
    """The base of the administration clients of both surfaces, which differ in how they wait."""

    # Whether credentials are awaited on the application's loop.
    _of_loop = False

    def __init__(
        self,
        fully_qualified_namespace: str,
        credential: Any,
        *,
        api_version: str | ApiVersion = ApiVersion.V2024_05,
        **kwargs: Any,
    ) -> None:
        """Create a client that connects when it is first used.

        `fully_qualified_namespace`, `credential` and others: as for ServiceBusClient.
        `api_version` has no effect.
        """
        self.fully_qualified_namespace = fully_qualified_namespace
        self._credential = credential
        kwargs.pop("entity_name", None)
        self._shared = SharedConnection(
            settings.from_arguments(fully_qualified_namespace, credential, kwargs)
        )
        self._shared.of_loop = self._of_loop

    def _managing(self, request: Message) -> Operation | NoOperation:
        """Return the context manager that creates the span of a call."""
        found = tracing.of(self._shared.settings.tracing, self._shared.settings.target)
        if found is None:
            return tracing.NO_OPERATION
        name = type(request).__name__.removesuffix("Request")
        words = re.sub(r"\B([A-Z])", r"_\1", name).lower()
        return found.managing(requests.path_of(request), _NAMES.get(name, words))

    @classmethod
    def _from_connection_string(cls, conn_str: str, options: Mapping[str, Any]) -> Any:
        return cls(**clients.arguments_of(conn_str, dict(options)))


_TEXTS: Final = (
    "correlation_id",
    "message_id",
    "to",
    "reply_to",
    "label",
    "session_id",
    "reply_to_session_id",
    "content_type",
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def to_rule(name: str, wanted: object, action: object) -> management_pb2.Rule:
    """Return the rule with this filter and action. Raises TypeError, InvalidArgumentError."""
    made = management_pb2.Rule(name=arguments.text("rule_name", name))
    match wanted:
        case None | TrueRuleFilter():
            made.boolean_filter = True
        case FalseRuleFilter():
            made.boolean_filter = False
        case SqlRuleFilter():
            made.sql_filter.sql_expression = _expression("filter", wanted.sql_expression)
            _set(made.sql_filter.parameters, "filter.parameters", wanted.parameters)
        case CorrelationRuleFilter():
            made.correlation_filter.SetInParent()
            for field in _TEXTS:
                text = arguments.optional_text(f"filter.{field}", getattr(wanted, field))
                if text is not None:
                    setattr(made.correlation_filter, field, text)
            _set(made.correlation_filter.properties, "filter.properties", wanted.properties)
        case _:
            raise TypeError(
                "filter: must be a SqlRuleFilter, CorrelationRuleFilter, TrueRuleFilter or "
                f"FalseRuleFilter (got {type(wanted).__name__})"
            )
    if action is None:
        return made
    if not isinstance(action, SqlRuleAction):
        raise TypeError(f"action: must be a SqlRuleAction (got {type(action).__name__})")
    if action.sql_expression is not None:
        made.action.sql_expression = _expression("action", action.sql_expression)
        _set(made.action.parameters, "action.parameters", action.parameters)
    return made


def update_of(
    topic: str, subscription: str, rule: Any, overrides: Mapping[str, Any]
) -> management_pb2.UpdateRuleRequest:
    """Return the request that updates a rule to `rule`, with `overrides`."""
    given = {**dict(rule.items()), **overrides}
    if not given.get("name"):
        raise arguments.invalid("name", "is required")
    wanted = to_rule(given["name"], given.get("filter"), given.get("action"))
    fields = requests.rule_of(topic, subscription, rule=wanted, origin=requests.CLIENT)
    return management_pb2.UpdateRuleRequest(**fields)


def to_properties(rule: management_pb2.Rule) -> RuleProperties:
    """Return the model of a rule."""
    action = None
    if rule.HasField("action"):
        action = SqlRuleAction(rule.action.sql_expression, _values(rule.action.parameters))
    return RuleProperties(
        rule.name,
        filter=_filter(rule),
        action=action,
        created_at_utc=_EPOCH + timedelta(milliseconds=rule.created_at_ms),
    )


def _filter(rule: management_pb2.Rule) -> CorrelationRuleFilter | SqlRuleFilter:
    match rule.WhichOneof("filter"):
        case "sql_filter":
            sql = rule.sql_filter
            return SqlRuleFilter(sql.sql_expression, _values(sql.parameters))
        case "correlation_filter":
            found = rule.correlation_filter
            texts = {name: getattr(found, name) for name in _TEXTS if found.HasField(name)}
            return CorrelationRuleFilter(**texts, properties=_values(found.properties) or {})
        case _:
            return TrueRuleFilter() if rule.boolean_filter else FalseRuleFilter()


def _expression(field: str, text: object) -> str:
    if text is None:
        raise arguments.invalid(f"{field}.sql_expression", "is required")
    return arguments.text(f"{field}.sql_expression", text)


def _set(
    entries: Mapping[str, message_pb2.Value], field: str, given: Mapping[str, Any] | None
) -> None:
    if given is None:
        return
    if len(given) > limits.RULE_VALUES_MAX:
        raise arguments.invalid(field, f"must be at most {limits.RULE_VALUES_MAX} values")
    values.fill_map(entries, given, field)


def _values(entries: Mapping[str, message_pb2.Value]) -> dict[str, Any] | None:
    found = {name: values.plain(values.from_value(value)) for name, value in entries.items()}
    return found or None
