"""The management calls of topics and subscriptions in memory, decided by the real catalogue.

For the fakes of front ends: `answered_by` gives a class the methods, async or not.
"""

import uuid
from collections.abc import Callable
from typing import Any

from bendybus.domain import entity as entities
from bendybus.domain import subscription_name
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Entity, Fingerprint
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import BusError
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.limits import Tier
from bendybus.partition_server.state.catalogue import Catalogue
from bendybus.partition_server.state.commands import CommitEntity, Now
from bendybus.v1 import management_pb2 as pb
from bendybus.wire import entities as wire

NAMES = {EntityKind.TOPIC: "Topic", EntityKind.SUBSCRIPTION: "Subscription"}
FINGERPRINT = Fingerprint("test", "u", Tier.STANDARD, 16, 0)
NOW = Now(1_700_000_000_000, 0)


class Topics:
    """Topics and subscriptions of one bus, whose partitions hold nothing."""

    def __init__(self) -> None:
        self._catalogue = Catalogue(FINGERPRINT, ())
        self.directory = Directory()
        self.directory.update(0, FINGERPRINT, [], snapshot=True)

    def answer(self, method: str, request: Any) -> Any:
        """Return the answer of a call by its name. Raises the domain error."""
        single = method.removesuffix("s")
        action, kind = next(
            (single.removesuffix(name), kind)
            for kind, name in NAMES.items()
            if single.endswith(name)
        )
        if action == "List":
            return self._page(kind, request)
        response = getattr(pb, f"{method}Response")
        name = _name(request)
        if action == "Get":
            entity = self.directory.find(name, kind)
            return response(**{kind.value: self._shown(entity, runtime=request.include_runtime)})
        made = self._change(EntityAction[action.upper()], kind, name, request)
        if action == "Delete":
            return response(outcomes=[pb.PartitionOutcome(partition=0, done=True)])
        return response(**{kind.value: self._shown(made, runtime=False)})

    def _change(self, action: EntityAction, kind: EntityKind, name: str, request: Any) -> Entity:
        changes = {}
        if action is not EntityAction.DELETE:
            changes = wire.description_changes(request.description)
        command = CommitEntity(
            "t",
            action,
            name,
            wire.origin_from_proto(request.origin),
            changes,
            getattr(request, "uid", "")
            or (str(uuid.uuid4()) if action is EntityAction.CREATE else ""),
            kind=kind,
        )
        entities.check_name_of(name, kind)
        made, entries = self._catalogue.decide(command, NOW)
        for entry in entries:
            self._catalogue.put(entry)
        self.directory.update(0, FINGERPRINT, entries, snapshot=False)
        return made

    def _page(self, kind: EntityKind, request: Any) -> Any:
        topic = getattr(request, "topic_name", "")
        if topic:
            self.directory.find(topic, EntityKind.TOPIC)
        page, more = self.directory.page(
            request.page_token,
            request.page_size or 100,
            with_orphaned=request.include_orphaned,
            kind=kind,
            topic=topic,
        )
        shown = [self._shown(each, runtime=request.include_runtime) for each in page]
        for each in shown if kind is EntityKind.SUBSCRIPTION else ():
            each.description.ClearField("rules")
        token = page[-1].key if more else ""
        if kind is EntityKind.TOPIC:
            return pb.ListTopicsResponse(topics=shown, next_page_token=token)
        return pb.ListSubscriptionsResponse(subscriptions=shown, next_page_token=token)

    def _shown(self, entity: Entity, *, runtime: bool) -> Any:
        shown: Any
        if entity.kind is EntityKind.TOPIC:
            count = self.directory.subscription_count(entity.key)
            shown = wire.topic_to_proto(entity, count)
            shown.reported_size_in_megabytes = entity.description.max_size_in_megabytes
        else:
            shown = wire.subscription_to_proto(entity)
        if runtime:
            shown.runtime.availability_status = pb.ENTITY_AVAILABILITY_STATUS_AVAILABLE
            shown.runtime.created_at_ms = shown.runtime.updated_at_ms = NOW.wall_ms
            shown.runtime.partitions.extend(
                pb.PartitionRuntime(partition=index, reachable=True)
                for index in entity.partitions()
            )
        return shown


def _name(request: Any) -> str:
    if hasattr(request, "topic_name"):
        return subscription_name.compose(request.topic_name, request.name)
    return str(request.name)


def methods() -> list[str]:
    """Return the calls of topics and subscriptions."""
    service = pb.DESCRIPTOR.services_by_name["ManagementService"]
    return [m.name for m in service.methods if "Topic" in m.name or "Subscription" in m.name]


def answered_by(
    topics: Callable[[Any], Topics], refuse: Callable[[Any, BusError], Any], *, is_async: bool
) -> Callable[[type[Any]], type[Any]]:
    """Return a decorator that gives a service the calls, answered by `topics(self)`."""

    def decorate(service: type[Any]) -> type[Any]:
        for name in methods():
            setattr(service, name, _async(name) if is_async else _plain(name))
        return service

    def _plain(name: str) -> Any:
        def answer(self: Any, request: Any, context: Any) -> Any:
            try:
                return topics(self).answer(name, request)
            except BusError as error:
                return refuse(context, error)

        return answer

    def _async(name: str) -> Any:
        async def answer(self: Any, request: Any, context: Any) -> Any:
            try:
                return topics(self).answer(name, request)
            except BusError as error:
                return await refuse(context, error)

        return answer

    return decorate
