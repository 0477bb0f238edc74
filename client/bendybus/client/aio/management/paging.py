"""Lists in pages, with the methods of azure-core's AsyncItemPaged."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, TypeVar

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
