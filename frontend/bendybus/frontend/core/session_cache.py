"""What is received ahead for the receiver of one session: shared with no other receiver.

Its partition serves the session on one stream of this front end. When that is lost, the session is
attached to the next one before anything is asked for. A message is handed over only after the
partition has confirmed that it is delivered: it may have been recalled in the meantime.
"""

from typing import Any, NamedTuple

from bendybus.domain import errors
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.domain.receive_mode import ReceiveMode
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import columns
from bendybus.frontend.core.lease import Lease, SessionLease
from bendybus.frontend.core.shared_cache import CacheHost, SharedCache
from bendybus.frontend.upstreams.upstream import now_ms


class LockedSession(NamedTuple):
    """A session that a receiver of this front end has locked."""

    partition: int
    session_id: str
    token: bytes
    locked_until_ms: int
    lock_remaining_ms: int
    # On which stream to its partition, counted from the start of the front end.
    stream: int = 0
    # The partition's count of its attachments; 0: not known.
    attachment: int = 0


class SessionCache(SharedCache):
    """The cache of one session."""

    def __init__(
        self, host: CacheHost, entity: Entity, mode: ReceiveMode, session: LockedSession
    ) -> None:
        self.session = session
        # Served on the current stream to its partition.
        self.attached = True
        # Tokens that may be delivered at the partition, and surely not to the client.
        self.unconfirmed = bytearray()
        now = now_ms()
        self.lease = SessionLease(
            now + session.lock_remaining_ms, entity.description.lock_duration_ms, now
        )
        super().__init__(
            host,
            entity,
            SubQueue.MAIN,
            mode,
            partitions=(session.partition,),
            available=lambda partition: (
                self.attached and host.available(partition) and self.lease.askable(now_ms())
            ),
            lease=self.lease,
        )
        self.session_token = session.token
        self.confirms = True

    def lease_of(self, until_ms: int, lock_ms: int, now_ms: int) -> Lease:
        """Return the session's lease: what is received has no lock of its own."""
        self.lease.heard(until_ms, now_ms)
        return self.lease

    def renewed(self, until_ms: int) -> None:
        """Take the new end of the session's lock."""
        now = now_ms()
        self.lease.heard(until_ms, now)
        self.perform(self.cache.due(now))

    def unanswered(self, owner: Any) -> BusError:
        """Return why it is not known whether there are messages."""
        now = now_ms()
        if not self.lease.ending(now):
            return super().unanswered(owner)
        return errors.SessionLockLost(
            f"{self.entity.title}: the lock on session {self.session.session_id!r} ends in "
            f"{self.lease.until_ms - now} ms, too soon to receive under it. Renew it and receive "
            "again."
        )

    def recall(self, tokens: bytes) -> None:
        """Drop messages that the partition took back; they come again."""
        recalled = columns.token_set(tokens)
        self.perform(
            self.cache.recalled(
                lambda data, at: columns.tokens(data, at, at + 1) in recalled, now_ms()
            )
        )
