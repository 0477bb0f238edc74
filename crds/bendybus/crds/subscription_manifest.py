"""Subscription: the manifest's fields."""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, StrictBool, StrictStr

from bendybus.crds import entity_manifest
from bendybus.crds.bundle import KINDS
from bendybus.crds.entity_manifest import EntityManifest, EntityManifestStatus
from bendybus.crds.manifest import (
    API_VERSION,
    DeletionPolicy,
    Duration,
    ManifestModel,
    NamespaceRef,
)
from bendybus.crds.rule_manifest import RuleSpec
from bendybus.domain import durations, entity, limits, subscription_name
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import InvalidArgument

NAME_PATTERN: Final = r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"


class SubscriptionSpec(ManifestModel):
    """The desired state of a subscription."""

    namespace_ref: entity_manifest.Bus = Field(default_factory=NamespaceRef)
    topic_name: Annotated[
        StrictStr,
        Field(
            min_length=1,
            max_length=limits.ENTITY_NAME_CHARS_MAX,
            description="Name of its topic on the bus, case-insensitive. Cannot change.",
            json_schema_extra={"pattern": entity_manifest.ENTITY_NAME_PATTERN},
        ),
    ]
    entity_name: Annotated[
        StrictStr | None,
        Field(
            min_length=1,
            max_length=limits.SUBSCRIPTION_NAME_CHARS_MAX,
            description="Name within the topic, case-insensitive; default: metadata.name. "
            "Cannot change.",
            json_schema_extra={"pattern": NAME_PATTERN},
        ),
    ] = None
    lock_duration: entity_manifest.LockDuration = entity_manifest.LOCK_DURATION
    default_message_time_to_live: Annotated[
        Duration,
        Field(
            description="Maximum time to live of its messages; the shorter of this and the "
            "topic's counts."
        ),
    ] = durations.FOREVER_ISO
    max_delivery_count: entity_manifest.DeliveryCount = limits.MAX_DELIVERY_COUNT_DEFAULT
    requires_session: entity_manifest.Sessions = False
    dead_lettering_on_message_expiration: entity_manifest.DeadLetterExpired = False
    dead_lettering_on_filter_evaluation_exceptions: Annotated[
        StrictBool,
        Field(description="Whether messages that a rule fails on are dead-lettered or dropped."),
    ] = True
    forward_to: entity_manifest.Forwarding = None
    forward_dead_lettered_messages_to: entity_manifest.DeadLetterForwarding = None
    auto_delete_on_idle: Annotated[
        Duration,
        Field(
            description="Delete the subscription when it was not used for so long; PT5M or more."
        ),
    ] = durations.FOREVER_ISO
    status: Annotated[
        Literal["Active", "Disabled"],
        Field(description="Whether the subscription takes messages and delivers them."),
    ] = "Active"
    user_metadata: entity_manifest.UserMetadata = ""
    rules: Annotated[
        list[RuleSpec] | None,
        Field(
            max_length=limits.RULES_PER_SUBSCRIPTION,
            description="All its rules; none: it takes no message. Omitted: as they are, for "
            "clients to change; at first $Default, which takes every message.",
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = None
    deletion_policy: entity_manifest.Deletion = DeletionPolicy.RETAIN


class SubscriptionStatus(EntityManifestStatus):
    """The observed state of a subscription."""


class Subscription(EntityManifest):
    """A subscription of a topic: it gets a copy of each message that its rules select."""

    ENTITY_KIND: ClassVar[EntityKind] = EntityKind.SUBSCRIPTION
    KIND: ClassVar[str] = KINDS[ENTITY_KIND]

    api_version: Literal["bendybus.io/v1alpha1"] = API_VERSION
    kind: Literal["Subscription"] = "Subscription"
    spec: SubscriptionSpec = Field(description="Desired state of the subscription.")
    status: SubscriptionStatus | None = Field(None, description="Observed state.")

    @property
    def name(self) -> str:
        """The name within the topic."""
        return self.spec.entity_name or self.metadata.name

    @property
    def entity_name(self) -> str:
        """The name as an entity: TOPIC/Subscriptions/NAME."""
        return subscription_name.compose(self.spec.topic_name, self.name)

    def check_name(self) -> None:
        """Raise InvalidArgument, with the field's name here, unless the name can be a new one."""
        try:
            entity.check_new_name(self.spec.topic_name, EntityKind.TOPIC)
        except InvalidArgument as error:
            raise error.named("topicName") from error
        try:
            subscription_name.check(self.name)
        except InvalidArgument as error:
            raise error.named("entityName") from error
