"""How the asynchronous administration client calls the bus."""

from collections.abc import Callable, Mapping
from typing import Any

from bendybus.client import arguments, exceptions
from bendybus.client.aio import calls
from bendybus.client.core.administration import BaseAdministrationClient
from bendybus.client.core.channel import Stubs


class ManagementCalls(BaseAdministrationClient):
    """The calls of operations on every kind of entity."""

    async def close(self) -> None:
        """Close the connection."""
        await calls.close(self._shared)

    async def _call(
        self, method: Callable[[Stubs], Any], request: Any, options: Mapping[str, Any]
    ) -> Any:
        with self._managing(request):
            return await calls.call(
                self._shared.get(),
                method,
                request,
                arguments.timeout(options.get("timeout")),
                translate=exceptions.from_management_error,
            )
