"""The rules in a Subscription's manifest, and their conversion to the domain."""

from typing import Annotated, Final

from pydantic import (
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    WithJsonSchema,
    model_validator,
)

from bendybus.crds.manifest import ManifestModel
from bendybus.domain import limits
from bendybus.domain.filters import rule as rules
from bendybus.domain.filters.rule import Rule

# Kubernetes has no flag for "in any case".
_DEFAULT: Final = r"\$[Dd][Ee][Ff][Aa][Uu][Ll][Tt]"
NAME_PATTERN: Final = rf"^({_DEFAULT}|[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*)$"
# Of any type that JSON has: Kubernetes cannot say more.
_Value = Annotated[
    StrictBool | StrictInt | StrictFloat | StrictStr,
    WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True}),
]
_Text = Annotated[StrictStr | None, Field(max_length=limits.RULE_VALUE_LENGTH_MAX)]


class SqlText(ManifestModel):
    """A text of the language of filters, with values for its parameters."""

    sql_expression: StrictStr = Field(
        min_length=1,
        max_length=limits.SQL_TEXT_CHARS_MAX,
        description="The text; docs/reference/filters.md has the language.",
    )
    parameters: dict[str, _Value] = Field(
        default_factory=dict,
        max_length=limits.RULE_VALUES_MAX,
        description="Values of its parameters, by name without @.",
    )


class CorrelationSpec(ManifestModel):
    """Properties that a message must all have, with exactly these values."""

    correlation_id: _Text = Field(None, description="CorrelationId.")
    message_id: _Text = Field(None, description="MessageId.")
    to: _Text = Field(None, description="To.")
    reply_to: _Text = Field(None, description="ReplyTo.")
    label: _Text = Field(None, description="Label, also called Subject.")
    session_id: _Text = Field(None, description="SessionId.")
    reply_to_session_id: _Text = Field(None, description="ReplyToSessionId.")
    content_type: _Text = Field(None, description="ContentType.")
    properties: dict[str, _Value] = Field(
        default_factory=dict,
        max_length=limits.RULE_VALUES_MAX,
        description="Application properties, by name.",
    )


class RuleSpec(ManifestModel):
    """A rule: which messages the subscription takes, and how its copy of them differs."""

    name: StrictStr = Field(
        min_length=1,
        max_length=limits.RULE_NAME_CHARS_MAX,
        description="Unique in its subscription, case-insensitive.",
        json_schema_extra={"pattern": NAME_PATTERN},
    )
    sql_filter: SqlText | None = Field(
        None, description="Takes the messages for which the expression is true."
    )
    correlation_filter: CorrelationSpec | None = Field(
        None, description="Takes the messages that have all these properties."
    )
    boolean_filter: StrictBool | None = Field(
        None, description="Takes every message (true: the default) or none (false)."
    )
    action: SqlText | None = Field(
        None, description="Changes the copy; each matching rule with an action makes its own copy."
    )

    @model_validator(mode="after")
    def _one_filter(self) -> "RuleSpec":
        filters = (self.sql_filter, self.correlation_filter, self.boolean_filter)
        if sum(each is not None for each in filters) > 1:
            raise ValueError(
                "has more than one of sqlFilter, correlationFilter and booleanFilter. Keep one; "
                "write another rule for the other."
            )
        return self


def to_rule(spec: RuleSpec) -> Rule:
    """Return the domain's rule; not compiled yet."""
    action = None
    if spec.action is not None:
        action = rules.SqlRuleAction(spec.action.sql_expression, spec.action.parameters)
    return Rule(spec.name, _filter(spec), action)


def _filter(spec: RuleSpec) -> rules.Filter:
    if spec.sql_filter is not None:
        return rules.SqlFilter(spec.sql_filter.sql_expression, spec.sql_filter.parameters)
    if spec.correlation_filter is not None:
        wanted = spec.correlation_filter
        texts = {name: getattr(wanted, name) for name in rules.SYSTEM_PROPERTIES}
        return rules.CorrelationFilter(**texts, properties=wanted.properties)
    return rules.FalseFilter() if spec.boolean_filter is False else rules.TrueFilter()
