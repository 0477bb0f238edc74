"""Certificates for tests: authorities, and what they sign, written as a mounted Secret is."""

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

BUS: Final = "spiffe://bendybus/ns/default/bus/test"
OTHER_BUS: Final = "spiffe://bendybus/ns/default/bus/other"
OPERATOR: Final = "spiffe://bendybus/operator"
_PEM: Final = serialization.Encoding.PEM


class Authority:
    """A certificate authority."""

    def __init__(self, name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = _builder(self._name, self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.pem = made.sign(self._key, hashes.SHA256()).public_bytes(_PEM)

    def issue(
        self,
        *identities: str,
        names: Sequence[str] = ("localhost",),
        addresses: Sequence[str] = ("127.0.0.1",),
    ) -> tuple[bytes, bytes]:
        """Return (certificate, key) with URI, DNS and address names."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
        alternatives: list[x509.GeneralName] = [
            *map(x509.UniformResourceIdentifier, identities),
            *map(x509.DNSName, names),
            *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses),
        ]
        made = _builder(subject, self._name, key).add_extension(
            x509.SubjectAlternativeName(alternatives), critical=False
        )
        certificate = made.sign(self._key, hashes.SHA256()).public_bytes(_PEM)
        secret = key.private_bytes(
            _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return certificate, secret


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
    )


def mount(folder: Path, certificate: bytes, key: bytes, bundle: bytes) -> Path:
    """Write the files as a mounted Secret has them, again at once for all; return `folder`."""
    mount_files(folder, {"tls.crt": certificate, "tls.key": key, "ca.crt": bundle})
    return folder


def mount_files(folder: Path, files: dict[str, bytes]) -> None:
    """Write files as the kubelet does: into a new folder, then one link is swapped."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"..{datetime.now(UTC).timestamp()}"
    target.mkdir()
    for name, content in files.items():
        (target / name).write_bytes(content)
    swapped = folder / "..data_tmp"
    swapped.symlink_to(target.name)
    os.replace(swapped, folder / "..data")
    for name in files:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
