"""Entities as manifests change them on a running bus: one shape for every kind. Raises BusError."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bendybus.cli.bus import management
from bendybus.cli.bus.management import Management
from bendybus.crds.bundle import EntityWish
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Description
from bendybus.v1 import management_pb2 as pb
from bendybus.wire import entities

_MANIFEST: Final = pb.ENTITY_ORIGIN_MANIFEST


@dataclass(frozen=True, slots=True)
class Existing:
    """An entity of a bus. `name`: of a subscription TOPIC/Subscriptions/NAME."""

    name: str
    description: Description
    generation: int
    has_manifest: bool
    orphaned: bool
    # Of a subscription: its manifest has the rules.
    manifest_rules: bool = False

    @property
    def kind(self) -> EntityKind:
        """What it is."""
        return self.description.kind


class ManifestEntities:
    """The entities of one bus."""

    def __init__(self, bus: Management) -> None:
        self._bus = bus

    def all(self, wishes: Iterable[EntityWish]) -> list[Existing]:
        """Return every entity, orphaned ones, too; rules of those only that `wishes` have some of.

        Lists of subscriptions do not have the rules, which may be many.
        """
        with_rules = {wish.name.lower() for wish in wishes if wish.has_rules}
        found = []
        for each in self._bus.everything(runtime=False, orphaned=True):
            name = entities.name_of(each)
            if name.lower() in with_rules:
                each = self._bus.entity(EntityKind.SUBSCRIPTION, name, runtime=False)
            found.append(_existing(each, name))
        return found

    def create(self, wish: EntityWish) -> Sequence[pb.PartitionOutcome]:
        """Make an entity that belongs to a manifest; return what became of it per partition."""
        return self._call("Create", wish, uid=wish.uid)

    def update(self, wish: EntityWish, *, if_generation: int) -> Sequence[pb.PartitionOutcome]:
        """Update an entity to its manifest, unless it was changed since it was read."""
        return self._call("Update", wish, if_generation=if_generation)

    def _call(self, verb: str, wish: EntityWish, **fields: Any) -> Sequence[pb.PartitionOutcome]:
        description = entities.description_to_proto(wish.description)
        for field in wish.left_out:
            description.ClearField(field)
        request = management.request_of(
            verb, wish.kind, wish.name, description=description, origin=_MANIFEST, **fields
        )
        outcomes: Sequence[pb.PartitionOutcome] = self._bus.call(request).outcomes
        return outcomes


def _existing(proto: Any, name: str) -> Existing:
    return Existing(
        name,
        entities.description_from_proto(proto.description),
        proto.generation,
        proto.origin == _MANIFEST,
        proto.orphaned,
        getattr(proto, "manifest_rules", False),
    )
