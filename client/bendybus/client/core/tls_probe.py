"""Detection of TLS: whether a bus on this machine uses it, if the caller did not specify it.

Only for loopback addresses: plain text that is sent there does not leave the machine.
"""

import asyncio
import ipaddress
import ssl
from typing import Final

from bendybus.client import connection_string
from bendybus.domain.errors import RetryableError

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
