"""How Kopf is to behave: peering, webhooks, watches, and where it keeps nothing."""

import kopf

from bendybus.operator.certificates.webhook_certificates import WebhookCertificates
from bendybus.operator.kubernetes.names import GROUP
from bendybus.operator.settings import Settings

# After so long without a sign of life a peer is dead, and the other acts. With the time until that
# one sees what partitions answer, status tells the truth within 30 s also when the leader's node
# died. Kopf gives a sign every 2 to 7 s then.
LIFETIME_S = 12


def operator_settings(
    settings: Settings, priority: int, certificates: WebhookCertificates
) -> kopf.OperatorSettings:
    """Return Kopf's settings."""
    made = kopf.OperatorSettings()
    made.peering.lifetime = LIFETIME_S
    made.peering.priority = priority
    made.peering.mandatory = bool(settings.peering)
    # Nothing of ours is handled by finalizers; should that ever change, the name is ours.
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
    )
    return made
