# Generated from aio/management/management_calls.py by `make sync`: edit that file.
"""How the synchronous administration client calls the bus."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from bendybus.client import arguments, exceptions
from bendybus.client.core.administration import BaseAdministrationClient
from bendybus.client.core.channel import AnswerT, Method, RequestT
from bendybus.client.entities import requests
from bendybus.client.entities.requests import Convert
from bendybus.client.sync import calls
from bendybus.domain.entity_kind import EntityKind

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


class ManagementCalls(BaseAdministrationClient):
    """The calls of operations on every kind of entity."""

    def close(self) -> None:
        """Close the connection."""
        calls.close(self._shared)

    def _ask(self, request: Message, options: Mapping[str, Any]) -> Any:
        """Return the answer of the management service to a request; its method has that name."""
        name = type(request).__name__.removesuffix("Request")
        return self._call(lambda stubs: getattr(stubs.management, name), request, options)

    def _get(self, kind: EntityKind, options: Mapping[str, Any], *names: str) -> Any:
        """Return an entity with its counts; `names`: as for requests."""
        request = requests.of("Get", kind, names, include_runtime=True)
        return getattr(self._ask(request, options), kind.value)

    def _list(
        self, request: Any, convert: Convert[T], items: str, options: Mapping[str, Any]
    ) -> ItemPaged[T]:
        """Return an iterator over what a request lists; `items`: the field of the answer."""
        request.page_size = requests.PAGE_SIZE

        def fetch(token: str) -> tuple[list[T], str]:
            page = type(request)()
            page.CopyFrom(request)
            page.page_token = token
            answer = self._ask(page, options)
            return [convert(each) for each in getattr(answer, items)], answer.next_page_token

        return ItemPaged(fetch)

    def _call(
        self, method: "Method[RequestT, AnswerT]", request: RequestT, options: Mapping[str, Any]
    ) -> AnswerT:
        with self._managing(request):
            return calls.call(
                self._shared.get(),
                method,
                request,
                arguments.timeout(options.get("timeout")),
                translate=exceptions.from_management_error,
            )
