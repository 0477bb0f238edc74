"""The lock of a session, and of the messages that are received under it.

    offered ──confirm──► locked ──close──────────► free, uncounted
       │                   └──its time is over───► free; what the client had counts as delivered
       ├──lapsed, declined, stream lost──► free
       └──confirm──► locked, its receiver not told ──stream lost──► over soon, unless it is used

Session locks are not durable: a restart frees them. Each has a number and a generation of its own,
drawn at random: a token leads to one lock and never to a later one of the same session, and cannot
be guessed (71 bits). The locks of messages end with it.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from bendybus.domain import lock_token
from bendybus.domain.lock_token import LockToken
from bendybus.partition_server.state.entity_ref import Caller
from bendybus.partition_server.state.message_lock import Lock, OpenAsk

# In a token's counter: no message has such a number.
NUMBER_FLAG: Final = 1 << 47
# Entries of locks that are over, beyond those alive, before they are dropped.
HELD_SPARE: Final = 200


@dataclass(slots=True, eq=False)
class SessionLock:
    """A session that is offered to a receiver, or locked by one."""

    session_id: str
    number: int
    generation: int
    until_mono_ms: int
    # The front end's stream that serves its receiver; None: it was lost.
    stream: Caller
    # Offered, and not confirmed yet.
    offered: bool = True
    # Names its receiver; empty: it has no name.
    receiver_id: bytes = b""
    # Its receiver knows that it is locked, or may know.
    told: bool = True
    # Until when it would last, had its stream not ended before its receiver was told; 0: see above.
    kept_until_mono_ms: int = 0
    # How often its receiver was served: once at first, and since each time that it attached.
    attachment: int = 1
    # The lock is given up or over; what is left is to make that known, at the commit.
    ended: bool = False
    # What was read of the session's messages, up to this counter, and whether there may be more.
    loaded: int = 0
    more: bool = True
    # Counters that came back, as a heap.
    returned: list[int] = field(default_factory=list)
    # The locks of its messages, and maybe some that are over; see `locks_alive`.
    held: dict[int, "SessionMessageLock"] = field(default_factory=dict)
    held_most: int = HELD_SPARE
    # Those of them that were not delivered, and maybe some that were.
    reserved: dict[int, "SessionMessageLock"] = field(default_factory=dict)
    asks: OrderedDict[tuple[Caller, int], "SessionAsk"] = field(default_factory=OrderedDict)

    def token(self, partition: int, slot: int, boot: int) -> bytes:
        """Return the token that its receiver names it by."""
        counter = NUMBER_FLAG | self.number
        boot &= lock_token.BOOT_MASK
        return LockToken(partition, slot, counter, boot, self.generation).to_bytes()

    def locks_alive(self, locks: dict[int, Lock]) -> "dict[int, SessionMessageLock]":
        """Return the locks of its messages by counter; `locks` are all of the queue."""
        self.held = {c: lock for c, lock in self.held.items() if locks.get(c) is lock}
        self.held_most = 2 * len(self.held) + HELD_SPARE
        self.reserved = {c: lock for c, lock in self.held.items() if not lock.delivered}
        return self.held

    def room(self, most: int, locks: dict[int, Lock]) -> int:
        """Return how many more of its messages may be locked now, of at most `most`."""
        if len(self.held) >= most:
            self.locks_alive(locks)
        return max(0, most - len(self.held))

    def note(self, counter: int, lock: "SessionMessageLock", locks: dict[int, Lock]) -> None:
        """Note a lock of one of its messages."""
        self.back(counter, lock)
        if len(self.held) > self.held_most:
            self.locks_alive(locks)

    def back(self, counter: int, lock: "SessionMessageLock") -> None:
        """Note a lock that is there again."""
        self.held[counter] = lock
        if not lock.delivered:
            self.reserved[counter] = lock

    def reserved_after(
        self, counter: int, locks: dict[int, Lock]
    ) -> "list[tuple[int, SessionMessageLock]]":
        """Return the locks of later messages that were not delivered; `locks`: see `locks_alive`.

        Looks at what is reserved, not at all that its receiver has.
        """
        self.reserved = {
            number: lock
            for number, lock in self.reserved.items()
            if not lock.delivered and locks.get(number) is lock
        }
        return [each for each in self.reserved.items() if each[0] > counter]

    def has_ready(self) -> bool:
        """Whether a take could find something."""
        return self.more or bool(self.returned)


@dataclass(slots=True, eq=False)
class SessionMessageLock(Lock):
    """The lock of a message of a session. It lasts as long as that of the session."""

    session: SessionLock


@dataclass(slots=True)
class SessionAsk(OpenAsk):
    """What the receiver of a session still wants."""

    session: SessionLock


@dataclass(slots=True)
class NextSessionAsk(OpenAsk):
    """A receiver that waits for any session."""
