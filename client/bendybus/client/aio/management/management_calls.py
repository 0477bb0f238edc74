"""How the asynchronous administration client calls the bus."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from bendybus.client import arguments, exceptions
from bendybus.client.aio import calls
from bendybus.client.core.administration import BaseAdministrationClient
from bendybus.client.core.channel import AnswerT, Method, RequestT
from bendybus.client.entities import requests
from bendybus.client.entities.requests import Convert
from bendybus.domain.entity_kind import EntityKind

T = TypeVar("T")
# From a continuation token, "" for the first page: the items, and the next token or "".
Page = Callable[[str], Awaitable[tuple[list[T], str]]]


class AsyncItemPaged(AsyncIterator[T], Generic[T]):
    """An iterator over all items; `by_page` returns an iterator over pages."""

    def __init__(self, fetch: Page[T]) -> None:
        self._fetch = fetch
        self._items: AsyncIterator[T] | None = None

    def by_page(self, continuation_token: str | None = None) -> "AsyncPages[T]":
        """Return an iterator over pages, each of them an iterator over its items.

        `continuation_token`: where to start; the attribute of this name of another iterator.
        """
        return AsyncPages(self._fetch, continuation_token or "")

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        if self._items is None:
            self._items = self._all()
        return await anext(self._items)

    async def _all(self) -> AsyncIterator[T]:
        async for page in self.by_page():
            async for item in page:
                yield item

    def __repr__(self) -> str:
        return f"<bendybus.client.aio.management.AsyncItemPaged object at {hex(id(self))}>"


class AsyncPages(AsyncIterator[AsyncIterator[T]], Generic[T]):
    """Pages of a list. `continuation_token` identifies the next one; None at the end."""

    def __init__(self, fetch: Page[T], token: str) -> None:
        self._fetch = fetch
        self._begun = False
        self.continuation_token: str | None = token or None

    def __aiter__(self) -> AsyncIterator[AsyncIterator[T]]:
        return self

    async def __anext__(self) -> AsyncIterator[T]:
        if self._begun and self.continuation_token is None:
            raise StopAsyncIteration
        items, token = await self._fetch(self.continuation_token or "")
        self._begun, self.continuation_token = True, token or None
        return _items_of(items)


async def _items_of(items: list[T]) -> AsyncIterator[T]:
    for item in items:
        yield item


class ManagementCalls(BaseAdministrationClient):
    """The calls of operations on every kind of entity."""

    async def close(self) -> None:
        """Close the connection."""
        await calls.close(self._shared)

    async def _ask(self, request: Message, options: Mapping[str, Any]) -> Any:
        """Return the answer of the management service to a request; its method has that name."""
        name = type(request).__name__.removesuffix("Request")
        return await self._call(lambda stubs: getattr(stubs.management, name), request, options)

    async def _get(self, kind: EntityKind, options: Mapping[str, Any], *names: str) -> Any:
        """Return an entity with its counts; `names`: as for requests."""
        request = requests.of("Get", kind, names, include_runtime=True)
        return getattr(await self._ask(request, options), kind.value)

    def _list(
        self, request: Any, convert: Convert[T], items: str, options: Mapping[str, Any]
    ) -> AsyncItemPaged[T]:
        """Return an iterator over what a request lists; `items`: the field of the answer."""
        request.page_size = requests.PAGE_SIZE

        async def fetch(token: str) -> tuple[list[T], str]:
            page = type(request)()
            page.CopyFrom(request)
            page.page_token = token
            answer = await self._ask(page, options)
            return [convert(each) for each in getattr(answer, items)], answer.next_page_token

        return AsyncItemPaged(fetch)

    async def _call(
        self, method: "Method[RequestT, AnswerT]", request: RequestT, options: Mapping[str, Any]
    ) -> AnswerT:
        with self._managing(request):
            return await calls.call(
                self._shared.get(),
                method,
                request,
                arguments.timeout(options.get("timeout")),
                translate=exceptions.from_management_error,
            )
