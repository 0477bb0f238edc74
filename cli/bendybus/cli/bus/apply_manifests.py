"""Plans the changes from manifests to a bus, and executes them. Planning is deterministic."""

import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Protocol, TypeVar

from bendybus.cli.bus.manifest_entities import Existing
from bendybus.crds.bundle import Bundle, EntityWish, NamespaceSettings
from bendybus.domain import (
    descriptions,
    errors,
    forwarding,
    immutable_fields,
    lifecycle,
    subscription_name,
)
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import BusError
from bendybus.domain.lifecycle import EntityAction, EntityState
from bendybus.v1 import management_pb2 as pb

T = TypeVar("T")
_RETRY_S: Final = 0.25


class Change(StrEnum):
    """What happens to an entity."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class Step:
    """One entity and what becomes of it; `wish` is None for one that no manifest declares."""

    change: Change
    kind: EntityKind
    name: str
    wish: EntityWish | None = None
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """A step that was done; `unreached`: partitions that will follow later."""

    step: Step
    unreached: tuple[int, ...] = ()


class Bus(Protocol):
    """What applying needs of a bus; `manifest_entities.ManifestEntities` is one."""

    def all(self, wishes: Sequence[EntityWish]) -> list[Existing]:
        """Return every entity, orphaned ones, too; rules of those that `wishes` have some of."""

    def create(self, wish: EntityWish) -> Sequence[pb.PartitionOutcome]:
        """Make an entity."""

    def update(self, wish: EntityWish, *, if_generation: int) -> Sequence[pb.PartitionOutcome]:
        """Change an entity."""


def plan(bundle: Bundle, existing: Sequence[Existing]) -> list[Step]:
    """Return the steps from `existing` to the manifests, in the order to do them.

    Entities that a manifest made and none declares any more are kept, and said to be; orphans are
    without an owner, and a manifest does not take one over by its name alone.
    Raises BusError for the first change that can never be made; then nothing is done.
    """
    steps: list[Step] = []
    unclaimed = {entity.name.lower(): entity for entity in existing}
    known = {each.name.lower() for each in existing if each.kind is EntityKind.TOPIC}
    known |= {wish.name.lower() for wish in bundle.entities if wish.kind is EntityKind.TOPIC}
    ready = {each.name.lower() for each in existing}
    for wish in bundle.entities:
        _check_topic(wish, known)
        _check_mutual(wish, ready, bundle)
        ready.add(wish.name.lower())
        found = unclaimed.pop(wish.name.lower(), None)
        steps.append(_step(wish, found, bundle.namespace))
    for entity in unclaimed.values():
        if entity.has_manifest and not entity.orphaned:
            steps.append(Step(Change.KEPT, entity.kind, entity.name))
    return steps


def _check_topic(wish: EntityWish, known: Container[str]) -> None:
    parts = subscription_name.split(wish.name) if wish.kind is EntityKind.SUBSCRIPTION else None
    if parts is not None and parts[0].lower() not in known:
        raise errors.EntityNotFound(
            f"{wish.source}: topic {parts[0]!r} does not exist. Add its manifest, or correct "
            "spec.topicName."
        )


def _check_mutual(wish: EntityWish, ready: Container[str], bundle: Bundle) -> None:
    """Raise InvalidOperation for entities that each need the other to be created first."""
    if wish.name.lower() in ready:
        return
    later = {each.name.lower() for each in bundle.entities}
    for name in forwarding.destinations_of(wish.description):
        if name not in ready and name in later:
            raise errors.InvalidOperation(
                f"{wish.source}: {wish.kind} {wish.name!r} forwards to {name!r}, which forwards "
                "back to it, directly or not: neither can be created first. Apply one of them "
                "without spec.forwardDeadLetteredMessagesTo, then with it."
            )


def _step(wish: EntityWish, found: Existing | None, namespace: NamespaceSettings) -> Step:
    tier, count = namespace.tier, namespace.partition_count
    if found is None:
        descriptions.check_new(wish.description, tier=tier, partition_count=count)
        return Step(Change.CREATED, wish.kind, wish.name, wish)
    if found.kind is not wish.kind:
        raise errors.EntityAlreadyExists(
            f"{wish.source}: {found.name!r} is the name of a {found.kind} on this bus. Choose "
            "another name."
        )
    if found.orphaned:
        lifecycle.after(
            EntityState.ORPHANED, EntityAction.CREATE, found.name, facts={}, kind=found.kind
        )
    wanted = descriptions.settled(
        wish.description, tier=tier, partition_count=count, current=found.description
    )
    kept = {field: getattr(found.description, field) for field in wish.left_out}
    wanted = descriptions.merged(wanted, kept)
    immutable_fields.check_entity(found.name, found.description, wanted)
    descriptions.check_new(wanted, tier=tier, partition_count=count, current=found.description)
    if not found.has_manifest:
        raise errors.EntityAlreadyExists(
            f"{wish.source}: {found.kind} {found.name!r} was created by an administration call, "
            f"not by a manifest. Choose another name, or delete that {found.kind} first."
        )
    same = found.description == wanted and found.manifest_rules == wish.has_rules
    change = Change.UNCHANGED if same else Change.UPDATED
    return Step(change, wish.kind, found.name, wish, found.generation)


class Patience:
    """Repeats calls that may succeed later, until a time is over."""

    def __init__(
        self,
        patience_s: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._monotonic = monotonic
        self._sleep = sleep
        self._over_at = monotonic() + patience_s

    def call(self, function: Callable[[], T]) -> T:
        """Return what `function` returns. Raises its error when it is final or time is over."""
        while True:
            try:
                return function()
            except BusError as error:
                if not error.retryable or self._monotonic() >= self._over_at:
                    raise
                self._sleep(max(_RETRY_S, error.retry_after_ms / 1_000))


def apply(bus: Bus, bundle: Bundle, patience: Patience) -> list[Outcome]:
    """Apply the manifests to the bus.

    Safe to repeat as a whole. Raises BusError when a change is refused or patience is over.
    """
    steps = plan(bundle, patience.call(lambda: bus.all(bundle.entities)))
    return [_persist(bus, step, bundle, patience) for step in steps]


def _persist(bus: Bus, step: Step, bundle: Bundle, patience: Patience) -> Outcome:
    """Execute a step. A step that failed half-way is planned again: it may be done already."""
    now = step

    def attempt() -> Outcome:
        nonlocal now
        try:
            return replace(_do(bus, now), step=step)
        except BusError as error:
            if error.retryable:
                planned = plan(bundle, bus.all(bundle.entities))
                now = next((each for each in planned if each.name == step.name), now)
                if now.change is Change.UNCHANGED:
                    # Recorded, but not on every partition: only another call tells when it is.
                    now = replace(now, change=Change.UPDATED)
            raise

    return patience.call(attempt)


def _do(bus: Bus, step: Step) -> Outcome:
    if step.wish is None or step.change is Change.UNCHANGED:
        return Outcome(step)
    if step.change is Change.CREATED:
        answer = bus.create(step.wish)
    else:
        answer = bus.update(step.wish, if_generation=step.generation)
    return Outcome(step, tuple(each.partition for each in answer if not each.done))
