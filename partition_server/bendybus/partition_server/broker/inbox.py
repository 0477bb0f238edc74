"""Where commands wait for the partition's thread: bounded, and filled into commits in turn.

Sends and transactions wait per entity and are taken round robin, so that one busy entity does not
keep others waiting; everything else (settling, asks, small reads) goes first, because it is small
and makes room. Renewals go before that: a lock must not end while settlements of others are done.
While more settlements wait than go into one commit, sends have a small share of each. Only the read
of a fence waits with the sends: it must see those that came before it. *Looks*, which read many
rows or are committed alone, wait per entity, too: one is taken with a commit, and more while its
turn has time. Each entity has a share of the places for waiting commands.

Commands differ by a thousand times in what they cost, which is not known before they are decided.
So a turn takes many, begins each kind of them (what goes first, sends, looks) for a time, and puts
the rest back where it was.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final, TypeVar

from bendybus.domain import lock_token
from bendybus.domain.disposition import Disposition
from bendybus.partition_server.broker.rule_table import COMMANDS, Phase
from bendybus.partition_server.state.commands import (
    Append,
    CancelScheduled,
    Command,
    DeleteMessages,
    DrainEntity,
    GetFence,
    ReceiveDeferred,
    RenewSession,
    SendFenced,
    SetSessionState,
    Settle,
    SettleRange,
    TakeForwarded,
    Transact,
)
from bendybus.partition_server.state.shares import Shares

URGENT_MAX: Final = 100_000
SEND_FRAMES_MAX: Final = 10_000
SEND_BYTES_MAX: Final = 64 * 1024 * 1024
LOOKS_MAX: Final = 10_000
# For so long a turn begins commands of a kind. One that has begun is decided whole.
BEGIN_S: Final = 0.05
# A look that names messages takes one place for each fifty.
LOOK_NUMBERS: Final = 50
# One commit: bounded in commands, locks that are settled or renewed, messages and bytes.
TAKE_URGENT: Final = 2_000
TAKE_TOKENS: Final = 10_000
TAKE_MESSAGES: Final = 20_000
TAKE_BYTES: Final = 8 * 1024 * 1024
# While settlements are left for the next commit, sends get this fraction of a commit's messages
# and bytes, because asks wait behind those settlements.
SHARE_BESIDE_SETTLEMENTS: Final = 20
# What is committed alone counts as so many messages at least: fifty of them are one turn.
ALONE_MESSAGES: Final = TAKE_MESSAGES // 50


Send = Append | Transact | TakeForwarded | SendFenced | GetFence
_SENDS: Final = (Append, Transact, TakeForwarded, SendFenced, GetFence)
# Callers ask for these one by one, and each is committed alone.
_ALONE: Final = (
    CancelScheduled,
    DeleteMessages,
    DrainEntity,
    ReceiveDeferred,
    SetSessionState,
    SettleRange,
)


class Inbox:
    """A queue from the event loop to the partition's thread."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """`clock`: in seconds."""
        self._clock = clock
        # The partition's thread alone uses these: the kind of commands that the turn is at, until
        # when it begins them, and those that it did not begin.
        self._kind: _Kind | None = None
        self._until_s = 0.0
        self.left: list[Command] = []
        self._lock = threading.Lock()
        # Held; released once to wake the thread, while `_sleeping`. A condition would make a lock
        # for every wait, and wake a thread that then waits for the lock of the one that woke it.
        self._alarm = threading.Lock()
        self._alarm.acquire()
        self._sleeping = False
        self._urgent: deque[Command] = deque()
        self._renewals: deque[Command] = deque()
        self._sends: dict[str, deque[tuple[Send, int]]] = {}
        # By UID.
        self._frames: Shares[str] = Shares()
        self._bytes: Shares[str] = Shares()
        # By UID; "": about no entity.
        self._looks: dict[str, deque[Command]] = {}
        self._waiting_looks: Shares[str] = Shares()
        self._woken = False

    def put(self, *commands: Command) -> bool:
        """Add commands, in order; return False, and add none, when the inbox is full."""
        with self._lock:
            if len(commands) == 1 and isinstance(commands[0], _SENDS):
                if not self._put_send(commands[0]):
                    return False
            elif len(commands) == 1 and is_look(commands[0]):
                if not self._put_look(commands[0]):
                    return False
            else:
                assert not any(map(comes_alone, commands)), "sends and looks come alone"
                if len(self._urgent) + len(self._renewals) + len(commands) > URGENT_MAX:
                    return False
                for command in commands:
                    (self._renewals if _renews(command) else self._urgent).append(command)
            self._ring()
        return True

    def _put_send(self, command: Send) -> bool:
        size_bytes, uid = _content_bytes(command), command.entity.uid
        # What is larger than all of it waits alone.
        if self._frames.total and not (
            self._frames.has_room(uid, 1, SEND_FRAMES_MAX)
            and self._bytes.has_room(uid, size_bytes, SEND_BYTES_MAX)
        ):
            return False
        self._frames.add(uid, 1)
        self._bytes.add(uid, size_bytes)
        line = self._sends.setdefault(uid, deque())
        line.append((command, size_bytes))
        return True

    def _put_look(self, command: Command) -> bool:
        uid, places = _uid_of(command), _places(command)
        if not self._waiting_looks.has_room(uid, places, LOOKS_MAX):
            return False
        self._waiting_looks.add(uid, places)
        self._looks.setdefault(uid, deque()).append(command)
        return True

    def begins(self, command: Command) -> bool:
        """Whether a command of the turn may begin, as the first of its kind does; else it is left.

        A turn is asked for its commands in the order of `take`.
        """
        now_s, kind = self._clock(), _KINDS.get(type(command), _Kind.FIRST)
        if kind is not self._kind:
            self._kind, self._until_s = kind, now_s + BEGIN_S
        elif now_s >= self._until_s:
            self.left.append(command)
            return False
        return True

    def put_back(self) -> None:
        """Let what is left come first again, in its order and that of the entities."""
        sends: dict[str, deque[tuple[Send, int]]] = {}
        looks: dict[str, deque[Command]] = {}
        first: dict[bool, list[Command]] = {True: [], False: []}
        with self._lock:
            for command in self.left:
                if isinstance(command, _SENDS):
                    size_bytes, uid = _content_bytes(command), command.entity.uid
                    self._frames.add(uid, 1)
                    self._bytes.add(uid, size_bytes)
                    sends.setdefault(uid, deque()).append((command, size_bytes))
                elif is_look(command):
                    uid = _uid_of(command)
                    self._waiting_looks.add(uid, _places(command))
                    looks.setdefault(uid, deque()).append(command)
                else:
                    first[_renews(command)].append(command)
            self._renewals.extendleft(reversed(first[True]))
            self._urgent.extendleft(reversed(first[False]))
            self._sends = _before(sends, self._sends)
            self._looks = _before(looks, self._looks)
            self.left = []

    def wake(self) -> None:
        """Make `take` return even if nothing waits."""
        with self._lock:
            self._woken = True
            self._ring()

    def _ring(self) -> None:
        if self._sleeping:
            self._sleeping = False
            self._alarm.release()

    def take(self, timeout_s: float) -> list[Command]:
        """Return what goes into the next commit; empty after `timeout_s` without anything."""
        with self._lock:
            waits = self._urgent or self._renewals or self._sends or self._looks or self._woken
            self._sleeping = timeout_s > 0 and not waits
            sleeping = self._sleeping
        rung = sleeping and self._alarm.acquire(timeout=timeout_s)
        with self._lock:
            if sleeping and not rung and not self._sleeping:
                # Rung just after the time was over.
                self._alarm.acquire()
            self._sleeping = self._woken = False
            self._kind = None
            taken, tokens = self._take_urgent()
            if self._sends:
                taken += self._take_sends(1 if tokens < TAKE_TOKENS else SHARE_BESIDE_SETTLEMENTS)
            if self._looks:
                taken.append(self._next_look())
            return taken

    def _take_urgent(self) -> tuple[list[Command], int]:
        """Return commands, and how many locks they settle or renew; renewals are half of it."""
        taken: list[Command] = []
        tokens = 0
        for line, share in ((self._renewals, 2), (self._urgent, 1)):
            while line and len(taken) < TAKE_URGENT // share and tokens < TAKE_TOKENS // share:
                command = line.popleft()
                taken.append(command)
                if isinstance(command, Settle):
                    # A frame has up to 5,000: as many as commands would keep sends waiting for
                    # seconds.
                    tokens += len(command.tokens) // lock_token.TOKEN_BYTES
        return taken, tokens

    def take_look(self) -> Command | None:
        """Return one more command that reads many rows; None: none waits."""
        with self._lock:
            return self._next_look() if self._looks else None

    def _next_look(self) -> Command:
        uid = next(iter(self._looks))
        line = self._looks.pop(uid)
        command = line.popleft()
        if line:
            # At the end of the row: the next one is of another entity.
            self._looks[uid] = line
        self._waiting_looks.add(uid, -_places(command))
        return command

    def _take_sends(self, share: int) -> list[Command]:
        """Return sends: this part of a commit's messages and bytes."""
        messages_max, bytes_max = TAKE_MESSAGES // share, TAKE_BYTES // share
        taken: list[Command] = []
        messages = size_bytes = 0
        counts: dict[str, tuple[int, int]] = {}
        while self._sends and messages < messages_max and size_bytes < bytes_max:
            for uid in list(self._sends):
                line = self._sends.pop(uid)
                command, command_bytes = line.popleft()
                taken.append(command)
                messages += _count(command)
                size_bytes += command_bytes
                frames, taken_bytes = counts.get(uid, (0, 0))
                counts[uid] = frames + 1, taken_bytes + command_bytes
                if line:
                    # At the end of the row: the next commit begins with another entity.
                    self._sends[uid] = line
                if messages >= messages_max or size_bytes >= bytes_max:
                    break
        for uid, (frames, taken_bytes) in counts.items():
            self._frames.add(uid, -frames)
            self._bytes.add(uid, -taken_bytes)
        return taken


def is_look(command: Command) -> bool:
    """Whether a command reads many rows, or is one that is committed alone."""
    return _KINDS.get(type(command)) is _Kind.LOOK


class _Kind(Enum):
    """Kinds of commands, each of which a turn begins for a time of its own."""

    FIRST = auto()
    SEND = auto()
    LOOK = auto()


_KINDS: Final[dict[type, _Kind]] = {
    **dict.fromkeys(_SENDS, _Kind.SEND),
    **dict.fromkeys(
        (each for each, rule in COMMANDS.items() if each in _ALONE or rule.phase is Phase.LOOK),
        _Kind.LOOK,
    ),
}
Line = TypeVar("Line", bound=deque[Any])


def _before(lines: dict[str, Line], others: dict[str, Line]) -> dict[str, Line]:
    """Return lines by entity with some before others, also within the line of an entity."""
    for uid, line in lines.items():
        line.extend(others.get(uid, ()))
    return {**lines, **{uid: line for uid, line in others.items() if uid not in lines}}


def comes_alone(command: Command) -> bool:
    """Whether a command waits in a line of its entity."""
    return type(command) in _KINDS


def _renews(command: Command) -> bool:
    if isinstance(command, Settle):
        return command.disposition is Disposition.RENEW_LOCK
    return isinstance(command, RenewSession)


def _uid_of(command: Command) -> str:
    ref = getattr(command, "entity", None)
    return str(getattr(command, "entity_uid", "")) if ref is None else ref.uid


def _places(command: Command) -> int:
    numbers = getattr(command, "counters", ())
    return max(1, len(numbers) // LOOK_NUMBERS)


def _content_bytes(command: Send) -> int:
    if isinstance(command, GetFence):
        return 0
    if isinstance(command, Transact):
        return command.content_bytes()
    return command.batch.content_bytes()


def _count(command: Send) -> int:
    if isinstance(command, GetFence):
        return 1
    if isinstance(command, Transact):
        return command.messages()
    count = len(command.batch.payloads)
    return max(count, ALONE_MESSAGES) if isinstance(command, SendFenced) else count
