"""A client of the REST data plane on one keep-alive connection; nothing of it is Bendybus's."""

import http.client
import json
import ssl
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

BATCH = "application/vnd.microsoft.servicebus.json"


class Answer(NamedTuple):
    """A response; names of headers in lower case."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def broker(self) -> dict[str, Any]:
        """The properties in the header BrokerProperties."""
        found: dict[str, Any] = json.loads(self.headers.get("brokerproperties", "{}"))
        return found

    @property
    def location(self) -> str:
        """The path under which the lock is found."""
        return urlsplit(self.headers["location"]).path

    @property
    def sentence(self) -> str:
        """The sentence of an error."""
        return self.body.decode().partition("<Detail>")[2].partition("</Detail>")[0]


class Rest:
    """A connection, and the token that its requests have."""

    def __init__(
        self, address: str, token: str = "", tls: ssl.SSLContext | None = None, timeout: float = 70
    ) -> None:
        host, _, port = address.rpartition(":")
        self.token = token
        self.connection: http.client.HTTPConnection
        if tls is None:
            self.connection = http.client.HTTPConnection(host, int(port), timeout=timeout)
        else:
            self.connection = http.client.HTTPSConnection(
                host, int(port), timeout=timeout, context=tls
            )

    def __enter__(self) -> "Rest":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.connection.close()

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | str = b"",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Make a request."""
        given = {"Authorization": self.token} if self.token else {}
        data = body.encode() if isinstance(body, str) else body
        self.connection.request(method, path, data, {**given, **(headers or {})})
        response = self.connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, response.read(), found)

    def send(
        self, entity: str, body: bytes | str = b"", broker: Any = None, **headers: str
    ) -> Answer:
        """Send a message; underscores in the names of headers stand for hyphens."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if broker is not None:
            given["BrokerProperties"] = json.dumps(broker)
        return self.ask("POST", f"/{entity}/messages", body, given)

    def send_batch(self, entity: str, messages: Any) -> Answer:
        """Send messages as one batch; a text is sent as it is."""
        body = messages if isinstance(messages, str) else json.dumps(messages)
        return self.ask("POST", f"/{entity}/messages", body, {"Content-Type": BATCH})

    def lock(self, entity: str, timeout: float | None = 2) -> Answer:
        """Receive a message, and lock it."""
        return self.ask("POST", self._head(entity, timeout))

    def take(self, entity: str, timeout: float | None = 2) -> Answer:
        """Receive a message, and delete it."""
        return self.ask("DELETE", self._head(entity, timeout))

    def complete(self, locked: Answer) -> Answer:
        """Complete a message."""
        return self.ask("DELETE", locked.location)

    def unlock(self, locked: Answer) -> Answer:
        """Give a message back."""
        return self.ask("PUT", locked.location)

    def renew(self, locked: Answer) -> Answer:
        """Renew the lock of a message."""
        return self.ask("POST", locked.location)

    def _head(self, entity: str, timeout: float | None) -> str:
        query = "" if timeout is None else f"?timeout={timeout:g}"
        return f"/{entity}/messages/head{query}"
