"""What the action of a rule changes in its copy of a message."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import NamedTuple

from bendybus.domain.filters.values import Value
from bendybus.domain.filters.view import MessageView


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
    # By the names of `system_properties`; None: not set.
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
