"""Sums over the partitions of an entity: none is shown as whole that lacks one. Pure.

47      every partition answered
47+     one did not: it is at least so much
-       no partition answered
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bendybus.cli.errors import Incomplete
from bendybus.v1 import management_pb2 as pb


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum of what partitions hold. It can only be printed with what it lacks.

    `at_least`: over those that answered. `whole`: whether all did. `text`: shows the figure.
    """

    at_least: int
    whole: bool
    text: Callable[[int], str] = str

    def __str__(self) -> str:
        return self.text(self.at_least) + ("" if self.whole else "+")


def missing(entity: Any) -> list[int]:
    """Return the partitions of an entity that did not answer."""
    return [part.partition for part in entity.runtime.partitions if not part.reachable]


def is_known(entity: Any) -> bool:
    """Whether any partition of an entity answered."""
    return any(part.reachable for part in entity.runtime.partitions)


def count(entity: Any, name: str) -> Sum | None:
    """Return a count of messages by its name in the contract; None: no partition answered."""
    counts: pb.MessageCountDetails = entity.runtime.count_details
    return _sum(entity, getattr(counts, name))


def size(entity: Any, text: Callable[[int], str]) -> Sum | None:
    """Return the size in bytes; None: no partition answered. `text`: shows it."""
    return _sum(entity, entity.runtime.size_in_bytes, text)


def _sum(entity: Any, value: int, text: Callable[[int], str] = str) -> Sum | None:
    return Sum(value, not missing(entity), text) if is_known(entity) else None


def lacking(shown: Iterable[Any]) -> str:
    """Return a sentence about the partitions that did not answer for what is shown, or ""."""
    found = [each for each in map(missing, shown) if each]
    partitions = sorted({partition for each in found for partition in each})
    if not partitions:
        return ""
    entities = "1 entity" if len(found) == 1 else f"{len(found)} entities"
    return (
        f"{_named(partitions)} did not answer: the figures of {entities} lack what is there. 47+ "
        "means at least 47, and - is not known."
    )


def check_whole(shown: Iterable[Any]) -> None:
    """Raise Incomplete, after all is shown, if a partition did not answer for it."""
    sentence = lacking(shown)
    if sentence:
        raise Incomplete(sentence)


def _named(partitions: Sequence[int]) -> str:
    if len(partitions) == 1:
        return f"Partition {partitions[0]}"
    return f"Partitions {', '.join(map(str, partitions[:-1]))} and {partitions[-1]}"
