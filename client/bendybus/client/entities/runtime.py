"""How entities are at the moment: counts, sizes, times."""

from datetime import UTC, datetime
from typing import Any

from bendybus.client.entities.models import EntityAvailabilityStatus
from bendybus.v1 import management_pb2

AVAILABILITY = {
    management_pb2.ENTITY_AVAILABILITY_STATUS_AVAILABLE: EntityAvailabilityStatus.AVAILABLE,
    management_pb2.ENTITY_AVAILABILITY_STATUS_LIMITED: EntityAvailabilityStatus.LIMITED,
}


class _RuntimeProperties:
    """What all entities have."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._runtime = management_pb2.QueueRuntime()

    @property
    def name(self) -> str | None:
        """Name of the entity."""
        return self._name

    @property
    def created_at_utc(self) -> datetime | None:
        """When the entity was made."""
        return _moment(self._runtime.created_at_ms)

    @property
    def updated_at_utc(self) -> datetime | None:
        """When the entity was last changed."""
        return _moment(self._runtime.updated_at_ms)

    @property
    def accessed_at_utc(self) -> datetime | None:
        """When the entity was last used; None for never."""
        return _moment(self._runtime.accessed_at_ms)


class _MessageCounts(_RuntimeProperties):
    """What entities with messages have."""

    @property
    def active_message_count(self) -> int:
        """Messages that may be received, those that are locked included."""
        return self._runtime.count_details.active_message_count

    @property
    def dead_letter_message_count(self) -> int:
        """Messages in the dead-letter queue."""
        return self._runtime.count_details.dead_letter_message_count

    @property
    def transfer_message_count(self) -> int:
        """Messages that wait to be forwarded."""
        return self._runtime.count_details.transfer_message_count

    @property
    def transfer_dead_letter_message_count(self) -> int:
        """Messages that could not be forwarded."""
        return self._runtime.count_details.transfer_dead_letter_message_count

    @property
    def total_message_count(self) -> int:
        """All messages of the entity and its sub-queues."""
        counts = self._runtime.count_details
        return (
            counts.active_message_count
            + counts.dead_letter_message_count
            + counts.scheduled_message_count
            + counts.deferred_message_count
            + counts.transfer_message_count
            + counts.transfer_dead_letter_message_count
        )


class QueueRuntimeProperties(_MessageCounts):
    """How a queue is at the moment: the sums over the partitions that answered."""

    @property
    def scheduled_message_count(self) -> int:
        """Messages whose time has not come."""
        return self._runtime.count_details.scheduled_message_count

    @property
    def size_in_bytes(self) -> int:
        """What the messages take."""
        return self._runtime.size_in_bytes

    @property
    def deferred_message_count(self) -> int:
        """Messages that were set aside."""
        return self._runtime.count_details.deferred_message_count

    @property
    def locked_message_count(self) -> int:
        """Active messages that somebody has locked now."""
        return self._runtime.count_details.locked_message_count

    @property
    def availability_status(self) -> EntityAvailabilityStatus:
        """LIMITED while a partition does not answer: its counts are missing then."""
        return AVAILABILITY.get(self._runtime.availability_status, EntityAvailabilityStatus.UNKNOWN)

    @property
    def partitions(self) -> list[dict[str, Any]]:
        """Each partition's share: partition, reachable, counts, size_in_bytes.

        An extra of Bendybus.
        """
        return [
            {
                "partition": share.partition,
                "reachable": share.reachable,
                "size_in_bytes": share.size_in_bytes,
                **{
                    field.name: getattr(share.count_details, field.name)
                    for field in share.count_details.DESCRIPTOR.fields
                },
            }
            for share in self._runtime.partitions
        ]


class TopicRuntimeProperties(_RuntimeProperties):
    """How a topic is at the moment. Topics do not exist yet."""

    @property
    def scheduled_message_count(self) -> int:
        """Messages whose time has not come."""
        return 0

    @property
    def size_in_bytes(self) -> int:
        """What the messages take."""
        return 0

    @property
    def subscription_count(self) -> int:
        """How many subscriptions there are."""
        return 0

    @property
    def sql_filter_count(self) -> int:
        """How many SQL filters there are."""
        return 0

    @property
    def correlation_filter_count(self) -> int:
        """How many correlation filters there are."""
        return 0


class SubscriptionRuntimeProperties(_MessageCounts):
    """How a subscription is at the moment. Subscriptions do not exist yet."""


def queue_runtime(queue: management_pb2.Queue) -> QueueRuntimeProperties:
    """Return how a queue is at the moment."""
    made = QueueRuntimeProperties()
    made._name, made._runtime = queue.name, queue.runtime
    return made


def _moment(milliseconds: int) -> datetime | None:
    return datetime.fromtimestamp(milliseconds / 1_000, UTC) if milliseconds else None
