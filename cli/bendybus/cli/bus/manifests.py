"""Manifests on the command line: read, planned as changes of a bus, and executed.

They are files, folders, and `-` for standard input. Planning is deterministic. The models of
manifests are imported where manifests are read, and only there: pydantic takes longer than most
commands.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from bendybus.cli.bus import management
from bendybus.cli.bus.management import Management
from bendybus.cli.errors import CliError, UsageError
from bendybus.crds.bundle import KINDS, Bundle, EntityWish, NamespaceSettings
from bendybus.crds.errors import ManifestError
from bendybus.domain import (
    descriptions,
    entity_settings,
    errors,
    forwarding,
    lifecycle,
    subscription_name,
)
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Description
from bendybus.domain.errors import BusError
from bendybus.domain.lifecycle import EntityAction, EntityState
from bendybus.v1 import management_pb2 as pb
from bendybus.wire import entities

STDIN: Final = Path("-")
T = TypeVar("T")
_RETRY_S: Final = 0.25
_ANY_GENERATION: Final = 0
_MANIFEST: Final = pb.ENTITY_ORIGIN_MANIFEST


@contextmanager
def readable(files: Sequence[Path]) -> Iterator[list[Path]]:
    """Give files that exist as long as the block: what stdin has is written into one."""
    if STDIN not in files:
        yield list(files)
        return
    if files.count(STDIN) > 1:
        raise UsageError("--file -: standard input can be read only once.")
    with tempfile.TemporaryDirectory(prefix="bendybus-") as folder:
        path = Path(folder) / "stdin.yaml"
        path.write_bytes(sys.stdin.buffer.read())
        try:
            yield [path if file == STDIN else file for file in files]
        except ManifestError as error:
            # The user named no such file.
            raise ManifestError(
                *(
                    replace(problem, source=problem.source.replace(str(path), "stdin", 1))
                    for problem in error.problems
                )
            ) from error


def load(files: Sequence[Path], *, running: NamespaceSettings | None = None) -> Bundle:
    """Return the one bus that manifests describe. Raises ManifestError."""
    from bendybus.crds import bundling, loading

    try:
        loaded = loading.load(files)
    except ManifestError:
        for each in files:
            _check_form(each)
        raise
    return bundling.bundle(loaded, running=running)


def _check_form(path: Path) -> None:
    """Raise UsageError for a file of another program, which other options take."""
    from bendybus.crds import forms
    from bendybus.crds.imports import reading

    with suppress(ManifestError, OSError):
        source = str(path)
        found = reading.recognised(source, reading.documents(source, path.read_bytes()))
        if found is not forms.Form.MANIFESTS:
            raise UsageError(
                f"--file: {path} has no manifests, but is a file of {forms.TITLES[found]}: "
                "bendybus up takes it with --config, bendybus apply with --from."
            )


def of_queues(names: Sequence[str], *, running: NamespaceSettings | None = None) -> Bundle:
    """Return a bus without manifests, with queues of these names. Raises ManifestError."""
    from bendybus.crds import bundling, loading, manifest

    head = {
        "apiVersion": manifest.API_VERSION,
        "kind": KINDS[EntityKind.QUEUE],
        # The name of an object of Kubernetes; that of the queue may have other characters.
        "metadata": {"name": "queue"},
    }
    found = [
        loading.parse(f"--queue {name}", {**head, "spec": {"entityName": name}}) for name in names
    ]
    for each in found:
        if not isinstance(each, loading.Loaded):
            raise ManifestError(*each)
    queues = [each for each in found if isinstance(each, loading.Loaded)]
    return bundling.bundle(queues, running=running)


def load_for(running: NamespaceSettings, files: Sequence[Path]) -> Bundle:
    """Return manifests, checked against a running bus. Raises CliError."""
    from bendybus.crds import bundling

    bundle = load(files, running=running)
    try:
        bundling.check_against(running, bundle)
    except BusError as error:
        raise CliError(error.message) from error
    return bundle


class Change(StrEnum):
    """What happens to an entity."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class Step:
    """One entity and what becomes of it; `wish` is None for one that no manifest declares.

    `drops_rules`: a subscription's rules were declared, and give way to the default rule.
    """

    change: Change
    kind: EntityKind
    name: str
    wish: EntityWish | None = None
    generation: int = 0
    drops_rules: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """A step that was done; `unreached`: partitions that will follow later."""

    step: Step
    unreached: tuple[int, ...] = ()


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


class Bus(Protocol):
    """What applying needs of a bus; `ManifestEntities` is one."""

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
    topics = {each.name.lower() for each in existing if each.kind is EntityKind.TOPIC}
    topics |= {wish.name.lower() for wish in bundle.entities if wish.kind is EntityKind.TOPIC}
    known = {*unclaimed, *(wish.name.lower() for wish in bundle.entities)}
    ready = {each.name.lower() for each in existing}
    for wish in bundle.entities:
        _check_topic(wish, topics)
        found = unclaimed.pop(wish.name.lower(), None)
        _check_destinations(wish, found, known)
        _check_mutual(wish, ready, bundle)
        ready.add(wish.name.lower())
        step = _step(wish, found, bundle)
        if found is not None and found.manifest_rules and not wish.has_rules:
            step = replace(step, drops_rules=bundle.default_rules)
        steps.append(step)
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


def _check_destinations(wish: EntityWish, found: Existing | None, known: Container[str]) -> None:
    """Raise EntityNotFound for a destination that neither the bus nor the manifests have.

    One that the entity has already is kept, as the bus keeps it.
    """
    kept = () if found is None else forwarding.destinations_of(found.description)
    for field in forwarding.FIELDS:
        name = getattr(wish.description, field)
        if name and name.lower() not in kept and name.lower() not in known:
            where = entity_settings.BY_NAME[field].manifest_name
            raise errors.EntityNotFound(
                f"{wish.source}: {wish.kind} {wish.name!r} forwards to {name!r}, which does not "
                f"exist. Declare it, too, or correct {where}."
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


def _step(wish: EntityWish, found: Existing | None, bundle: Bundle) -> Step:
    tier, count = bundle.namespace.tier, bundle.namespace.partition_count
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
    descriptions.check_unchanged(found.name, found.description, wanted)
    descriptions.check_new(wanted, tier=tier, partition_count=count, current=found.description)
    if not found.has_manifest and not bundle.takes_over:
        raise errors.EntityAlreadyExists(
            f"{wish.source}: {found.kind} {found.name!r} was created by an administration call, "
            f"not by a manifest. Choose another name, or delete that {found.kind} first."
        )
    owned = found.has_manifest and found.manifest_rules == wish.has_rules
    change = Change.UNCHANGED if owned and found.description == wanted else Change.UPDATED
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
    elif step.drops_rules:
        # First the default rule, which is what `wish` has, then the rules are the clients'. When
        # only the first was done, the rules are still declared ones: both are done again.
        bus.update(replace(step.wish, left_out=()), if_generation=step.generation)
        answer = bus.update(step.wish, if_generation=_ANY_GENERATION)
    else:
        answer = bus.update(step.wish, if_generation=step.generation)
    return Outcome(step, tuple(each.partition for each in answer if not each.done))


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
