"""What senders and receivers of both surfaces share: their entity, their link, their life."""

import os
import uuid
import warnings
from typing import Any, Final

from bendybus.client import arguments, connection_string, tracing
from bendybus.client.core import tls_probe
from bendybus.client.core.connection import TIMEOUT_S_DEFAULT, Link, Settings
from bendybus.client.core.credentials import Credentials
from bendybus.client.core.retry_policy import RetryPolicy
from bendybus.client.exceptions import not_supported
from bendybus.domain import limits

# How much longer than the I/O thread a caller's thread waits; the I/O thread keeps the time.
MARGIN_S: Final = 5.0
# File of the authorities to trust, where `connection_verify` is not given.
CA_FILE_VARIABLE: Final = "BENDYBUS_CA_FILE"


class Handle:
    """A sender or receiver of one entity. Owns its link only when it was made without a client."""

    # Whether there is a loop of the application's, on which credentials are asked.
    _of_loop = False

    def __init__(
        self,
        fully_qualified_namespace: str,
        credential: Any,
        *,
        queue_name: str | None,
        topic_name: str | None,
        kind: str,
        options: dict[str, Any],
    ) -> None:
        if queue_name and topic_name:
            raise ValueError("queue_name and topic_name: give one of them, not both.")
        if topic_name:
            raise not_supported("topics and subscriptions")
        if not queue_name:
            raise ValueError("queue_name: is required")
        arguments.text("queue_name", queue_name, limits.ENTITY_NAME_CHARS_MAX)
        identifier = arguments.optional_text(
            "client_identifier", options.get("client_identifier"), limits.KEY_CHARS_MAX
        )
        link: Link | None = options.get("link")
        self._owns_link = link is None
        self._link = link or Link(settings_of(fully_qualified_namespace, credential, options))
        self._link.of_loop = self._link.of_loop or self._of_loop
        settings = self._link.settings
        # None: no spans. Looked at when a handle is made, so that a call need not.
        self._tracing = tracing.of(settings.tracing, settings.target)
        self.fully_qualified_namespace = fully_qualified_namespace
        self.entity_name = queue_name
        self._name: str = identifier or f"{kind}-{uuid.uuid4()}"
        self._closed = False

    @property
    def client_identifier(self) -> str:
        """A name for this sender or receiver, given or made up."""
        return self._name

    def _check_live(self) -> None:
        if self._closed:
            raise ValueError(f"{self._name} is closed: get another one from the ServiceBusClient.")

    def __str__(self) -> str:
        return f"{type(self).__name__} of {self.entity_name}, {self._name}"


def settings_of(address: str, credential: Any, options: dict[str, Any]) -> Settings:
    """Return the settings in the arguments of a client. Raises ValueError that names a bad one."""
    if options.get("http_proxy"):
        raise not_supported("HTTP proxies")
    host = connection_string.host_of(address, what="fully_qualified_namespace")
    use_tls = options.get("use_tls")
    if use_tls is None and not tls_probe.is_loopback(host):
        use_tls = True
    # Here, where a traceback shows the line at which the client is made.
    Credentials(credential, host)
    return Settings(
        target=connection_string.target_of(host),
        use_tls=use_tls,
        credential=credential,
        tracing=tracing.provider_of(options.get("tracing")),
        retry=RetryPolicy(
            total=options.get("retry_total", 3),
            backoff_factor_s=options.get("retry_backoff_factor", 0.8),
            backoff_max_s=options.get("retry_backoff_max", 120),
            mode=options.get("retry_mode", "exponential"),
        ),
        ca_file=_ca_file(options.get("connection_verify")) if use_tls is not False else None,
    )


def timeout_of(timeout: float | None) -> float:
    """Return the time for an operation. Raises ValueError for none that could be."""
    if timeout is None:
        return TIMEOUT_S_DEFAULT
    return arguments.seconds("timeout", timeout)


def warn_of(options: dict[str, Any]) -> None:
    """Warn of arguments that nobody knows."""
    if options:
        warnings.warn(f"Unsupported keyword args: {options}", stacklevel=3)


def _ca_file(path: str | None) -> str | None:
    """Return the file to read whenever a channel is made. Raises ValueError if nobody may."""
    where = "connection_verify"
    if path is None:
        path, where = os.environ.get(CA_FILE_VARIABLE), CA_FILE_VARIABLE
    if not path:
        return None
    try:
        with open(path, "rb"):
            return path
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise ValueError(
            f"{where}: {path}: {reason}. Name the file of the bus's ca.crt."
        ) from error
