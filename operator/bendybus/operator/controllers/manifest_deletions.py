"""Carries out deletions of manifests: entities are orphaned, or deleted by deletionPolicy Delete.

Pending deletions are keyed by the manifest's UID, so they are bounded by the number of manifests.
A failure is retried with exponential backoff, or at once when something changes. Volumes of buses
whose manifests were deleted with deletionPolicy Delete are deleted here too.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable
from typing import Final

from bendybus.crds.manifest import DeletionPolicy
from bendybus.domain.backoff import Backoff
from bendybus.domain.directory import Directory
from bendybus.domain.errors import BusError
from bendybus.operator.bus.bus_link import BusLink
from bendybus.operator.controllers.bus_reconciler import BusReconciler
from bendybus.operator.controllers.entity_controller import EntityReconciler
from bendybus.operator.decisions import plan
from bendybus.operator.decisions.manifests import BusView, ManifestCache
from bendybus.operator.decisions.plan import ManifestDeletion
from bendybus.operator.kubernetes.api import ApiError, KubernetesApi
from bendybus.operator.kubernetes.names import ObjectKey

logger = logging.getLogger(__name__)
RETRY: Final = Backoff(first_s=1.0, max_s=30.0)
NAMES_SHOWN: Final = 5
WITHOUT_ENTITY_MAX: Final = 1_000
# Five minutes of attempts.
VOLUME_ATTEMPTS_MAX: Final = 15


class ManifestDeletions:
    """The pending deletions of one bus. `due`: when to carry them out; None: none is pending."""

    def __init__(
        self,
        bus: ObjectKey,
        api: KubernetesApi,
        cache: ManifestCache,
        entities: EntityReconciler,
        *,
        watched: Collection[str] = (),
    ) -> None:
        """`watched`: the Kubernetes namespaces that the operator watches; empty: all."""
        self._bus = bus
        self._api = api
        self._cache = cache
        self._watched = watched
        self._entities = entities
        self._deletions: dict[str, ManifestDeletion] = {}
        # Those that found no entity: the registrar may still be making it, as asked before.
        self._without_entity: dict[str, ManifestDeletion] = {}
        self._search_orphans = True
        self._failures = 0
        # Entities whose manifests are gone or in a namespace that is not watched; those namespaces.
        self.unseen: tuple[str, ...] = ()
        self.not_served: tuple[str, ...] = ()
        self.due: float | None = 0.0

    def note(self, deletion: ManifestDeletion) -> None:
        """Record a manifest that was deleted."""
        self._deletions[deletion.manifest_uid] = deletion
        self.retry_now()

    def entities_changed(self, keys: Iterable[str], directory: Directory) -> None:
        """Carry out the deletions of manifests whose entities came only afterwards."""
        for key in keys:
            entry = directory.entry(key)
            uid = entry.manifest_uid if entry is not None else ""
            late = self._without_entity.pop(uid, None)
            if late is not None and self._cache.by_uid(late.manifest_uid) is None:
                self.note(late)

    def search_orphans(self) -> None:
        """Have the catalogue searched for entities without a manifest; the cache is complete."""
        self._search_orphans = True
        self.retry_now()

    def retry_now(self) -> None:
        """Retry now, without waiting for the backoff: something changed."""
        self._failures = 0
        if self._deletions or self._search_orphans:
            self.due = 0.0

    def deletions(self) -> list[ManifestDeletion]:
        """Return the pending deletions, for the controller that replaces a failed one."""
        return list(self._deletions.values())

    def pending_names(self) -> list[str]:
        """Return the names of entities whose manifests are gone and that are not released yet."""
        return [deletion.name for deletion in self._deletions.values()]

    async def carry_out(self, link: BusLink, now: float) -> None:
        """Carry out what is possible now; sets `due` to the time of the next attempt."""
        refused: BusError | ApiError | None
        try:
            refused = await self._release(link)
            if self._search_orphans:
                await self._mark_orphans(link)
        except (BusError, ApiError) as error:
            refused = error
        if refused is None:
            # Deletions that were recorded meanwhile are still pending.
            self.due = 0.0 if self._deletions or self._search_orphans else None
            self._failures = 0
            return
        self._failures += 1
        delay_s = RETRY.delay_s(self._failures)
        logger.warning(
            "bus %s: entities not released yet: %s; retrying in %.0f s: %s",
            self._bus,
            ", ".join(self.pending_names()[:NAMES_SHOWN]) or "orphans",
            delay_s,
            refused,
            extra={"action": "retry"},
        )
        self.due = now + delay_s

    async def _release(self, link: BusLink) -> BusError | None:
        """Release them one by one; return the last refusal. Raises BusError if none can proceed."""
        refused: BusError | None = None
        for uid, deletion in list(self._deletions.items()):
            try:
                seen = await self._as_seen(deletion, link)
            except BusError as error:
                # What it holds is not known; that of others may be.
                refused = error
                continue
            try:
                found = await self._entities.manifest_deleted(seen, link)
            except BusError as error:
                if error.retryable:
                    raise
                refused = error
                continue
            del self._deletions[uid]
            if not found:
                if len(self._without_entity) >= WITHOUT_ENTITY_MAX:
                    del self._without_entity[next(iter(self._without_entity))]
                self._without_entity[uid] = deletion
        return refused

    async def _mark_orphans(self, link: BusLink) -> None:
        uids = {view.uid for view in self._cache.entities_of(self._bus).values()}
        known = link.directory.live()
        found = plan.orphans(known, uids, set(self._deletions), self._cache.kinds)
        # Before the calls: a list that completes while they run requests another search.
        self._search_orphans = False
        self.unseen, self.not_served = (), ()
        if self._watched:
            # Its manifest may be in a namespace that is not watched, and the entity in use: it is
            # reported in status instead of orphaned, since orphans reject sends.
            view = self._cache.buses.get(self._bus)
            if view is None or view.manifest is None:
                return
            allowed = view.manifest.spec.allowed_namespaces
            self.not_served = tuple(sorted(set(allowed) - set(self._watched)))
            if self.not_served:
                self.unseen = tuple(sorted(found))
                return
        try:
            for name in found:
                await self._entities.orphan(name, link)
        except BusError:
            self._search_orphans = True
            raise

    async def _as_seen(self, deletion: ManifestDeletion, link: BusLink) -> ManifestDeletion:
        """Return the deletion; Delete becomes Retain when its Kubernetes namespace was deleted.

        And when that may not use the bus any more: the bus's owner took its rights away; and when
        the entity holds messages: they came after the webhook had looked, while the bus was paused
        or away, or it was not asked. Raises BusError when it is not known whether it does.
        """
        if deletion.policy is not DeletionPolicy.DELETE:
            return deletion
        if not plan.may_use(deletion.namespace, self._cache.buses.get(self._bus)):
            return deletion.retained()
        namespace = await self._api.get("Namespace", "", deletion.namespace)
        if plan.is_deleted_with(namespace, deletion):
            return deletion.retained()
        if not deletion.with_messages and await self._holds_messages(deletion, link):
            return deletion.retained()
        return deletion

    async def _holds_messages(self, deletion: ManifestDeletion, link: BusLink) -> bool:
        entity = link.directory.by_manifest_uid(deletion.manifest_uid)
        if entity is None or entity.deleted or not (count := await link.held(entity)):
            return False
        logger.warning(
            "%s %s: manifest deleted with deletionPolicy Delete; holds %d message(s) by now, "
            "retained on bus %s",
            entity.kind,
            entity.name,
            count,
            self._bus,
            extra={"entity": entity.name, "action": "retained"},
        )
        return True


class VolumeDeletions:
    """The deletions that are carried out now, each in a task of its own."""

    def __init__(self, buses: BusReconciler) -> None:
        self._buses = buses
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, view: BusView) -> None:
        """Delete the volumes of a bus, with several attempts."""
        task = asyncio.create_task(self._delete(view), name=f"forget-{view.key}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _delete(self, view: BusView) -> None:
        for attempt in range(1, VOLUME_ATTEMPTS_MAX + 1):
            try:
                return await self._buses.forget(view)
            except ApiError as error:
                last = error.final or attempt == VOLUME_ATTEMPTS_MAX
                logger.log(
                    logging.ERROR if last else logging.WARNING,
                    "bus %s: volumes not deleted; %s: %s",
                    view.key,
                    "they remain" if last else "retrying",
                    error.message,
                    extra={"action": "forget"},
                )
                if last:
                    return
            await asyncio.sleep(RETRY.delay_s(attempt))
