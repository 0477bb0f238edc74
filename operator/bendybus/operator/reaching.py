"""How the operator reaches partitions: under which addresses, and what it proves itself with.

Keepers and webhooks use it; tests put servers on loopback in its place.
"""

import asyncio
from typing import Protocol

from bendybus.operator import names
from bendybus.operator.authority import OwnAuthority
from bendybus.operator.kubernetes_api import ApiError
from bendybus.operator.names import ObjectKey
from bendybus.operator.settings import Settings
from bendybus.wire import tls


class Reaching(Protocol):
    """Addresses and certificates."""

    def address(self, bus: ObjectKey, partition: int) -> str:
        """Return HOST:PORT of a partition."""

    async def material(self, bus: ObjectKey) -> tls.Material | None:
        """Return the operator's certificate and the roots of a bus; None is plain text.

        Raises ApiError.
        """


class ReachingPods:
    """Partitions are pods behind a headless Service, and speak TLS."""

    def __init__(self, settings: Settings, authority: OwnAuthority) -> None:
        self._settings = settings
        self._authority = authority

    def address(self, bus: ObjectKey, partition: int) -> str:
        """Return HOST:PORT of a partition's pod."""
        return names.partition_address(bus, partition)

    async def material(self, bus: ObjectKey) -> tls.Material:
        """Return cert-manager's certificate, or one by the own authority. Raises ApiError."""
        if not self._settings.cert_manager:
            return await self._authority.operator_material(bus)
        try:
            return await asyncio.to_thread(tls.read, self._settings.client_tls_directory)
        except (tls.TlsError, OSError) as error:
            # cert-manager fills the Secret in its own time.
            raise ApiError(0, str(error)) from error
