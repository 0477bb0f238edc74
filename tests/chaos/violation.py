"""A rule that a history breaks."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a message broke."""

    rule: str
    body: str
    number: int
    text: str
