"""The reasons of conditions and events: a stable contract for programs."""

from enum import StrEnum


class Reason(StrEnum):
    """Why a manifest is, or is not, Ready."""

    AVAILABLE = "Available"
    PROGRESSING = "Progressing"
    PARTITION_UNAVAILABLE = "PartitionUnavailable"
    FRONTEND_UNAVAILABLE = "FrontendUnavailable"
    NAMESPACE_NOT_FOUND = "NamespaceNotFound"
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    NAMESPACE_NOT_READY = "NamespaceNotReady"
    TOPIC_NOT_FOUND = "TopicNotFound"
    TOPIC_ORPHANED = "TopicOrphaned"
    NAME_TAKEN = "NameTaken"
    INVALID_SPEC = "InvalidSpec"
    PARTITIONING_IMMUTABLE = "PartitioningImmutable"
    FIELD_IMMUTABLE = "FieldImmutable"
    RETAINED_DATA = "RetainedData"
    AUTO_DELETED = "AutoDeleted"
    REFUSED = "Refused"
    STORAGE_NOT_EXPANDABLE = "StorageNotExpandable"
    PAUSED = "Paused"
