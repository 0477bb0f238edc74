"""Where and how a client connects, from the arguments that applications give."""

import asyncio
import ipaddress
import os
import ssl
from dataclasses import dataclass, field
from typing import Any, Final

from bendybus.client import connection_string
from bendybus.client.core import tracing
from bendybus.client.core.credentials import Credentials
from bendybus.client.core.retry_policy import RetryPolicy
from bendybus.client.exceptions import not_supported
from bendybus.domain.errors import RetryableError

# File of the CA certificates to trust, if `connection_verify` is not given.
CA_FILE_VARIABLE: Final = "BENDYBUS_CA_FILE"
_RETRY_DEFAULT: Final = RetryPolicy()


@dataclass(frozen=True, slots=True)
class Settings:
    """Where and how to connect."""

    target: str
    # None: as the bus does, which is detected when it is first needed.
    use_tls: bool | None = True
    retry: RetryPolicy = _RETRY_DEFAULT
    # File of the CA certificates to trust; None: the default ones of gRPC.
    ca_file: str | None = None
    credential: Any = field(default=None, repr=False)
    # The only entity that is used, "" if it may be any: what tokens are signed for.
    entity_name: str = ""
    # The TracerProvider of OpenTelemetry that creates spans; None: no spans.
    tracing: Any = field(default=None, repr=False)


def from_arguments(address: str, credential: Any, options: dict[str, Any]) -> Settings:
    """Return the settings from the arguments of a client. Raises ValueError for a bad one."""
    if options.get("http_proxy"):
        raise not_supported("HTTP proxies")
    host = connection_string.host_of(address, what="fully_qualified_namespace")
    use_tls = options.get("use_tls")
    if use_tls is None and not is_loopback(host):
        use_tls = True
    # Checked here, where a traceback shows the line that creates the client.
    Credentials(credential, host)
    return Settings(
        target=connection_string.target_of(host),
        use_tls=use_tls,
        credential=credential,
        entity_name=options.get("entity_name") or "",
        tracing=tracing.provider_of(options.get("tracing")),
        retry=RetryPolicy(
            total=options.get("retry_total", 3),
            backoff_factor_s=options.get("retry_backoff_factor", 0.8),
            backoff_max_s=options.get("retry_backoff_max", 120),
            mode=options.get("retry_mode", "exponential"),
        ),
        ca_file=_ca_file(options.get("connection_verify")) if use_tls is not False else None,
    )


def _ca_file(path: str | None) -> str | None:
    """Return the file to read when a channel is opened. Raises ValueError if it is not readable."""
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
            f"{where}: {path}: {reason}; give the path of the ca.crt of the bus"
        ) from error


_TIMEOUT_S: Final = 2.0


def is_loopback(host: str) -> bool:
    """Return whether `HOST` or `HOST:PORT` is this machine, by its name or address."""
    name = _split(connection_string.target_of(host))[0]
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


async def speaks_tls(target: str) -> bool:
    """Return whether `HOST:PORT` answers a TLS handshake. Raises RetryableError for no answer."""
    context = ssl.create_default_context()
    # The certificate is verified when the connection is opened; this one carries nothing.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    host, port = _split(target)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            _, writer = await asyncio.open_connection(
                host, port, ssl=context, server_hostname="localhost"
            )
    except (ssl.SSLError, ConnectionResetError, ConnectionAbortedError, EOFError):
        # The peer does not use TLS.
        return False
    except (OSError, TimeoutError) as error:
        raise RetryableError(f"No bus answers at {target}: {error or 'timed out'}.") from error
    writer.transport.abort()
    return True


def _split(target: str) -> tuple[str, int]:
    host, _, port = target.rpartition(":")
    return host.strip("[]"), int(port)
