"""What the manifests of entities share: their fields' types, and their conversion to the domain.

A field has one type here, with its bounds and its description, whichever kinds have it.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field, StrictBool, StrictInt, StrictStr

from bendybus.crds import rule_manifest
from bendybus.crds.manifest import (
    DeletionPolicy,
    Duration,
    ManifestModel,
    Metadata,
    NamespaceRef,
    Status,
)
from bendybus.domain import descriptions, durations, entity, limits
from bendybus.domain.descriptions import Description
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_status import EntityStatus
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters import rule, rule_set
from bendybus.domain.filters.rule import Rule

ENTITY_NAME_PATTERN: Final = r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9_])?$"
EntityName = Annotated[StrictStr, Field(max_length=limits.ENTITY_NAME_CHARS_MAX)]

# Types of fields.
Bus = Annotated[NamespaceRef, Field(description="The bus it belongs to. Cannot change.")]
OptionalName = Annotated[
    EntityName | None,
    Field(
        min_length=1,
        description="Name on the bus, case-insensitive; default: metadata.name. Cannot change.",
        json_schema_extra={"pattern": ENTITY_NAME_PATTERN},
    ),
]
Partitioning = Annotated[
    StrictBool,
    Field(description="Whether it is spread over all partitions or stored in one. Cannot change."),
]
MessageSize = Annotated[
    StrictInt | None,
    Field(
        ge=1,
        le=limits.PREMIUM_MESSAGE_KB_MAX,
        description="Premium only; default 1024. Basic and Standard always allow 256.",
    ),
]
LockDuration = Annotated[
    Duration, Field(description="How long a received message stays locked: PT5S to PT5M.")
]
TimeToLive = Annotated[Duration, Field(description="Maximum time to live of messages.")]
DeliveryCount = Annotated[
    StrictInt,
    Field(
        ge=1,
        le=limits.MAX_DELIVERY_COUNT_MAX,
        description="Number of deliveries without settlement before a message is dead-lettered.",
    ),
]
DuplicateDetection = Annotated[
    StrictBool, Field(description="Drop messages with a known MessageId. Cannot change.")
]
DuplicateWindow = Annotated[
    Duration, Field(description="How long MessageIds are remembered: PT20S to P7D.")
]
Sessions = Annotated[
    StrictBool, Field(description="Receive messages by session, in order. Cannot change.")
]
DeadLetterExpired = Annotated[
    StrictBool, Field(description="Whether expired messages are dead-lettered or dropped.")
]
Forwarding = Annotated[
    EntityName | None, Field(description="Queue or topic that its messages go on to.")
]
DeadLetterForwarding = Annotated[
    EntityName | None, Field(description="Queue or topic that its dead letters go on to.")
]
UserMetadata = Annotated[
    StrictStr, Field(max_length=limits.USER_METADATA_CHARS_MAX, description="Free text.")
]
Deletion = Annotated[
    DeletionPolicy,
    Field(description="Whether messages are retained when the manifest is deleted."),
]

# Defaults that the API server writes into manifests.
LOCK_DURATION: Final = durations.render(limits.LOCK_DURATION_MS_DEFAULT)
DUPLICATE_WINDOW: Final = durations.render(limits.DUPLICATE_WINDOW_MS_DEFAULT)

# Names of fields of rules, where the domain's differ.
_RULE_FIELDS: Final = {"ruleName": "name"}
# Durations that may be without end.
_ENDLESS: Final = ("default_message_time_to_live_ms", "auto_delete_on_idle_ms")


class EntityManifestStatus(Status):
    """The observed state of an entity of any kind."""

    entity_uid: StrictStr | None = Field(
        None, description="UID of the data; differs from metadata.uid if it was adopted."
    )
    home_partition: int | None = Field(None, description="Partition that stores a plain entity.")


class EntityManifest(ManifestModel):
    """Base of the manifests of entities; a kind has its own `spec`."""

    KIND: ClassVar[str]
    ENTITY_KIND: ClassVar[EntityKind]

    kind: Any
    metadata: Metadata
    spec: Any

    @property
    @abstractmethod
    def entity_name(self) -> str:
        """The name as an entity of the bus."""

    @property
    def has_rules(self) -> bool:
        """Whether it says which rules there are: no client changes them then."""
        return getattr(self.spec, "rules", None) is not None

    def left_out(self) -> tuple[str, ...]:
        """Return the fields of the description that it leaves to clients."""
        with_rules = "rules" in descriptions.field_names(descriptions.TYPES[self.ENTITY_KIND])
        return ("rules",) if with_rules and not self.has_rules else ()

    def check_name(self) -> None:
        """Raise InvalidArgument, with the field's name here, unless the name can be a new one."""
        entity.check_new_name(self.entity_name, self.ENTITY_KIND)


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
    kind = descriptions.TYPES[manifest.ENTITY_KIND]
    values: dict[str, Any] = {}
    for field, manifest_name in descriptions.manifest_names(kind).items():
        value = getattr(manifest.spec, field.removesuffix("_ms"))
        if field.endswith("_ms"):
            value = durations.parse(manifest_name, value)
            if value is None and field not in _ENDLESS:
                value = limits.TIME_TO_LIVE_MS_MAX
        elif field == "status":
            value = EntityStatus(value)
        elif field == "rules" and value is not None:
            value = tuple(map(rule_manifest.to_rule, value))
        if value is not None or field.endswith("_ms"):
            values[field] = value
    return kind(**values)
