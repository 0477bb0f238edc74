"""Offsets: how far a read came in each partition, as Spark keeps it in its checkpoint.

    {"v": 1, "owner": "spark-1f0c…", "seq": {"0": 41}, "inc": {"0": "a1-9c"}, "low": {"0": 57},
     "shape": {"minPartitions": 8, "states": ["active"], "sessionId": null}}

`seq`: the last number that was handed over. `inc`: the incarnation it is of; a partition without
one did not answer yet. `low`: what was gone already when it was above the number before: messages
at or below it that are not there any more are no loss of this query. `shape`: the options that give
the batch that ends here its tasks and its rows, so that a repeat of it has the same ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bendybus.domain import sequence_number
from bendybus.spark.errors import PipelineError

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Shape:
    """What gives a batch its tasks and its rows, beside its ranges: options by their names."""

    min_partitions: int = 0
    states: tuple[str, ...] = ("active",)
    session_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what Spark keeps."""
        return {
            "minPartitions": self.min_partitions,
            "states": list(self.states),
            "sessionId": self.session_id,
        }


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a read came, by partition."""

    numbers: Mapping[int, int]
    incarnations: Mapping[int, str] = field(default_factory=dict)
    gone: Mapping[int, int] = field(default_factory=dict)
    owner: str = ""
    # None: not recorded, as it was not before 0.7.0.
    shape: Shape | None = None

    def number(self, partition: int) -> int:
        """Return the last number that was handed over."""
        return self.numbers.get(partition, beginning(partition))

    def to_json(self) -> dict[str, Any]:
        """Return what Spark keeps."""
        made: dict[str, Any] = {"v": VERSION}
        if self.owner:
            made["owner"] = self.owner
        made["seq"] = _by_text(self.numbers)
        made["inc"] = _by_text(self.incarnations)
        if self.gone:
            made["low"] = _by_text(self.gone)
        if self.shape is not None:
            made["shape"] = self.shape.to_json()
        return made


def from_json(given: Mapping[str, Any]) -> Offset:
    """Return an offset that Spark kept. Raises PipelineError."""
    if given.get("v") != VERSION:
        raise PipelineError(
            f"the checkpoint has offsets of version {given.get('v')!r}, and this version reads "
            f"{VERSION}; use the version of Bendybus that wrote it, or another checkpointLocation"
        )
    return Offset(
        _by_number(given["seq"]),
        _by_number(given["inc"]),
        _by_number(given.get("low", {})),
        given.get("owner", ""),
        _shape(given["shape"]) if "shape" in given else None,
    )


def _shape(given: Mapping[str, Any]) -> Shape:
    return Shape(given["minPartitions"], tuple(given["states"]), given["sessionId"])


def beginning(partition: int) -> int:
    """Return the number before the first one of a partition."""
    return sequence_number.compose(partition, 0)


def _by_text(values: Mapping[int, Any]) -> dict[str, Any]:
    return {str(partition): values[partition] for partition in sorted(values)}


def _by_number(values: Mapping[str, Any]) -> dict[int, Any]:
    return {int(partition): value for partition, value in values.items()}
