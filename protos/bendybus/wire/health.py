"""grpc.health.v1 with bounds: it needs no credentials, so its cost is limited.

The servicer of grpcio-health-checking keeps a lock while it writes to a watcher: one that does not
read would keep the state of the server from ever changing. Here a slow watcher
delays only itself, and the number of watchers is limited.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

WATCHERS_MAX: Final = 64
Context = grpc.aio.ServicerContext[Any, Any]
Status = Any
_Response = health_pb2.HealthCheckResponse


class Health(health_pb2_grpc.HealthServicer):
    """The state of a server and its services."""

    def __init__(self, watchers_max: int = WATCHERS_MAX) -> None:
        self._statuses: dict[str, Status] = {}
        self._changed = asyncio.Event()
        self._watchers_max = watchers_max
        self.watchers = 0

    async def set(self, service: str, status: Status) -> None:
        """Set the state of a service, "" is the server, and notify watchers."""
        self._statuses[service] = status
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def Check(self, request: Any, context: Context) -> Any:
        """Return the state of a service; NOT_FOUND for an unknown name."""
        status = self._statuses.get(request.service)
        if status is None:
            await context.abort(grpc.StatusCode.NOT_FOUND)
        return _Response(status=status)

    async def Watch(self, request: Any, context: Context) -> AsyncGenerator[Any, None]:
        """Return the state of a service, now and whenever it changes."""
        if self.watchers >= self._watchers_max:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"at most {self._watchers_max} watches are served at a time; use Check.",
            )
        self.watchers += 1
        try:
            shown: Status = None
            while True:
                changed = self._changed
                status = self._statuses.get(request.service, _Response.SERVICE_UNKNOWN)
                if status != shown:
                    yield _Response(status=status)
                    shown = status
                await changed.wait()
        finally:
            self.watchers -= 1
