"""The volumes of a bus: whose data they hold, whether its manifest may use them, which grow.

Deterministic. Volume claims outlive their BusNamespace. They are annotated with the identity in
their files' headers: UID, tier and partition count of the namespace that wrote them. A BusNamespace
with another UID under the same name must choose what happens to them; with another partitioning it
cannot use them.

A claim can grow if its storage class allows it, and never shrink. The template in a StatefulSet
is fixed, so a StatefulSet with another size is recreated without deleting its pods.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

from bendybus.domain import descriptions
from bendybus.domain.errors import PartitioningImmutable
from bendybus.domain.limits import Tier
from bendybus.operator.decisions.manifests import BusView
from bendybus.operator.decisions.plan import ADOPT, PURGE
from bendybus.operator.decisions.reasons import Reason
from bendybus.operator.kubernetes import names

ADOPTED_BY_ANNOTATION = f"{names.GROUP}/adopted-by"
_FACTORS: Final[dict[str, Decimal]] = {
    "": Decimal(1),
    **{unit: Decimal(1000) ** -power for power, unit in enumerate(("m", "u", "n"), 1)},
    **{
        unit: Decimal(1000) ** power for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), 1)
    },
    **{unit + "i": Decimal(1024) ** n for n, unit in enumerate(("K", "M", "G", "T", "P", "E"), 1)},
}
_QUANTITY: Final = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([numkMGTPE]|[KMGTPE]i)?"
)


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity in the header of every file of the bus."""

    uid: str
    tier: Tier
    partition_count: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim of a bus of this name. `adopted_by`: UID of a later BusNamespace."""

    name: str
    identity: Identity
    adopted_by: str = ""


@dataclass(frozen=True, slots=True)
class DataDecision:
    """Which data a bus runs on.

    `identity` is None if nothing may run. `adopt` and `purge` name claims to annotate as this
    namespace's, or to delete, before anything runs. With a `reason` the manifest requests something
    impossible; what runs continues unchanged.
    """

    identity: Identity | None
    adopt: tuple[str, ...] = ()
    purge: tuple[str, ...] = ()
    reason: Reason | None = None
    message: str = field(default="")


def claim_of(body: Mapping[str, Any]) -> Claim | None:
    """Return the view of a PersistentVolumeClaim, None if it is not of a bus."""
    metadata = body["metadata"]
    annotations = metadata.get("annotations") or {}
    try:
        identity = Identity(
            annotations[names.UID_ANNOTATION],
            Tier(annotations[names.TIER_ANNOTATION]),
            int(annotations[names.COUNT_ANNOTATION]),
        )
    except (KeyError, ValueError):
        return None
    return Claim(metadata["name"], identity, annotations.get(ADOPTED_BY_ANNOTATION, ""))


def staying(claims: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the claims that are not being deleted."""
    return [body for body in claims if "deletionTimestamp" not in body["metadata"]]


def known(
    bus: BusView, claims: Iterable[Mapping[str, Any]], stateful_set: Mapping[str, Any] | None
) -> list[Claim]:
    """Return the claims of a bus; its StatefulSet counts as one before there are any.

    Claims that are being deleted are left out: pods wait until they are gone.
    """
    found = [claim for body in staying(claims) if (claim := claim_of(body)) is not None]
    if stateful_set is not None:
        owners = stateful_set["metadata"].get("ownerReferences") or []
        running = claim_of(stateful_set)
        if running is not None and any(owner["uid"] == bus.uid for owner in owners):
            found.append(Claim("", running.identity, adopted_by=bus.uid))
    return found


def decision(bus: BusView, claims: Iterable[Claim]) -> DataDecision:
    """Return what a bus may run on, given the claims of its name."""
    assert bus.manifest is not None
    fresh = Identity(bus.uid, bus.manifest.tier, bus.manifest.partition_count)
    known = list(claims)
    own = [claim for claim in known if bus.uid in (claim.identity.uid, claim.adopted_by)]
    foreign = [claim for claim in known if claim not in own]
    choice = bus.annotations.get(names.RETAINED_ANNOTATION)
    if own:
        # With own ones present: claims that could not be annotated the last time.
        adopt = [each.name for each in foreign if each.identity == own[0].identity]
        return _checked(bus, own[0].identity, tuple(adopt))
    if not foreign:
        return DataDecision(fresh)
    if choice == PURGE:
        return DataDecision(fresh, purge=tuple(claim.name for claim in foreign))
    if choice == ADOPT:
        identities = {claim.identity for claim in foreign}
        if len(identities) > 1:
            return DataDecision(
                None,
                reason=Reason.RETAINED_DATA,
                message="the retained volumes belong to several namespaces. Delete the claims "
                "that are not needed; to list them: kubectl get pvc -l "
                f"{names.BUS_LABEL}={bus.key.name}",
            )
        decision = _checked(bus, foreign[0].identity, tuple(claim.name for claim in foreign))
        return (
            decision
            if decision.reason is None
            else DataDecision(None, reason=decision.reason, message=decision.message)
        )
    return DataDecision(
        None,
        reason=Reason.RETAINED_DATA,
        message=f"{len(foreign)} volume(s) of an earlier BusNamespace {bus.key.name!r} are kept. "
        f"Annotate this one with {names.RETAINED_ANNOTATION}={ADOPT} to continue it, or ={PURGE} "
        "to delete them.",
    )


def _checked(bus: BusView, recorded: Identity, adopt: tuple[str, ...]) -> DataDecision:
    assert bus.manifest is not None
    try:
        descriptions.check_namespace_unchanged(
            bus.key.name,
            tier=recorded.tier,
            partition_count=recorded.partition_count,
            wanted_tier=bus.manifest.tier,
            wanted_count=bus.manifest.partition_count,
        )
    except PartitioningImmutable as error:
        return DataDecision(recorded, reason=Reason.PARTITIONING_IMMUTABLE, message=error.message)
    return DataDecision(recorded, adopt=adopt)


def amount(quantity: int | str) -> Decimal:
    """Return a quantity as a number; one that the API server took, also 1e3 and 5."""
    found = _QUANTITY.fullmatch(str(quantity))
    assert found is not None, quantity
    return Decimal(found[1]) * _FACTORS[found[2] or ""]


@dataclass(frozen=True, slots=True)
class Growth:
    """`claims` want more; `larger` have more than is asked for."""

    wanted: int | str
    claims: tuple[str, ...]
    larger: tuple[str, ...]

    def judged(self, decision: DataDecision, why: str) -> DataDecision:
        """Return the decision, with a reason if the size is impossible. `why`: of a rejection."""
        if decision.reason is not None:
            return decision
        if why:
            message = (
                f"the volumes cannot grow: {why}. Use a storage class with allowVolumeExpansion, "
                "or set spec.storage.size back."
            )
        elif self.larger:
            message = (
                "spec.storage.size is less than volumes have, and volumes cannot shrink. Set it "
                "back; to have smaller ones, make a BusNamespace of another name."
            )
        else:
            return decision
        return replace(decision, reason=Reason.STORAGE_NOT_EXPANDABLE, message=message)

    def template_size(self, stateful_set: Mapping[str, Any] | None, why: str) -> int | str:
        """Return the size for the StatefulSet's template: what it has, if volumes cannot follow."""
        sizes = _sizes(stateful_set)
        return sizes[0] if sizes and (why or self.larger) else self.wanted

    def differs(self, stateful_set: Mapping[str, Any], size: int | str) -> bool:
        """Whether a StatefulSet has another size in its template."""
        return any(amount(each) != amount(size) for each in _sizes(stateful_set))


def _sizes(stateful_set: Mapping[str, Any] | None) -> list[int | str]:
    templates = (stateful_set or {"spec": {}})["spec"].get("volumeClaimTemplates") or []
    return [each["spec"]["resources"]["requests"]["storage"] for each in templates]


def grown(wanted: int | str, claims: Iterable[Mapping[str, Any]]) -> Growth:
    """Return which claims differ from the size that the manifest asks for."""
    smaller, larger = [], []
    for claim in claims:
        size = amount(claim["spec"]["resources"]["requests"]["storage"])
        if size < amount(wanted):
            smaller.append(claim["metadata"]["name"])
        elif size > amount(wanted):
            larger.append(claim["metadata"]["name"])
    return Growth(wanted, tuple(smaller), tuple(larger))
