"""What all kinds of manifest share: names, metadata, references, durations, status."""

import re
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictStr,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from bendybus.crds import bundle
from bendybus.domain import durations
from bendybus.domain.errors import InvalidArgument

GROUP: Final = "bendybus.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = "bendybus.io/v1alpha1"
DEFAULT_NAMESPACE: Final = bundle.LOCAL_BUS
QUANTITY_PATTERN: Final = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
LABEL_PATTERN: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"


class DeletionPolicy(StrEnum):
    """What becomes of the data when the manifest is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"


class AvailabilityStatus(StrEnum):
    """Whether every partition answers."""

    AVAILABLE = "Available"
    LIMITED = "Limited"


class ConditionStatus(StrEnum):
    """What is known of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


def _check_duration(text: Any) -> Any:
    """Return `text` if it is a duration as manifests write them."""
    if not isinstance(text, str) or not re.fullmatch(durations.ISO_PATTERN, text):
        raise ValueError(f"must be an ISO 8601 duration such as PT30S, PT5M or P7D (got {text!r}).")
    try:
        durations.parse("duration", text)
    except InvalidArgument as error:
        raise ValueError(error.message.removeprefix("duration: ")) from error
    return text


def _check_quantity(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{value!r} is not a quantity such as 10Gi, 500m or 2.")
    if not re.fullmatch(QUANTITY_PATTERN, str(value)):
        raise ValueError(f"{value!r} is not a quantity such as 10Gi, 500m or 2.")
    return value


Duration = Annotated[
    str,
    BeforeValidator(_check_duration),
    WithJsonSchema({"type": "string", "pattern": durations.ISO_PATTERN}),
]
Quantity = Annotated[
    int | str,
    AfterValidator(_check_quantity),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": QUANTITY_PATTERN}),
]
KubernetesName = Annotated[StrictStr, Field(min_length=1, max_length=253, pattern=LABEL_PATTERN)]


NamespaceName = Annotated[
    StrictStr,
    Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
]


class ManifestModel(BaseModel):
    """Base of everything inside a manifest: camelCase outside, unknown fields refused."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )


class Metadata(BaseModel):
    """The part of a Kubernetes object's metadata that matters here; the rest is kept aside."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore", frozen=True)

    name: KubernetesName
    namespace: KubernetesName = "default"
    uid: StrictStr = ""


class NamespaceRef(ManifestModel):
    """Which BusNamespace an entity belongs to."""

    name: KubernetesName = Field(DEFAULT_NAMESPACE, description="Name of the BusNamespace.")
    namespace: NamespaceName | None = Field(
        None, description="Kubernetes namespace of the BusNamespace; default: the entity's own."
    )


class Condition(ManifestModel):
    """One observation of the operator, for people and for `kubectl wait`."""

    type: StrictStr = Field(description="What is observed, such as Ready.")
    status: ConditionStatus = Field(description="True, False or Unknown.")
    reason: StrictStr = Field("", description="One word for programs, such as NameTaken.")
    message: StrictStr = Field("", description="One sentence for people.")
    last_transition_time: StrictStr = Field(
        "", description="When status changed last.", json_schema_extra={"format": "date-time"}
    )
    observed_generation: int = Field(0, ge=0, description="Last reconciled generation.")


class CountDetails(ManifestModel):
    """How many messages there are, per state, summed over the partitions that answer."""

    active_message_count: int = Field(0, description="Can be received now.")
    dead_letter_message_count: int = Field(0, description="In the dead-letter sub-queue.")
    scheduled_message_count: int = Field(0, description="Become active later.")
    deferred_message_count: int = Field(0, description="Set aside; received by number.")
    locked_message_count: int = Field(
        0, description="Of the active and deferred ones: held by a receiver now."
    )
    transfer_message_count: int = Field(
        0, description="Sent to other entities in transactions; wait to go there."
    )
    transfer_dead_letter_message_count: int = Field(0, description="Could not be forwarded.")


class Status(ManifestModel):
    """What the operator saw last; nobody else writes it."""

    conditions: list[Condition] = Field(
        default_factory=list,
        description="Observations, one per type.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    )
    observed_generation: int = Field(0, description="Generation that the status describes.")
    partitions: int | None = Field(None, description="How many partitions it is spread over.")
    availability_status: AvailabilityStatus | None = Field(
        None, description="Limited while a partition is unavailable."
    )
    count_details: CountDetails | None = Field(None, description="Messages per state.")
    size_in_bytes: int | None = Field(None, description="Bytes stored, over all partitions.")
