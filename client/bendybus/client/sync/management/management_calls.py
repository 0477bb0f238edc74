# Generated from aio/management/management_calls.py by `make sync`: edit that file.
"""How the synchronous administration client calls the bus."""

from collections.abc import Callable, Mapping
from typing import Any

from bendybus.client import arguments, exceptions
from bendybus.client.core.administration import BaseAdministrationClient
from bendybus.client.core.channel import Stubs
from bendybus.client.sync import calls


class ManagementCalls(BaseAdministrationClient):
    """The calls of operations on every kind of entity."""

    def close(self) -> None:
        """Close the connection."""
        calls.close(self._shared)

    def _call(
        self, method: Callable[[Stubs], Any], request: Any, options: Mapping[str, Any]
    ) -> Any:
        with self._managing(request):
            return calls.call(
                self._shared.get(),
                method,
                request,
                arguments.timeout(options.get("timeout")),
                translate=exceptions.from_management_error,
            )
