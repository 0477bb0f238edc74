"""What the processes of a bus trust when cert-manager issues its certificates. Deterministic.

cert-manager owns the Secrets with certificates, including their `ca.crt`, and fills them in its own
time. So pods take `ca.crt` from a Secret of the operator's, which holds more: the bus's own root,
the former root, and for partitions the operator's root. A bus whose certificates are by another
issuer (up to v0.2 all buses shared one) moves to its own by `root_rotation`.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from bendybus.operator.certificates import bundles
from bendybus.operator.certificates.root_rotation import RootRotation

PARTITION: Final = "partition.crt"
FRONTEND: Final = "frontend.crt"


@dataclass(frozen=True, slots=True)
class IssuedTrust:
    """The issuer of a bus and how far the bus has moved to its root.

    `issuer`: KIND/NAME; `roots`: the root of its certificates, PEM, "" while it is not known.
    """

    issuer: str
    roots: str
    rotation: RootRotation

    @property
    def trust(self) -> str:
        """What front ends and clients trust, PEM; "" while nothing is known."""
        return bundles.joined(self.roots, self.rotation.former)

    @classmethod
    def from_files(cls, files: Mapping[str, str]) -> "IssuedTrust":
        """Return what a Secret's files hold. Raises KeyError, ValueError."""
        roots = bundles.joined(files["roots.crt"])
        return cls(files["issuer"], roots, RootRotation.from_files(files))

    def to_files(self, operators: str) -> dict[str, str]:
        """Return the files of its Secret; `operators`: the root of the operator's identity."""
        return {
            "issuer": self.issuer,
            "roots.crt": self.roots,
            PARTITION: bundles.joined(self.trust, operators),
            FRONTEND: self.trust,
            **self.rotation.to_files(),
        }


def first(issuer: str, roots: str, former: str, now: dt.datetime) -> IssuedTrust:
    """Return the first step. `former`: what the bus's processes trust now, "" for a new bus."""
    return IssuedTrust(issuer, roots, RootRotation.begin(former, roots, now))


def seen(known: IssuedTrust, roots: str, now: dt.datetime) -> IssuedTrust:
    """Return the trust given the roots that the issuer's certificates have now."""
    if not roots or roots == known.roots:
        return known
    # The root was recreated: certificates by the one before it are still in use.
    former = bundles.without(bundles.joined(known.rotation.former, known.roots), roots)
    return replace(known, roots=roots, rotation=replace(known.rotation, former=former, since=now))
