"""Compares what the clients of a token load were acknowledged with what they received. Pure."""

import itertools
import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class Ledger:
    """What clients saw, by queue and by the name of each message; used from several threads."""

    acknowledged: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    cancelled: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    # Whose outcome is unknown, since the call raised an error.
    unsure: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    completed: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    errors: list[str] = field(default_factory=list)
    # When scheduled messages are due, in seconds since 1970.
    _due_s: dict[str, float] = field(default_factory=dict)
    _early: list[str] = field(default_factory=list)
    # The numbers of what was received in sessions, in that order.
    _in_session: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def sent(self, queue: str, name: str, due_s: float | None = None) -> None:
        """Take note that a message was acknowledged. `due_s`: when it is due, if scheduled."""
        with self._lock:
            self.acknowledged[queue].add(name)
            if due_s is not None:
                self._due_s[name] = due_s

    def was_cancelled(self, queue: str, name: str) -> None:
        """Take note that a scheduled message was cancelled: it must never come."""
        with self._lock:
            self.acknowledged[queue].discard(name)
            self.cancelled[queue].add(name)

    def was_received(self, name: str, now_s: float, session: str = "") -> None:
        """Take note of a delivery. `session`: of a session, where messages come in their order."""
        with self._lock:
            # Its clock and the bus's are one; what is due is written in whole milliseconds.
            if now_s < self._due_s.get(name, 0.0) - 0.001:
                self._early.append(name)
            if session:
                self._in_session[session].append(int(name.rpartition(" ")[2]))

    def was_completed(self, queue: str, name: str) -> None:
        """Take note that a completion was confirmed."""
        with self._lock:
            self.completed[queue][name] += 1

    def failed(self, queue: str, what: str, error: BaseException, name: str = "") -> None:
        """Take note of an error that a program got.

        `name`: of a message that may have been sent.
        """
        with self._lock:
            self.errors.append(f"{queue}: {what}: {type(error).__name__}: {error}")
            if name:
                self.unsure[queue].add(name)

    def compared(self, queue: str, expected: bytes, found: bytes) -> None:
        """Take note of what was read where something was written before."""
        if found != expected:
            self.failed(queue, "reading", ValueError(f"{found!r}, and not {expected!r}"))

    def missing(self, queue: str) -> set[str]:
        """Return what was acknowledged and not completed yet."""
        with self._lock:
            return self.acknowledged[queue] - self.completed[queue].keys()

    def wrong(self, left: Mapping[str, int]) -> list[str]:
        """Return what is not as promised. `left`: how many messages each queue still counts."""
        found = [f"error of {each}" for each in self.errors]
        for queue in sorted({*self.acknowledged, *self.completed, *left}):
            done = self.completed[queue]
            allowed = self.acknowledged[queue] | self.unsure[queue]
            for what, names in (
                ("lost", self.acknowledged[queue] - done.keys()),
                ("completed twice", {name for name, count in done.items() if count > 1}),
                ("received although cancelled", self.cancelled[queue] & done.keys()),
                ("never sent", done.keys() - allowed - self.cancelled[queue]),
            ):
                if names:
                    found.append(f"{queue}: {len(names)} {what}: {sorted(names)[:5]}")
            if left.get(queue):
                found.append(f"{queue}: still counts {left[queue]} messages")
        found += [f"came before it was due: {name}" for name in self._early]
        for session, numbers in self._in_session.items():
            for before, number in itertools.pairwise(numbers):
                if number < before:
                    found.append(f"{session}: {number} came after {before}")
        return found

    def figures(self) -> str:
        """Return how much was done, by queue."""
        return "\n".join(
            f"{queue}: {len(self.acknowledged[queue])} acknowledged, "
            f"{sum(self.completed[queue].values())} completed, "
            f"{len(self.cancelled[queue])} cancelled"
            for queue in sorted(self.acknowledged)
        )
