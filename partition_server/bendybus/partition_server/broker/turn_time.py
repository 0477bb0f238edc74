"""How long a turn begins commands: each of its two parts, what goes first and sends, has a time.

Commands differ by a thousand times in what they cost, which is not known before they are decided.
So a turn takes many, and what it does not come to waits for the next one.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

from bendybus.partition_server.state.commands import Command

# For each part. A command that has begun is decided whole.
PART_S: Final = 0.05


class TurnTime:
    """The time of a turn of `commands`: those of the first part, then sends (`is_send`).

    `clock`: in seconds.
    """

    def __init__(
        self,
        commands: list[Command],
        is_send: Callable[[Command], bool],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._commands = commands
        self._clock = clock
        self._is_send = is_send
        # Of the part that the turn is in; None: it has not begun.
        self._until_s: float | None = None
        self._sends = False
        # What may not begin, in order.
        self.left: list[Command] = []

    def begins(self, command: Command) -> bool:
        """Whether a command may begin, as the first of a part does; else it is left."""
        now_s = self._clock()
        if self._until_s is None or (not self._sends and self._is_send(command)):
            self._sends, self._until_s = self._is_send(command), now_s + PART_S
            return True
        if now_s < self._until_s:
            return True
        self.left.append(command)
        return False

    def begun(self, group: Sequence[Command]) -> Sequence[Command]:
        """Return those of a group that have begun; the turn is without the others, too."""
        if not self.left:
            return group
        left = set(map(id, self.left))
        self._commands[:] = [each for each in self._commands if id(each) not in left]
        return [each for each in group if id(each) not in left]
