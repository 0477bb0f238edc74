"""The certificate of a local bus, for clients that speak TLS whatever their connection string says.

DIR/tls/ca.crt    the authority, for clients to trust; its key is not kept
DIR/tls/tls.crt   the certificate, DIR/tls/tls.key its key (0600)

The administration clients of official SDKs use https also with `UseDevelopmentEmulator=true`. A
pair that is about to expire, or lacks a name, is replaced, and with it the authority: a program
that is to trust it reads `ca.crt` when it starts.
"""

import ipaddress
import os
import socket
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bendybus.cli.local import data_directory

_AUTHORITY: Final = "ca.crt"
_CERTIFICATE: Final = "tls.crt"
_KEY: Final = "tls.key"
# What clients accept at most, and what is left of it when it is replaced.
_LIFETIME: Final = timedelta(days=397)
_LEFT: Final = timedelta(days=30)
# Clocks of clients differ.
_EARLIER: Final = timedelta(hours=1)
_PEM: Final = serialization.Encoding.PEM


def ensure(directory: Path, more_names: Sequence[str] = ()) -> Path:
    """Return the folder of a certificate for this machine; make one unless there is a good one.

    `more_names`: other names, or addresses, that clients use. Raises OSError.
    """
    folder = directory / data_directory.TLS
    names = {"localhost", "127.0.0.1", "::1", socket.gethostname().lower(), *more_names}
    if not _is_good(folder, names):
        _make(folder, sorted(filter(None, names)))
    return folder


def _is_good(folder: Path, names: Iterable[str]) -> bool:
    try:
        found = x509.load_pem_x509_certificate((folder / _CERTIFICATE).read_bytes())
        held = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return False
    if not all((folder / name).exists() for name in (_AUTHORITY, _KEY)):
        return False
    known = {str(each.value) for each in held}
    return known.issuperset(names) and found.not_valid_after_utc - datetime.now(UTC) > _LEFT


def _make(folder: Path, names: Iterable[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # First, and written last: without a certificate, what was only half written is replaced.
    (folder / _CERTIFICATE).unlink(missing_ok=True)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = _named("Bendybus on this machine")
    authority = (
        _builder(issuer, issuer, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        _builder(_named("localhost"), issuer, key)
        .add_extension(
            x509.SubjectAlternativeName([_general_name(each) for each in names]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
    secret = key.private_bytes(
        _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write(folder / _KEY, secret, 0o600)
    _write(folder / _AUTHORITY, authority.public_bytes(_PEM), 0o644)
    _write(folder / _CERTIFICATE, certificate.public_bytes(_PEM), 0o644)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


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
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + _LIFETIME)
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a file as a whole, readable to those whom `mode` allows from the beginning."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
