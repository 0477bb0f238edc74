"""How long messages that a partition locked may be handed over. Pure; on our monotonic clock.

The lock of a message begins as it is reserved: it is handed over in the first half. The lock of a
session began when that was accepted, and renewals move its end; so all messages of a session share
one lease, which knows where the end is now.
"""

from typing import Final

# The lock of a session must last so long for a message to be handed over, or this part of its
# duration, if that is less: time to reach the client.
SESSION_LEFT_MS: Final = 1_000
SESSION_LEFT_PART: Final = 10


class Lease:
    """A lock, and until when what it locks is handed over."""

    __slots__ = ("hand_over_until_ms", "until_ms")

    def __init__(self, until_ms: int, hand_over_until_ms: int) -> None:
        self.until_ms = until_ms
        self.hand_over_until_ms = hand_over_until_ms


def lease_of_messages(until_ms: int, lock_ms: int) -> Lease:
    """Return the lease of messages that were locked for `lock_ms`, until then."""
    return Lease(until_ms, until_ms - lock_ms // 2)


class SessionLease(Lease):
    """The lock of a session, as it is known here.

    It may have been renewed through another front end. So its partition is asked once more when too
    little is left, and again when the lock is over, which it then refuses or denies.
    """

    __slots__ = ("_heard_ms", "_left_ms")

    def __init__(self, until_ms: int, duration_ms: int, now_ms: int) -> None:
        self._left_ms = min(SESSION_LEFT_MS, duration_ms // SESSION_LEFT_PART)
        self._heard_ms = now_ms
        super().__init__(until_ms, until_ms - self._left_ms)

    def heard(self, until_ms: int, now_ms: int) -> None:
        """Take the end of the lock from its partition."""
        self._heard_ms = now_ms
        self.until_ms, self.hand_over_until_ms = until_ms, until_ms - self._left_ms

    def askable(self, now_ms: int) -> bool:
        """Whether what the partition answers could be handed over, as far as is known."""
        if self.hand_over_until_ms <= now_ms < self.until_ms:
            return self._heard_ms < self.hand_over_until_ms
        return True

    def ending(self, now_ms: int) -> bool:
        """Whether the lock lasts, and not long enough to hand something over."""
        return self.hand_over_until_ms <= now_ms < self.until_ms


def end_ms(
    now_ms: int, remaining_ms: int, partition_until_ms: int, clock_offset_ms: int | None
) -> int:
    """Return when a lock ends that lasts `remaining_ms` from when its partition said so.

    How long that was under way, or waited to be read, shows only on the partition's clock.
    """
    until_ms = now_ms + remaining_ms
    if clock_offset_ms is None or not partition_until_ms:
        return until_ms
    return min(until_ms, partition_until_ms - clock_offset_ms)
