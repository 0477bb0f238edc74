"""Queue, Topic, Subscription: the fields of their manifests, and their conversion to the domain.

Settings come from the table of the domain, with their bounds and descriptions.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr, create_model

from bendybus.crds import rule_manifest
from bendybus.crds.bundle import KINDS
from bendybus.crds.manifest import (
    API_VERSION,
    DeletionPolicy,
    Duration,
    ManifestModel,
    Metadata,
    NamespaceRef,
    Status,
)
from bendybus.crds.rule_manifest import RuleSpec
from bendybus.domain import durations, entity, entity_settings, limits, subscription_name
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Description, EntityStatus, Setting, SettingType
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters import rule, rule_set
from bendybus.domain.filters.rule import Rule

_SEGMENT: Final = r"[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*"
ENTITY_NAME_PATTERN: Final = rf"^{_SEGMENT}(/{_SEGMENT})*$"
SUBSCRIPTION_NAME_PATTERN: Final = r"^[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?$"
# Names of fields of rules, where the domain's differ.
_RULE_FIELDS: Final = {"ruleName": "name"}
# A type, and its default with what the schema says.
_Field = tuple[Any, Any]


def _name(description: str, chars_max: int, pattern: str, **about: Any) -> Any:
    return Field(
        description=description,
        min_length=1,
        max_length=chars_max,
        json_schema_extra={"pattern": pattern},
        **about,
    )


def _names(kind: EntityKind) -> dict[str, _Field]:
    """Return the fields that name an entity."""
    of_bus = limits.ENTITY_NAME_CHARS_MAX, ENTITY_NAME_PATTERN
    if kind is not EntityKind.SUBSCRIPTION:
        own = "Name on the bus, case-insensitive; default: metadata.name. Cannot change."
        return {"entity_name": (StrictStr | None, _name(own, *of_bus, default=None))}
    of_topic = limits.SUBSCRIPTION_NAME_CHARS_MAX, SUBSCRIPTION_NAME_PATTERN
    topic = "Name of its topic on the bus, case-insensitive. Cannot change."
    own = "Name within the topic, case-insensitive; default: metadata.name. Cannot change."
    return {
        "topic_name": (StrictStr, _name(topic, *of_bus)),
        "entity_name": (StrictStr | None, _name(own, *of_topic, default=None)),
    }


def _setting(setting: Setting, kind: EntityKind) -> _Field:
    """Return the field of a setting, with the default that the API server writes."""
    about: dict[str, Any] = {"description": setting.sentence(kind)}
    match setting.type:
        case SettingType.BOOLEAN:
            return StrictBool, Field(setting.default, **about)
        case SettingType.WHOLE:
            about |= {"ge": setting.least, "le": setting.most}
            if setting.left_to_tier:
                return StrictInt | None, Field(None, **about)
            return StrictInt, Field(setting.default, **about)
        case SettingType.DURATION:
            return Duration, Field(durations.render(setting.default), **about)
        case SettingType.NAME:
            return StrictStr | None, Field(None, max_length=setting.most, **about)
        case SettingType.TEXT:
            return StrictStr, Field(setting.default, max_length=setting.most, **about)
        case SettingType.STATUS:
            statuses = tuple(each.value for each in entity_settings.TYPES[kind].statuses)
            return Literal[statuses], Field(setting.default.value, **about)
        case SettingType.RULES:
            lists: dict[str, Any] = {
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            }
            most = limits.RULES_PER_SUBSCRIPTION
            return list[RuleSpec] | None, Field(
                None, max_length=most, json_schema_extra=lists, **about
            )
        case SettingType.AUTHORIZATION_RULES:
            raise TypeError(f"no manifest has {setting.name}")


def _spec(kind: EntityKind) -> type[ManifestModel]:
    kept = "messages are"
    if kind is EntityKind.TOPIC:
        kept = "the topic, its subscriptions and their messages are"
    bus = Field(default_factory=NamespaceRef, description="The bus it belongs to. Cannot change.")
    fields: dict[str, Any] = {
        "namespace_ref": (NamespaceRef, bus),
        **_names(kind),
        **{
            each.attribute: _setting(each, kind)
            for each in entity_settings.TABLE
            if kind in each.kinds and each.is_declared
        },
        "deletion_policy": (
            DeletionPolicy,
            Field(
                DeletionPolicy.RETAIN,
                description=f"Whether {kept} retained when the manifest is deleted.",
            ),
        ),
    }
    doc = f"The desired state of a {kind}."
    made: type[ManifestModel] = create_model(
        f"{KINDS[kind]}Spec", __base__=ManifestModel, __doc__=doc, **fields
    )
    return made


SPECS: Final[Mapping[EntityKind, type[ManifestModel]]] = {kind: _spec(kind) for kind in EntityKind}


class EntityManifestStatus(Status):
    """The observed state of an entity of any kind."""

    entity_uid: StrictStr | None = Field(
        None, description="UID of the data; differs from metadata.uid if it was adopted."
    )
    home_partition: int | None = Field(None, description="Partition that stores a plain entity.")


class QueueStatus(EntityManifestStatus):
    """The observed state of a queue."""

    max_size_in_megabytes_total: int | None = Field(None, description="Per partition × partitions.")


class TopicStatus(QueueStatus):
    """The observed state of a topic."""

    subscription_count: int | None = Field(None, description="Number of subscriptions.")


class SubscriptionStatus(EntityManifestStatus):
    """The observed state of a subscription."""


class EntityManifest(ManifestModel):
    """Base of the manifests of entities; a kind has its own `spec`."""

    KIND: ClassVar[str]
    ENTITY_KIND: ClassVar[EntityKind]

    kind: Any
    metadata: Metadata
    spec: Any
    api_version: Literal["bendybus.io/v1alpha1"] = API_VERSION

    @property
    def name(self) -> str:
        """The name on the bus; of a subscription, within its topic."""
        return self.spec.entity_name or self.metadata.name

    @property
    def entity_name(self) -> str:
        """The name as an entity of the bus."""
        return self.name

    @property
    def topic_name(self) -> str:
        """Of a subscription: the name of its topic."""
        return str(self.spec.topic_name)

    @property
    def has_rules(self) -> bool:
        """Whether it says which rules there are: no client changes them then."""
        return getattr(self.spec, "rules", None) is not None

    def left_out(self) -> tuple[str, ...]:
        """Return the fields of the description that it leaves to clients."""
        return tuple(
            each.name
            for each in entity_settings.BY_KIND[self.ENTITY_KIND]
            if not each.is_declared or (each.type is SettingType.RULES and not self.has_rules)
        )

    def check_name(self) -> None:
        """Raise InvalidArgument, with the field's name here, unless the name can be a new one."""
        entity.check_new_name(self.entity_name, self.ENTITY_KIND)


# mypy cannot read the table that a spec is made of.
class Queue(EntityManifest):
    """A queue of a bus."""

    ENTITY_KIND: ClassVar[EntityKind] = EntityKind.QUEUE
    KIND: ClassVar[str] = KINDS[ENTITY_KIND]

    kind: Literal["Queue"] = "Queue"
    spec: SPECS[EntityKind.QUEUE] = Field(  # type: ignore[valid-type]
        default_factory=SPECS[ENTITY_KIND], description="Desired state of the queue."
    )
    status: QueueStatus | None = Field(None, description="Observed state.")


class Topic(EntityManifest):
    """A topic of a bus: what is sent to it is received from its subscriptions."""

    ENTITY_KIND: ClassVar[EntityKind] = EntityKind.TOPIC
    KIND: ClassVar[str] = KINDS[ENTITY_KIND]

    kind: Literal["Topic"] = "Topic"
    spec: SPECS[EntityKind.TOPIC] = Field(  # type: ignore[valid-type]
        default_factory=SPECS[ENTITY_KIND], description="Desired state of the topic."
    )
    status: TopicStatus | None = Field(None, description="Observed state.")


class Subscription(EntityManifest):
    """A subscription of a topic: it gets a copy of each message that its rules select."""

    ENTITY_KIND: ClassVar[EntityKind] = EntityKind.SUBSCRIPTION
    KIND: ClassVar[str] = KINDS[ENTITY_KIND]

    kind: Literal["Subscription"] = "Subscription"
    spec: SPECS[EntityKind.SUBSCRIPTION] = Field(  # type: ignore[valid-type]
        description="Desired state of the subscription."
    )
    status: SubscriptionStatus | None = Field(None, description="Observed state.")

    @property
    def entity_name(self) -> str:
        """The name as an entity: TOPIC/Subscriptions/NAME."""
        return subscription_name.compose(self.topic_name, self.name)

    def check_name(self) -> None:
        """Raise InvalidArgument, with the field's name here, unless the name can be a new one."""
        try:
            entity.check_new_name(self.topic_name, EntityKind.TOPIC)
        except InvalidArgument as error:
            raise error.named("topicName") from error
        try:
            subscription_name.check(self.name)
        except InvalidArgument as error:
            raise error.named("entityName") from error


def check_rules(
    manifest: EntityManifest, known: Sequence[Rule] = (), *, compiled_max: int | None = None
) -> None:
    """Raise InvalidArgument or QuotaExceeded for the first rule that no subscription can have.

    It compiles those that differ from `known`, which takes milliseconds for each; of more than
    `compiled_max`, only the values are checked.
    """
    specs = getattr(manifest.spec, "rules", None) or ()
    wanted = [rule_manifest.to_rule(each) for each in specs]
    rule_set.check_bounds(wanted)
    checked = {each.name: each for each in known}
    new = [(at, each) for at, each in enumerate(wanted) if checked.get(each.name) != each]
    compiles = compiled_max is None or len(new) <= compiled_max
    for number, each in new:
        try:
            if compiles:
                rule.check(each, partitioned=False)
            else:
                rule.check_values(each)
        except InvalidArgument as error:
            field = _RULE_FIELDS.get(error.field, error.field)
            raise error.named(f"rules[{number}].{field}") from error


def to_description(manifest: EntityManifest) -> Description:
    """Return the domain's description of an entity; not validated yet."""
    kind, spec = manifest.ENTITY_KIND, manifest.spec
    given = (
        (each, getattr(spec, each.attribute))
        for each in entity_settings.BY_KIND[kind]
        if each.is_declared
    )
    return entity_settings.TYPES[kind](
        **{each.name: _value(each, value) for each, value in given if value is not None}
    )


def _value(setting: Setting, value: Any) -> Any:
    """Return a value of a manifest as descriptions have it."""
    match setting.type:
        case SettingType.DURATION:
            return setting.from_text(value)
        case SettingType.STATUS:
            return EntityStatus(value)
        case SettingType.RULES:
            return tuple(map(rule_manifest.to_rule, value))
    return value
