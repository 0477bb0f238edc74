"""What a filter sees of a message, never its body; and what an action changes in its copy of it."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol
from uuid import UUID

from bendybus.domain.filters.values import Value, folded


class MessageView(Protocol):
    """Properties of one message, decoded when they are first asked for."""

    @property
    def user(self) -> Mapping[str, Value]:
        """Application properties by folded name (`values.folded`)."""

    def system(self, name: str) -> Value:
        """Return a property of `syntax.ALL`, by its exact name; None: not set."""

    def new_id(self) -> UUID:
        """Return a random UUID, for newid()."""


@dataclasses.dataclass(frozen=True, slots=True)
class Properties:
    """A view of properties that are at hand. `user_properties`: by name, in whatever case."""

    user_properties: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    system_properties: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    # The source of randomness, which rules do not have.
    id_source: Callable[[], UUID] = lambda: UUID(int=0)
    user: Mapping[str, Value] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "user", folded(self.user_properties))

    def system(self, name: str) -> Value:
        """Return a system property; None: not set."""
        return self.system_properties.get(name)

    def new_id(self) -> UUID:
        """Return the next UUID of the source."""
        return self.id_source()


class UserChange(NamedTuple):
    """A changed application property. `name`: as in the action, for one that is new."""

    name: str
    value: Value
    removed: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """What differs in a copy."""

    # By folded name.
    user: Mapping[str, UserChange]
    # By the names of `syntax.ALL`; None: not set.
    system: Mapping[str, Value]


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledAction:
    """An action that is ready to be applied."""

    # Returns what the action makes of a message. Raises FilterError.
    changes: Callable[[MessageView], Changes]
    # SessionId and PartitionKey, if the action sets them: not possible in a partitioned topic.
    keys: frozenset[str]
    # What the changes may cost: see `cost`.
    steps: int
