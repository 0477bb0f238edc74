"""How entries of the catalogue travel between partitions, front ends and the operator."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from bendybus.domain import bounds, limits
from bendybus.domain import entity as domain
from bendybus.domain.entity import Entity, Fingerprint
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.filters import rule_set
from bendybus.domain.filters.rule_set import RuleChange, RulesEdit, RuleSet
from bendybus.internal.v1 import entity_pb2
from bendybus.wire import contract_versions, entities
from bendybus.wire.contract_versions import Contract

_WATCHERS: Final = {
    contract_versions.FRONT_END: entity_pb2.WATCHER_FRONT_END,
    contract_versions.OPERATOR: entity_pb2.WATCHER_OPERATOR,
    contract_versions.PARTITION: entity_pb2.WATCHER_PARTITION,
}
# Entries in a part, at most: converting more would keep the loops of both ends for too long.
PART_ENTRIES_MAX: Final = 250
_NO_EDITS: Final[Mapping[str, RulesEdit]] = MappingProxyType({})
_CONTRACTS: Final = {watcher: contract for contract, watcher in _WATCHERS.items()}


def watch_request(
    contract: Contract, partition: int, part_bytes: int = 0
) -> entity_pb2.WatchEntitiesRequest:
    """Return the request to watch a partition's catalogue, by the caller of a contract.

    `part_bytes`: the largest part of a catalogue that the caller takes; 0: the most there may be.
    """
    return entity_pb2.WatchEntitiesRequest(
        partition=partition,
        part_bytes=part_bytes,
        watcher=_WATCHERS[contract],
        contract=contract.number,
    )


def watched_under(request: entity_pb2.WatchEntitiesRequest) -> Contract:
    """Return the contract under which a partition is watched.

    Raises InvalidOperation for a watcher of a version that this one does not work with.
    """
    contract = _CONTRACTS.get(request.watcher, contract_versions.FRONT_END)
    contract.check(request.contract, peer=f"this {contract.caller}", own="the partition")
    return contract


def reads_edits(request: entity_pb2.WatchEntitiesRequest) -> bool:
    """Whether a watcher takes edits of rules instead of all rules."""
    return request.watcher != entity_pb2.WATCHER_OPERATOR


def watch_responses(
    fingerprint: entity_pb2.Fingerprint,
    changed: Iterable[Entity],
    *,
    snapshot: bool,
    pulls: bool = False,
    contract: Contract = contract_versions.FRONT_END,
    edits: Mapping[str, RulesEdit] = _NO_EDITS,
    part_bytes: int = 0,
) -> Iterator[entity_pb2.WatchEntitiesResponse]:
    """Yield entries as a partition tells them to a watcher: in parts, queues first; mostly one.

    `pulls`: it takes what it lacks from the registrar by itself. `contract`: with the watcher.
    `edits`: of the rules of subscriptions, by key. `part_bytes`:
    the largest part that the watcher takes, unless one entry is larger; 0: the most there may be.
    """
    part_bytes = min(part_bytes or limits.CATALOGUE_PART_BYTES, limits.CATALOGUE_PART_BYTES)

    def empty(*, first: bool = False) -> entity_pb2.WatchEntitiesResponse:
        return entity_pb2.WatchEntitiesResponse(
            fingerprint=fingerprint,
            snapshot=snapshot and first,
            pulls=pulls,
            contract=contract.number,
        )

    part, count, size_bytes = empty(first=True), 0, 0
    for entity in sorted(changed, key=lambda each: each.kind is not EntityKind.QUEUE):
        field, proto = _told(entity, edits)
        more_bytes = proto.ByteSize()
        if count == PART_ENTRIES_MAX or (count and size_bytes + more_bytes > part_bytes):
            part.more = snapshot
            yield part
            part, count, size_bytes = empty(), 0, 0
        getattr(part, field).append(proto)
        count, size_bytes = count + 1, size_bytes + more_bytes
    yield part


def _told(entity: Entity, edits: Mapping[str, RulesEdit]) -> tuple[str, Any]:
    """Return in which field a watcher reads an entry, and the entry."""
    if entity.key in edits:
        return "rules_edited", _edited_to_proto(entity, edits[entity.key])
    return "entities", entities.entity_to_proto(entity)


def _edited_to_proto(entity: Entity, edit: RulesEdit) -> entity_pb2.RulesEdited:
    return entity_pb2.RulesEdited(
        entity=_without_rules(entity),
        removed=edit.removed,
        replaced=map(entities.rule_to_proto, edit.replaced),
        added=map(entities.rule_to_proto, edit.added),
        digest=domain.rules_of(entity).digest,
    )


def _without_rules(entity: Entity) -> entity_pb2.Entity:
    return entities.entity_to_proto(domain.with_rules(entity, RuleSet()))


Known = Callable[[str], Entity | None]


class EditOfUnknown(Exception):
    """Raised for an edit of rules whose subscription the reader does not have as it was before."""


def entries_of(response: entity_pb2.WatchEntitiesResponse, known: Known) -> list[Entity]:
    """Return the entries that a partition told, of the kinds that this version knows.

    `known` returns what the reader has of a name in lower case. Raises EditOfUnknown: a new watch
    begins with all entries.
    """
    whole = [
        entities.entity_from_proto(each)
        for each in response.entities
        if entities.knows_kind(each.kind)
    ]
    return [*(_edited_from_proto(each, known) for each in response.rules_edited), *whole]


class News(NamedTuple):
    """Entries that a watcher gets from a partition."""

    fingerprint: Fingerprint
    entries: list[Entity]
    # These are all that it has.
    snapshot: bool
    # It takes what it lacks from the registrar by itself.
    pulls: bool


class Parts:
    """Reads the parts of a catalogue, for the caller of a contract; one for each stream.

    Each part is read as it comes: a whole catalogue would take half a second at once.
    """

    def __init__(self, contract: Contract, partition: int, known: Known) -> None:
        """`known`: see `entries_of`."""
        self._contract = contract
        self._partition = partition
        self._known = known
        self._checked = False
        # The entries of a snapshot that goes on.
        self._begun: list[Entity] | None = None

    def take(self, response: entity_pb2.WatchEntitiesResponse) -> News | None:
        """Return the news that a part completes, None if more parts follow.

        Raises InvalidOperation for a partition of a version that the caller does not work with,
        EditOfUnknown as `entries_of`.
        """
        if not self._checked:
            self._contract.check_watched(response.contract, self._partition)
            self._checked = True
        snapshot = response.snapshot or self._begun is not None
        found = self._begun or []
        found += entries_of(response, self._known)
        self._begun = found if response.more else None
        if response.more:
            return None
        fingerprint = entities.fingerprint_from_proto(response.fingerprint)
        return News(fingerprint, found, snapshot, response.pulls)


def _edited_from_proto(proto: entity_pb2.RulesEdited, known: Known) -> Entity:
    entity = entities.entity_from_proto(proto.entity)
    base = known(entity.key)
    if entity.kind is not EntityKind.SUBSCRIPTION:
        raise EditOfUnknown(entity.name)
    if base is None or base.uid != entity.uid:
        raise EditOfUnknown(entity.name)
    if base.generation >= entity.generation:
        # Another partition told it already, or what came after it.
        return replace(base, generation=entity.generation)
    edit = RulesEdit(
        tuple(proto.removed),
        tuple(map(entities.rule_from_proto, proto.replaced)),
        tuple(map(entities.rule_from_proto, proto.added)),
    )
    rules = rule_set.edited(domain.rules_of(base), edit)
    # The reader may have a part of the edit from another partition already, or other rules under
    # the same generation: a registrar that is restored from a backup gives numbers again.
    if rules.digest != proto.digest:
        raise EditOfUnknown(entity.name)
    return domain.with_rules(entity, rules)


def commit_request(
    kind: EntityKind,
    name: str,
    changes: Mapping[str, Any],
    rule_change: RuleChange | None = None,
    **fields: Any,
) -> entity_pb2.CommitEntityRequest:
    """Return the request for a change; `fields` are those that all kinds share."""
    request = entity_pb2.CommitEntityRequest(kind=entities.kind_to_proto(kind), name=name, **fields)
    if changes:
        # The field has the name of the kind.
        getattr(request, kind.value).CopyFrom(entities.changes_to_proto(changes, kind))
    if rule_change is not None:
        request.rule_change.CopyFrom(entities.rule_change_to_proto(rule_change))
        request.without_rules = True
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
    """Return (kind, name, fields of the description that are set) of a request."""
    kind = entities.kind_from_proto(request.kind)
    changes = entities.description_changes(getattr(request, kind.value))
    return kind, request.name, changes


def commit_response(
    entity: Entity, change: RuleChange | None = None
) -> entity_pb2.CommitEntityResponse:
    """Return the answer of the registrar; to a change of a rule, with that rule alone."""
    if change is not None:
        rule = domain.rules_of(entity).by_name.get(change.rule.name.lower())
        entity = domain.with_rules(entity, RuleSet(() if rule is None else (rule,)))
    return entity_pb2.CommitEntityResponse(entity=entities.entity_to_proto(entity))


def committed(response: entity_pb2.CommitEntityResponse) -> Entity:
    """Return the new entry."""
    return entities.entity_from_proto(response.entity)


def apply_request(partition: int, entries: Sequence[Entity]) -> entity_pb2.ApplyEntityRequest:
    """Return the request to copy entries."""
    others = [entities.entity_to_proto(each) for each in entries]
    return entity_pb2.ApplyEntityRequest(partition=partition, others=others)


def applied(request: entity_pb2.ApplyEntityRequest) -> list[Entity]:
    """Return the entries to take. Raises InvalidArgument for more than one call may copy."""
    bounds.check_number("others", len(request.others), limits.ENTRIES_A_COPY_MAX)
    return [entities.entity_from_proto(each) for each in request.others]
