"""The certificate authority of one bus. Deterministic; the time is passed in.

Each bus has a root of its own: what is signed for one bus, whatever names its manifest requests, is
trusted by the processes and clients of that bus only. The operator's root signs nothing of a bus;
partitions trust it beside their own for the operator's calls. A bus whose certificates are by
another root moves to its own by `root_rotation`.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from bendybus.operator.certificates import bundles, certificate_authority
from bendybus.operator.certificates.certificate_authority import Authority
from bendybus.operator.certificates.root_rotation import RootRotation, outlasts_rotation


@dataclass(frozen=True, slots=True)
class BusAuthority:
    """The root of a bus, and how far the bus has moved to it."""

    own: Authority
    rotation: RootRotation

    @property
    def trust(self) -> str:
        """What the processes and clients of the bus trust, PEM."""
        return bundles.joined(self.own.bundle, self.rotation.former)

    @classmethod
    def from_files(cls, files: Mapping[str, str]) -> "BusAuthority":
        """Return what a Secret's files hold. Raises KeyError, ValueError, TypeError."""
        return cls(Authority.from_files(files), RootRotation.from_files(files))

    def to_files(self) -> dict[str, str]:
        """Return the files of its Secret."""
        return self.own.to_files() | self.rotation.to_files()


def first(now: dt.datetime, former: str) -> BusAuthority:
    """Return a new root. `former`: what the bus's processes trust now, "" for a new bus."""
    own = certificate_authority.new_authority(now)
    return BusAuthority(own, RootRotation.begin(former, own.bundle, now))


def advanced(known: BusAuthority, now: dt.datetime) -> BusAuthority:
    """Return the authority one step further if it is due, else itself.

    Only for a bus whose processes and clients all trust the root as it is now.
    """
    if known.rotation.former:
        rotation = known.rotation.advanced(now, trusted=True, issued=True)
        return known if rotation is known.rotation else replace(known, rotation=rotation)
    own = certificate_authority.advanced(known.own, now)
    return known if own is known.own else replace(known, own=own)


def stays(files: Mapping[str, str], known: BusAuthority, now: dt.datetime) -> bool:
    """Whether a certificate by the former root stays: others do not trust the new root yet."""
    if known.rotation.signs:
        return False
    try:
        certificate = x509.load_pem_x509_certificate(files["tls.crt"].encode())
        key = serialization.load_pem_private_key(files["tls.key"].encode(), None)
    except (KeyError, ValueError, TypeError):
        return False
    if key.public_key() != certificate.public_key():
        return False
    if certificate_authority.is_of_future(files["tls.crt"], now):
        return False
    return outlasts_rotation(files["tls.crt"], now)
