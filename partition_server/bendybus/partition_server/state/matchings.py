"""What messages have met of the rules of a topic, from one turn to the next.

    decision ──asks for each message or group──► met already: the result
                                            └──► not yet: steps, until the turn's budget is spent;
                                                 then NotMatched, and the decision is taken back

A decision that is tried again asks in the same order. What it asks for otherwise meets the rules
again, and so does all of it when the rules have changed: it is decided by those of one generation.
"""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from bendybus.domain.steps import Steps
from bendybus.partition_server.state.budget import Budget

T = TypeVar("T")


class NotMatched(Exception):
    """Raised when messages cannot be stored in a topic in this turn.

    They have not met all of its rules, or others wait there before them. Not an error: what was
    decided is taken back and decided again in a later turn; see `rules.publications`.
    """

    def __init__(self, slot: int) -> None:
        super().__init__(slot)
        self.slot = slot


class Matchings:
    """The results of one decision that is tried until all of its messages have met the rules."""

    __slots__ = ("_asked", "_generation", "_met", "_name", "_steps", "moved")

    def __init__(self) -> None:
        # The topic, by slot, and the version of its rules.
        self._generation = (-1, -1)
        # In the order in which they are asked for: (what for, result).
        self._met: list[tuple[Any, Any]] = []
        # What is asked for after these, as far as it is.
        self._name: Any = None
        self._steps: Steps[Any] | None = None
        self._asked = 0
        # Whether this try took a step.
        self.moved = False

    def begin(self) -> None:
        """Begin a try of the decision."""
        self._asked, self.moved = 0, False

    def next(
        self,
        generation: tuple[int, int],
        name: Hashable,
        begin: Callable[[], Steps[T]],
        budget: Budget,
    ) -> T:
        """Return what a message or group makes; `name` tells it from the others of the decision.

        Raises NotMatched when the budget is spent; each try does at least a step.
        """
        if generation != self._generation:
            self._generation = generation
            self._forget(0)
        if self._asked < len(self._met):
            known, result = self._met[self._asked]
            if known == name:
                self._asked += 1
                return result  # type: ignore[no-any-return]
            self._forget(self._asked)
        if self._steps is None or self._name != name:
            self._name, self._steps = name, begin()
        result = self._step(self._steps, generation[0], budget)
        self._steps = None
        self._met.append((name, result))
        self._asked += 1
        return result  # type: ignore[no-any-return]

    def stored(self, count: int) -> None:
        """Forget the first results: the decision goes on behind them."""
        del self._met[:count]

    def _step(self, steps: Steps[Any], slot: int, budget: Budget) -> Any:
        while True:
            if self.moved and budget.matching_spent():
                raise NotMatched(slot)
            self.moved = True
            try:
                next(steps)
            except StopIteration as end:
                return end.value
            except BaseException:
                # It may be half done.
                self._forget(0)
                raise

    def _forget(self, since: int) -> None:
        del self._met[since:]
        self._name = self._steps = None
