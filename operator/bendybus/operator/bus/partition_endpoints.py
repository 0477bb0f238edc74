"""The endpoints of partitions: their addresses, and the operator's certificate for them.

Used by controllers and webhooks; tests replace them by servers on loopback.
"""

from typing import Protocol

from bendybus.operator.certificates.cert_manager_issuer import CertManagerIssuer
from bendybus.operator.certificates.operator_issuer import OperatorIssuer
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.names import ObjectKey
from bendybus.operator.settings import Settings
from bendybus.wire import tls


class PartitionEndpoints(Protocol):
    """Addresses and certificates."""

    def address(self, bus: ObjectKey, partition: int) -> str:
        """Return HOST:PORT of a partition."""

    async def material(self, bus: ObjectKey) -> tls.Material | None:
        """Return the operator's certificate and the roots of a bus; None is plain text.

        Raises ApiError.
        """


class PodEndpoints:
    """Partitions are pods behind a headless Service, and speak TLS."""

    def __init__(
        self, settings: Settings, authority: OperatorIssuer, issued: CertManagerIssuer
    ) -> None:
        self._settings = settings
        self._authority = authority
        self._issued = issued

    def address(self, bus: ObjectKey, partition: int) -> str:
        """Return HOST:PORT of a partition's pod."""
        return names.partition_address(bus, partition)

    async def material(self, bus: ObjectKey) -> tls.Material:
        """Return cert-manager's certificate, or one by the own authority. Raises ApiError."""
        if self._settings.cert_manager:
            return await self._issued.operator_material(bus)
        return await self._authority.operator_material(bus)
