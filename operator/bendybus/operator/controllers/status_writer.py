"""Writes the status of manifests at a bounded rate, urgent ones first.

Pending statuses are a map from object to its newest status: it is never larger than the number of
manifests, and an object that changes ten times a second is written once per turn. Kubernetes
namespaces are served in turn, so that the manifests of one do not wait for all those of another.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from bendybus.crds.manifest import API_VERSION
from bendybus.operator.certificates.operator_issuer import now_utc
from bendybus.operator.kubernetes.api import ApiError, KubernetesApi
from bendybus.operator.kubernetes.names import MANAGER, ObjectKey

logger = logging.getLogger(__name__)
_Target = tuple[str, ObjectKey, str]
_Status = Mapping[str, Any]
STATUS_MANAGER: Final = "bendybus-operator-status"
RETRY_S: Final = 2.0
ECHO_S: Final = 5.0
# After so many urgent patches, one that is not, if any waits.
URGENT_IN_A_ROW: Final = 9
# Of these, a repeated reason is counted in the event that there is; the API server keeps one for
# an hour.
EVENTS_REMEMBERED: Final = 4_096


class _Line:
    """What waits to be written: target → (status to write, status when it was queued)."""

    def __init__(self) -> None:
        self._namespaces: dict[str, dict[_Target, tuple[_Status, _Status]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._namespaces.values()))

    def __bool__(self) -> bool:
        return bool(self._namespaces)

    def __contains__(self, target: _Target) -> bool:
        return target in self._namespaces.get(target[1].namespace, ())

    def put(self, target: _Target, status: _Status, current: _Status) -> None:
        """Have a status written; an object keeps its place."""
        self._namespaces.setdefault(target[1].namespace, {})[target] = (status, current)

    def drop(self, target: _Target) -> None:
        """Forget what is to be written to an object."""
        namespace = target[1].namespace
        waiting = self._namespaces.get(namespace, {})
        waiting.pop(target, None)
        if not waiting:
            self._namespaces.pop(namespace, None)

    def take(self) -> tuple[_Target, _Status, _Status]:
        """Return the next; its namespace is served again after all others."""
        namespace = next(iter(self._namespaces))
        waiting = self._namespaces.pop(namespace)
        target = next(iter(waiting))
        status, current = waiting.pop(target)
        if waiting:
            self._namespaces[namespace] = waiting
        return target, status, current

    def clear(self) -> None:
        """Forget all."""
        self._namespaces.clear()


class StatusWriter:
    """The one place that writes status."""

    def __init__(
        self,
        api: KubernetesApi,
        *,
        patches_per_s: float,
        urgent_per_s: float | None = None,
        retry_s: float = RETRY_S,
    ) -> None:
        """`urgent_per_s` limits urgent patches, `patches_per_s` others; by default both."""
        self._api = api
        self._retry_s = retry_s
        self._gap_s = 1.0 / patches_per_s
        self._urgent_gap_s = 1.0 / (urgent_per_s or patches_per_s)
        self._urgent, self._later = _Line(), _Line()
        self._urgent_in_a_row = 0
        # Object and reason → name of the event and its count.
        self._events: dict[tuple[str, str], tuple[str, int]] = {}
        # Written statuses whose event may not have arrived yet, and until when they count as
        # the object's status.
        self._fresh: dict[_Target, tuple[_Status, float]] = {}
        # What is being written now: if it arrives, it is what the object has.
        self._in_flight: tuple[_Target, _Status] | None = None
        # How often all that waits was forgotten.
        self._cleared = 0
        self._wake = asyncio.Event()
        self.written = 0
        self.failed = 0

    def put(
        self,
        kind: str,
        key: ObjectKey,
        uid: str,
        *,
        status: _Status,
        current: _Status,
        urgent: bool,
    ) -> None:
        """Have `status` written, unless the object has it already (`current`)."""
        target = (kind, key, uid)
        current = self._as_written(target, current)
        urgent = urgent or target in self._urgent
        if status == current:
            self._urgent.drop(target)
            self._later.drop(target)
            return
        if urgent:
            self._later.drop(target)
        # A place in the line is kept: what changes all the time is written, too.
        (self._urgent if urgent else self._later).put(target, status, current)
        self._wake.set()

    def _as_written(self, target: _Target, current: _Status) -> _Status:
        if self._in_flight is not None and self._in_flight[0] == target:
            return self._in_flight[1]
        fresh = self._fresh.get(target)
        if fresh is None or fresh[1] < asyncio.get_running_loop().time():
            return current
        return fresh[0]

    def waiting(self) -> int:
        """Return how many objects wait."""
        return len(self._urgent) + len(self._later)

    def clear(self) -> None:
        """Forget what waits: another operator writes now."""
        self._urgent.clear()
        self._later.clear()
        self._fresh.clear()
        self._cleared += 1

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            if not self.waiting():
                self._wake.clear()
                await self._wake.wait()
                continue
            waiting, gap_s = self._next_line()
            target, status, before = waiting.take()
            began = asyncio.get_running_loop().time()
            try:
                if await self._write(target, status, before):
                    self._remember(target, status, began)
                    if reason_of(status) != reason_of(before):
                        await self._note(target, status)
            except Exception:
                # One object's status must not end the writing of all others; it is looked at
                # again with the next change, or at the next resync.
                self.failed += 1
                logger.exception("%s %s: status not written", *target[:2])
            spent = asyncio.get_running_loop().time() - began
            await asyncio.sleep(max(0.0, gap_s - spent))

    def _next_line(self) -> tuple[_Line, float]:
        """Return what is written from next, and the gap after that."""
        urgent = bool(self._urgent)
        if self._later and self._urgent_in_a_row >= URGENT_IN_A_ROW:
            urgent = False
        self._urgent_in_a_row = self._urgent_in_a_row + 1 if urgent else 0
        return (self._urgent, self._urgent_gap_s) if urgent else (self._later, self._gap_s)

    def _remember(self, target: _Target, status: _Status, now: float) -> None:
        while self._fresh and next(iter(self._fresh.values()))[1] < now:
            del self._fresh[next(iter(self._fresh))]
        self._fresh.pop(target, None)
        self._fresh[target] = (status, now + ECHO_S)

    async def _write(self, target: _Target, status: _Status, before: _Status) -> bool:
        kind, key, uid = target
        body = {
            "apiVersion": API_VERSION,
            "kind": kind,
            # The UID makes the API server reject the patch if the object was recreated.
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid},
            "status": dict(status),
        }
        cleared = self._cleared
        try:
            await self._apply(target, status, body)
            self.written += 1
            return True
        except ApiError as error:
            self.failed += 1
            if error.status in (404, 409):
                return False
            logger.warning(
                "%s %s: status not written: %s",
                kind,
                key,
                error.message,
                extra={"action": "status"},
            )
            if not error.final:
                if target not in self._urgent and cleared == self._cleared:
                    self._urgent.put(target, status, before)
                await asyncio.sleep(self._retry_s)
            return False

    async def _apply(self, target: _Target, status: _Status, body: dict[str, Any]) -> None:
        self._in_flight = (target, status)
        try:
            await self._api.apply(body, subresource="status", manager=STATUS_MANAGER)
        finally:
            self._in_flight = None

    async def _note(self, target: _Target, status: _Status) -> None:
        """Post an Event, for `kubectl describe`, or count it; losing one is no harm."""
        kind, key, uid = target
        ready = _ready(status)
        known = self._events.pop((uid, str(ready.get("reason"))), None)
        now = now_utc().strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            if known is not None:
                name, count = known[0], known[1] + 1
                news = {"count": count, "lastTimestamp": now, "message": ready.get("message")}
                try:
                    await self._api.merge("Event", key.namespace, name, news)
                except ApiError as error:
                    if error.status != 404:
                        raise
                    known = None
            if known is None:
                name, count = f"{key.name}.{uuid4().hex[:16]}", 1
                await self._api.create(_event(target, ready, name, now))
        except ApiError as error:
            logger.warning("%s %s: event not posted: %s", kind, key, error.message)
            return
        if len(self._events) >= EVENTS_REMEMBERED:
            del self._events[next(iter(self._events))]
        self._events[uid, str(ready.get("reason"))] = (name, count)


def _event(target: _Target, ready: Mapping[str, Any], name: str, now: str) -> dict[str, Any]:
    kind, key, uid = target
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": key.namespace},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": kind,
            "name": key.name,
            "namespace": key.namespace,
            "uid": uid,
        },
        "type": "Normal" if ready.get("status") == "True" else "Warning",
        "reason": ready.get("reason"),
        "message": ready.get("message"),
        "source": {"component": MANAGER},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _ready(status: _Status) -> Mapping[str, Any]:
    known = status.get("conditions") or []
    return next((each for each in known if each.get("type") == "Ready"), {})


def reason_of(status: _Status) -> str:
    """Return the reason of the Ready condition, "" if there is none."""
    return str(_ready(status).get("reason", ""))


def conditions_changed(status: _Status, current: _Status) -> bool:
    """Whether a status has other conditions than the object has; this is urgent."""
    return bool(status["conditions"] != (current.get("conditions") or []))
