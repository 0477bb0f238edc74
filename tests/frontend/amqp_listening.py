"""An AMQP listener in a thread with its own loop; its front end has no partitions."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from bendybus.domain import shared_access
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.listeners.amqp.client_connection import Times
from bendybus.frontend.listeners.amqp.listener import AmqpListener
from bendybus.frontend.listeners.web.administration import Administration
from bendybus.frontend.listeners.web.messages import Messages
from bendybus.frontend.listeners.web.server import HttpServer
from bendybus.frontend.security.authenticator import Authenticator
from bendybus.frontend.security.policy_file import PolicyFile
from bendybus.frontend.settings import Settings
from tests.integration.raw_amqp import RawAmqp
from tests.ports import HOST

Value = TypeVar("Value")
POLICY, KEY = "root", "key"


class Listening:
    """Listens until the end of `with`. `folder`: for policies; None, and no token is needed."""

    def __init__(
        self,
        folder: Path | None = None,
        *,
        connections_max: int = 5_000,
        times: Times | None = None,
        loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    ) -> None:
        self._file = None if folder is None else folder / "policies.json"
        if self._file is not None:
            root = {"name": POLICY, "rights": ["Manage"], "entity": "", "keys": [KEY]}
            self._file.write_text(json.dumps({"policies": [root]}))
        self._options: dict[str, Any] = {"connections_max": connections_max, "times": times}
        self._loop = loop()
        self.failures: list[dict[str, Any]] = []
        self._loop.set_exception_handler(lambda _, context: self.failures.append(context))
        self._thread = threading.Thread(target=self._loop.run_forever)
        self.listener: Any = None
        self.http: Any = None
        self.address = self.http_address = ""

    def __enter__(self) -> "Listening":
        self._thread.start()
        self.run(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self.listener.close(0.2))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Any) -> Any:
        """Run a coroutine on the loop; return its result."""
        return self.start(work).result(30)

    def start(self, work: Any) -> Any:
        """Run a coroutine on the loop; return its future."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def ask(self, look: Callable[[], Value]) -> Value:
        """Return what a function returns on the loop."""

        async def call() -> Value:
            return look()

        found: Value = self.run(call())
        return found

    async def _open(self) -> None:
        file = None if self._file is None else PolicyFile(self._file)
        front_end = FrontEnd(Settings(partitions={}, access_policies=self._file))
        authenticator = Authenticator(file)
        self.listener = AmqpListener(front_end, authenticator, **self._options)
        self.address = f"{HOST}:{await self.listener.open(f'{HOST}:0')}"
        self.http = HttpServer(
            self.listener.admit,
            front_end.ready,
            Administration(front_end, authenticator),
            Messages(front_end, authenticator),
            front_end.quota.turns,
            connections_max=self._options["connections_max"],
            request_s=self.listener.times.open_s,
        )
        await self.http.start()
        self.listener.serve_also(self.http)
        self.http_address = f"{HOST}:{await self.http.open(f'{HOST}:0', None)}"

    def raw(self, **options: Any) -> RawAmqp:
        """Return a client."""
        return RawAmqp(self.address, **options)

    def token(self, lives_s: float = 600.0) -> str:
        """Return a token for everything, good for so long."""
        ends_s = int(time.time() + lives_s - shared_access.CLOCK_SKEW_S)
        return shared_access.sign(f"amqp://{self.address}/", POLICY, KEY, ends_s)

    def connections(self) -> Sequence[Any]:
        """Return what the listener has of its connections."""
        return self.ask(lambda: list(self.listener._doors))
