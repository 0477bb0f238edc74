"""What becomes of a unit that a test sends without a sender."""

from typing import Any


class Outcome:
    """A waiter that notes what it gets."""

    abandoned = False

    def __init__(self) -> None:
        self.resolved = False
        self.error: BaseException | None = None

    def resolve(self, value: Any) -> None:
        """Note it."""
        self.resolved = True

    def fail(self, error: BaseException) -> None:
        """Note it."""
        self.error = error
