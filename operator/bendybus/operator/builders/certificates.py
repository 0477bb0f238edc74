"""What certificates a bus needs: names and identities; and cert-manager's objects for them."""

from dataclasses import dataclass
from typing import Final

from bendybus.operator.builders import frontend, partitions
from bendybus.operator.builders.context import Context, Manifest, metadata
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.names import ObjectKey

CERT_MANAGER: Final = "cert-manager.io/v1"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A certificate: who it is for, under which names and identity."""

    role: str
    secret: str
    dns_names: tuple[str, ...]
    uri: str
    ip_addresses: tuple[str, ...] = ()


def secrets(bus: ObjectKey) -> tuple[tuple[str, str], ...]:
    """Return (role, Secret) of the certificates of a bus."""
    return (
        (partitions.ROLE, names.partition_tls(bus)),
        (frontend.ROLE, names.frontend_tls(bus)),
    )


def wanted(context: Context) -> tuple[Wanted, Wanted]:
    """Return the certificates of partitions and front ends."""
    bus = context.bus
    set_name = names.partition_set(bus)
    pods = f"*.{set_name}.{bus.namespace}.svc"
    identity = names.bus_identity(bus)
    return (
        Wanted(
            partitions.ROLE,
            names.partition_tls(bus),
            (pods, f"{pods}.cluster.local"),
            f"{identity}/{partitions.ROLE}",
        ),
        Wanted(
            frontend.ROLE,
            names.frontend_tls(bus),
            frontend.host_names(context),
            f"{identity}/{frontend.ROLE}",
            (frontend.LOOPBACK,),
        ),
    )


def issuer(context: Context) -> tuple[str, str]:
    """Return kind and name of the issuer of a bus's certificates."""
    if context.issuer_name:
        return context.issuer_kind, context.issuer_name
    return "Issuer", names.root(context.bus)


def cert_manager(context: Context, certificate: Wanted) -> Manifest:
    """Return the Certificate by which cert-manager fills and renews a Secret."""
    kind, name = issuer(context)
    made = metadata(context, certificate.secret, certificate.role)
    return {
        "apiVersion": CERT_MANAGER,
        "kind": "Certificate",
        "metadata": made,
        "spec": {
            "secretName": certificate.secret,
            # By its labels the operator sees that it was filled.
            "secretTemplate": {"labels": made["labels"]},
            "issuerRef": {"group": "cert-manager.io", "kind": kind, "name": name},
            "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
            "usages": ["digital signature", "server auth", "client auth"],
            "dnsNames": list(certificate.dns_names),
            "uris": [certificate.uri],
            "ipAddresses": list(certificate.ip_addresses),
        },
    }


def root(context: Context) -> list[Manifest]:
    """Return cert-manager's objects for the bus's own root, which signs for this bus only.

    Its Secret outlives them, as cert-manager leaves it: a bus that comes back has the same root.
    """
    bus = context.bus
    name, bootstrap = names.root(bus), names.self_signed(bus)
    of_root = {
        "isCA": True,
        # Told apart from other roots by it; a common name has 64 characters at most.
        "commonName": f"bendybus-{bus.namespace}-{bus.name}"[:64],
        "secretName": name,
        "secretTemplate": {"labels": names.bus_labels(bus)},
        "duration": "87600h",
        # A new key would make every certificate that is out there void at once.
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Never"},
        "issuerRef": {"group": "cert-manager.io", "kind": "Issuer", "name": bootstrap},
    }
    made: tuple[tuple[str, str, Manifest], ...] = (
        ("Issuer", bootstrap, {"selfSigned": {}}),
        ("Certificate", name, of_root),
        ("Issuer", name, {"ca": {"secretName": name}}),
    )
    return [
        {
            "apiVersion": CERT_MANAGER,
            "kind": kind,
            "metadata": metadata(context, each),
            "spec": spec,
        }
        for kind, each, spec in made
    ]
