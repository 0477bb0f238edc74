"""What clients, senders and receivers of both surfaces share: entity, connection, name, state."""

import uuid
import weakref
from typing import Any

from bendybus.client import arguments, connection_string
from bendybus.client.core import settings, tracing
from bendybus.client.core.connection import SharedConnection
from bendybus.domain import limits
from bendybus.domain import subscription_name as subscription_names


class EntityClient:
    """A sender or receiver of one entity. Closes its connection only if no client shares it."""

    # Whether credentials are awaited on the application's loop.
    _of_loop = False

    def __init__(
        self,
        fully_qualified_namespace: str,
        credential: Any,
        *,
        queue_name: str | None,
        topic_name: str | None,
        subscription_name: str | None = None,
        kind: str,
        options: dict[str, Any],
    ) -> None:
        if queue_name and topic_name:
            raise ValueError("queue_name, topic_name: only one of them is allowed")
        entity_name = _entity_name(queue_name, topic_name, subscription_name)
        identifier = arguments.optional_text(
            "client_identifier", options.get("client_identifier"), limits.KEY_CHARS_MAX
        )
        given: SharedConnection | None = options.get("shared_connection")
        self._owns_connection = given is None
        self._shared = given or SharedConnection(
            settings.from_arguments(fully_qualified_namespace, credential, options)
        )
        self._shared.of_loop = self._shared.of_loop or self._of_loop
        # None: no spans. Decided here, once, not in every call.
        self._tracing = tracing.of(self._shared.settings.tracing, self._shared.settings.target)
        self.fully_qualified_namespace = fully_qualified_namespace
        self.entity_name = entity_name
        self._name: str = identifier or f"{kind}-{uuid.uuid4()}"
        self._closed = False

    @classmethod
    def _from_connection_string(cls, conn_str: str, **kwargs: Any) -> Any:
        """Create one without a client; samples of azure-servicebus call it so."""
        given = arguments_of(conn_str, kwargs)
        path = given.pop("entity_name")
        if path and not (kwargs.get("queue_name") or kwargs.get("topic_name")):
            given["queue_name"] = path
        return cls(**given)

    @property
    def client_identifier(self) -> str:
        """The name of this sender or receiver in logs, given or generated."""
        return self._name

    def _check_live(self) -> None:
        if self._closed:
            raise ValueError(f"{self._name} is closed: get another one from the ServiceBusClient.")

    def _check_tx(self, tx: object) -> None:
        """Raise TypeError or ValueError unless an operation here can be part of `tx`."""
        check = getattr(tx, "_check_use", None)
        if check is None:
            raise TypeError(f"tx: must be a ServiceBusTransaction (got {type(tx).__name__})")
        check(self)

    def __str__(self) -> str:
        return f"{type(self).__name__} of {self.entity_name}, {self._name}"


def _entity_name(queue: str | None, topic: str | None, subscription: str | None) -> str:
    """Return the name of the entity that the arguments of a sender or receiver name."""
    longest = limits.ENTITY_NAME_CHARS_MAX
    if queue:
        return arguments.text("queue_name", queue, longest)
    if not topic:
        raise ValueError("queue_name or topic_name: is required")
    name = arguments.text("topic_name", topic, longest)
    if subscription is None:
        return name
    within = arguments.text("subscription_name", subscription, limits.SUBSCRIPTION_NAME_CHARS_MAX)
    return subscription_names.compose(name, within)


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
                    "entity_name": self._entity_name,
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
