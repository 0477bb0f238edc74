"""Work that can stop now and then, and go on later: a generator whose result is what it returns."""

from collections.abc import Generator
from typing import Final, TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
# What rules may cost (see `domain.filters.sql_text`) between two moments to stop.
STOP_STEPS: Final = 40


def whole(work: Steps[T]) -> T:
    """Do all of the work at once; return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
