"""Scheduled messages that are due and wait in their topic, in the order of their times.

    scheduled ──due──► published
                  ├──others wait, or it takes several turns──► waits here, see `rules.publications`
                  └──no room──► waits here ──room──► published; then those behind it

They stay scheduled in the file: a restart finds them due. Of a topic a bounded number is known;
as many of those behind are read, from the first of them on, when none of these waits.
"""

from typing import Final

from bendybus.partition_server.state.due_times import SlotTimes
from bendybus.partition_server.state.journal import Journal, JournalDict

# Known of one topic.
WAITING_MAX: Final = 100
# Between two looks for room, if nothing of the topic goes.
RETRY_MS: Final = 1_000


class AwaitingRoom:
    """What waits in each topic, by slot."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        # When each topic is looked at next, on the monotonic clock.
        self.due = SlotTimes(journal)
        # Topics that have no room.
        self._full: JournalDict[int, None] = JournalDict(journal)
        # Row id → when it was due.
        self._waiting: dict[int, JournalDict[int, int]] = {}
        # The first of those that are not known: when it was due, and its row id.
        self._beyond: JournalDict[int, tuple[int, int]] = JournalDict(journal)
        # What the first of a topic needs: its row id, by which version of the rules, and how much.
        self._needs: JournalDict[int, tuple[int, int, int]] = JournalDict(journal)

    def waits(self, slot: int) -> bool:
        """Whether a message of a topic waits."""
        return bool(self._waiting.get(slot)) or slot in self._beyond

    def count(self) -> int:
        """Return how many messages are known that wait for room."""
        return sum(len(self._waiting.get(slot, ())) for slot in self._full)

    def add(self, slot: int, id_: int, due_ms: int) -> None:
        """Let a message wait, behind those that do."""
        known = self._waiting.get(slot)
        if known is None:
            known = self._waiting[slot] = JournalDict(self._journal)
        if id_ in known:
            return
        if slot in self._beyond or len(known) >= WAITING_MAX:
            self.add_beyond(slot, (due_ms, id_))
            return
        known[id_] = due_ms

    def add_beyond(self, slot: int, first: tuple[int, int]) -> None:
        """Let messages wait that are not known, from one on: when it was due, and its row id."""
        self._beyond[slot] = min(first, self._beyond.get(slot, first))

    def look(self, slot: int) -> None:
        """Note that a topic is looked at."""
        self.due.replace(slot, None)
        self._full.pop(slot)

    def no_room(self, slot: int, mono_ms: int) -> None:
        """Note that a topic has no room for what waits there."""
        self._full[slot] = None
        self.due.replace(slot, mono_ms + RETRY_MS)

    def needs(self, slot: int, id_: int, version: int, added_bytes: int) -> None:
        """Note what a message needs that has met the rules and finds no room."""
        self._needs[slot] = id_, version, added_bytes

    def needed(self, slot: int, id_: int, version: int) -> int:
        """Return what a message needs; 0: that is not known for these rules."""
        known_id, known_version, added_bytes = self._needs.get(slot, (0, 0, 0))
        return added_bytes if (known_id, known_version) == (id_, version) else 0

    def ids(self, slot: int) -> list[int]:
        """Return the messages of a topic that wait, as far as they are known, in order."""
        known: dict[int, int] = self._waiting.get(slot) or {}
        return sorted(known, key=lambda id_: (known[id_], id_))

    def remove(self, slot: int, id_: int) -> None:
        """Note that a message waits no more."""
        del self._waiting[slot][id_]

    def beyond(self, slot: int) -> tuple[int, int] | None:
        """Forget that others wait behind those that are known; return the first of them."""
        found: tuple[int, int] | None = self._beyond.pop(slot)
        return found

    def drop(self, slot: int) -> None:
        """Forget a topic that is deleted."""
        self._waiting.pop(slot, None)
        self._beyond.pop(slot)
        self._needs.pop(slot)
        self.look(slot)
