"""Connection strings: `Endpoint=sb://HOST:PORT;SharedAccessKeyName=…;SharedAccessKey=…`."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from bendybus.client.mapping import MappingMixin

DEFAULT_PORT: Final = 7480
_PARTS: Final = {
    "endpoint": "Endpoint",
    "sharedaccesskeyname": "SharedAccessKeyName",
    "sharedaccesskey": "SharedAccessKey",
    "sharedaccesssignature": "SharedAccessSignature",
    "entitypath": "EntityPath",
    "usedevelopmentemulator": "UseDevelopmentEmulator",
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A parsed connection string. `host` includes the port if one was given."""

    host: str
    key_name: str | None = None
    key: str | None = None
    signature: str | None = None
    entity_path: str | None = None
    use_tls: bool = True


class ServiceBusConnectionStringProperties(MappingMixin):
    """The parts of a connection string."""

    def __init__(
        self,
        *,
        fully_qualified_namespace: str,
        endpoint: str,
        entity_path: str | None = None,
        shared_access_signature: str | None = None,
        shared_access_key_name: str | None = None,
        shared_access_key: str | None = None,
    ) -> None:
        self._fully_qualified_namespace = fully_qualified_namespace
        self._endpoint = endpoint
        self._entity_path = entity_path
        self._shared_access_signature = shared_access_signature
        self._shared_access_key_name = shared_access_key_name
        self._shared_access_key = shared_access_key

    @property
    def fully_qualified_namespace(self) -> str:
        """Host, with the port if one was given."""
        return self._fully_qualified_namespace

    @property
    def endpoint(self) -> str:
        """The address as a URL: `sb://HOST:PORT/`."""
        return self._endpoint

    @property
    def entity_path(self) -> str | None:
        """Name of the queue or topic, if the string names one."""
        return self._entity_path

    @property
    def shared_access_signature(self) -> str | None:
        """A token, in place of a key."""
        return self._shared_access_signature

    @property
    def shared_access_key_name(self) -> str | None:
        """Name of the key."""
        return self._shared_access_key_name

    @property
    def shared_access_key(self) -> str | None:
        """The key."""
        return self._shared_access_key


def parse_connection_string(conn_str: str) -> ServiceBusConnectionStringProperties:
    """Return the parts of `conn_str`. Raises ValueError that names the bad part."""
    parsed = parse(conn_str)
    return ServiceBusConnectionStringProperties(
        fully_qualified_namespace=parsed.host,
        endpoint=f"sb://{parsed.host}/",
        entity_path=parsed.entity_path,
        shared_access_signature=parsed.signature,
        shared_access_key_name=parsed.key_name,
        shared_access_key=parsed.key,
    )


def parse(conn_str: str) -> Endpoint:
    """Parse a connection string. Raises ValueError that names the bad part."""
    parts = _split(conn_str)
    key_name, key = parts.get("sharedaccesskeyname"), parts.get("sharedaccesskey")
    signature = parts.get("sharedaccesssignature")
    if bool(key_name) != bool(key):
        missing = "SharedAccessKey" if key_name else "SharedAccessKeyName"
        raise ValueError(f"Connection string: {missing} is required: name and key go together")
    if key and signature:
        raise ValueError(
            "Connection string: must have SharedAccessKey or SharedAccessSignature, not both"
        )
    if not key and not signature:
        raise ValueError("Connection string: SharedAccessKey or SharedAccessSignature is required")
    emulator = parts.get("usedevelopmentemulator", "false").lower()
    if emulator not in ("true", "false"):
        raise ValueError(
            f"Connection string: UseDevelopmentEmulator must be true or false (got {emulator!r})"
        )
    endpoint = parts.get("endpoint", "")
    if "://" in endpoint and not endpoint.lower().startswith("sb://"):
        raise ValueError(f"Connection string: Endpoint must be sb://HOST:PORT (got {endpoint!r})")
    return Endpoint(
        host=host_of(endpoint, what="Connection string: Endpoint"),
        key_name=key_name,
        key=key,
        signature=signature,
        entity_path=parts.get("entitypath") or None,
        use_tls=emulator == "false",
    )


def host_of(address: str, *, what: str) -> str:
    """Return `HOST` or `HOST:PORT` of a URL or a bare address. Raises ValueError with `what`."""
    text = address.strip()
    if not text:
        raise ValueError(f"{what}: is required")
    split = urlsplit(text if "//" in text else f"//{text}")
    try:
        port = split.port
    except ValueError:
        raise ValueError(f"{what}: the port must be 0 to 65535 (got {text!r})") from None
    if not split.hostname:
        raise ValueError(f"{what}: the host is missing; must be sb://HOST:PORT (got {text!r})")
    host = f"[{split.hostname}]" if ":" in split.hostname else split.hostname
    return f"{host}:{port}" if port else host


def target_of(host: str) -> str:
    """Return `HOST:PORT`, with the default port where none was given."""
    return host if urlsplit(f"//{host}").port else f"{host}:{DEFAULT_PORT}"


def _split(conn_str: object) -> dict[str, str]:
    if not isinstance(conn_str, str) or not conn_str.strip():
        raise ValueError("Connection string: must not be blank")
    parts: dict[str, str] = {}
    for part in conn_str.strip().rstrip(";").split(";"):
        name, equals, value = part.partition("=")
        key = name.strip().lower()
        if not equals or key not in _PARTS:
            known = ", ".join(_PARTS.values())
            # The name only: the value may be a key.
            raise ValueError(
                f"Connection string: unknown key {name.strip()!r}; known keys are {known}"
            )
        if key in parts:
            raise ValueError(f"Connection string: {_PARTS[key]} is given twice")
        parts[key] = value.strip()
    return parts
