"""What the administration clients of both surfaces share: their connection and their spans."""

import re
from collections.abc import Mapping
from typing import Any, Final

from bendybus.client.core import client, settings, tracing
from bendybus.client.core.shared_connection import SharedConnection
from bendybus.client.core.tracing import NoOperation, Operation
from bendybus.client.entities import requests
from bendybus.client.entities.models import ApiVersion

# Names of operations in spans that differ from those of their requests.
_NAMES: Final = {
    "GetNamespace": "get_namespace_properties",
    "ListSessionCounts": "list_sessions_runtime_properties",
}


class BaseAdministrationClient:
    """The base of the administration clients of both surfaces, which differ in how they wait."""

    # Whether credentials are awaited on the application's loop.
    _of_loop = False

    def __init__(
        self,
        fully_qualified_namespace: str,
        credential: Any,
        *,
        api_version: str | ApiVersion = ApiVersion.V2024_05,
        **kwargs: Any,
    ) -> None:
        """Create a client that connects when it is first used.

        `fully_qualified_namespace`, `credential` and others: as for ServiceBusClient.
        `api_version` has no effect.
        """
        self.fully_qualified_namespace = fully_qualified_namespace
        self._credential = credential
        kwargs.pop("entity_name", None)
        self._shared = SharedConnection(
            settings.from_arguments(fully_qualified_namespace, credential, kwargs)
        )
        self._shared.of_loop = self._of_loop

    def _managing(self, request: Any) -> Operation | NoOperation:
        """Return the context manager that creates the span of a call."""
        found = tracing.of(self._shared.settings.tracing, self._shared.settings.target)
        if found is None:
            return tracing.NO_OPERATION
        name = type(request).__name__.removesuffix("Request")
        words = re.sub(r"\B([A-Z])", r"_\1", name).lower()
        return found.managing(requests.path_of(request), _NAMES.get(name, words))

    @classmethod
    def _from_connection_string(cls, conn_str: str, options: Mapping[str, Any]) -> Any:
        return cls(**client.arguments_of(conn_str, dict(options)))
