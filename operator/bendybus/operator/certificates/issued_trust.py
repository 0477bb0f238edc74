"""Whom the processes of a bus trust when cert-manager issues its certificates. Pure; time is given.

cert-manager owns the Secrets with certificates, their `ca.crt` included, and fills them when it
likes. So pods take `ca.crt` from a Secret of the operator's, which holds more: the bus's own root,
whatever it had before, and for partitions the operator's root.

A bus whose certificates are by another issuer (up to v0.2 all buses shared one) goes over in steps,
each a day apart and only when what it needs has arrived:

    trusted   the new root is trusted beside the former; certificates stay as they are
    signing   certificates are by the new root; the former is trusted still
    alone     the former root is trusted no more
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from bendybus.operator.certificates.bus_authority import joined
from bendybus.operator.certificates.certificate_authority import HANDOVER

PARTITION: Final = "partition.crt"
FRONTEND: Final = "frontend.crt"
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class IssuedTrust:
    """How far a bus has gone over to an issuer.

    `issuer`: KIND/NAME; `roots`: what its certificates are by, PEM, "" while that is not known;
    `former`: what was trusted before, "" when that is over; `signs`: whether certificates are asked
    of it; `since`: when this step began.
    """

    issuer: str
    roots: str
    since: dt.datetime
    former: str = ""
    signs: bool = True

    @property
    def trust(self) -> str:
        """What front ends and clients trust, PEM; "" while nothing is known."""
        return joined(self.roots, self.former)

    @classmethod
    def from_files(cls, files: Mapping[str, str]) -> "IssuedTrust":
        """Return what a Secret's files hold. Raises KeyError, ValueError."""
        since = dt.datetime.strptime(files["since"], _TIME).replace(tzinfo=dt.UTC)
        roots, former = joined(files["roots.crt"]), joined(files["former.crt"])
        return cls(files["issuer"], roots, since, former, files["signs"] == "yes")

    def to_files(self, operators: str) -> dict[str, str]:
        """Return the files of its Secret; `operators`: the root of the operator's identity."""
        return {
            "issuer": self.issuer,
            "roots.crt": self.roots,
            "former.crt": self.former,
            "signs": "yes" if self.signs else "no",
            "since": self.since.strftime(_TIME),
            PARTITION: joined(self.trust, operators),
            FRONTEND: self.trust,
        }


def first(issuer: str, roots: str, former: str, now: dt.datetime) -> IssuedTrust:
    """Return the first step. `former`: what the bus's processes trust by now, "" for a new bus."""
    rest = without(former, roots)
    return IssuedTrust(issuer, roots, now, rest, signs=not rest)


def seen(known: IssuedTrust, roots: str, now: dt.datetime) -> IssuedTrust:
    """Return the trust after a look at what the issuer's certificates are by now."""
    if not roots or roots == known.roots:
        return known
    # A root that was made anew: certificates by the one before are out there still.
    former = without(joined(known.former, known.roots), roots)
    return replace(known, roots=roots, former=former, since=now)


def advanced(
    known: IssuedTrust, now: dt.datetime, *, arrived: bool, issued: bool, lasting: bool
) -> IssuedTrust:
    """Return what the trust is to be now: itself, or one step further.

    `arrived`: every pod takes its trust from the Secret; `issued`: both certificates are by the new
    root; `lasting`: certificates by the former one hold for a good while.
    """
    if not known.former or not known.roots:
        return known
    if not known.signs:
        # One that ends leaves no choice.
        due = not lasting or (arrived and now - known.since >= HANDOVER)
        return replace(known, signs=True, since=now) if due else known
    if issued and now - known.since >= HANDOVER:
        return replace(known, former="", since=now)
    return known


def without(bundle: str, roots: str) -> str:
    """Return a bundle without some certificates; what is unreadable is nothing."""
    try:
        known = joined(roots)
        found = x509.load_pem_x509_certificates(bundle.encode()) if bundle else []
    except ValueError:
        return ""
    each_pem = [each.public_bytes(Encoding.PEM).decode() for each in found]
    return joined(*(pem for pem in each_pem if pem not in known))


def readable(bundle: str) -> str:
    """Return a bundle as it is kept, "" if it is none."""
    try:
        return joined(bundle)
    except ValueError:
        return ""
