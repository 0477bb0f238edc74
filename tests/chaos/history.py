"""What was done to the bus, as its clients saw it: operations with times and outcomes."""

import asyncio
import dataclasses
import json
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from bendybus.client import exceptions

# The lock duration of every queue and subscription of a run.
LOCK_S: Final = 5
# How often the load looks whether it stands still itself.
WATCH_S: Final = 0.1


class Outcome(StrEnum):
    """What the client was told. UNKNOWN: it may have been done."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Kind(StrEnum):
    """What a client did."""

    SEND = "send"
    SCHEDULE = "schedule"
    CANCEL = "cancel"
    RECEIVE = "receive"
    # Receive and delete: what it returns is settled.
    TAKE = "take"
    COMPLETE = "complete"
    ABANDON = "abandon"
    DEFER = "defer"
    DEAD_LETTER = "dead-letter"
    # Of sessions: the lock is taken, given back, or its holder's line is cut.
    ACCEPT = "accept"
    CLOSE = "close"
    CUT = "cut"


@dataclass(frozen=True, slots=True)
class Item:
    """A message: its body, which no other has, and its number once that is known.

    `locked_s`: when the lock began under which it was received; 0: not known, or not its own.
    `count`: its delivery count when it was received.
    """

    body: str
    number: int = 0
    locked_s: float = field(default=0.0, compare=False)
    count: int = field(default=0, compare=False)


def received(message: Any) -> Item:
    """Return a message that was received."""
    until = message.locked_until_utc if message.session_id is None else None
    began_s = 0.0 if until is None else until.timestamp() - LOCK_S
    return Item(str(message), message.sequence_number, began_s, message.delivery_count or 0)


@dataclass(frozen=True, slots=True)
class Operation:
    """One call. Times are of the machine's clock; `due_s`: when a scheduled message is due.

    `place`: the queue, or the queue and its sub-queue. `key`: the partition key of all its items,
    or their session. `transaction`: the name of the one that it was part of. `until_s`: when the
    lock of the session ends, as the client knew when the call began, or learned by it. `through`:
    the front end of the client, where it matters.
    """

    kind: Kind
    place: str
    task: str
    began_s: float
    ended_s: float
    outcome: Outcome
    items: tuple[Item, ...]
    key: str = ""
    due_s: float = 0.0
    error: str = ""
    transaction: str = ""
    until_s: float = 0.0
    through: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that was broken, or mended (`over`), of these processes."""

    at_s: float
    text: str
    targets: tuple[str, ...] = ()
    over: bool = False


class History:
    """Everything that happened in one run; any thread may add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.operations: list[Operation] = []
        self.faults: list[Fault] = []
        # When the program that calls the bus stood still itself: from, to.
        self.stalls: list[tuple[float, float]] = []

    async def watch(self) -> None:
        """Record when this loop stands still, until cancelled."""
        while True:
            began_s = time.time()
            await asyncio.sleep(WATCH_S)
            if time.time() - began_s > 2 * WATCH_S:
                self.stalls.append((began_s + WATCH_S, time.time()))

    def add(
        self,
        kind: Kind,
        place: str,
        task: str,
        began_s: float,
        items: Iterable[Item],
        *,
        error: BaseException | None = None,
        key: str = "",
        due_s: float = 0.0,
        transaction: str = "",
        until_s: float = 0.0,
        through: str = "",
    ) -> None:
        """Record a call that ended now."""
        made = Operation(
            *(kind, place, task, began_s, time.time(), outcome_of(error), tuple(items)),
            key=key,
            due_s=due_s,
            error="" if error is None else f"{type(error).__name__}: {error}"[:300],
            transaction=transaction,
            until_s=until_s,
            through=through,
        )
        with self._lock:
            self.operations.append(made)

    def fault(self, text: str, targets: Sequence[str], *, over: bool = False) -> None:
        """Record a fault that begins or ends now."""
        with self._lock:
            self.faults.append(Fault(time.time(), text, tuple(targets), over))

    def write(self, path: Path) -> None:
        """Write it as lines of JSON, in the order of time."""
        entries: Sequence[Operation | Fault] = [*self.operations, *self.faults]
        with path.open("w", encoding="utf-8") as file:
            for entry in sorted(entries, key=_moment):
                file.write(json.dumps(dataclasses.asdict(entry)) + "\n")

    def excerpt(self, body: str, number: int) -> list[str]:
        """Return what happened to a message, and the faults meanwhile, a line each."""
        about = [
            each
            for each in self.operations
            if any(item.body == body or (number and item.number == number) for item in each.items)
        ]
        if not about:
            return []
        first, last = min(each.began_s for each in about), max(each.ended_s for each in about)
        faults = [each for each in self.faults if first - 2 < each.at_s < last + 0.1]
        entries: list[Operation | Fault] = [*about, *faults]
        return [_line(entry, first) for entry in sorted(entries, key=_moment)]


def outcome_of(error: BaseException | None) -> Outcome:
    """Return what an error says about whether the operation was done."""
    if error is None:
        return Outcome.OK
    if isinstance(error, exceptions.OutcomeUnknownError):
        return Outcome.UNKNOWN
    if isinstance(error, exceptions.ServiceBusError | ValueError):
        return Outcome.FAILED
    # Cancelled, or a defect of the client: its outcome is not known.
    return Outcome.UNKNOWN


def _moment(entry: Operation | Fault) -> float:
    return entry.at_s if isinstance(entry, Fault) else entry.began_s


def _line(entry: Operation | Fault, zero_s: float) -> str:
    if isinstance(entry, Fault):
        return f"{entry.at_s - zero_s:8.3f}           fault {entry.text}"
    numbers = ",".join(f"{item.body}#{item.number}" for item in entry.items[:6])
    return (
        f"{entry.began_s - zero_s:8.3f} {entry.ended_s - zero_s:8.3f}  {entry.task} {entry.kind} "
        f"{entry.place} {numbers} {entry.outcome} {entry.key} {entry.error}".rstrip()
    )
