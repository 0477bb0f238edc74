"""What certificates a bus needs: names and identities; and cert-manager's objects for them."""

from dataclasses import dataclass

from bendybus.operator import names
from bendybus.operator.builders import frontend, partitions
from bendybus.operator.builders.context import Context, Manifest, metadata
from bendybus.operator.names import ObjectKey


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
    service, set_name = names.frontend(bus), names.partition_set(bus)
    domains = (
        "",
        f".{bus.namespace}",
        f".{bus.namespace}.svc",
        f".{bus.namespace}.svc.cluster.local",
    )
    in_cluster = tuple(f"{service}{domain}" for domain in domains)
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
            (*in_cluster, "localhost", *_asked_for(context)),
            f"{identity}/{frontend.ROLE}",
            ("127.0.0.1",),
        ),
    )


def _asked_for(context: Context) -> tuple[str, ...]:
    """Return the names that the manifest asks for, without what is not for it to have."""
    return tuple(
        name for name in context.spec.frontend.host_names if not names.is_of_a_cluster(name)
    )


def cert_manager(context: Context, certificate: Wanted) -> Manifest:
    """Return the Certificate by which cert-manager fills and renews a Secret."""
    return {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": metadata(context, certificate.secret, certificate.role),
        "spec": {
            "secretName": certificate.secret,
            "issuerRef": {
                "group": "cert-manager.io",
                "kind": context.issuer_kind,
                "name": context.issuer_name,
            },
            "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
            "usages": ["digital signature", "server auth", "client auth"],
            "dnsNames": list(certificate.dns_names),
            "uris": [certificate.uri],
            "ipAddresses": list(certificate.ip_addresses),
        },
    }
