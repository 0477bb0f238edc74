"""Plans the changes from manifests to a bus, and executes them. Planning is deterministic."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Protocol, TypeVar

from bendybus.crds.bundling import Bundle, NamespaceSettings, QueueWish
from bendybus.domain import errors, immutable_fields, lifecycle, queue_description
from bendybus.domain.errors import BusError
from bendybus.domain.lifecycle import EntityAction, EntityState
from bendybus.domain.queue_description import QueueDescription
from bendybus.v1 import management_pb2 as pb
from bendybus.wire import entities

T = TypeVar("T")
_RETRY_S: Final = 0.25


class Change(StrEnum):
    """What happens to a queue."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class Step:
    """One queue and what becomes of it; `wish` is None for one that no manifest declares."""

    change: Change
    name: str
    wish: QueueWish | None = None
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """A step that was done; `unreached`: partitions that will follow later."""

    step: Step
    unreached: tuple[int, ...] = ()


class Bus(Protocol):
    """What applying needs of a bus; `management.Management` is one."""

    def queues(self, *, runtime: bool, orphaned: bool = False) -> list[pb.Queue]:
        """Return all queues; orphaned ones only if asked for."""

    def create(self, name: str, wanted: QueueDescription, *, uid: str) -> pb.CreateQueueResponse:
        """Make a queue."""

    def update(
        self, name: str, wanted: QueueDescription, *, if_generation: int
    ) -> pb.UpdateQueueResponse:
        """Change a queue."""


def plan(bundle: Bundle, existing: Sequence[pb.Queue]) -> list[Step]:
    """Return the steps from `existing` to the manifests.

    Queues that a manifest made and none declares any more are kept, and said to be; orphans are
    without an owner, and a manifest does not take one over by its name alone.
    Raises BusError for the first change that can never be made; then nothing is done.
    """
    steps: list[Step] = []
    unclaimed = {queue.name.lower(): queue for queue in existing}
    for wish in bundle.queues:
        found = unclaimed.pop(wish.name.lower(), None)
        steps.append(_step(wish, found, bundle.namespace))
    for queue in unclaimed.values():
        if queue.origin == pb.ENTITY_ORIGIN_MANIFEST and not queue.orphaned:
            steps.append(Step(Change.KEPT, queue.name))
    return steps


def _step(wish: QueueWish, found: pb.Queue | None, namespace: NamespaceSettings) -> Step:
    if found is None:
        return Step(Change.CREATED, wish.name, wish)
    if found.orphaned:
        lifecycle.after(EntityState.ORPHANED, EntityAction.CREATE, found.name, facts={})
    current = entities.description_from_proto(found.description)
    wanted = queue_description.settled(
        wish.description, tier=namespace.tier, partition_count=namespace.partition_count
    )
    immutable_fields.check_queue(found.name, current, wanted)
    if found.origin != pb.ENTITY_ORIGIN_MANIFEST:
        raise errors.EntityAlreadyExists(
            f"{wish.source}: queue {found.name!r} was created by an administration call, not by a "
            "manifest. Choose another name, or delete that queue first."
        )
    change = Change.UNCHANGED if current == wanted else Change.UPDATED
    return Step(change, found.name, wish, found.generation)


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
    steps = plan(bundle, patience.call(lambda: bus.queues(runtime=False, orphaned=True)))
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
                planned = plan(bundle, bus.queues(runtime=False, orphaned=True))
                now = next((each for each in planned if each.name == step.name), now)
                if now.change is Change.UNCHANGED:
                    # Recorded, but not on every partition: only another call tells when it is.
                    now = replace(now, change=Change.UPDATED)
            raise

    return patience.call(attempt)


def _do(bus: Bus, step: Step) -> Outcome:
    answer: pb.CreateQueueResponse | pb.UpdateQueueResponse
    if step.wish is None or step.change is Change.UNCHANGED:
        return Outcome(step)
    wanted = step.wish.description
    if step.change is Change.CREATED:
        answer = bus.create(step.name, wanted, uid=step.wish.uid)
    else:
        answer = bus.update(step.name, wanted, if_generation=step.generation)
    return Outcome(step, tuple(each.partition for each in answer.outcomes if not each.done))
