"""Bugs that rules meet: what was being done, of which entity, and when that is tried again.

A rule that raises anything but a BusError has a bug, or has met one. It costs the work that it was
at, not the partition: see `Partition.stages` and `Partition.sweep`. Rules only note what happened;
the shell takes the notes after each turn, logs and counts them. A StoreError is no such fault: the
file has to be opened again.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from bendybus.domain import lock_token
from bendybus.domain.errors import BusError
from bendybus.partition_server.state.journal import Journal, JournalDict

# Until work that raised is done again: doubled each time, up to the most.
PAUSE_MS: Final = 1_000
PAUSE_MS_MAX: Final = 60_000
# Of different works; beyond these, the oldest begin with the shortest pause again.
PAUSES_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Fault:
    """An exception that no rule should raise."""

    # A kind of command or of sweep.
    work: str
    # The name of the entity; "": of none, or not known.
    entity: str
    error: Exception


class RuleFailed(Exception):
    """Raised when the rule of a command raised what it should not, as `error`."""

    def __init__(self, command: Any, error: Exception) -> None:
        super().__init__(f"{type(command).__name__}: {error!r}")
        self.command = command
        self.error = error


class _Pause(NamedTuple):
    until_mono_ms: int
    lasts_ms: int


class Faults:
    """The faults of a partition since its file was opened."""

    def __init__(self, journal: Journal) -> None:
        # Not yet taken by the shell.
        self.noted: list[Fault] = []
        # Sweeps that wait, by kind: until when, on the monotonic clock. None: deleted queues.
        self.held: JournalDict[Hashable, int] = JournalDict(journal)
        # What sweeps passed over, by kind: the earliest of their times, and when to look again.
        self.skipped: JournalDict[Hashable, tuple[int, int]] = JournalDict(journal)
        self._pauses: JournalDict[Hashable, _Pause] = JournalDict(journal)

    def note(self, work: str, entity: str, error: Exception) -> None:
        """Note a fault, for the shell."""
        self.noted.append(Fault(work, entity, error))

    def take(self) -> list[Fault]:
        """Return what was noted since the last call."""
        taken, self.noted = self.noted, []
        return taken

    def pause_ms(self, key: Hashable, now_mono_ms: int) -> int:
        """Return how long work that has just raised waits: the longer, the more often it did."""
        known, lasts_ms = self._pauses.pop(key, None), PAUSE_MS
        if known is not None and now_mono_ms <= known.until_mono_ms + PAUSE_MS_MAX:
            lasts_ms = min(2 * known.lasts_ms, PAUSE_MS_MAX)
        elif len(self._pauses) >= PAUSES_MAX:
            del self._pauses[next(iter(self._pauses))]
        self._pauses[key] = _Pause(now_mono_ms + lasts_ms, lasts_ms)
        return lasts_ms

    def hold(self, kind: Hashable, now_mono_ms: int) -> None:
        """Let all sweeps of a kind wait."""
        self.held[kind] = now_mono_ms + self.pause_ms(kind, now_mono_ms)

    def wait_ms(self, kind: Hashable, now_mono_ms: int) -> int:
        """Return how long sweeps of a kind wait, 0 or less: not at all."""
        return self.held.get(kind, now_mono_ms) - now_mono_ms

    def skip(self, kind: Hashable, at_ms: int, now_mono_ms: int) -> None:
        """Pass over something that was due at a time; look at that time again after a while."""
        known = self.skipped.get(kind)
        if known is None:
            again_ms = now_mono_ms + self.pause_ms((kind, "skipped"), now_mono_ms)
            self.skipped[kind] = (at_ms, again_ms)
        else:
            self.skipped[kind] = (min(known[0], at_ms), known[1])

    def due_again(self, kind: Hashable, now_mono_ms: int) -> int | None:
        """Return the earliest time that is to be looked at again now, once."""
        known = self.skipped.get(kind)
        if known is None or known[1] > now_mono_ms:
            return None
        del self.skipped[kind]
        return known[0]


def internal_error(partition: int, work: str, entity: str) -> BusError:
    """Return what to tell the caller of work that raised what it should not."""
    of = f" for {entity!r}" if entity else ""
    return BusError(
        f"partition {partition}: internal error in {work}{of}. Nothing of it was done. The log of "
        "the partition server has the details; report them as a bug.",
        metadata={"partition": str(partition), "entity": entity},
    )


def slot_of(command: object) -> int:
    """Return the slot that a command is about, if only that says which entity it means; else -1."""
    slot: int = getattr(command, "slot", -1)
    tokens = getattr(command, "tokens", b"") or getattr(command, "session_token", b"")
    if slot < 0 and len(tokens) >= lock_token.TOKEN_BYTES:
        slot = next(lock_token.unpack(tokens[: lock_token.TOKEN_BYTES])).slot
    return slot
