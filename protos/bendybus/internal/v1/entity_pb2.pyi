from bendybus.v1 import management_pb2 as _management_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EntityKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENTITY_KIND_UNSPECIFIED: _ClassVar[EntityKind]
    ENTITY_KIND_QUEUE: _ClassVar[EntityKind]
    ENTITY_KIND_TOPIC: _ClassVar[EntityKind]
    ENTITY_KIND_SUBSCRIPTION: _ClassVar[EntityKind]

class EntityAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENTITY_ACTION_UNSPECIFIED: _ClassVar[EntityAction]
    ENTITY_ACTION_CREATE: _ClassVar[EntityAction]
    ENTITY_ACTION_UPDATE: _ClassVar[EntityAction]
    ENTITY_ACTION_DELETE: _ClassVar[EntityAction]
    ENTITY_ACTION_DELETE_IDLE: _ClassVar[EntityAction]
    ENTITY_ACTION_ORPHAN: _ClassVar[EntityAction]
    ENTITY_ACTION_ADOPT: _ClassVar[EntityAction]

class Watcher(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WATCHER_UNSPECIFIED: _ClassVar[Watcher]
    WATCHER_FRONT_END: _ClassVar[Watcher]
    WATCHER_OPERATOR: _ClassVar[Watcher]
    WATCHER_PARTITION: _ClassVar[Watcher]
ENTITY_KIND_UNSPECIFIED: EntityKind
ENTITY_KIND_QUEUE: EntityKind
ENTITY_KIND_TOPIC: EntityKind
ENTITY_KIND_SUBSCRIPTION: EntityKind
ENTITY_ACTION_UNSPECIFIED: EntityAction
ENTITY_ACTION_CREATE: EntityAction
ENTITY_ACTION_UPDATE: EntityAction
ENTITY_ACTION_DELETE: EntityAction
ENTITY_ACTION_DELETE_IDLE: EntityAction
ENTITY_ACTION_ORPHAN: EntityAction
ENTITY_ACTION_ADOPT: EntityAction
WATCHER_UNSPECIFIED: Watcher
WATCHER_FRONT_END: Watcher
WATCHER_OPERATOR: Watcher
WATCHER_PARTITION: Watcher

class Entity(_message.Message):
    __slots__ = ("name", "uid", "generation", "origin", "queue", "partition_count", "home_partition", "deleted", "created_at_ms", "updated_at_ms", "orphaned", "manifest_uid", "auto_deleted", "kind", "topic", "subscription", "manifest_rules", "plain_numbers")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    HOME_PARTITION_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ORPHANED_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_UID_FIELD_NUMBER: _ClassVar[int]
    AUTO_DELETED_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_RULES_FIELD_NUMBER: _ClassVar[int]
    PLAIN_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    uid: str
    generation: int
    origin: _management_pb2.EntityOrigin
    queue: _management_pb2.QueueDescription
    partition_count: int
    home_partition: int
    deleted: bool
    created_at_ms: int
    updated_at_ms: int
    orphaned: bool
    manifest_uid: str
    auto_deleted: bool
    kind: EntityKind
    topic: _management_pb2.TopicDescription
    subscription: _management_pb2.SubscriptionDescription
    manifest_rules: bool
    plain_numbers: bool
    def __init__(self, name: _Optional[str] = ..., uid: _Optional[str] = ..., generation: _Optional[int] = ..., origin: _Optional[_Union[_management_pb2.EntityOrigin, str]] = ..., queue: _Optional[_Union[_management_pb2.QueueDescription, _Mapping]] = ..., partition_count: _Optional[int] = ..., home_partition: _Optional[int] = ..., deleted: bool = ..., created_at_ms: _Optional[int] = ..., updated_at_ms: _Optional[int] = ..., orphaned: bool = ..., manifest_uid: _Optional[str] = ..., auto_deleted: bool = ..., kind: _Optional[_Union[EntityKind, str]] = ..., topic: _Optional[_Union[_management_pb2.TopicDescription, _Mapping]] = ..., subscription: _Optional[_Union[_management_pb2.SubscriptionDescription, _Mapping]] = ..., manifest_rules: bool = ..., plain_numbers: bool = ...) -> None: ...

class CommitEntityRequest(_message.Message):
    __slots__ = ("partition", "action", "name", "queue", "origin", "uid", "if_generation", "manifest_uid", "kind", "topic", "subscription", "rule_change", "migrated", "without_rules")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    IF_GENERATION_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_UID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    RULE_CHANGE_FIELD_NUMBER: _ClassVar[int]
    MIGRATED_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_RULES_FIELD_NUMBER: _ClassVar[int]
    partition: int
    action: EntityAction
    name: str
    queue: _management_pb2.QueueDescription
    origin: _management_pb2.EntityOrigin
    uid: str
    if_generation: int
    manifest_uid: str
    kind: EntityKind
    topic: _management_pb2.TopicDescription
    subscription: _management_pb2.SubscriptionDescription
    rule_change: RuleChange
    migrated: bool
    without_rules: bool
    def __init__(self, partition: _Optional[int] = ..., action: _Optional[_Union[EntityAction, str]] = ..., name: _Optional[str] = ..., queue: _Optional[_Union[_management_pb2.QueueDescription, _Mapping]] = ..., origin: _Optional[_Union[_management_pb2.EntityOrigin, str]] = ..., uid: _Optional[str] = ..., if_generation: _Optional[int] = ..., manifest_uid: _Optional[str] = ..., kind: _Optional[_Union[EntityKind, str]] = ..., topic: _Optional[_Union[_management_pb2.TopicDescription, _Mapping]] = ..., subscription: _Optional[_Union[_management_pb2.SubscriptionDescription, _Mapping]] = ..., rule_change: _Optional[_Union[RuleChange, _Mapping]] = ..., migrated: bool = ..., without_rules: bool = ...) -> None: ...

class RuleChange(_message.Message):
    __slots__ = ("kind", "rule")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[RuleChange.Kind]
        CREATE: _ClassVar[RuleChange.Kind]
        UPDATE: _ClassVar[RuleChange.Kind]
        DELETE: _ClassVar[RuleChange.Kind]
    KIND_UNSPECIFIED: RuleChange.Kind
    CREATE: RuleChange.Kind
    UPDATE: RuleChange.Kind
    DELETE: RuleChange.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    kind: RuleChange.Kind
    rule: _management_pb2.Rule
    def __init__(self, kind: _Optional[_Union[RuleChange.Kind, str]] = ..., rule: _Optional[_Union[_management_pb2.Rule, _Mapping]] = ...) -> None: ...

class CommitEntityResponse(_message.Message):
    __slots__ = ("entity",)
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    entity: Entity
    def __init__(self, entity: _Optional[_Union[Entity, _Mapping]] = ...) -> None: ...

class ApplyEntityRequest(_message.Message):
    __slots__ = ("partition", "others")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    others: _containers.RepeatedCompositeFieldContainer[Entity]
    def __init__(self, partition: _Optional[int] = ..., others: _Optional[_Iterable[_Union[Entity, _Mapping]]] = ...) -> None: ...

class ApplyEntityResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchEntitiesRequest(_message.Message):
    __slots__ = ("partition", "part_bytes", "watcher", "contract")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PART_BYTES_FIELD_NUMBER: _ClassVar[int]
    WATCHER_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    partition: int
    part_bytes: int
    watcher: Watcher
    contract: int
    def __init__(self, partition: _Optional[int] = ..., part_bytes: _Optional[int] = ..., watcher: _Optional[_Union[Watcher, str]] = ..., contract: _Optional[int] = ...) -> None: ...

class WatchEntitiesResponse(_message.Message):
    __slots__ = ("fingerprint", "entities", "snapshot", "more", "pulls", "contract", "rules_edited")
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    PULLS_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    RULES_EDITED_FIELD_NUMBER: _ClassVar[int]
    fingerprint: Fingerprint
    entities: _containers.RepeatedCompositeFieldContainer[Entity]
    snapshot: bool
    more: bool
    pulls: bool
    contract: int
    rules_edited: _containers.RepeatedCompositeFieldContainer[RulesEdited]
    def __init__(self, fingerprint: _Optional[_Union[Fingerprint, _Mapping]] = ..., entities: _Optional[_Iterable[_Union[Entity, _Mapping]]] = ..., snapshot: bool = ..., more: bool = ..., pulls: bool = ..., contract: _Optional[int] = ..., rules_edited: _Optional[_Iterable[_Union[RulesEdited, _Mapping]]] = ...) -> None: ...

class RulesEdited(_message.Message):
    __slots__ = ("entity", "removed", "replaced", "added", "digest")
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    REPLACED_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    entity: Entity
    removed: _containers.RepeatedScalarFieldContainer[str]
    replaced: _containers.RepeatedCompositeFieldContainer[_management_pb2.Rule]
    added: _containers.RepeatedCompositeFieldContainer[_management_pb2.Rule]
    digest: int
    def __init__(self, entity: _Optional[_Union[Entity, _Mapping]] = ..., removed: _Optional[_Iterable[str]] = ..., replaced: _Optional[_Iterable[_Union[_management_pb2.Rule, _Mapping]]] = ..., added: _Optional[_Iterable[_Union[_management_pb2.Rule, _Mapping]]] = ..., digest: _Optional[int] = ...) -> None: ...

class Fingerprint(_message.Message):
    __slots__ = ("namespace_name", "namespace_uid", "tier", "partition_count", "partition", "incarnation")
    NAMESPACE_NAME_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_UID_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    namespace_name: str
    namespace_uid: str
    tier: str
    partition_count: int
    partition: int
    incarnation: bytes
    def __init__(self, namespace_name: _Optional[str] = ..., namespace_uid: _Optional[str] = ..., tier: _Optional[str] = ..., partition_count: _Optional[int] = ..., partition: _Optional[int] = ..., incarnation: _Optional[bytes] = ...) -> None: ...

class FenceIdleEntityRequest(_message.Message):
    __slots__ = ("partition", "uid", "generation", "idle_ms")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    IDLE_MS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    uid: str
    generation: int
    idle_ms: int
    def __init__(self, partition: _Optional[int] = ..., uid: _Optional[str] = ..., generation: _Optional[int] = ..., idle_ms: _Optional[int] = ...) -> None: ...

class FenceIdleEntityResponse(_message.Message):
    __slots__ = ("fenced",)
    FENCED_FIELD_NUMBER: _ClassVar[int]
    fenced: bool
    def __init__(self, fenced: bool = ...) -> None: ...
