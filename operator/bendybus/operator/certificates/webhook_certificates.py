"""The webhooks' certificate by the operator's own authority: on disk, and known to the API server.

Each replica makes its own certificate and renews it; all of them have the authority's bundle put
into the webhook configuration. With cert-manager none of this runs: it mounts the files, and its
injector writes the bundle.
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
# Helm makes the configuration last, perhaps after the first pod has started.
FIRST_S: Final = 30.0
AGAIN_S: Final = 2.0
BUNDLE_MANAGER: Final = "bendybus-operator-ca"


class WebhookCertificates:
    """Keeps tls.crt and tls.key in a directory, and the configuration's caBundle."""

    def __init__(
        self,
        api: KubernetesApi,
        settings: Settings,
        authority: OperatorIssuer,
        metrics: Metrics,
        *,
        first_s: float = FIRST_S,
        again_s: float = AGAIN_S,
    ) -> None:
        self._api = api
        self._settings = settings
        self._authority = authority
        self._metrics = metrics
        self._first_s = first_s
        self._requeue_in_s = again_s
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
        """Return when there is a certificate, and the API server was told to trust it.

        Where nobody makes a configuration to tell it in, that is waited for only so long.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + self._first_s
        while not self._settings.cert_manager:
            with contextlib.suppress(ApiError):
                if await self._renew() or loop.time() > end:
                    return
            await asyncio.sleep(self._requeue_in_s)

    async def run(self) -> None:
        """Look after them until cancelled."""
        told = False
        while not self._settings.cert_manager:
            await asyncio.sleep(LOOK_S if told else self._requeue_in_s)
            try:
                told = await self._renew()
            except ApiError as error:
                logger.warning("webhooks: certificate not looked after: %s", error.message)

    async def _renew(self) -> bool:
        """Renew what ends; return whether the API server trusts what there is."""
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
                    # Needed in every version that is applied; the chart owns their values.
                    "admissionReviewVersions": hook["admissionReviewVersions"],
                    "sideEffects": hook["sideEffects"],
                }
                for hook in hooks
            ],
        }
        await self._api.apply(body, manager=BUNDLE_MANAGER)
        return True
