"""What the senders of both surfaces share: from arguments to a unit of the send stream."""

import uuid
from datetime import datetime
from typing import Any, Final

from bendybus.client import arguments, exceptions
from bendybus.client.core import tracing
from bendybus.client.core.clients import EntityClient
from bendybus.client.core.io_thread import Caller
from bendybus.client.core.send_queue import Unit
from bendybus.client.core.tracing import NoOperation, Operation
from bendybus.client.exceptions import ServiceBusError
from bendybus.client.messages import encode
from bendybus.client.messages.encode import Columns, ServiceBusMessageBatch
from bendybus.domain import limits
from bendybus.v1 import sender_pb2

# How long the bus is asked for what it takes.
LIMITS_S: Final = 5.0
_NO_SENDER: Final = (
    exceptions.MessagingEntityNotFoundError,
    exceptions.ServiceBusAuthorizationError,
    exceptions.ServiceBusAuthenticationError,
)


class BaseSender(EntityClient):
    """The base of the senders of both surfaces, which differ in how they wait."""

    def __init__(
        self,
        fully_qualified_namespace: str,
        credential: Any,
        *,
        queue_name: str | None = None,
        topic_name: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Create a sender with its own connection; those of a ServiceBusClient share one.

        `fully_qualified_namespace` and `credential`: as for ServiceBusClient.
        `queue_name` or `topic_name`: the queue, or the topic.
        """
        super().__init__(
            fully_qualified_namespace,
            credential,
            queue_name=queue_name,
            topic_name=topic_name,
            kind="SBSender",
            options=kwargs,
        )
        # None: not known yet.
        self._batch_bytes_max: int | None = None

    def _columns_to_send(
        self, message: Any, options: dict[str, Any]
    ) -> tuple[Columns | None, bool]:
        self._check_live()
        split = False
        if options:
            split = bool(options.pop("split_by_partition_key", False))
            arguments.warn_of_unknown(options)
        spans = None if self._tracing is None else self._tracing.messages(self.entity_name)
        return encode.columns_of(message, spans), split

    def _columns_to_schedule(
        self, messages: Any, schedule_time_utc: datetime, options: dict[str, Any]
    ) -> Columns | None:
        arguments.warn_of_unknown(options)
        self._check_live()
        schedule_time_utc = arguments.moment("schedule_time_utc", schedule_time_utc)
        spans = None if self._tracing is None else self._tracing.messages(self.entity_name)
        columns = Columns(spans)
        for message in encode.messages_of(messages):
            message.scheduled_enqueue_time_utc = schedule_time_utc
            columns.add(message)
        return columns if columns.messages else None

    def _unit(
        self,
        columns: Columns,
        waiter: Caller[list[int] | None],
        timeout_s: float,
        *,
        numbers: bool = False,
        split: bool = False,
        given: bool = False,
    ) -> Unit:
        return Unit(
            *(self.entity_name, columns, waiter, timeout_s),
            numbers=numbers,
            split=split,
            given=given,
        )

    def _sending(self, columns: Columns, *, scheduled: bool = False) -> Operation | NoOperation:
        """Return the context manager that creates the span of a send."""
        if self._tracing is None:
            return tracing.NO_OPERATION
        begin = self._tracing.scheduling if scheduled else self._tracing.sending
        return begin(self.entity_name, columns.spans, len(columns.messages))

    def _cancelling(
        self, request: sender_pb2.CancelScheduledMessagesRequest
    ) -> Operation | NoOperation:
        if self._tracing is None:
            return tracing.NO_OPERATION
        count = len(request.sequence_numbers)
        return self._tracing.calling(self.entity_name, "cancel_scheduled", count)

    @property
    def possible_duplicates(self) -> tuple[str, ...]:
        """Ids of stored messages that may be stored twice; at most the last 10,000.

        When a partition becomes unavailable while it stores a message without a key, and does not
        return in time, the message is stored in another partition. Kept by the client, for all its
        senders to this entity.
        """
        found = list(self._shared.get().send_stream.possible_duplicates.ids)
        return tuple(each for path, each in found if path == self.entity_name)

    def _cancel_request(
        self, sequence_numbers: Any, options: dict[str, Any]
    ) -> sender_pb2.CancelScheduledMessagesRequest | None:
        arguments.warn_of_unknown(options)
        self._check_live()
        numbers = arguments.numbers("sequence_numbers", sequence_numbers)
        return (
            sender_pb2.CancelScheduledMessagesRequest(
                entity_path=self.entity_name,
                sequence_numbers=numbers,
                operation_id=uuid.uuid4().bytes,
            )
            if numbers
            else None
        )

    def _limits_request(self) -> sender_pb2.GetSendLimitsRequest:
        return sender_pb2.GetSendLimitsRequest(entity_path=self.entity_name)

    def _learned(self, answer: sender_pb2.GetSendLimitsResponse) -> None:
        self._batch_bytes_max = answer.max_batch_size

    def _not_learned(self, error: ServiceBusError) -> None:
        """Raise what no send would get past; a bus that does not answer is asked again."""
        if isinstance(error, _NO_SENDER):
            raise error

    def _batch(self, max_size_in_bytes: int | None) -> ServiceBusMessageBatch:
        self._check_live()
        if max_size_in_bytes is not None:
            most = self._batch_bytes_max or limits.PREMIUM_BATCH_BYTES_MAX
            arguments.count("max_size_in_bytes", max_size_in_bytes, most=most)
        made = ServiceBusMessageBatch(max_size_in_bytes or self._batch_bytes_max)
        if self._tracing is not None:
            made._columns.spans = self._tracing.messages(self.entity_name)
        return made
