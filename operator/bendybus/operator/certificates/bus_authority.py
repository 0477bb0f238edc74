"""The certificate authority of one bus. Pure; time is passed in.

Each bus has a root of its own: what is signed for one bus, under whatever names its manifest asks
for, is trusted by that bus's processes and clients and by nobody else. The operator's root signs
nothing of a bus; partitions trust it beside their own for the operator's calls.

A bus from before (its certificates are by another root) goes over in steps, each a day apart, so
that no process ever meets a certificate that it does not trust:

    trusted   the new root is in every ca.crt beside the former; certificates stay as they are
    signing   certificates are by the new root; the former is trusted still
    alone     the former root is trusted no more
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from bendybus.operator.certificates import certificate_authority
from bendybus.operator.certificates.certificate_authority import HANDOVER, Authority

_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class BusAuthority:
    """The root of a bus, and how far the bus has gone over to it.

    `former`: what was trusted before, PEM, "" when that is over; `signs`: whether the root signs;
    `since`: when this step began.
    """

    own: Authority
    since: dt.datetime
    former: str = ""
    signs: bool = True

    @property
    def trust(self) -> str:
        """What the processes and clients of the bus trust, PEM."""
        return joined(self.own.bundle, self.former)

    @classmethod
    def from_files(cls, files: Mapping[str, str]) -> "BusAuthority":
        """Return what a Secret's files hold. Raises KeyError, ValueError, TypeError."""
        since = dt.datetime.strptime(files["since"], _TIME).replace(tzinfo=dt.UTC)
        former = files.get("former.crt", "")
        if former:
            x509.load_pem_x509_certificates(former.encode())
        return cls(Authority.from_files(files), since, former, files.get("signs") != "no")

    def to_files(self) -> dict[str, str]:
        """Return the files of its Secret."""
        # All of them always: what a Secret was created with is not removed by applying less.
        return self.own.to_files() | {
            "since": self.since.strftime(_TIME),
            "former.crt": self.former,
            "signs": "yes" if self.signs else "no",
        }


def first(now: dt.datetime, former: str) -> BusAuthority:
    """Return a new root. `former`: what the bus's processes trust by now, "" for a new bus."""
    try:
        former = joined(former) if former else ""
    except ValueError:
        former = ""
    return BusAuthority(certificate_authority.new_authority(now), now, former, signs=not former)


def advanced(known: BusAuthority, now: dt.datetime) -> BusAuthority:
    """Return what the authority is to be now: itself, or one step further."""
    if known.former:
        # Files reach pods within minutes of the step; a clock that went back waits longer.
        if now - known.since < HANDOVER:
            return known
        if not known.signs:
            return replace(known, signs=True, since=now)
        return replace(known, former="", since=now)
    own = certificate_authority.advanced(known.own, now)
    return known if own is known.own else replace(known, own=own)


def stays(files: Mapping[str, str], known: BusAuthority, now: dt.datetime) -> bool:
    """Whether a certificate by the former root is kept: others do not trust the new one yet."""
    if known.signs:
        return False
    try:
        certificate = x509.load_pem_x509_certificate(files["tls.crt"].encode())
        key = serialization.load_pem_private_key(files["tls.key"].encode(), None)
    except (KeyError, ValueError, TypeError):
        return False
    lasts = certificate.not_valid_after_utc - now > 2 * HANDOVER
    return lasts and key.public_key() == certificate.public_key()


def joined(*bundles: str) -> str:
    """Return the certificates of several bundles, each once. Raises ValueError."""
    found: dict[bytes, str] = {}
    for bundle in filter(None, bundles):
        for each in x509.load_pem_x509_certificates(bundle.encode()):
            pem = each.public_bytes(serialization.Encoding.PEM)
            found[pem] = pem.decode()
    return "".join(found.values())
