"""Clients of the bus: one for each process and connection, made when it is first needed.

Python workers of Spark are forked, and used again for task after task.
"""

import os
import threading
from pathlib import Path
from typing import Any, Final

from bendybus.client import ServiceBusClient
from bendybus.client.connection_string import parse_connection_string
from bendybus.spark.errors import OptionError
from bendybus.spark.options import Connection

VARIABLE: Final = "BENDYBUS_CONNECTION_STRING"
# Of one process. The one that was used least recently is closed for another one.
CLIENTS_MAX: Final = 8

_lock = threading.Lock()
_clients: dict[tuple[int, Connection, str], ServiceBusClient] = {}


def client(connection: Connection) -> ServiceBusClient:
    """Return the client of a connection. Raises OptionError."""
    string = _string(connection)
    key = (os.getpid(), connection, string)
    with _lock:
        found = _clients.pop(key, None)
        if found is None:
            found = _made(connection, string)
            # Those of the parent of this process are not to be closed here.
            for other in [each for each in _clients if each[0] != key[0]]:
                del _clients[other]
            while len(_clients) >= CLIENTS_MAX:
                _clients.pop(next(iter(_clients))).close()
        _clients[key] = found
        return found


def address(connection: Connection) -> str:
    """Return the address of a bus, which stays when its keys change. Raises OptionError."""
    if connection.endpoint:
        return connection.endpoint
    try:
        return parse_connection_string(_string(connection)).endpoint
    except ValueError as error:
        raise OptionError(f"option connectionString: {error}") from None


class TokenFile:
    """A credential: a shared access signature in a file that may be replaced."""

    def __init__(self, path: str) -> None:
        self._path = path

    @property
    def signature(self) -> str:
        """The signature that the file has now."""
        return _read("tokenFile", self._path)


def _made(connection: Connection, string: str) -> ServiceBusClient:
    # Without the option the client looks at BENDYBUS_CA_FILE.
    trust: dict[str, Any] = {"connection_verify": connection.ca_file} if connection.ca_file else {}
    try:
        if connection.endpoint:
            credential = TokenFile(connection.token_file)
            _read("tokenFile", connection.token_file)
            return ServiceBusClient(connection.endpoint, credential, **trust)
        return ServiceBusClient.from_connection_string(string, **trust)
    except ValueError as error:
        what = "endpoint" if connection.endpoint else "connectionString"
        raise OptionError(f"option {what}: {error}") from None


def _string(connection: Connection) -> str:
    if connection.endpoint:
        return ""
    if connection.string_file:
        return _read("connectionStringFile", connection.string_file)
    string = connection.string or os.environ.get(VARIABLE, "")
    if not string:
        raise OptionError(
            "option connectionStringFile: is required; name a file with the connection string "
            f"that driver and executors can read, or set {VARIABLE} for both"
        )
    return string


def _read(option: str, path: str) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise OptionError(
            f"option {option}: {path} cannot be read: {reason}; the file must be there on the "
            "driver and on every executor"
        ) from None
    if not text:
        raise OptionError(f"option {option}: {path} is empty")
    return text
