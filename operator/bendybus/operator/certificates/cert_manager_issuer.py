"""Has cert-manager issue the certificates of buses, and says whom the pods of a bus trust.

Each bus has a root and an Issuer of its own in its Kubernetes namespace, unless the installation
names an issuer. The operator proves itself by a certificate from elsewhere; partitions are told to
trust that, too, and the operator trusts what a bus has in its own namespace for that bus only.
"""

import asyncio
import datetime as dt
import logging
from collections.abc import Callable, Mapping
from typing import Any

from cryptography import x509

from bendybus.operator.builders import certificates, secret_files
from bendybus.operator.builders.context import Context
from bendybus.operator.certificates import issued_trust
from bendybus.operator.certificates.certificate_authority import HANDOVER
from bendybus.operator.certificates.issued_trust import IssuedTrust
from bendybus.operator.certificates.operator_issuer import files_of, now_utc
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.api import ApiError, KubernetesApi
from bendybus.operator.kubernetes.names import ObjectKey
from bendybus.operator.settings import Settings
from bendybus.wire import tls

logger = logging.getLogger(__name__)
Body = dict[str, Any]


class CertManagerIssuer:
    """Asks for certificates, and keeps Secret NAME.trust of each bus; the Secret is the truth."""

    def __init__(
        self, api: KubernetesApi, settings: Settings, now: Callable[[], dt.datetime] = now_utc
    ) -> None:
        self._api = api
        self._settings = settings
        self._now = now

    async def reconcile(self, context: Context, stateful_set: Body | None) -> str:
        """Make or change what there is; return what clients are to trust, "" until it is known.

        `stateful_set`: that of the partitions as it is, None when nothing of the bus runs. Raises
        ApiError; safe to repeat.
        """
        operators = (await self._own()).authorities.decode()
        bus, named = context.bus, "/".join(certificates.issuer(context))
        if not context.issuer_name:
            for body in certificates.root(context):
                await self._api.apply(body)
        issued = [
            files_of(await self._api.get("Secret", bus.namespace, secret))
            for _, secret in certificates.secrets(bus)
        ]
        # What a bus had when nobody had told its pods whom to trust.
        running = "".join(issued_trust.readable(files.get("ca.crt", "")) for files in issued)
        roots = await self._roots(context, running)
        secret = await self._api.get("Secret", bus.namespace, names.trust(bus))
        known = _known(secret, named)
        if known is None:
            former = running if stateful_set is not None and not context.issuer_name else ""
            known = issued_trust.first(named, roots, former, self._now())
        now = issued_trust.seen(known, roots, self._now())
        if now.former and now.roots:
            now = issued_trust.advanced(
                now,
                self._now(),
                arrived=await self._arrived(context, stateful_set),
                issued=all(_is_by(files, now.roots) for files in issued),
                lasting=all(_lasts(files, self._now()) for files in issued),
            )
        if now.trust:
            # Before certificates by the root are asked for, and before pods that look for it.
            files = now.to_files(operators)
            if files != files_of(secret):
                await self._api.apply(secret_files.trust(context, files))
                logger.info(
                    "bus %s: trust by cert-manager written; %s",
                    bus,
                    "goes over to another root" if now.former else "it has one root",
                    extra={"action": "trust"},
                )
        if now.signs:
            for wanted in certificates.wanted(context):
                await self._api.apply(certificates.cert_manager(context, wanted))
        return now.trust

    async def operator_material(self, bus: ObjectKey) -> tls.Material:
        """Return what the operator proves itself with towards a bus, and whom it trusts there."""
        own = await self._own()
        secret = files_of(await self._api.get("Secret", bus.namespace, names.trust(bus)))
        trust = issued_trust.readable(secret.get(issued_trust.FRONTEND, ""))
        if not trust:
            raise ApiError(0, f"cert-manager has not made the certificates of bus {bus} yet")
        return tls.Material(own.certificate, own.key, trust.encode())

    async def _own(self) -> tls.Material:
        try:
            return await asyncio.to_thread(tls.read, self._settings.client_tls_directory)
        except (tls.TlsError, OSError) as error:
            # cert-manager fills the Secret in its own time.
            raise ApiError(0, str(error)) from error

    async def _roots(self, context: Context, running: str) -> str:
        """Return what the issuer's certificates are by, "" while that is not known."""
        if context.issuer_name:
            return running
        bus = context.bus
        files = files_of(await self._api.get("Secret", bus.namespace, names.root(bus)))
        return issued_trust.readable(files.get("tls.crt", ""))

    async def _arrived(self, context: Context, stateful_set: Body | None) -> bool:
        """Whether every pod of the bus takes its trust from the Secret."""
        bus = context.bus
        deployment = await self._api.get("Deployment", bus.namespace, names.frontend(bus))
        return all(
            body is not None and _is_rolled_out(body, names.trust(bus))
            for body in (stateful_set, deployment)
        )


def _known(secret: Mapping[str, Any] | None, issuer: str) -> IssuedTrust | None:
    """Return what the Secret says; nothing if it is of another issuer, or spoilt."""
    try:
        known = IssuedTrust.from_files(files_of(secret))
    except (KeyError, ValueError):
        return None
    return known if known.issuer == issuer else None


def _is_rolled_out(body: Body, trust: str) -> bool:
    """Whether all pods are by the present template, and that has the volume."""
    volumes = body["spec"]["template"]["spec"].get("volumes") or []
    sources = [
        source["secret"]["name"]
        for volume in volumes
        for source in (volume.get("projected") or {}).get("sources") or []
        if "secret" in source
    ]
    status, metadata = body.get("status") or {}, body["metadata"]
    pods = status.get("replicas") or 0
    return (
        trust in sources
        and (status.get("observedGeneration") or 0) >= metadata.get("generation", 0)
        and (status.get("updatedReplicas") or 0) == pods
    )


def _is_by(files: Mapping[str, str], roots: str) -> bool:
    """Whether cert-manager's Secret holds what these roots, and no others, signed."""
    found = issued_trust.readable(files.get("ca.crt", ""))
    return bool(found) and not issued_trust.without(found, roots)


def _lasts(files: Mapping[str, str], now: dt.datetime) -> bool:
    """Whether a certificate holds until the bus has gone over in peace."""
    try:
        certificate = x509.load_pem_x509_certificate(files["tls.crt"].encode())
    except (KeyError, ValueError):
        return False
    return certificate.not_valid_after_utc - now > 2 * HANDOVER
