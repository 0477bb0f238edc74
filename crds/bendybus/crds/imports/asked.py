"""Options that a user gives for a file of another program."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bendybus.crds.bundle import NamespaceSettings


@dataclass(frozen=True, slots=True)
class Asked:
    """Options for a file.

    `given`: values that it lacks, by name. `only`: the name of one of its namespaces. `running`:
    returns the bus that it is for, and is called only if it has no namespace of its own.
    `premium`: the partitions of a Premium bus, where the file has no word for them. `spare`: names
    of given values that others may need, too. `meant`: entities are for the running bus whatever
    namespace the file has.
    """

    given: Mapping[str, Any] = field(default_factory=dict)
    only: str = ""
    running: Callable[[], NamespaceSettings] | None = None
    premium: int | None = None
    spare: frozenset[str] = frozenset()
    meant: bool = False

    @property
    def needed(self) -> dict[str, Any]:
        """The values that only the file can need, by name."""
        return {name: value for name, value in self.given.items() if name not in self.spare}
