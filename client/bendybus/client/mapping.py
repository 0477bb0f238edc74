"""Objects that can be read like dictionaries, as some models of azure-servicebus can."""

from typing import Any


class MappingMixin:
    """Gives the public attributes of an object the methods of a dictionary."""

    def __setitem__(self, key: str, item: Any) -> None:
        self.__dict__[key] = item

    def __getitem__(self, key: str) -> Any:
        return self.__dict__[key]

    def __delitem__(self, key: str) -> None:
        self.__dict__[key] = None

    def __contains__(self, key: object) -> bool:
        return key in self.__dict__

    def __len__(self) -> int:
        return len(self.keys())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, self.__class__) and self.__dict__ == other.__dict__

    # As a dictionary, and as in azure-servicebus: not hashable. mypy knows __hash__ as a method.
    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return str(dict(self.items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def has_key(self, k: str) -> bool:
        """Whether there is an attribute `k`."""
        return k in self.__dict__

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set attributes as `dict.update` does."""
        self.__dict__.update(*args, **kwargs)

    def keys(self) -> list[str]:
        """Return the names of the public attributes."""
        return [name for name in self.__dict__ if not name.startswith("_")]

    def values(self) -> list[Any]:
        """Return the values of the public attributes."""
        return [self.__dict__[name] for name in self.keys()]

    def items(self) -> list[tuple[str, Any]]:
        """Return the public attributes with their values."""
        return [(name, self.__dict__[name]) for name in self.keys()]

    def get(self, key: str, default: Any | None = None) -> Any:
        """Return an attribute, or `default` if there is none."""
        return self.__dict__.get(key, default)
