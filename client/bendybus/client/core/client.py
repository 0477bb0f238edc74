"""What the clients of both surfaces share: arguments, senders and receivers."""

import weakref
from typing import Any

from bendybus.client import connection_string
from bendybus.client.core import settings
from bendybus.client.core.connection import SharedConnection


class BaseClient:
    """The base of the clients of both surfaces, which differ in how they wait."""

    # Whether credentials are awaited on the application's loop.
    _of_loop = False

    def __init__(
        self,
        fully_qualified_namespace: str,
        credential: Any,
        *,
        retry_total: int = 3,
        retry_backoff_factor: float = 0.8,
        retry_backoff_max: float = 120,
        retry_mode: str = "exponential",
        **kwargs: Any,
    ) -> None:
        """Create a client of `HOST:PORT`, the `fully_qualified_namespace`; it connects when used.

        `credential`: a (policy name, key) pair or an AzureNamedKeyCredential, which sign tokens;
        a shared access signature, as a text or an AzureSasCredential; or a TokenCredential of
        azure-identity, whose tokens are sent as they are. `use_tls=False` disables TLS; if it is
        None and the bus is on this machine (localhost), the client detects which it uses.
        `connection_verify`: the file of the CA certificates to trust, by default the one named by
        BENDYBUS_CA_FILE. `retry_total`, `retry_backoff_factor`, `retry_backoff_max` (seconds)
        and `retry_mode` (exponential or fixed): how often and when to retry. `tracing`: True
        creates OpenTelemetry spans (needs the extra `tracing`), a TracerProvider creates them with
        that provider, False creates none, None follows BENDYBUS_TRACING. Options of other
        transports are accepted and have no effect.
        """
        self.fully_qualified_namespace = fully_qualified_namespace
        self._credential = credential
        self._entity_name: str | None = kwargs.pop("entity_name", None)
        self._shared = SharedConnection(
            settings.from_arguments(
                fully_qualified_namespace,
                credential,
                {
                    **kwargs,
                    "retry_total": retry_total,
                    "retry_backoff_factor": retry_backoff_factor,
                    "retry_backoff_max": retry_backoff_max,
                    "retry_mode": retry_mode,
                },
            )
        )
        self._shared.of_loop = self._of_loop
        self._entity_clients: weakref.WeakSet[Any] = weakref.WeakSet()
        self._closed = False

    def _check(self, name: str) -> None:
        # One that was closed connects again, as the original does: a sample relies on it.
        if self._entity_name and self._entity_name != name:
            raise ValueError(
                f"the EntityPath of the connection string is {self._entity_name!r} (got {name!r})"
            )

    def _options(self, client_identifier: str | None, kwargs: dict[str, Any]) -> dict[str, Any]:
        return {**kwargs, "shared_connection": self._shared, "client_identifier": client_identifier}


def arguments_of(conn_str: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a client for a connection string and further options."""
    parsed = connection_string.parse(conn_str)
    return {
        **options,
        "fully_qualified_namespace": parsed.host,
        "credential": (parsed.key_name, parsed.key) if parsed.key else parsed.signature,
        "use_tls": parsed.use_tls,
        "entity_name": parsed.entity_path,
    }
