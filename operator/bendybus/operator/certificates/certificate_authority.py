"""A certificate authority, for clusters without cert-manager. Deterministic but for new keys.

An authority is replaced long before it expires: first the next one is only trusted (its certificate
is added to the bundle in every `ca.crt`), a day later it signs, and the old one stays in the bundle
until it expires. So a process never receives a certificate that it does not trust.
"""

import datetime as dt
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS: Final = 3650
# All processes trust the next authority before it signs: files reach pods within minutes.
HANDOVER: Final = dt.timedelta(days=1)
# Clocks of nodes differ.
_BACKDATED: Final = dt.timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, both PEM."""

    certificate: str
    key: str

    def __repr__(self) -> str:
        return "Pair(…)"


@dataclass(frozen=True, slots=True)
class Authority:
    """The certificate that signs, the next one, and the bundle that is trusted."""

    current: Pair
    bundle: str
    upcoming: Pair | None = None

    @classmethod
    def from_files(cls, files: Mapping[str, str]) -> "Authority":
        """Return the authority that a Secret's files hold. Raises KeyError, ValueError."""
        upcoming = None
        if "next.crt" in files and "next.key" in files:
            upcoming = Pair(files["next.crt"], files["next.key"])
        made = cls(Pair(files["tls.crt"], files["tls.key"]), files["ca.crt"], upcoming)
        for pair in filter(None, (made.current, made.upcoming)):
            _read(pair.certificate)
            serialization.load_pem_private_key(pair.key.encode(), None)
        x509.load_pem_x509_certificates(made.bundle.encode())
        return made

    def to_files(self) -> dict[str, str]:
        """Return the files of its Secret."""
        files = {
            "tls.crt": self.current.certificate,
            "tls.key": self.current.key,
            "ca.crt": self.bundle,
        }
        if self.upcoming is not None:
            files |= {"next.crt": self.upcoming.certificate, "next.key": self.upcoming.key}
        return files


def new_authority(now: dt.datetime) -> Authority:
    """Return a first authority."""
    pair = _authority_pair(now)
    return Authority(pair, pair.certificate)


def advanced(authority: Authority, now: dt.datetime) -> Authority:
    """Return the authority one step further in its replacement if that is due, else itself."""
    upcoming, current = authority.upcoming, authority.current.certificate
    if upcoming is not None and not is_of_future(upcoming.certificate, now):
        if now - _read(upcoming.certificate).not_valid_before_utc < HANDOVER + _BACKDATED:
            return authority
        return replace(authority, current=upcoming, upcoming=None)
    if upcoming is None and not (ends_soon(current, now) or is_of_future(current, now)):
        bundle = _living(authority.bundle, now)
        return authority if bundle == authority.bundle else replace(authority, bundle=bundle)
    pair = _authority_pair(now)
    return replace(
        authority, upcoming=pair, bundle=pair.certificate + _living(authority.bundle, now)
    )


def issue(
    authority: Authority,
    *,
    name: str,
    dns_names: Sequence[str],
    uris: Sequence[str],
    ip_addresses: Sequence[str] = (),
    days: int,
    now: dt.datetime,
) -> Pair:
    """Return a certificate for servers and clients, signed by the current authority."""
    signer = _read(authority.current.certificate)
    signer_key = serialization.load_pem_private_key(authority.current.key.encode(), None)
    assert isinstance(signer_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    names: list[x509.GeneralName] = [x509.DNSName(each) for each in dns_names]
    names += [x509.UniformResourceIdentifier(each) for each in uris]
    names += [x509.IPAddress(ipaddress.ip_address(each)) for each in ip_addresses]
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        _builder(name, now, days)
        .issuer_name(signer.subject)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer_key.public_key()),
            critical=False,
        )
        .sign(signer_key, hashes.SHA256())
    )
    return Pair(_pem(certificate), _key_pem(key))


def is_current(
    files: Mapping[str, str],
    authority: Authority,
    *,
    dns_names: Sequence[str],
    uris: Sequence[str],
    now: dt.datetime,
) -> bool:
    """Whether a certificate in a Secret need not be reissued."""
    signer = _read(authority.current.certificate)
    try:
        certificate = _read(files["tls.crt"])
        key = serialization.load_pem_private_key(files["tls.key"].encode(), None)
        certificate.verify_directly_issued_by(signer)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (KeyError, ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    except x509.ExtensionNotFound:
        return False
    if key.public_key() != certificate.public_key():
        return False
    same = set(names.get_values_for_type(x509.DNSName)) == set(dns_names) and set(
        names.get_values_for_type(x509.UniformResourceIdentifier)
    ) == set(uris)
    return same and not (ends_soon(files["tls.crt"], now) or is_of_future(files["tls.crt"], now))


def names_of(pem: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the DNS names, URIs and addresses of a certificate. Raises ValueError."""
    try:
        found = _read(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound as error:
        raise ValueError("the certificate has no subject alternative names") from error
    return (
        tuple(found.get_values_for_type(x509.DNSName)),
        tuple(found.get_values_for_type(x509.UniformResourceIdentifier)),
        tuple(str(each) for each in found.get_values_for_type(x509.IPAddress)),
    )


def is_overdue(pem: str, now: dt.datetime) -> bool:
    """Whether the renewal of a certificate is long overdue."""
    certificate = _read(pem)
    end, start = certificate.not_valid_after_utc, certificate.not_valid_before_utc
    return end - now < (end - start) / 4


def ends_soon(pem: str, now: dt.datetime) -> bool:
    """Whether less than a third of a certificate's lifetime is left."""
    certificate = _read(pem)
    end, start = certificate.not_valid_after_utc, certificate.not_valid_before_utc
    return end - now < (end - start) / 3


def is_of_future(pem: str, now: dt.datetime) -> bool:
    """Whether a certificate is not valid yet: the clock was ahead when it was issued."""
    return _read(pem).not_valid_before_utc > now


def end_of(pem: str) -> dt.datetime:
    """Return when a certificate expires."""
    return _read(pem).not_valid_after_utc


def _authority_pair(now: dt.datetime) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    # Names of authorities must differ, since chains are built by name; also those of two buses
    # that were created in the same second.
    mark = x509.SubjectKeyIdentifier.from_public_key(key.public_key()).digest.hex()[:16]
    name = f"bendybus-ca-{now:%Y%m%d%H%M%S}-{mark}"
    certificate = (
        _builder(name, now, AUTHORITY_DAYS)
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(_pem(certificate), _key_pem(key))


def _builder(name: str, now: dt.datetime, days: int) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])]))
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + dt.timedelta(days=days))
    )


def _living(bundle: str, now: dt.datetime) -> str:
    """Return the bundle without expired certificates."""
    known = x509.load_pem_x509_certificates(bundle.encode())
    return "".join(_pem(each) for each in known if each.not_valid_after_utc > now)


def _read(pem: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem.encode())


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
