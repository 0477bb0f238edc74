"""Bundles of certificates: several PEM certificates in one text."""

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding


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
