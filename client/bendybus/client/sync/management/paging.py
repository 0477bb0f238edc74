# Generated from aio/management/paging.py by `make sync`: edit that file.
"""Lists in pages, with the methods of azure-core's ItemPaged."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
# From a continuation token, "" for the first page: the items, and the next token or "".
Page = Callable[[str], tuple[list[T], str]]


class ItemPaged(Iterator[T], Generic[T]):
    """An iterator over all items; `by_page` returns an iterator over pages."""

    def __init__(self, fetch: Page[T]) -> None:
        self._fetch = fetch
        self._items: Iterator[T] | None = None

    def by_page(self, continuation_token: str | None = None) -> "Pages[T]":
        """Return an iterator over pages, each of them an iterator over its items.

        `continuation_token`: where to start; the attribute of this name of another iterator.
        """
        return Pages(self._fetch, continuation_token or "")

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._items is None:
            self._items = self._all()
        return next(self._items)

    def _all(self) -> Iterator[T]:
        for page in self.by_page():
            yield from page

    def __repr__(self) -> str:
        return f"<bendybus.client.management.ItemPaged object at {hex(id(self))}>"


class Pages(Iterator[Iterator[T]], Generic[T]):
    """Pages of a list. `continuation_token` identifies the next one; None at the end."""

    def __init__(self, fetch: Page[T], token: str) -> None:
        self._fetch = fetch
        self._begun = False
        self.continuation_token: str | None = token or None

    def __iter__(self) -> Iterator[Iterator[T]]:
        return self

    def __next__(self) -> Iterator[T]:
        if self._begun and self.continuation_token is None:
            raise StopIteration
        items, token = self._fetch(self.continuation_token or "")
        self._begun, self.continuation_token = True, token or None
        return _items_of(items)


def _items_of(items: list[T]) -> Iterator[T]:
    yield from items
