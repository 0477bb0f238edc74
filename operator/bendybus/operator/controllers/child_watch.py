"""Watches the objects that the operator creates: by label, in pages; of Secrets the metadata only.

Not with Kopf: it lists every object of a kind in the cluster and filters afterwards, and the
Secrets of a cluster may exceed the operator's memory.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, Protocol

from bendybus.domain.backoff import Backoff
from bendybus.operator.decisions import manifests
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.api import ApiError, Body, KubernetesApi
from bendybus.operator.kubernetes.names import ObjectKey
from bendybus.operator.settings import Settings

logger = logging.getLogger(__name__)
KINDS: Final = ("StatefulSet", "Deployment", "Service", "Secret")
SELECTOR: Final = ",".join(f"{name}={value}" for name, value in names.MANAGED_BY.items())
STANDBY_S: Final = 2.0
RETRY: Final = Backoff(first_s=1.0, max_s=30.0)
GONE: Final = 410


class ChildListener(Protocol):
    """The receiver of the events; the controller manager."""

    leading: bool

    def child_event(self, change: str | None, body: Body) -> None:
        """Take an event of an object that the operator created."""


class ChildWatch:
    """Runs one task per kind, which polls every watched namespace in turn."""

    def __init__(self, api: KubernetesApi, settings: Settings, listener: ChildListener) -> None:
        self._api = api
        self._listener = listener
        self._namespaces = settings.watch_namespaces or ("",)

    async def run(self) -> None:
        """Watch until cancelled; only while this operator leads."""
        async with asyncio.TaskGroup() as group:
            for kind in KINDS:
                group.create_task(self._run(kind), name=f"watch-{kind}")

    async def _run(self, kind: str) -> None:
        watches = [_Watch(self._api, self._listener, kind, each) for each in self._namespaces]
        failures = 0
        while True:
            if not self._listener.leading:
                for watch in watches:
                    watch.forget()
                await asyncio.sleep(STANDBY_S)
                continue
            try:
                for watch in watches:
                    await watch.look()
                failures = 0
            except ApiError as error:
                logger.warning(
                    "operator: %s not watched: %s", kind, error.message, extra={"action": "retry"}
                )
                failures += 1
                await asyncio.sleep(RETRY.delay_s(failures))


class _Watch:
    """One kind in one namespace. Remembers which objects exist, not their content."""

    def __init__(
        self, api: KubernetesApi, listener: ChildListener, kind: str, namespace: str
    ) -> None:
        self._api = api
        self._listener = listener
        self._kind = kind
        self._namespace = namespace
        self._version = ""
        self._known: dict[ObjectKey, Body] = {}

    def forget(self) -> None:
        """Start over with the next poll."""
        self._version, self._known = "", {}

    async def look(self) -> None:
        """Poll once and hand over the changes. Raises ApiError."""
        begins = not self._version
        try:
            changes = await self._api.watch(
                self._kind, self._namespace, labels=SELECTOR, version=self._version
            )
        except ApiError as error:
            if error.status != GONE:
                raise
            self._version = ""
            return
        if begins:
            self._gone(manifests.key_of(body) for _, body in changes.events)
        for change, body in changes.events:
            key = manifests.key_of(body)
            self._known.pop(key, None)
            if change != "DELETED":
                metadata = body["metadata"]
                kept = {field: metadata.get(field) for field in ("name", "namespace", "labels")}
                self._known[key] = {"kind": self._kind, "metadata": kept}
            self._listener.child_event(change, body)
        self._version = changes.version

    def _gone(self, there: Iterable[ObjectKey]) -> None:
        """Report objects that were deleted between two watches."""
        for key in self._known.keys() - set(there):
            self._listener.child_event("DELETED", self._known.pop(key))
