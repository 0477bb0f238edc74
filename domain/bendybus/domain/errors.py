"""What can go wrong, as types. Every room raises these; `bendybus.wire` maps them to statuses.

    BusError
    ├── RetryableError             trying again may help
    │   ├── PartitionUnavailable   the partition that must answer does not
    │   ├── ServerBusy             a bounded queue is full, or the service throttles
    │   ├── ServiceTimeout         the time given was over first; it was not done
    │   ├── EntityDisabled         the entity's status forbids it (may be enabled again)
    │   │   └── EntityDrained      a data pipeline drains the entity: it alone removes messages
    │   ├── SessionCannotBeLocked  another receiver has the session
    │   └── GenerationMismatch     front end and partition know different versions of an entity
    ├── OutcomeUnknown             it may be done: repeat it under the same name to find out
    ├── InvalidArgument            a value is outside what is allowed; `field` names it
    ├── InvalidOperation           the values are fine, the combination is not
    ├── PartitioningImmutable      partitioning is set once, when a thing is created
    ├── ManagedByManifest          the entity comes from a manifest and is changed only there
    ├── RetainedData               the name holds data of a deleted manifest: adopt or purge it
    ├── EntityOrphaned             it accepts no messages: its manifest was deleted
    ├── EntityNotFound
    ├── EntityAlreadyExists
    ├── MessageNotFound
    ├── MessageLockLost
    ├── SessionLockLost
    ├── DrainLeaseLost             the lease of a drain ended, or a later drain took it over
    ├── ProducerFenced             a later attempt of the same producer has begun
    ├── MessageSizeExceeded
    ├── QuotaExceeded
    ├── Unauthenticated            no token, or one that no key of this bus made, or an old one
    └── Unauthorized               the caller is known, and may not do this

Each carries a sentence for people and `metadata` for programs; `reason` is the stable word that
goes over the wire.
"""

from collections.abc import Mapping
from enum import Enum
from typing import ClassVar


class Outcome(Enum):
    """What is known about an operation that failed."""

    NOT_DONE = "not done"
    UNKNOWN = "unknown"


class BusError(Exception):
    """Raised when the bus cannot do what was asked; base of all others."""

    reason: ClassVar[str] = "INTERNAL"
    retryable: ClassVar[bool] = False
    outcome: ClassVar[Outcome] = Outcome.NOT_DONE

    def __init__(
        self,
        message: str,
        *,
        retry_after_ms: int = 0,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_ms = retry_after_ms
        self.metadata: dict[str, str] = dict(metadata or {})


class RetryableError(BusError):
    """Raised when trying the same again later may succeed."""

    reason = "UNAVAILABLE"
    retryable = True


class PartitionUnavailable(RetryableError):
    """Raised when the partition that alone can answer is unavailable or cannot store."""

    reason = "PARTITION_UNAVAILABLE"

    @property
    def is_recorded(self) -> bool:
        """Whether a change of an entity is decided, and only some partitions do not have it yet.

        The bus names the generation that they will get.
        """
        return "generation" in self.metadata


class DiskLow(PartitionUnavailable):
    """Raised when a partition, or all that could, take no messages for want of room on the disk."""

    reason = "DISK_LOW"


class ServerBusy(RetryableError):
    """Raised when a bound of the service is reached for the moment."""

    reason = "SERVER_BUSY"


class ServiceTimeout(RetryableError):
    """Raised when the caller's time was over before it was done."""

    reason = "SERVICE_TIMEOUT"


class EntityDisabled(RetryableError):
    """Raised when the status of the entity forbids the operation."""

    reason = "ENTITY_DISABLED"


class SessionCannotBeLocked(RetryableError):
    """Raised when another receiver has the session."""

    reason = "SESSION_CANNOT_BE_LOCKED"


class EntityDrained(EntityDisabled):
    """Raised when a data pipeline drains the entity: its lease forbids the operation."""

    reason = "ENTITY_DRAINED"


class GenerationMismatch(RetryableError):
    """Raised when a call names another version of an entity than the partition has."""

    reason = "GENERATION_MISMATCH"


class OutcomeUnknown(BusError):
    """Raised when it may have been done; only a repeat under the same name finds out."""

    reason = "OUTCOME_UNKNOWN"
    outcome = Outcome.UNKNOWN


class InvalidArgument(BusError):
    """Raised when a value is not allowed; `metadata["field"]` names it."""

    reason = "INVALID_ARGUMENT"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}", metadata={"field": field})
        self.field = field

    def __reduce__(self) -> tuple[type["InvalidArgument"], tuple[str, str]]:
        return type(self), (self.field, self.message.removeprefix(f"{self.field}: "))

    def named(self, field: str) -> "InvalidArgument":
        """Return the same error with another name of the field."""
        return InvalidArgument(field, self.message.removeprefix(f"{self.field}: "))


class InvalidOperation(BusError):
    """Raised when values contradict each other or the kind of entity forbids the operation."""

    reason = "INVALID_OPERATION"


class PartitioningImmutable(BusError):
    """Raised when the partitioning of something that exists would have to change."""

    reason = "PARTITIONING_IMMUTABLE"


class ManagedByManifest(BusError):
    """Raised when a client would change an entity that a manifest declares."""

    reason = "MANAGED_BY_MANIFEST"


class RetainedData(BusError):
    """Raised when a name holds data of a deleted manifest: adopt or purge it."""

    reason = "RETAINED_DATA"


class EntityOrphaned(BusError):
    """Raised when an entity accepts no messages because its manifest was deleted."""

    reason = "ENTITY_ORPHANED"


class EntityNotFound(BusError):
    """Raised when the entity does not exist."""

    reason = "ENTITY_NOT_FOUND"


class EntityAlreadyExists(BusError):
    """Raised when the name is taken."""

    reason = "ENTITY_ALREADY_EXISTS"


class MessageNotFound(BusError):
    """Raised when no message has the number, or it is not in the state that is needed."""

    reason = "MESSAGE_NOT_FOUND"


class MessageLockLost(BusError):
    """Raised when a lock token is no longer valid: the lock ended or the message is settled."""

    reason = "MESSAGE_LOCK_LOST"


class SessionLockLost(BusError):
    """Raised when the lock of a session, and with it those of its messages, is over."""

    reason = "SESSION_LOCK_LOST"


class DrainLeaseLost(BusError):
    """Raised when the lease of a drain is over, or a later drain took it over."""

    reason = "DRAIN_LEASE_LOST"


class ProducerFenced(BusError):
    """Raised when a later attempt of the same producer has begun."""

    reason = "PRODUCER_FENCED"


class MessageSizeExceeded(BusError):
    """Raised when a message, or a batch, is larger than the entity allows."""

    reason = "MESSAGE_SIZE_EXCEEDED"


class QuotaExceeded(BusError):
    """Raised when the entity holds all that it may hold."""

    reason = "QUOTA_EXCEEDED"


class Unauthenticated(BusError):
    """Raised when the bus does not know the caller; `metadata["cause"]` says why."""

    reason = "UNAUTHENTICATED"


class Unauthorized(BusError):
    """Raised when the caller may not do this."""

    reason = "UNAUTHORIZED"


def all_errors() -> list[type[BusError]]:
    """Return every class above; what rooms derive from them goes over the wire as its base."""
    found: list[type[BusError]] = [BusError]
    for kind in found:
        found.extend(each for each in kind.__subclasses__() if each.__module__ == __name__)
    return found
