"""Runtime properties of entities: counts, sizes, times."""

from datetime import UTC, datetime
from typing import Any

from bendybus.client.entities.models import EntityAvailabilityStatus
from bendybus.v1 import management_pb2

AVAILABILITY = {
    management_pb2.ENTITY_AVAILABILITY_STATUS_AVAILABLE: EntityAvailabilityStatus.AVAILABLE,
    management_pb2.ENTITY_AVAILABILITY_STATUS_LIMITED: EntityAvailabilityStatus.LIMITED,
}


class _RuntimeProperties:
    """Runtime properties of all entities."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._runtime = management_pb2.QueueRuntime()

    @property
    def name(self) -> str | None:
        """The name of the entity."""
        return self._name

    @property
    def created_at_utc(self) -> datetime | None:
        """When the entity was created."""
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
    """Runtime properties of entities that hold messages."""

    @property
    def active_message_count(self) -> int:
        """Number of messages that can be received, including locked ones."""
        return self._runtime.count_details.active_message_count

    @property
    def dead_letter_message_count(self) -> int:
        """Number of messages in the dead-letter queue."""
        return self._runtime.count_details.dead_letter_message_count

    @property
    def transfer_message_count(self) -> int:
        """Number of messages that transactions sent to other entities and that wait to go there."""
        return self._runtime.count_details.transfer_message_count

    @property
    def transfer_dead_letter_message_count(self) -> int:
        """Number of messages that could not be forwarded."""
        return self._runtime.count_details.transfer_dead_letter_message_count

    @property
    def total_message_count(self) -> int:
        """Number of messages in the entity and its sub-queues."""
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
    """Runtime properties of a queue: sums over the partitions that answered."""

    @property
    def scheduled_message_count(self) -> int:
        """Number of messages scheduled for later."""
        return self._runtime.count_details.scheduled_message_count

    @property
    def size_in_bytes(self) -> int:
        """Size of the messages, in bytes."""
        return self._runtime.size_in_bytes

    @property
    def deferred_message_count(self) -> int:
        """Number of deferred messages."""
        return self._runtime.count_details.deferred_message_count

    @property
    def locked_message_count(self) -> int:
        """Number of active messages that are locked."""
        return self._runtime.count_details.locked_message_count

    @property
    def availability_status(self) -> EntityAvailabilityStatus:
        """LIMITED while a partition does not answer; its counts are then missing."""
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
    """Runtime properties of a topic: sums over the partitions that answered."""

    def __init__(self) -> None:
        super().__init__()
        self._subscription_count = 0
        self._sql_filter_count = 0
        self._correlation_filter_count = 0

    @property
    def scheduled_message_count(self) -> int:
        """Number of messages scheduled for later."""
        return self._runtime.count_details.scheduled_message_count

    @property
    def size_in_bytes(self) -> int:
        """Size of the messages, in bytes."""
        return self._runtime.size_in_bytes

    @property
    def subscription_count(self) -> int:
        """Number of subscriptions."""
        return self._subscription_count

    @property
    def sql_filter_count(self) -> int:
        """Number of SQL filters in the rules of its subscriptions."""
        return self._sql_filter_count

    @property
    def correlation_filter_count(self) -> int:
        """Number of correlation, true and false filters in the rules of its subscriptions."""
        return self._correlation_filter_count


class SubscriptionRuntimeProperties(_MessageCounts):
    """Runtime properties of a subscription: sums over the partitions that answered."""


def queue_runtime(queue: management_pb2.Queue) -> QueueRuntimeProperties:
    """Return the runtime properties of a queue."""
    made = QueueRuntimeProperties()
    made._name, made._runtime = queue.name, queue.runtime
    return made


def topic_runtime(topic: management_pb2.Topic) -> TopicRuntimeProperties:
    """Return the runtime properties of a topic."""
    made = TopicRuntimeProperties()
    made._name, made._runtime = topic.name, topic.runtime
    made._subscription_count = topic.subscription_count
    made._sql_filter_count = topic.sql_filter_count
    made._correlation_filter_count = topic.correlation_filter_count
    return made


def subscription_runtime(
    subscription: management_pb2.Subscription,
) -> SubscriptionRuntimeProperties:
    """Return the runtime properties of a subscription."""
    made = SubscriptionRuntimeProperties()
    made._name, made._runtime = subscription.name, subscription.runtime
    return made


def _moment(milliseconds: int) -> datetime | None:
    return datetime.fromtimestamp(milliseconds / 1_000, UTC) if milliseconds else None
