"""What follows from manifests that are gone: their queues are released, or deleted if they said so.

What is not done yet is kept by the UID of its manifest, so it is bounded by the manifests that
there were; a look that fails is repeated after a pause that grows, or at once when there is news.
"""

import logging
from collections.abc import Collection
from typing import Final

from bendybus.crds.manifest import DeletionPolicy
from bendybus.domain.errors import BusError
from bendybus.operator.bus.bus_link import BusLink
from bendybus.operator.controllers.entity_reconciler import EntityKeeping
from bendybus.operator.decisions import plan
from bendybus.operator.decisions.manifests import World
from bendybus.operator.decisions.plan import Departure
from bendybus.operator.kubernetes.api import ApiError, KubernetesApi
from bendybus.operator.kubernetes.names import ObjectKey

logger = logging.getLogger(__name__)
RETRY_S_MIN: Final = 1.0
RETRY_S_MAX: Final = 30.0
NAMES_SHOWN: Final = 5


class Leaving:
    """The departures of one bus. `due`: when it wants to be carried out; None: nothing is left."""

    def __init__(
        self,
        bus: ObjectKey,
        api: KubernetesApi,
        world: World,
        entities: EntityKeeping,
        *,
        watched: Collection[str] = (),
    ) -> None:
        """`watched`: the Kubernetes namespaces whose manifests are seen; none: all."""
        self._bus = bus
        self._api = api
        self._world = world
        self._watched = watched
        self._entities = entities
        self._departures: dict[str, Departure] = {}
        self._look_for_orphans = True
        self._retry_s = RETRY_S_MIN
        # Queues whose manifests are gone or where nobody looks; and those Kubernetes namespaces.
        self.unseen: tuple[str, ...] = ()
        self.not_served: tuple[str, ...] = ()
        self.due: float | None = 0.0

    def note(self, departure: Departure) -> None:
        """Take note of a manifest that was deleted."""
        self._departures[departure.manifest_uid] = departure
        self.hurry()

    def look_for_orphans(self) -> None:
        """Have the catalogue searched for manifests that left unseen; lists are complete now."""
        self._look_for_orphans = True
        self.hurry()

    def hurry(self) -> None:
        """Let what is left not wait for its pause: something changed."""
        self._retry_s = RETRY_S_MIN
        if self._departures or self._look_for_orphans:
            self.due = 0.0

    def departures(self) -> list[Departure]:
        """Return what is not carried out yet, for a keeper that goes on with it."""
        return list(self._departures.values())

    def undone(self) -> list[str]:
        """Return the names of queues whose manifests left and that are not released yet."""
        return [departure.name for departure in self._departures.values()]

    async def carry_out(self, link: BusLink, now: float) -> None:
        """Do what is left, as far as the bus lets; `due` says when to come again."""
        refused: BusError | ApiError | None
        try:
            refused = await self._release(link)
            if self._look_for_orphans:
                await self._mark_orphans(link)
        except (BusError, ApiError) as error:
            refused = error
        if refused is None:
            # Notes that came meanwhile are there still, and have set a new time themselves.
            self.due = 0.0 if self._departures or self._look_for_orphans else None
            self._retry_s = RETRY_S_MIN
            return
        logger.warning(
            "bus %s: not released yet: %s; next try in %.0f s: %s",
            self._bus,
            ", ".join(self.undone()[:NAMES_SHOWN]) or "orphans",
            self._retry_s,
            refused,
            extra={"action": "retry"},
        )
        self.due = now + self._retry_s
        self._retry_s = min(2 * self._retry_s, RETRY_S_MAX)

    async def _release(self, link: BusLink) -> BusError | None:
        """Release them one by one; return the last refusal. Raises what keeps all of them."""
        refused: BusError | None = None
        for uid, departure in list(self._departures.items()):
            try:
                await self._entities.depart(await self._as_seen(departure), link)
            except BusError as error:
                if error.retryable:
                    raise
                refused = error
                continue
            del self._departures[uid]
        return refused

    async def _mark_orphans(self, link: BusLink) -> None:
        uids = {queue.uid for queue in self._world.queues_of(self._bus).values()}
        found = plan.orphans(link.directory.live(), uids, set(self._departures))
        # Before the calls: lists that come while they run are looked through once more.
        self._look_for_orphans = False
        self.unseen, self.not_served = (), ()
        if self._watched:
            # Where some manifests are not seen, a queue without one may be in use: refusing its
            # sends would be the harm, so it is said, and somebody who sees them decides.
            view = self._world.buses.get(self._bus)
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
            self._look_for_orphans = True
            raise

    async def _as_seen(self, departure: Departure) -> Departure:
        """Return the departure; in a Kubernetes namespace that ends, Delete becomes Retain."""
        if departure.policy is not DeletionPolicy.DELETE:
            return departure
        namespace = await self._api.get("Namespace", "", departure.namespace)
        if namespace is not None and "deletionTimestamp" not in namespace["metadata"]:
            return departure
        return departure.retained()
