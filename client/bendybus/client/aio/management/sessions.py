"""Asynchronous administration of sessions: what each of them holds."""

from typing import Any

from bendybus.client import arguments
from bendybus.client.aio.management.management_calls import ManagementCalls
from bendybus.client.aio.management.paging import AsyncItemPaged
from bendybus.client.entities import requests, sessions
from bendybus.client.entities.sessions import SessionRuntimeProperties
from bendybus.domain import subscription_name as subscription_name_rules


class SessionOperations(ManagementCalls):
    """Lists sessions with their counts."""

    def list_queue_sessions_runtime_properties(
        self, queue_name: str, **kwargs: Any
    ) -> AsyncItemPaged[SessionRuntimeProperties]:
        """Return an iterator over runtime properties of the sessions of the queue `queue_name`.

        Those with messages in any state, a state, or a receiver; by partition and name. Its
        `by_page()` returns pages, of which some may be empty. Needs the right to listen. Raises
        ResourceNotFoundError, HttpResponseError if the queue has no sessions.
        """
        return self._list_sessions(arguments.text("queue_name", queue_name), kwargs)

    def list_subscription_sessions_runtime_properties(
        self, topic_name: str, subscription_name: str, **kwargs: Any
    ) -> AsyncItemPaged[SessionRuntimeProperties]:
        """Return an iterator over runtime properties of the sessions of a subscription.

        `topic_name`, `subscription_name`: the subscription. Otherwise as for queues.
        """
        path = subscription_name_rules.compose(
            requests.topic_name(topic_name),
            arguments.text("subscription_name", subscription_name),
        )
        return self._list_sessions(path, kwargs)

    def _list_sessions(self, path: str, options: Any) -> AsyncItemPaged[SessionRuntimeProperties]:
        async def fetch(token: str) -> tuple[list[SessionRuntimeProperties], str]:
            request = sessions.list_request(path, token)
            response = await self._call(
                lambda stubs: stubs.receiver.ListSessionCounts, request, options
            )
            return sessions.page(response)

        return AsyncItemPaged(fetch)
