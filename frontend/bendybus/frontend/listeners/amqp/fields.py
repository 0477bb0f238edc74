"""The fields of a request's map."""

from collections.abc import Mapping
from typing import Any, TypeVar

from bendybus.amqp.values import Array
from bendybus.domain import errors

_T = TypeVar("_T")


class Fields:
    """The fields of a request. Raises InvalidArgument that names the field."""

    def __init__(self, body: Mapping[Any, Any], link_name: str = "") -> None:
        self._body = body
        # The receiver's link on whose behalf a client asks.
        self.link_name = link_name

    def optional(self, name: str, kind: type[_T]) -> _T | None:
        """Return a field; None: it is not there."""
        value = self._body.get(name)
        if value is None:
            return None
        if not isinstance(value, kind) or isinstance(value, bool):
            raise errors.InvalidArgument(name, f"must be of type {kind.__name__}.")
        return value

    def required(self, name: str, kind: type[_T]) -> _T:
        """Return a field that must be there."""
        value = self.optional(name, kind)
        if value is None:
            raise errors.InvalidArgument(name, "must be set.")
        return value

    def listed(self, name: str, kind: type[_T]) -> list[_T]:
        """Return the items of an array, or of a list, that must be there."""
        value = self._body.get(name)
        items = value.items if isinstance(value, Array) else value
        if not isinstance(items, list) or not all(isinstance(each, kind) for each in items):
            raise errors.InvalidArgument(name, f"must be an array of {kind.__name__}.")
        return items
