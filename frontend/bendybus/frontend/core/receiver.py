"""One receiver of a client: its receives that wait."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from bendybus.domain import errors, limits
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.frontend.core import columns, partition_asks, receive_cache
from bendybus.frontend.core.receive_actions import ClientAsk
from bendybus.frontend.core.shared_cache import SharedCache
from bendybus.frontend.upstreams.upstream import now_ms

# Receives of one receiver that wait at the same time.
RECEIVES_MAX: Final = 1_000

Batches = Sequence[columns.DeliveredBatch]
# (tag, messages, why there are none)
Hand = Callable[[Any, Batches, BusError | None], None]
Fail = Callable[[BusError], None]


class Receiver:
    """One receiver of a client. `hand` answers a receive, `fail` ends the receiver."""

    __slots__ = ("_fail", "_hand", "handing", "owner", "shared", "waiting")

    def __init__(self, shared: SharedCache, owner: Any, hand: Hand, fail: Fail) -> None:
        self._hand = hand
        self._fail = fail
        self.waiting: set[Any] = set()
        self.shared = shared
        self.owner = owner
        # Hand-overs that wait for partitions to delete.
        self.handing = 0

    @property
    def entity(self) -> Entity:
        """What it receives from."""
        return self.shared.entity

    def ask(self, tag: Any, messages: int, size_bytes: int, wait_ms: int) -> None:
        """Open a receive; `hand` is called once for it. wait_ms < 0: without end."""
        too_many = len(self.waiting) >= RECEIVES_MAX
        if too_many or self.shared.cache.waiting() >= limits.RECEIVERS_PER_ENTITY:
            most = RECEIVES_MAX if too_many else limits.RECEIVERS_PER_ENTITY
            whose = "this receiver" if too_many else f"queue {self.entity.name!r}"
            busy = errors.ServerBusy(f"{most} receives of {whose} are waiting already.")
            self._hand(tag, (), busy)
            return
        if tag in self.waiting:
            self._fail(errors.InvalidArgument("ask_id", f"{tag} is of a receive that waits."))
            return
        now = now_ms()
        messages = max(1, min(messages, receive_cache.MESSAGES_MAX))
        size_bytes = min(
            size_bytes or partition_asks.CACHE_BYTES_MAX, partition_asks.CACHE_BYTES_MAX
        )
        deadline = None if wait_ms < 0 else now + wait_ms
        self.waiting.add(tag)
        ask = ClientAsk((self, tag), messages, size_bytes, deadline, self.owner)
        self.shared.perform(self.shared.cache.ask(ask, now))

    def cancel(self, tag: Any) -> None:
        """End a receive; it is answered."""
        actions = self.shared.cache.cancel((self, tag), now_ms())
        if not actions:
            # Its messages are being deleted: they are its answer, or nothing is.
            self.waiting.discard(tag)
        self.shared.perform(actions)

    def finish(self) -> None:
        """Receive nothing more; who waits is not answered."""
        waiting, self.waiting = self.waiting, set()
        if waiting:
            tags = [(self, tag) for tag in waiting]
            self.shared.perform(self.shared.cache.drop(tags, now_ms()))

    def hand(self, tag: Any, batches: Batches, error: BusError | None = None) -> None:
        """Answer a receive."""
        self.waiting.discard(tag)
        self._hand(tag, batches, error)

    def fail(self, error: BusError) -> None:
        """End: there is nothing to receive from any more."""
        self.waiting.clear()
        self._fail(error)
