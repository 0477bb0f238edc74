"""What is received ahead for the receiver of one session: shared with no other receiver.

Its partition serves the session on one stream of this front end. When that is lost, the session is
attached to the next one before anything is asked for. A message is handed over only after the
partition has confirmed that it is delivered: it may have been recalled in the meantime.
"""

from typing import NamedTuple

from bendybus.domain.entity import Entity
from bendybus.domain.receive_mode import ReceiveMode
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import columns
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
        super().__init__(
            host,
            entity,
            SubQueue.MAIN,
            mode,
            partitions=(session.partition,),
            available=lambda partition: self.attached and host.available(partition),
        )
        self.session_token = session.token
        self.confirms = True

    def recall(self, tokens: bytes) -> None:
        """Drop messages that the partition took back; they come again."""
        recalled = columns.token_set(tokens)
        self.perform(
            self.cache.recalled(
                lambda data, at: columns.tokens(data, at, at + 1) in recalled, now_ms()
            )
        )
