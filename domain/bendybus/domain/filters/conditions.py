"""What is compiled of a filter: conditions that an index can look up, and a rest to evaluate."""

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final

from bendybus.domain.filters import values
from bendybus.domain.filters.values import Value
from bendybus.domain.filters.view import MessageView


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """A property equals a constant."""

    # Of the system; else of the user, by its folded name.
    system: bool
    name: str
    # `values.key` of the constant.
    key: Hashable

    def holds(self, view: MessageView) -> bool:
        """Whether it is true, neither false nor unknown."""
        value = view.system(self.name) if self.system else view.user.get(self.name)
        return value is not None and values.key(value) == self.key


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledFilter:
    """A filter that is ready to be evaluated: all conditions hold, and the rest is true.

    Conditions come first and cannot fail. So a message that they do not fit is never an error,
    and it makes no difference whether an index has looked them up already.
    """

    conditions: tuple[Condition, ...] = ()
    # None: there is no rest.
    rest: Callable[[MessageView], bool | None] | None = None
    # What the rest may cost: see `cost`.
    steps: int = 0

    def matches(self, view: MessageView) -> bool:
        """Whether the filter takes a message. Raises FilterError."""
        return all(each.holds(view) for each in self.conditions) and self.rest_matches(view)

    def rest_matches(self, view: MessageView) -> bool:
        """Return `matches` for a message that fits all conditions. Raises FilterError."""
        return self.rest is None or self.rest(view) is True


EVERYTHING: Final = CompiledFilter()
NOTHING: Final = CompiledFilter(rest=lambda view: False)


def of_values(system: Mapping[str, Value], user: Mapping[str, Value]) -> CompiledFilter:
    """Return the filter for messages that have all these properties; names are exact, folded."""
    found = [Condition(True, name, values.key(value)) for name, value in system.items()]
    found += [Condition(False, name, values.key(value)) for name, value in user.items()]
    return CompiledFilter(in_order(found))


def in_order(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Return conditions in the one order of all filters: so they share their way in an index."""
    return tuple(sorted(conditions, key=lambda each: (each.system, each.name)))
