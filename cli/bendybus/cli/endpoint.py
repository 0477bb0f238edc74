"""Connection strings: the endpoint of a bus and the credentials for it. Deterministic."""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from bendybus.cli.errors import UsageError
from bendybus.domain import shared_access

PORT_DEFAULT: Final = 7480
# That of AMQP without TLS, which official SDKs take where a connection string names none.
AMQP_PORT: Final = 5672
# Of servers that listen at every address of a machine: where a client on it finds them.
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
TOKEN_LIFETIME_S: Final = 3_600
EXAMPLE: Final = (
    "Endpoint=sb://127.0.0.1:7480;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=local;UseDevelopmentEmulator=true"
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of a front end. `plain`: no TLS. `signature`: a token instead of a key."""

    address: str
    plain: bool
    entity_path: str = ""
    key_name: str = ""
    key: str = field(default="", repr=False)
    signature: str = field(default="", repr=False)

    def token(self, now_s: float) -> str:
        """Return a token for calls that end soon; "" without a key."""
        if self.signature or not self.key:
            return self.signature
        ends_s = int(now_s) + TOKEN_LIFETIME_S
        return shared_access.sign(f"sb://{self.address}/", self.key_name, self.key, ends_s)


def parse(connection_string: str) -> Endpoint:
    """Return the endpoint in a connection string. Raises UsageError that names the wrong part."""
    parts: dict[str, str] = {}
    for part in filter(None, connection_string.strip().split(";")):
        key, separator, value = part.partition("=")
        if not separator:
            # Not the part itself: it may be a piece of a key.
            raise UsageError(f"Connection string: a part has no '='. Example: {EXAMPLE}")
        parts[key.strip().lower()] = value.strip()
    if not parts.get("endpoint"):
        raise UsageError(f"Connection string: Endpoint is missing. Example: {EXAMPLE}")
    plain = parts.get("usedevelopmentemulator", "").lower() == "true"
    return Endpoint(
        _address(parts["endpoint"]),
        plain,
        parts.get("entitypath", ""),
        parts.get("sharedaccesskeyname", ""),
        parts.get("sharedaccesskey", ""),
        parts.get("sharedaccesssignature", ""),
    )


def _address(endpoint: str) -> str:
    if "://" in endpoint and not endpoint.lower().startswith("sb://"):
        raise UsageError(
            f"Connection string: Endpoint must be sb://HOST:PORT (got {endpoint!r}). "
            f"Example: {EXAMPLE}"
        )
    url = urlsplit(endpoint if "//" in endpoint else f"//{endpoint}")
    try:
        host, port = url.hostname, url.port
    except ValueError:
        host, port = None, None
    if not host:
        raise UsageError(
            f"Connection string: {endpoint!r} is not an address such as sb://127.0.0.1:7480."
        )
    return f"[{host}]:{port or PORT_DEFAULT}" if ":" in host else f"{host}:{port or PORT_DEFAULT}"


def reachable(address: str) -> str:
    """Return where a client on this machine finds a server that listens at HOST:PORT."""
    host, _, port = address.rpartition(":")
    return f"{_EVERYWHERE.get(host, host)}:{port}"


def local(address: str) -> str:
    """Return the connection string of a bus that `bendybus up` started."""
    return (
        f"Endpoint=sb://{address};SharedAccessKeyName=RootManageSharedAccessKey;"
        "SharedAccessKey=local;UseDevelopmentEmulator=true"
    )
