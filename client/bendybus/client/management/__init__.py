"""Administration of entities, with the names of `azure.servicebus.management`."""

from bendybus.client.entities.models import (
    AccessRights,
    ApiVersion,
    AuthorizationRule,
    CorrelationRuleFilter,
    EntityAvailabilityStatus,
    EntityStatus,
    FalseRuleFilter,
    MessageCountDetails,
    MessagingSku,
    NamespaceProperties,
    NamespaceType,
    QueueProperties,
    RuleProperties,
    SqlRuleAction,
    SqlRuleFilter,
    SubscriptionProperties,
    TopicProperties,
    TrueRuleFilter,
)
from bendybus.client.entities.runtime import (
    QueueRuntimeProperties,
    SubscriptionRuntimeProperties,
    TopicRuntimeProperties,
)
from bendybus.client.entities.sessions import SessionRuntimeProperties
from bendybus.client.sync.management.administration import ServiceBusAdministrationClient

__all__ = [
    "AccessRights",
    "ApiVersion",
    "AuthorizationRule",
    "CorrelationRuleFilter",
    "EntityAvailabilityStatus",
    "EntityStatus",
    "FalseRuleFilter",
    "MessageCountDetails",
    "MessagingSku",
    "NamespaceProperties",
    "NamespaceType",
    "QueueProperties",
    "QueueRuntimeProperties",
    "RuleProperties",
    "ServiceBusAdministrationClient",
    "SessionRuntimeProperties",
    "SqlRuleAction",
    "SqlRuleFilter",
    "SubscriptionProperties",
    "SubscriptionRuntimeProperties",
    "TopicProperties",
    "TopicRuntimeProperties",
    "TrueRuleFilter",
]
