"""A secured bus whose front end serves administration over HTTPS, and on a shared port."""

import http.client
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from azure.servicebus.management import ServiceBusAdministrationClient

from bendybus.domain import shared_access
from bendybus.domain.limits import Tier
from tests.integration.secured import ROOT, ROOT_KEY, ROOT_POLICY, SecuredBus
from tests.ports import HOST, free_port


class Answer(NamedTuple):
    """A response."""

    status: int
    text: str
    headers: dict[str, str]


class WebBus:
    """A bus with an HTTPS port and a shared port, both at `HOST`."""

    def __init__(
        self, folder: Path, policies: Sequence[Any] = (ROOT,), tier: Tier = Tier.STANDARD
    ) -> None:
        self.https = f"{HOST}:{free_port()}"
        self.shared = f"{HOST}:{free_port()}"
        self.secured = SecuredBus(
            folder,
            policies,
            partitions=16 if tier is Tier.STANDARD else 2,
            tier=tier,
            front_end_options=(f"--http-listen={self.https}", f"--shared-listen={self.shared}"),
        )

    @property
    def ca_file(self) -> str:
        """What clients must trust."""
        return str(self.secured.ca_file)

    def connection_string(
        self, key: str = ROOT_KEY, name: str = ROOT_POLICY, *, address: str = ""
    ) -> str:
        """Return what an official SDK takes; without `address`, for the HTTPS port."""
        return (
            f"Endpoint=sb://{address or self.https};SharedAccessKeyName={name};"
            f"SharedAccessKey={key}"
        )

    def azure(self, **options: Any) -> ServiceBusAdministrationClient:
        """Return an administration client of azure-servicebus."""
        return ServiceBusAdministrationClient.from_connection_string(
            self.connection_string(**options), connection_verify=self.ca_file
        )

    def token(self, key: str = ROOT_KEY, name: str = ROOT_POLICY) -> str:
        """Return a token for the namespace."""
        return shared_access.sign(f"https://{self.https}/", name, key, shared_access.NEVER_S)

    def ask(
        self, method: str, path: str, body: str = "", *, token: str | None = None, **headers: str
    ) -> Answer:
        """Make a request; without `token`, with the root policy's."""
        if token is None:
            token = self.token()
        given = {"Authorization": token} if token else {}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        host, port = self.https.split(":")
        connection = http.client.HTTPSConnection(host, int(port), timeout=30, context=self.tls())
        try:
            connection.request(method, path, body.encode(), given)
            response = connection.getresponse()
            return Answer(response.status, response.read().decode(), dict(response.headers))
        finally:
            connection.close()

    def tls(self) -> ssl.SSLContext:
        """Return a context that trusts the bus."""
        return ssl.create_default_context(cafile=self.ca_file)

    def end(self) -> None:
        """End all of it."""
        self.secured.end()
