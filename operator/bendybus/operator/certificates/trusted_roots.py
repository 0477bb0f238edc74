"""What the processes of a bus trust: bundles of roots, and how they move to another root.

Deterministic; the time is passed in. The move takes steps, each at least a day apart (`HANDOVER`)
and only once its precondition holds, so that no process ever receives a certificate that it does
not trust:

    trusted   the new root is trusted beside the former; certificates stay as they are
    signing   certificates are signed by the new root; the former is still trusted
    done      the former root is no longer trusted

Used with the operator's own authority for the bus and with cert-manager alike. cert-manager owns
the Secrets with certificates, including their `ca.crt`, and fills them in its own time. So pods
take `ca.crt` from a Secret of the operator's, which holds more (`IssuedTrust`): the bus's own root,
the former root, and for partitions the operator's root. A bus whose certificates are by another
issuer (up to v0.2 all buses shared one) moves to its own in these steps.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from bendybus.operator.certificates.certificate_authority import HANDOVER, end_of

_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
PARTITION: Final = "partition.crt"
FRONTEND: Final = "frontend.crt"


@dataclass(frozen=True, slots=True)
class RootRotation:
    """How far a bus has moved to its root.

    `since`: when the step began; `former`: what was trusted before, PEM, "" when the move is done;
    `signs`: whether certificates are signed by the new root.
    """

    since: dt.datetime
    former: str = ""
    signs: bool = True

    @classmethod
    def begin(cls, former: str, root: str, now: dt.datetime) -> "RootRotation":
        """Return the first step to `root`. `former`: what is trusted now, "" for a new bus."""
        rest = without(former, root)
        return cls(now, rest, signs=not rest)

    @classmethod
    def from_files(cls, files: Mapping[str, str]) -> "RootRotation":
        """Return what a Secret's files hold. Raises KeyError, ValueError."""
        since = dt.datetime.strptime(files["since"], _TIME).replace(tzinfo=dt.UTC)
        return cls(since, joined(files["former.crt"]), files["signs"] == "yes")

    def to_files(self) -> dict[str, str]:
        """Return the files of its Secret."""
        return {
            "since": self.since.strftime(_TIME),
            "former.crt": self.former,
            "signs": "yes" if self.signs else "no",
        }

    def advanced(
        self, now: dt.datetime, *, trusted: bool, issued: bool, expiring: bool = False
    ) -> "RootRotation":
        """Return the next step if it is due, else itself.

        `trusted`: all processes trust the new root; `issued`: all certificates are signed by it;
        `expiring`: a certificate by the former root expires too soon to wait for `trusted`.
        """
        # If the clock was set back, the step takes longer.
        waited = now - self.since >= HANDOVER
        if self.former and not self.signs and (expiring or (trusted and waited)):
            return replace(self, signs=True, since=now)
        if self.former and self.signs and issued and waited:
            return replace(self, former="", since=now)
        return self


def outlasts_rotation(pem: str, now: dt.datetime) -> bool:
    """Whether a certificate is valid until a rotation that begins now is done."""
    return end_of(pem) - now > 2 * HANDOVER


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
        return joined(self.roots, self.rotation.former)

    @classmethod
    def from_files(cls, files: Mapping[str, str]) -> "IssuedTrust":
        """Return what a Secret's files hold. Raises KeyError, ValueError."""
        roots = joined(files["roots.crt"])
        return cls(files["issuer"], roots, RootRotation.from_files(files))

    def to_files(self, operators: str) -> dict[str, str]:
        """Return the files of its Secret; `operators`: the root of the operator's identity."""
        return {
            "issuer": self.issuer,
            "roots.crt": self.roots,
            PARTITION: joined(self.trust, operators),
            FRONTEND: self.trust,
            **self.rotation.to_files(),
        }


def first_trust(issuer: str, roots: str, former: str, now: dt.datetime) -> IssuedTrust:
    """Return the first step. `former`: what the bus's processes trust now, "" for a new bus."""
    return IssuedTrust(issuer, roots, RootRotation.begin(former, roots, now))


def seen_trust(known: IssuedTrust, roots: str, now: dt.datetime) -> IssuedTrust:
    """Return the trust given the roots that the issuer's certificates have now."""
    if not roots or roots == known.roots:
        return known
    # The root was recreated: certificates by the one before it are still in use.
    former = without(joined(known.rotation.former, known.roots), roots)
    return replace(known, roots=roots, rotation=replace(known.rotation, former=former, since=now))


def joined(*bundles: str) -> str:
    """Return the certificates of several bundles, each once. Raises ValueError."""
    found: dict[str, None] = {}
    for bundle in filter(None, bundles):
        for each in x509.load_pem_x509_certificates(bundle.encode()):
            found[each.public_bytes(Encoding.PEM).decode()] = None
    return "".join(found)


def without(bundle: str, roots: str) -> str:
    """Return a bundle without some certificates; "" if either cannot be read."""
    try:
        known = joined(roots)
        found = x509.load_pem_x509_certificates(bundle.encode()) if bundle else []
    except ValueError:
        return ""
    each_pem = [each.public_bytes(Encoding.PEM).decode() for each in found]
    return joined(*(pem for pem in each_pem if pem not in known))


def readable(bundle: str) -> str:
    """Return a bundle in canonical form, "" if it cannot be read."""
    try:
        return joined(bundle)
    except ValueError:
        return ""
