"""The client of the asynchronous surface."""

from datetime import datetime
from types import TracebackType
from typing import Any

from bendybus.client.aio import calls, sessions
from bendybus.client.aio.lock_renewer import AutoLockRenewer
from bendybus.client.aio.management.management_calls import AsyncItemPaged
from bendybus.client.aio.partitions import PartitionBrowser, PartitionSender
from bendybus.client.aio.receiver import ServiceBusReceiver
from bendybus.client.aio.sender import ServiceBusSender
from bendybus.client.aio.transaction import ServiceBusTransaction
from bendybus.client.core import clients as core
from bendybus.client.core import settlements
from bendybus.client.core.clients import BaseClient
from bendybus.client.messages.enums import (
    ServiceBusReceiveMode,
    ServiceBusSessionFilter,
    ServiceBusSubQueue,
)
from bendybus.domain import subscription_name as subscription_name_rules


class ServiceBusClient(BaseClient):
    """Creates senders and receivers that share one connection. Tasks may share it."""

    _of_loop = True  # async only

    async def __aenter__(self) -> "ServiceBusClient":
        # Entered once more after it was closed, it connects again, as the original does.
        self._closed = False
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @classmethod
    def from_connection_string(
        cls,
        conn_str: str,
        *,
        retry_total: int = 3,
        retry_backoff_factor: float = 0.8,
        retry_backoff_max: float = 120,
        retry_mode: str = "exponential",
        **kwargs: Any,
    ) -> "ServiceBusClient":
        """Return a client for a connection string.

        `conn_str`: `Endpoint=sb://HOST:PORT;SharedAccessKeyName=…;SharedAccessKey=…`, with
        `UseDevelopmentEmulator=true` for plain text. `retry_total`: the number of retries;
        `retry_backoff_factor` and `retry_backoff_max`: pauses, in seconds; `retry_mode`:
        exponential or fixed. Other arguments: as for the constructor.
        """
        return cls(
            retry_total=retry_total,
            retry_backoff_factor=retry_backoff_factor,
            retry_backoff_max=retry_backoff_max,
            retry_mode=retry_mode,
            **core.arguments_of(conn_str, kwargs),
        )

    def get_queue_sender(
        self,
        queue_name: str,
        *,
        client_identifier: str | None = None,
        socket_timeout: float | None = None,
        **kwargs: Any,
    ) -> ServiceBusSender:
        """Return a sender to a queue.

        `queue_name`: the queue. `client_identifier`: a name for logs, generated if None.
        `socket_timeout` has no effect.
        """
        self._check(queue_name)
        made = ServiceBusSender(
            self.fully_qualified_namespace,
            self._credential,
            queue_name=queue_name,
            **self._options(client_identifier, kwargs),
        )
        self._entity_clients.add(made)
        return made

    def get_queue_receiver(
        self,
        queue_name: str,
        *,
        client_identifier: str | None = None,
        socket_timeout: float | None = None,
        session_id: str | ServiceBusSessionFilter | None = None,
        sub_queue: ServiceBusSubQueue | str | None = None,
        receive_mode: ServiceBusReceiveMode | str = ServiceBusReceiveMode.PEEK_LOCK,
        max_wait_time: float | None = None,
        auto_lock_renewer: AutoLockRenewer | None = None,
        prefetch_count: int = 0,
        **kwargs: Any,
    ) -> ServiceBusReceiver:
        """Return a receiver of a queue, or of its dead-letter queue.

        `queue_name`: the queue. `sub_queue`: DEAD_LETTER for its dead-letter queue. `receive_mode`:
        PEEK_LOCK, or RECEIVE_AND_DELETE, which deletes messages as they are delivered.
        `max_wait_time`: seconds without a message after which a receive returns, or the iterator
        ends; None: 60 seconds, and never. `auto_lock_renewer`: renews the lock of every message.
        `prefetch_count`: how many messages the client buffers ahead; they are locked meanwhile.
        `client_identifier`: a name for logs, generated if None. `session_id`: of a queue that
        requires sessions, the session to lock, by its name or NEXT_AVAILABLE_SESSION, for which
        `max_wait_time` is waited; `auto_lock_renewer` renews the lock of the session then.
        `socket_timeout` has no effect.
        """
        self._check(queue_name)
        made = ServiceBusReceiver(
            self.fully_qualified_namespace,
            self._credential,
            queue_name=queue_name,
            session_id=session_id,
            sub_queue=sub_queue,
            receive_mode=receive_mode,
            max_wait_time=max_wait_time,
            auto_lock_renewer=auto_lock_renewer,
            prefetch_count=prefetch_count,
            **self._options(client_identifier, kwargs),
        )
        self._entity_clients.add(made)
        return made

    def get_topic_sender(
        self,
        topic_name: str,
        *,
        client_identifier: str | None = None,
        socket_timeout: float | None = None,
        **kwargs: Any,
    ) -> ServiceBusSender:
        """Return a sender to a topic.

        `topic_name`: the topic. `client_identifier`: a name for logs, generated if None.
        `socket_timeout` has no effect.
        """
        self._check(topic_name)
        made = ServiceBusSender(
            self.fully_qualified_namespace,
            self._credential,
            topic_name=topic_name,
            **self._options(client_identifier, kwargs),
        )
        self._entity_clients.add(made)
        return made

    def get_subscription_receiver(
        self,
        topic_name: str,
        subscription_name: str,
        *,
        # sync only: client_identifier: str | None = None,
        # sync only: socket_timeout: float | None = None,
        session_id: str | ServiceBusSessionFilter | None = None,
        sub_queue: ServiceBusSubQueue | str | None = None,
        receive_mode: ServiceBusReceiveMode | str = ServiceBusReceiveMode.PEEK_LOCK,
        max_wait_time: float | None = None,
        auto_lock_renewer: AutoLockRenewer | None = None,
        prefetch_count: int = 0,
        client_identifier: str | None = None,  # async only
        socket_timeout: float | None = None,  # async only
        **kwargs: Any,
    ) -> ServiceBusReceiver:
        """Return a receiver of a subscription, or of its dead-letter queue.

        `topic_name`: the topic. `subscription_name`: the subscription, by its name within the
        topic. `session_id`, `sub_queue`, `receive_mode`, `max_wait_time`, `auto_lock_renewer`,
        `prefetch_count` and `client_identifier`: see get_queue_receiver. `socket_timeout` has no
        effect.
        """
        self._check(topic_name)
        made = ServiceBusReceiver(
            self.fully_qualified_namespace,
            self._credential,
            topic_name=topic_name,
            subscription_name=subscription_name,
            session_id=session_id,
            sub_queue=sub_queue,
            receive_mode=receive_mode,
            max_wait_time=max_wait_time,
            auto_lock_renewer=auto_lock_renewer,
            prefetch_count=prefetch_count,
            **self._options(client_identifier, kwargs),
        )
        self._entity_clients.add(made)
        return made

    def get_partition_browser(
        self,
        *,
        queue_name: str | None = None,
        topic_name: str | None = None,
        subscription_name: str | None = None,
        sub_queue: ServiceBusSubQueue | str | None = None,
        client_identifier: str | None = None,
    ) -> PartitionBrowser:
        """Return what reads a queue or subscription partition by partition, without locks.

        `queue_name`, or `topic_name` and `subscription_name`: the entity. `sub_queue`: DEAD_LETTER
        for its dead-letter queue. `client_identifier`: a name for logs, generated if None.
        """
        self._check(queue_name or topic_name or "")
        made = PartitionBrowser(
            self.fully_qualified_namespace,
            self._credential,
            queue_name=queue_name,
            topic_name=topic_name,
            subscription_name=subscription_name,
            sub_queue=sub_queue,
            **self._options(client_identifier, {}),
        )
        self._entity_clients.add(made)
        return made

    def get_partition_sender(
        self,
        *,
        queue_name: str | None = None,
        topic_name: str | None = None,
        client_identifier: str | None = None,
    ) -> PartitionSender:
        """Return what sends to one partition of a queue or topic at a time, each message once.

        `queue_name` or `topic_name`: the entity. `client_identifier`: a name for logs, generated
        if None.
        """
        self._check(queue_name or topic_name or "")
        made = PartitionSender(
            self.fully_qualified_namespace,
            self._credential,
            queue_name=queue_name,
            topic_name=topic_name,
            **self._options(client_identifier, {}),
        )
        self._entity_clients.add(made)
        return made

    def transaction(self) -> ServiceBusTransaction:
        """Return a transaction: sends and settlements that are done together, or not at all.

        Its operations name it: `send_messages(…, tx=tx)`. As a context manager it is committed
        where the block ends, and rolled back if an exception leaves the block.
        """
        if self._closed:
            raise ValueError("The ServiceBusClient is closed: create another one.")
        return ServiceBusTransaction(self._shared)

    def list_queue_sessions(
        self,
        queue_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
    ) -> AsyncItemPaged[str]:
        """Return the names of a queue's sessions that have active messages or a state.

        `queue_name`: the queue. `state_updated_after`: only sessions whose state was set after
        then. `timeout`: seconds for all pages together, 60 if None.
        """
        self._check(queue_name)
        return sessions.listed(self._shared, queue_name, state_updated_after, timeout)

    def list_subscription_sessions(
        self,
        topic_name: str,
        subscription_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
    ) -> AsyncItemPaged[str]:
        """Return the names of a subscription's sessions that have active messages or a state.

        `topic_name` and `subscription_name`: the subscription. `state_updated_after` and
        `timeout`: as for `list_queue_sessions`.
        """
        self._check(topic_name)
        path = subscription_name_rules.compose(topic_name, subscription_name)
        return sessions.listed(self._shared, path, state_updated_after, timeout)

    async def close(self) -> None:
        """Close the senders and receivers, then the connection.

        Settlements in the background are flushed first: raises an error whose `failures` lists the
        messages of all receivers that were not settled.
        """
        self._closed = True
        failures: list[settlements.Failure] = []
        failed = 0
        try:
            for entity_client in list(self._entity_clients):
                if isinstance(entity_client, ServiceBusReceiver):
                    found, count = await entity_client._confirm_last()
                    failures, failed = failures + found, failed + count
        finally:
            # Concurrently: each may have to wait for a bus that does not answer.
            await calls.close_receivers(self._shared)
            for entity_client in list(self._entity_clients):
                await entity_client.close()
            await calls.close(self._shared)
        settlements.raise_failures(failures, failed)
