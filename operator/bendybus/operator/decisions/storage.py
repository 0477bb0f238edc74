"""Volumes that grow: which claims want more, and what cannot be. Pure.

A claim can grow if its storage class allows it, and never shrink. The template in a StatefulSet
is fixed, so a StatefulSet with another size is recreated without deleting its pods.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from bendybus.operator.decisions.data_identity import DataDecision
from bendybus.operator.decisions.reasons import Reason

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
