"""Reconciles the entities of one bus with their manifests, and reports the result.

`plan` decides, the registrar validates and commits, the bus link makes the calls.
"""

import logging
import time
from collections.abc import Callable, Collection
from typing import Any, Final

from bendybus.crds.manifest import DeletionPolicy
from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import BusError, EntityNotFound
from bendybus.internal.v1 import entity_pb2
from bendybus.operator.bus.bus_link import BusLink
from bendybus.operator.certificates.operator_issuer import now_utc
from bendybus.operator.decisions import conditions, plan
from bendybus.operator.decisions.conditions import Readiness
from bendybus.operator.decisions.manifests import BusView, EntityView
from bendybus.operator.decisions.plan import Decision, ManifestDeletion, Step
from bendybus.operator.decisions.reasons import Reason
from bendybus.operator.metrics import Metrics

logger = logging.getLogger(__name__)
ACTIONS: Final = {
    Step.CREATE: entity_pb2.ENTITY_ACTION_CREATE,
    Step.UPDATE: entity_pb2.ENTITY_ACTION_UPDATE,
    Step.ADOPT: entity_pb2.ENTITY_ACTION_ADOPT,
    Step.PURGE: entity_pb2.ENTITY_ACTION_DELETE,
}
# Purge, create, and a check; more steps than this make no progress.
STEPS_MAX: Final = 4


class EntityReconciler:
    """Reconciles the entities of one bus."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def reconcile(
        self,
        view: EntityView,
        bus: BusView | None,
        link: BusLink | None,
        rival_of: Callable[[Entity], EntityView | None],
        unseen: Collection[str] = (),
    ) -> Readiness:
        """Reconcile an entity; return whether it is Ready. Errors of the bus become its reason.

        `unseen`: names of entities whose manifests may be where nobody watches.
        """
        began = time.monotonic()
        try:
            return await self._keep(view, bus, link, rival_of, unseen)
        except BusError as error:
            return Readiness(False, plan.reason_of(error), error.message)
        finally:
            self._metrics.reconciled(view.object_kind, time.monotonic() - began)

    async def _keep(
        self,
        view: EntityView,
        bus: BusView | None,
        link: BusLink | None,
        rival_of: Callable[[Entity], EntityView | None],
        unseen: Collection[str],
    ) -> Readiness:
        for _ in range(STEPS_MAX):
            entry = topic = own = None
            if link is not None:
                entry = link.directory.entry(view.entity_name.lower())
                topic = link.directory.entry(view.topic_key)
                own = link.directory.by_manifest_uid(view.uid)
            decision = plan.decide(
                view,
                bus,
                entry,
                rival=rival_of(entry) if entry is not None else None,
                topic=topic,
                own=own,
                unseen=entry is not None and entry.name in unseen,
                complete=link is not None and link.knows_catalogue(),
            )
            if decision.step is Step.REFUSE:
                return Readiness(False, decision.reason, decision.message)
            if link is None:
                return Readiness(
                    False,
                    Reason.NAMESPACE_NOT_READY,
                    "the partitions of the bus are not running yet.",
                )
            if decision.step is Step.NOTHING:
                assert entry is not None
                await link.copy(entry)
                return conditions.entity_readiness(
                    entry, link.unreachable(), link.behind(entry.key), topic=topic
                )
            if not link.knows_catalogue():
                return Readiness(
                    False,
                    Reason.PARTITION_UNAVAILABLE,
                    "partition 0, which commits changes of entities, does not answer; retrying.",
                )
            assert decision.wanted is not None
            if outdated := link.outdated(decision.wanted):
                what = "sessions" if view.kind is EntityKind.QUEUE else f"{view.kind}s"
                return Readiness(
                    False,
                    Reason.PARTITION_OUTDATED,
                    f"partitions {', '.join(map(str, outdated))} run an earlier version, which "
                    f"has no {what}; waiting for their upgrade.",
                )
            await self._do(view, decision, entry, link)
        # Partitions of another version may store an entity differently from what was requested.
        return Readiness(
            False,
            Reason.REFUSED,
            f"the bus accepted {decision.step.value.lower()} {STEPS_MAX} times, but the "
            f"{view.kind} differs from the manifest; check that partitions and operator have the "
            "same version.",
        )

    async def _do(
        self, view: EntityView, decision: Decision, entry: Entity | None, link: BusLink
    ) -> None:
        current = entry if entry is not None and not entry.deleted else None
        await link.commit(
            ACTIONS[decision.step],
            current.name if current is not None else view.entity_name,
            kind=current.kind if current is not None else view.kind,
            manifest_uid="" if decision.step is Step.PURGE else view.uid,
            wanted=None if decision.step is Step.PURGE else decision.wanted,
            keep=() if view.manifest is None else view.manifest.left_out(),
            uid=current.uid if current is not None else view.uid,
            if_generation=current.generation if current is not None else 0,
        )
        logger.info(
            "%s %s: %s on bus %s",
            view.kind,
            view.entity_name,
            decision.step.value.lower(),
            link.bus,
            extra={"entity": view.entity_name, "action": decision.step.value},
        )

    async def manifest_deleted(self, deletion: ManifestDeletion, link: BusLink) -> bool:
        """Release or delete the entity of a manifest that was deleted. Raises BusError.

        Return whether there was one, or had been.
        """
        entity = link.directory.by_manifest_uid(deletion.manifest_uid)
        if entity is None:
            return False
        delete = deletion.policy is DeletionPolicy.DELETE
        if not entity.deleted and (delete or not entity.orphaned):
            action = entity_pb2.ENTITY_ACTION_DELETE if delete else entity_pb2.ENTITY_ACTION_ORPHAN
            await self._end(link, entity, action)
        return True

    async def orphan(self, name: str, link: BusLink) -> None:
        """Orphan an entity whose manifest was deleted unnoticed. Raises BusError."""
        entity = link.directory.entry(name.lower())
        if entity is not None and not entity.deleted and not entity.orphaned:
            await self._end(link, entity, entity_pb2.ENTITY_ACTION_ORPHAN)

    async def _end(self, link: BusLink, entity: Entity, action: Any) -> None:
        try:
            await link.commit(
                action,
                entity.name,
                kind=entity.kind,
                manifest_uid=entity.manifest_uid,
                uid=entity.uid,
                if_generation=entity.generation,
            )
        except EntityNotFound:
            return
        word = "deleted" if action == entity_pb2.ENTITY_ACTION_DELETE else "orphaned"
        logger.warning(
            "%s %s: manifest deleted; %s on bus %s",
            entity.kind,
            entity.name,
            word,
            link.bus,
            extra={"entity": entity.name, "action": word},
        )

    @staticmethod
    def status(
        view: EntityView, readiness: Readiness, generation: int, link: BusLink | None
    ) -> conditions.Status:
        """Return the complete status of an entity's manifest.

        `generation`: the one that was reconciled with this readiness.
        """
        before = view.status.get("conditions") or []
        ready = conditions.ready_condition(readiness, generation, before, now_utc())
        shown = [ready, *conditions.progress(readiness, generation, before, now_utc())]
        status: conditions.Status = {"conditions": shown, "observedGeneration": generation}
        entity = link.directory.by_manifest_uid(view.uid) if link is not None else None
        if link is not None and entity is not None and not entity.deleted:
            subscriptions = 0
            if entity.kind is EntityKind.TOPIC:
                subscriptions = link.directory.subscription_count(entity.key)
            status |= conditions.entity_facts(
                entity, link.unreachable(), link.counts(entity), subscriptions=subscriptions
            )
        return status
