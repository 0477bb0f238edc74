"""Connection strings: where a bus is, and how to speak to it. Pure."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from bendybus.cli.errors import UsageError

PORT_DEFAULT: Final = 7480
EXAMPLE: Final = (
    "Endpoint=sb://127.0.0.1:7480;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=local;UseDevelopmentEmulator=true"
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of a front end. `plain`: no TLS."""

    address: str
    plain: bool
    entity_path: str = ""


def parse(connection_string: str) -> Endpoint:
    """Return the endpoint that a connection string names.

    Raises UsageError that says which part is wrong.
    """
    parts: dict[str, str] = {}
    for part in filter(None, connection_string.strip().split(";")):
        key, separator, value = part.partition("=")
        if not separator:
            raise UsageError(f"Connection string: {part!r} has no '='. Example: {EXAMPLE}")
        parts[key.strip().lower()] = value.strip()
    if not parts.get("endpoint"):
        raise UsageError(f"Connection string: Endpoint is missing. Example: {EXAMPLE}")
    plain = parts.get("usedevelopmentemulator", "").lower() == "true"
    return Endpoint(_address(parts["endpoint"]), plain, parts.get("entitypath", ""))


def _address(endpoint: str) -> str:
    url = urlsplit(endpoint if "//" in endpoint else f"//{endpoint}")
    try:
        host, port = url.hostname, url.port
    except ValueError:
        host, port = None, None
    if not host:
        raise UsageError(
            f"Connection string: {endpoint!r} is no address such as sb://127.0.0.1:7480."
        )
    return f"[{host}]:{port or PORT_DEFAULT}" if ":" in host else f"{host}:{port or PORT_DEFAULT}"


def local(address: str) -> str:
    """Return the connection string of a bus that `bendybus up` started."""
    return (
        f"Endpoint=sb://{address};SharedAccessKeyName=RootManageSharedAccessKey;"
        "SharedAccessKey=local;UseDevelopmentEmulator=true"
    )
