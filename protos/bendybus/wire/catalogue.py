"""How entries of the catalogue travel between partitions, front ends and the operator.

Peers of 0.4 know queues only, and take whatever stands where entries of queues stand for a queue.
So topics and subscriptions travel in fields of their own, `others`, which such a peer does not
read: it does not see them in a catalogue, and refuses a commit or a copy of one, since the field
that it reads has no name. Copies of session-aware queues travel so, too: such a peer would take one
for a queue without sessions. A partition says in its catalogue what it can keep.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bendybus.domain import bounds, entity_settings, limits
from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters.rule_set import RuleChange
from bendybus.internal.v1 import entity_pb2
from bendybus.wire import entities


def watch_response(
    fingerprint: entity_pb2.Fingerprint,
    changed: Iterable[Entity],
    *,
    snapshot: bool,
    pulls: bool = False,
) -> entity_pb2.WatchEntitiesResponse:
    """Return entries as a partition tells them to its watchers.

    `pulls`: it takes what it lacks from the registrar by itself.
    """
    response = entity_pb2.WatchEntitiesResponse(
        fingerprint=fingerprint,
        snapshot=snapshot,
        kinds=[entities.kind_to_proto(kind) for kind in EntityKind],
        knows_sessions=True,
        knows_delays=True,
        pulls=pulls,
        settings_version=entity_settings.VERSION,
    )
    for entity in changed:
        into = response.entities if entity.kind is EntityKind.QUEUE else response.others
        into.append(entities.entity_to_proto(entity))
    return response


def parts(
    response: entity_pb2.WatchEntitiesResponse, part_bytes: int = 0
) -> Iterator[entity_pb2.WatchEntitiesResponse]:
    """Divide an answer that is larger than a reader may take; mostly it is one part itself.

    `part_bytes`: what the reader asks for; 0: the most there may be.
    """
    part_bytes = min(part_bytes or limits.CATALOGUE_PART_BYTES, limits.CATALOGUE_PART_BYTES)
    if response.ByteSize() <= part_bytes:
        yield response
        return
    part, size_bytes = _empty(response, snapshot=response.snapshot), 0
    for field in ("entities", "others"):
        for each in getattr(response, field):
            more_bytes = each.ByteSize()
            if size_bytes and size_bytes + more_bytes > part_bytes:
                part.more = response.snapshot
                yield part
                part, size_bytes = _empty(response, snapshot=False), 0
            getattr(part, field).append(each)
            size_bytes += more_bytes
    yield part


def _empty(
    response: entity_pb2.WatchEntitiesResponse, *, snapshot: bool
) -> entity_pb2.WatchEntitiesResponse:
    """Return an answer without entries."""
    return entity_pb2.WatchEntitiesResponse(
        fingerprint=response.fingerprint,
        snapshot=snapshot,
        kinds=response.kinds,
        knows_sessions=response.knows_sessions,
        knows_delays=response.knows_delays,
        pulls=response.pulls,
        settings_version=response.settings_version,
    )


class Parts:
    """Puts the parts of a snapshot together; one for each stream."""

    def __init__(self, bytes_max: int = 0) -> None:
        """`bytes_max`: of all parts together; 0: as many as come."""
        self._bytes_max = bytes_max
        self._size_bytes = 0
        self._begun: entity_pb2.WatchEntitiesResponse | None = None

    def whole(
        self, response: entity_pb2.WatchEntitiesResponse
    ) -> entity_pb2.WatchEntitiesResponse | None:
        """Return the answer that a part completes, None if more parts follow.

        Raises InvalidArgument when they are too large together.
        """
        if self._begun is None and not response.more:
            return response
        self._size_bytes += response.ByteSize()
        if self._bytes_max and self._size_bytes > self._bytes_max:
            raise InvalidArgument(
                "catalogue", f"must be at most {self._bytes_max} bytes in all its parts."
            )
        if self._begun is None:
            self._begun = response
            return None
        begun, goes_on = self._begun, response.more
        begun.entities.extend(response.entities)
        begun.others.extend(response.others)
        if goes_on:
            return None
        begun.more, self._begun, self._size_bytes = False, None, 0
        return begun


def entries_of(response: entity_pb2.WatchEntitiesResponse) -> list[Entity]:
    """Return the entries that a partition told, of the kinds that this version knows."""
    found = [each for each in response.others if entities.knows_kind(each.kind)]
    return [entities.entity_from_proto(each) for each in (*response.entities, *found)]


def kinds_of(response: entity_pb2.WatchEntitiesResponse) -> frozenset[EntityKind]:
    """Return the kinds that a partition can keep; one of 0.4 says nothing."""
    told = (entities.kind_from_proto(k) for k in response.kinds if entities.knows_kind(k))
    return frozenset((EntityKind.QUEUE, *told))


def commit_request(
    kind: EntityKind,
    name: str,
    changes: Mapping[str, Any],
    rule_change: RuleChange | None = None,
    **fields: Any,
) -> entity_pb2.CommitEntityRequest:
    """Return the request for a change; `fields` are those that all kinds share."""
    request = entity_pb2.CommitEntityRequest(kind=entities.kind_to_proto(kind), **fields)
    if kind is EntityKind.QUEUE:
        request.name = name
    else:
        request.other_name = name
    if changes:
        # The field has the name of the kind.
        getattr(request, kind.value).CopyFrom(entities.changes_to_proto(changes, kind))
    if rule_change is not None:
        request.rule_change.CopyFrom(entities.rule_change_to_proto(rule_change))
    return request


def rule_change(request: entity_pb2.CommitEntityRequest) -> RuleChange | None:
    """Return the change of a rule that a request asks for, if it asks for one."""
    return (
        entities.rule_change_from_proto(request.rule_change)
        if request.HasField("rule_change")
        else None
    )


def commit_asked(
    request: entity_pb2.CommitEntityRequest,
) -> tuple[EntityKind, str, dict[str, Any]]:
    """Return (kind, name, fields of the description that are set) of a request.

    Raises InvalidArgument for what its sender does not know.
    """
    kind = entities.kind_from_proto(request.kind)
    name = request.name if kind is EntityKind.QUEUE else request.other_name
    changes = entities.description_changes(getattr(request, kind.value))
    if not request.kind and changes.get("requires_session"):
        # It would copy the queue to other partitions as one without sessions.
        raise InvalidArgument(
            "requiresSession", "is not known to this front end of 0.4. Finish the upgrade first."
        )
    return kind, name, changes


def commit_response(entity: Entity) -> entity_pb2.CommitEntityResponse:
    """Return the answer of the registrar."""
    proto = entities.entity_to_proto(entity)
    if entity.kind is EntityKind.QUEUE:
        return entity_pb2.CommitEntityResponse(entity=proto)
    return entity_pb2.CommitEntityResponse(other=proto)


def committed(response: entity_pb2.CommitEntityResponse) -> Entity:
    """Return the new entry."""
    found = response.other if response.HasField("other") else response.entity
    return entities.entity_from_proto(found)


def apply_request(partition: int, entries: Sequence[Entity]) -> entity_pb2.ApplyEntityRequest:
    """Return the request to copy one queue's entry, or some of topics and subscriptions."""
    if [each.kind for each in entries] == [EntityKind.QUEUE] and not by_session(entries[0]):
        [queue] = entries
        return entity_pb2.ApplyEntityRequest(
            partition=partition, entity=entities.entity_to_proto(queue)
        )
    others = [entities.entity_to_proto(each) for each in entries]
    return entity_pb2.ApplyEntityRequest(partition=partition, others=others)


def by_session(entity: Entity) -> bool:
    """Whether the messages of an entity are received by session."""
    return entity.description.requires_session


def applied(request: entity_pb2.ApplyEntityRequest) -> list[Entity]:
    """Return the entries to take. Raises InvalidArgument for more than one call may copy."""
    bounds.check_number("others", len(request.others), limits.ENTRIES_A_COPY_MAX)
    protos = request.others or (request.entity,)
    return [entities.entity_from_proto(each) for each in protos]
