# Generated from aio/management/management_calls.py by `make sync`: edit that file.
"""How the synchronous administration client calls the bus."""

from collections.abc import Callable, Mapping
from typing import Any

from bendybus.client import arguments, exceptions
from bendybus.client.core.administration import BaseAdministrationClient
from bendybus.client.core.channel import Stubs
from bendybus.client.entities import requests
from bendybus.client.entities.requests import Convert
from bendybus.client.sync import calls
from bendybus.client.sync.management.paging import ItemPaged
from bendybus.domain.entity_kind import EntityKind


class ManagementCalls(BaseAdministrationClient):
    """The calls of operations on every kind of entity."""

    def close(self) -> None:
        """Close the connection."""
        calls.close(self._shared)

    def _ask(self, request: Any, options: Mapping[str, Any]) -> Any:
        """Return the answer of the management service to a request; its method has that name."""
        name = type(request).__name__.removesuffix("Request")
        return self._call(lambda stubs: getattr(stubs.management, name), request, options)

    def _get(self, kind: EntityKind, options: Mapping[str, Any], *names: str) -> Any:
        """Return an entity with its counts; `names`: as for requests."""
        request = requests.of("Get", kind, names, include_runtime=True)
        return getattr(self._ask(request, options), kind.value)

    def _list(
        self, request: Any, convert: Convert, items: str, options: Mapping[str, Any]
    ) -> ItemPaged[Any]:
        """Return an iterator over what a request lists; `items`: the field of the answer."""
        request.page_size = requests.PAGE_SIZE

        def fetch(token: str) -> tuple[list[Any], str]:
            page = type(request)()
            page.CopyFrom(request)
            page.page_token = token
            answer = self._ask(page, options)
            return [convert(each) for each in getattr(answer, items)], answer.next_page_token

        return ItemPaged(fetch)

    def _call(
        self, method: Callable[[Stubs], Any], request: Any, options: Mapping[str, Any]
    ) -> Any:
        with self._managing(request):
            return calls.call(
                self._shared.get(),
                method,
                request,
                arguments.timeout(options.get("timeout")),
                translate=exceptions.from_management_error,
            )
