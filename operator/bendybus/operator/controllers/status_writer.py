"""Writes the status of manifests at a bounded rate, urgent ones first.

Pending statuses are a map from object to its newest status: it is never larger than the number of
manifests, and an object that changes ten times a second is written once per turn.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

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
        # Target → (status to write, status that the object had when it was queued)
        self._urgent: dict[_Target, tuple[_Status, _Status]] = {}
        self._later: dict[_Target, tuple[_Status, _Status]] = {}
        # Written statuses whose event may not have arrived yet, and until when they count as
        # the object's status.
        self._fresh: dict[_Target, tuple[_Status, float]] = {}
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
        self._later.pop(target, None)
        if status == current:
            self._urgent.pop(target, None)
            return
        # A place in the line is kept: what changes all the time is written, too.
        (self._urgent if urgent else self._later)[target] = (status, current)
        self._wake.set()

    def _as_written(self, target: _Target, current: _Status) -> _Status:
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

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            waiting = self._urgent or self._later
            if not waiting:
                self._wake.clear()
                await self._wake.wait()
                continue
            gap_s = self._urgent_gap_s if waiting is self._urgent else self._gap_s
            target = next(iter(waiting))
            status, before = waiting.pop(target)
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
        try:
            await self._api.apply(body, subresource="status", manager=STATUS_MANAGER)
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
                self._urgent.setdefault(target, (status, before))
                await asyncio.sleep(self._retry_s)
            return False

    async def _note(self, target: _Target, status: _Status) -> None:
        """Post an Event, for `kubectl describe`; losing one is no harm."""
        kind, key, uid = target
        ready = _ready(status)
        now = now_utc().strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{key.name}.", "namespace": key.namespace},
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
        try:
            await self._api.create(body)
        except ApiError as error:
            logger.warning("%s %s: event not posted: %s", kind, key, error.message)


def _ready(status: _Status) -> Mapping[str, Any]:
    known = status.get("conditions") or []
    return next((each for each in known if each.get("type") == "Ready"), {})


def reason_of(status: _Status) -> str:
    """Return the reason of the Ready condition, "" if there is none."""
    return str(_ready(status).get("reason", ""))


def conditions_changed(status: _Status, current: _Status) -> bool:
    """Whether a status has other conditions than the object has; this is urgent."""
    return bool(status["conditions"] != (current.get("conditions") or []))
