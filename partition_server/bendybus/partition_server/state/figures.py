"""Counters of one partition for /metrics: written by its thread, read by any."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from bendybus.partition_server.store.records import Changes

# Upper bounds of the histogram of commit times, seconds.
COMMIT_BOUNDS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
# Upper bounds of the histogram of turns: what waits for the partition waits for one at most.
TURN_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
# Upper bounds of the histogram of turns without their commits; 0.2 s is the goal for all of them.
DECIDE_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
# Pairs of a kind of work and an entity that internal errors are counted for.
FAULTS_MAX: Final = 1_000


@dataclass(slots=True)
class Figures:
    """What happened since the process started."""

    commits: int = 0
    commit_seconds: float = 0.0
    commit_buckets: list[int] = field(default_factory=lambda: [0] * (len(COMMIT_BOUNDS_S) + 1))
    turn_seconds: float = 0.0
    turn_buckets: list[int] = field(default_factory=lambda: [0] * (len(TURN_BOUNDS_S) + 1))
    # Turns without their commits.
    decide_seconds: float = 0.0
    decide_buckets: list[int] = field(default_factory=lambda: [0] * (len(DECIDE_BOUNDS_S) + 1))
    messages_stored: int = 0
    messages_removed: int = 0
    # Scheduled messages that are due and find no room in their topics, now.
    awaiting_room: int = 0
    # What is in memory of messages that nobody has received yet, now.
    window_bytes: int = 0
    # Internal errors, by (kind of work, entity); see `met_fault`.
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    # All commits of the turns before.
    _commits_before_s: float = 0.0

    def committed(self, changes: Changes, seconds: float) -> None:
        """Count one commit."""
        self.commits += 1
        self.commit_seconds += seconds
        self.commit_buckets[bisect_left(COMMIT_BOUNDS_S, seconds)] += 1
        # What is moved leaves one queue for another.
        self.messages_stored += changes.stored() + len(changes.moves)
        self.messages_removed += len(changes.deletes) + len(changes.moves)

    def met_fault(self, work: str, entity: str) -> None:
        """Count an internal error; of entities beyond the bound, without a name."""
        key = (work, entity)
        if key not in self.faults and len(self.faults) >= FAULTS_MAX:
            key = (work, "")
        self.faults[key] += 1

    def turned(self, seconds: float) -> None:
        """Count one turn that had something to do."""
        self.turn_seconds += seconds
        self.turn_buckets[bisect_left(TURN_BOUNDS_S, seconds)] += 1
        decide_s = max(0.0, seconds - (self.commit_seconds - self._commits_before_s))
        self._commits_before_s = self.commit_seconds
        self.decide_seconds += decide_s
        self.decide_buckets[bisect_left(DECIDE_BOUNDS_S, decide_s)] += 1
