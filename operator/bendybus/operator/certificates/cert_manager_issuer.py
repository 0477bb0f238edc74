"""Requests the certificates of buses from cert-manager, and writes what the pods of a bus trust.

Each bus has a root and an Issuer of its own in its Kubernetes namespace, unless the installation
names an issuer. The operator authenticates with a certificate by another root, which partitions
trust as well; the root that a bus has in its namespace is trusted for that bus only.
"""

import asyncio
import datetime as dt
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from bendybus.operator.builders import certificates, secret_files
from bendybus.operator.builders.context import Context
from bendybus.operator.certificates import trusted_roots
from bendybus.operator.certificates.operator_issuer import files_of, now_utc
from bendybus.operator.certificates.trusted_roots import IssuedTrust, outlasts_rotation
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.api import ApiError, KubernetesApi
from bendybus.operator.kubernetes.names import ObjectKey
from bendybus.operator.settings import Settings
from bendybus.wire import tls

logger = logging.getLogger(__name__)
Body = dict[str, Any]


class CertManagerIssuer:
    """Requests certificates, and maintains the Secret NAME.trust of each bus, its only state."""

    def __init__(
        self, api: KubernetesApi, settings: Settings, now: Callable[[], dt.datetime] = now_utc
    ) -> None:
        self._api = api
        self._settings = settings
        self._now = now

    async def reconcile(self, context: Context, stateful_set: Body | None) -> str:
        """Create or update them; return what clients are to trust, "" until it is known.

        `stateful_set`: that of the partitions as it is, None if the bus does not run yet. Raises
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
        # What the processes of a bus trust as long as it has no trust Secret.
        running = "".join(trusted_roots.readable(files.get("ca.crt", "")) for files in issued)
        roots = await self._roots(context, running)
        secret = await self._api.get("Secret", bus.namespace, names.trust(bus))
        known = _known(secret, named)
        if known is None:
            former = running if stateful_set is not None and not context.issuer_name else ""
            known = trusted_roots.first_trust(named, roots, former, self._now())
        now = trusted_roots.seen_trust(known, roots, self._now())
        if now.rotation.former and now.roots:
            rotation = now.rotation.advanced(
                self._now(),
                trusted=await self._is_trusted(context, stateful_set),
                issued=all(_is_by(files, now.roots) for files in issued),
                expiring=not all(_outlasts_rotation(files, self._now()) for files in issued),
            )
            now = replace(now, rotation=rotation)
        if now.trust:
            # Before certificates by the root are requested, and before pods that mount the Secret.
            files = now.to_files(operators)
            if files != files_of(secret):
                await self._api.apply(secret_files.trust(context, files))
                logger.info(
                    "bus %s: trust for cert-manager's certificates written; %s",
                    bus,
                    "moving to another root" if now.rotation.former else "one root",
                    extra={"action": "trust"},
                )
        if now.rotation.signs:
            for wanted in certificates.wanted(context):
                await self._api.apply(certificates.cert_manager(context, wanted))
        return now.trust

    async def operator_material(self, bus: ObjectKey) -> tls.Material:
        """Return the operator's certificate, and what it trusts of a bus. Raises ApiError."""
        own = await self._own()
        secret = files_of(await self._api.get("Secret", bus.namespace, names.trust(bus)))
        trust = trusted_roots.readable(secret.get(trusted_roots.FRONTEND, ""))
        if not trust:
            raise ApiError(0, f"cert-manager has not issued the certificates of bus {bus} yet")
        return tls.Material(own.certificate, own.key, trust.encode())

    async def _own(self) -> tls.Material:
        try:
            return await asyncio.to_thread(tls.read, self._settings.client_tls_directory)
        except (tls.TlsError, OSError) as error:
            # cert-manager may not have filled the Secret yet.
            raise ApiError(0, str(error)) from error

    async def _roots(self, context: Context, running: str) -> str:
        """Return the root of the issuer's certificates, "" while it is not known."""
        if context.issuer_name:
            return running
        bus = context.bus
        files = files_of(await self._api.get("Secret", bus.namespace, names.root(bus)))
        return trusted_roots.readable(files.get("tls.crt", ""))

    async def _is_trusted(self, context: Context, stateful_set: Body | None) -> bool:
        """Whether every pod of the bus takes its trust from the Secret."""
        bus = context.bus
        deployment = await self._api.get("Deployment", bus.namespace, names.frontend(bus))
        return all(
            body is not None and _is_rolled_out(body, names.trust(bus))
            for body in (stateful_set, deployment)
        )


def _known(secret: Mapping[str, Any] | None, issuer: str) -> IssuedTrust | None:
    """Return the content of the Secret, None if it is for another issuer or cannot be read."""
    try:
        known = IssuedTrust.from_files(files_of(secret))
    except (KeyError, ValueError):
        return None
    return known if known.issuer == issuer else None


def _is_rolled_out(body: Body, trust: str) -> bool:
    """Whether all pods are of the current template, and it mounts the trust Secret."""
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
    """Whether the certificate in a Secret of cert-manager's is by these roots only."""
    found = trusted_roots.readable(files.get("ca.crt", ""))
    return bool(found) and not trusted_roots.without(found, roots)


def _outlasts_rotation(files: Mapping[str, str], now: dt.datetime) -> bool:
    """Whether a certificate is valid until the rotation is done."""
    try:
        return outlasts_rotation(files["tls.crt"], now)
    except (KeyError, ValueError):
        return False
