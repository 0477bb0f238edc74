"""The settings of Kopf: peering, webhooks, watches; no progress is stored in objects."""

import ssl

import kopf

from bendybus.operator.certificates.webhook_certificates import WebhookCertificates
from bendybus.operator.kubernetes.names import GROUP
from bendybus.operator.settings import Settings

# A peer that has not been seen for so long is considered dead, and the other takes over. Including
# the time until that one has answers from partitions, status is correct within 30 s after the death
# of the leader's node. Kopf writes `lastseen` every 2 to 7 s then.
LIFETIME_S = 12


def operator_settings(
    settings: Settings, priority: int, certificates: WebhookCertificates
) -> kopf.OperatorSettings:
    """Return Kopf's settings."""
    made = kopf.OperatorSettings()
    made.peering.lifetime = LIFETIME_S
    made.peering.priority = priority
    made.peering.mandatory = bool(settings.peering)
    # No handler uses finalizers; should that ever change, the name is in our group.
    made.persistence.finalizer = f"{GROUP}/finalizer"
    made.networking.request_timeout = 30
    made.networking.connect_timeout = 10
    made.watching.server_timeout = 240
    made.watching.client_timeout = 270
    made.admission.managed = None
    made.admission.server = kopf.WebhookServer(
        addr="0.0.0.0",
        port=settings.webhook_port,
        certfile=certificates.certificate,
        pkeyfile=certificates.key,
        file_check_interval=10,
        verify_mode=ssl.CERT_REQUIRED if settings.webhook_client_ca else None,
        verify_cafile=settings.webhook_client_ca or None,
    )
    return made
