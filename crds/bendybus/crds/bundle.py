"""What the manifests of one bus ask for, without the models that read them.

Those need pydantic, which takes longer to import than most commands take to run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bendybus.domain import limits
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Description
from bendybus.domain.limits import Tier

# The bus of entities whose manifests name none, and of files without a BusNamespace.
LOCAL_BUS: Final = "default"
# The `kind` of an entity's manifest.
KINDS: Final[Mapping[EntityKind, str]] = {
    EntityKind.QUEUE: "Queue",
    EntityKind.TOPIC: "Topic",
    EntityKind.SUBSCRIPTION: "Subscription",
}


@dataclass(frozen=True, slots=True)
class NamespaceSettings:
    """The bus that entities are checked against."""

    name: str
    tier: Tier = Tier.STANDARD
    partition_count: int = limits.STANDARD_PARTITION_COUNT


@dataclass(frozen=True, slots=True)
class EntityWish:
    """An entity that a manifest asks for. `name`: of a subscription TOPIC/Subscriptions/NAME."""

    name: str
    uid: str
    description: Description
    source: str
    # Fields of the description that the manifest leaves to clients.
    left_out: tuple[str, ...] = ()

    @property
    def has_rules(self) -> bool:
        """Whether the manifest of a subscription says which rules there are."""
        return self.kind is EntityKind.SUBSCRIPTION and "rules" not in self.left_out

    @property
    def kind(self) -> EntityKind:
        """What it is."""
        return self.description.kind


@dataclass(frozen=True, slots=True)
class Bundle:
    """What the manifests of one bus ask for; topics before subscriptions, destinations before
    what forwards to them.

    `implicit`: no BusNamespace was among them. `default_rules`: a subscription whose rules are not
    declared any more gets the default rule; else it keeps those that it has. `takes_over`: an
    entity that a client created under one of the names becomes the manifest's; else it is refused.
    """

    namespace: NamespaceSettings
    implicit: bool
    entities: tuple[EntityWish, ...]
    default_rules: bool = False
    takes_over: bool = False
