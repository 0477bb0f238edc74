"""The webhooks' certificate by the operator's authority: on disk, trusted by the API server.

Each replica creates and renews its own certificate, and writes the authority's bundle into the
webhook configuration. With cert-manager none of this runs: the files are mounted, and its injector
writes the bundle.
"""

import asyncio
import base64
import contextlib
import logging
import os
from pathlib import Path
from typing import Final

from bendybus.operator.builders.certificates import Wanted
from bendybus.operator.certificates import certificate_authority
from bendybus.operator.certificates.operator_issuer import OperatorIssuer
from bendybus.operator.kubernetes.api import ApiError, KubernetesApi
from bendybus.operator.metrics import Metrics
from bendybus.operator.settings import Settings

logger = logging.getLogger(__name__)
LOOK_S: Final = 60.0
# Helm creates the configuration last, perhaps after the first pod has started.
FIRST_S: Final = 30.0
RETRY_S: Final = 2.0
BUNDLE_MANAGER: Final = "bendybus-operator-ca"


class WebhookCertificates:
    """Maintains tls.crt and tls.key in a directory, and the caBundle of the configuration."""

    def __init__(
        self,
        api: KubernetesApi,
        settings: Settings,
        authority: OperatorIssuer,
        metrics: Metrics,
        *,
        first_s: float = FIRST_S,
        retry_s: float = RETRY_S,
    ) -> None:
        self._api = api
        self._settings = settings
        self._authority = authority
        self._metrics = metrics
        self._first_s = first_s
        self._retry_s = retry_s
        self._files: dict[str, str] = {}

    @property
    def certificate(self) -> Path:
        """Return where the certificate is."""
        return self._settings.tls_directory / "tls.crt"

    @property
    def key(self) -> Path:
        """Return where its key is."""
        return self._settings.tls_directory / "tls.key"

    async def first(self) -> None:
        """Return once there is a certificate and the webhook configuration trusts it.

        If there is no webhook configuration, return after a limited time.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + self._first_s
        while not self._settings.cert_manager:
            with contextlib.suppress(ApiError):
                if await self._renew() or loop.time() > end:
                    return
            await asyncio.sleep(self._retry_s)

    async def run(self) -> None:
        """Renew and publish until cancelled."""
        published = False
        while not self._settings.cert_manager:
            await asyncio.sleep(LOOK_S if published else self._retry_s)
            try:
                published = await self._renew()
            except ApiError as error:
                logger.warning("webhooks: certificate not renewed: %s", error.message)

    async def _renew(self) -> bool:
        """Renew the certificate if due; return whether the API server trusts it."""
        settings = self._settings
        host = f"{settings.service}.{settings.namespace}.svc"
        wanted = Wanted(
            "operator", host, (host, f"{host}.cluster.local"), "spiffe://bendybus/webhook"
        )
        files = await self._authority.certificate(wanted, self._files)
        if files != self._files or not self.certificate.exists():
            await asyncio.to_thread(self._write, files)
            self._files = files
            logger.info("webhooks: new certificate", extra={"action": "webhook-certificate"})
        end = certificate_authority.end_of(files["tls.crt"])
        self._metrics.certificate_end.set(end.timestamp())
        return await self._publish(files["ca.crt"])

    def _write(self, files: dict[str, str]) -> None:
        directory = self._settings.tls_directory
        directory.mkdir(parents=True, exist_ok=True)
        for path, content in ((self.key, files["tls.key"]), (self.certificate, files["tls.crt"])):
            fresh = path.with_suffix(".new")
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(content)
            fresh.replace(path)

    async def _publish(self, bundle: str) -> bool:
        name = self._settings.webhook_configuration
        if not name:
            return True
        kind = "ValidatingWebhookConfiguration"
        found = await self._api.get(kind, "", name)
        if found is None:
            return False
        encoded = base64.b64encode(bundle.encode()).decode()
        hooks = found.get("webhooks") or []
        if all(hook["clientConfig"].get("caBundle") == encoded for hook in hooks):
            return True
        body = {
            "apiVersion": found["apiVersion"],
            "kind": kind,
            "metadata": {"name": name},
            "webhooks": [
                {
                    "name": hook["name"],
                    "clientConfig": {"caBundle": encoded},
                    # Required in every applied version; the chart owns their values.
                    "admissionReviewVersions": hook["admissionReviewVersions"],
                    "sideEffects": hook["sideEffects"],
                }
                for hook in hooks
            ],
        }
        await self._api.apply(body, manager=BUNDLE_MANAGER)
        return True
