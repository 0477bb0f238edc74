"""Runtime properties of entities and sessions: counts, sizes, times."""

from datetime import UTC, datetime
from typing import Any, Final

from bendybus.client.entities.models import EntityAvailabilityStatus
from bendybus.v1 import management_pb2, receiver_pb2

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


_PAGE_SIZE: Final = 1_000


class SessionRuntimeProperties:
    """What a session held when it was counted."""

    def __init__(self) -> None:
        self._counts = receiver_pb2.SessionCounts()

    @property
    def session_id(self) -> str:
        """The name of the session."""
        return self._counts.session_id

    @property
    def active_message_count(self) -> int:
        """Number of messages that can be received, including locked ones."""
        return self._counts.active_message_count

    @property
    def deferred_message_count(self) -> int:
        """Number of deferred messages."""
        return self._counts.deferred_message_count

    @property
    def scheduled_message_count(self) -> int:
        """Number of messages that are scheduled."""
        return self._counts.scheduled_message_count

    @property
    def locked_message_count(self) -> int:
        """Number of messages that the receiver of the session has locked."""
        return self._counts.locked_message_count

    @property
    def total_message_count(self) -> int:
        """Number of messages in any state."""
        counts = self._counts
        return (
            counts.active_message_count
            + counts.deferred_message_count
            + counts.scheduled_message_count
        )

    @property
    def state_size_in_bytes(self) -> int | None:
        """Bytes that are kept as the state of the session; None: it has none."""
        has_state = self._counts.HasField("state_size_in_bytes")
        return self._counts.state_size_in_bytes if has_state else None

    @property
    def locked_until_utc(self) -> datetime | None:
        """When the lock of the session's receiver ends; None: it has no receiver."""
        if not self._counts.HasField("locked_until_ms"):
            return None
        return datetime.fromtimestamp(self._counts.locked_until_ms / 1_000, UTC)

    def __repr__(self) -> str:
        return f"<SessionRuntimeProperties session_id={self.session_id!r}>"


def list_request(path: str, token: str) -> receiver_pb2.ListSessionCountsRequest:
    """Return the request for a page of sessions."""
    return receiver_pb2.ListSessionCountsRequest(
        entity_path=path, page_size=_PAGE_SIZE, page_token=bytes.fromhex(token)
    )


def page(
    response: receiver_pb2.ListSessionCountsResponse,
) -> tuple[list[SessionRuntimeProperties], str]:
    """Return the sessions of a page, and the token of the next one or ""."""
    found = []
    for counts in response.sessions:
        made = SessionRuntimeProperties()
        made._counts = counts
        found.append(made)
    return found, response.next_page_token.hex()
