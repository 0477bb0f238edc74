"""What the clients of the simulated world saw of its sessions, and which rules that breaks."""

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(eq=False)
class Holder:
    """A receiver that has a session, and what it has of it."""

    name: str
    # Delivered to it, and neither settled nor given back.
    held: set[int] = field(default_factory=set)
    # The last one that was delivered, since it gave something back.
    last: int = 0


class History:
    """Checks as it goes: `violations` says what was broken, and when."""

    def __init__(self) -> None:
        # By session: numbers that are stored for sure, in their order.
        self.stored: dict[str, list[int]] = defaultdict(list)
        # Completed for sure; or maybe.
        self.completed: dict[str, set[int]] = defaultdict(set)
        self.unknown: dict[str, set[int]] = defaultdict(set)
        # Being completed: no outcome yet.
        self.under_way: dict[str, set[int]] = defaultdict(set)
        # By session: its latest receiver.
        self.holders: dict[str, Holder] = {}
        # By session: what its state may be.
        self.states: dict[str, set[bytes | None]] = defaultdict(lambda: {None})
        self.violations: list[str] = []

    def _broken(self, rule: str, name: str, what: object) -> None:
        self.violations.append(f"{rule}: {name}: {what}")

    def accepted(self, name: str) -> Holder:
        """Note that a receiver locked a session."""
        holder = self.holders[name] = Holder(name)
        return holder

    def delivered(self, holder: Holder, number: int) -> None:
        """Note a message that the application got."""
        name = holder.name
        if number in self.completed[name]:
            self._broken("returned", name, number)
        if number <= holder.last:
            self._broken("order", name, f"{number} after {holder.last}")
        gone = self.completed[name] | self.unknown[name] | self.under_way[name] | holder.held
        before = [each for each in self.stored[name] if each < number and each not in gone]
        if before and self.holders.get(name) is holder:
            self._broken("overtaken", name, f"{number} before {before}")
        holder.held.add(number)
        holder.last = number

    def given_back(self, holder: Holder, number: int) -> None:
        """Note that the application gives a message back: it and the later ones come again."""
        holder.held.discard(number)
        holder.last = min(holder.last, number - 1)

    def settling(self, holder: Holder, number: int) -> None:
        """Note that a receiver begins to complete a message."""
        self.under_way[holder.name].add(number)

    def refused(self, holder: Holder, number: int) -> None:
        """Note that a message is not completed, for sure."""
        self.under_way[holder.name].discard(number)

    def settled(self, holder: Holder, number: int, *, known: bool, began_as_holder: bool) -> None:
        """Note that a message is completed, or may be."""
        name = holder.name
        if not known:
            self.unknown[name].add(number)
            return
        if not began_as_holder:
            self._broken("exclusive", name, f"{number} completed under a lock that was over")
        if number in self.completed[name]:
            self._broken("twice", name, number)
        self.completed[name].add(number)

    def is_holder(self, holder: Holder) -> bool:
        """Whether no other receiver has got its session since."""
        return self.holders.get(holder.name) is holder

    def state_read(self, holder: Holder, state: bytes | None) -> None:
        """Note what a receiver read of its session's state."""
        if state not in self.states[holder.name]:
            self._broken("state", holder.name, f"{state!r} of {self.states[holder.name]}")
        self.states[holder.name] = {state}

    def lost(self) -> dict[str, set[int]]:
        """Return what is stored for sure, and neither completed nor maybe completed."""
        return {
            name: left
            for name, numbers in self.stored.items()
            if (left := set(numbers) - self.completed[name] - self.unknown[name])
        }
