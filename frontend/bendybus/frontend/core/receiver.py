"""One receiver of a client: the credit that it has, and what it is handed for it.

Every protocol grants credit in its own way. gRPC's ask is credit that lapses at its first delivery
and is drained at a deadline; an AMQP link has one credit, which it adds to and drains when asked.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from bendybus.domain import errors, limits
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.frontend.core import columns, partition_asks
from bendybus.frontend.core.credit import MESSAGES_MAX, Credit, Owner
from bendybus.frontend.core.quota.bounds import CREDITS_MAX
from bendybus.frontend.core.shared_cache import SharedCache
from bendybus.frontend.upstreams.upstream import now_ms

CREDIT_MESSAGES_MAX: Final = 2**32 - 1

Batches = Sequence[columns.DeliveredBatch]


class Delivery(NamedTuple):
    """What a receiver is told about the credit `tag`."""

    tag: int
    batches: Batches = ()
    # Whether there are messages is not known, and why.
    error: BusError | None = None

    @property
    def drained(self) -> bool:
        """Whether what was left of the credit is void. Credit that lapses has one delivery."""
        return not self.batches


# Called while a cache executes its actions: calls no method of the receiver itself.
Hand = Callable[[Delivery], None]
Fail = Callable[[BusError], None]


class Receiver:
    """One receiver of a client. `hand` takes what it is given, `fail` ends the receiver."""

    __slots__ = ("_fail", "_hand", "credits", "handing", "owner", "shared")

    def __init__(self, shared: SharedCache, owner: Owner, hand: Hand, fail: Fail) -> None:
        self._hand = hand
        self._fail = fail
        # By tag, until nothing more comes for them.
        self.credits: dict[int, Credit] = {}
        self.shared = shared
        self.owner = owner
        # Deliveries that wait for partitions to delete.
        self.handing = 0

    @property
    def entity(self) -> Entity:
        """What it receives from."""
        return self.shared.entity

    def ask(self, tag: int, messages: int, size_bytes: int, wait_ms: int) -> None:
        """Grant credit that lapses at its first delivery, or is drained after `wait_ms`.

        wait_ms < 0: not drained. size_bytes 0: as much as a cache holds.
        """
        if (busy := self._busy()) is not None:
            self._hand(Delivery(tag, (), busy))
            return
        if tag in self.credits:
            self._fail(errors.InvalidArgument("ask_id", f"{tag} is in use by a pending receive."))
            return
        now, most = now_ms(), partition_asks.CACHE_BYTES_MAX
        messages = max(1, min(messages, MESSAGES_MAX))
        deadline_ms = None if wait_ms < 0 else now + wait_ms
        size_bytes = min(size_bytes or most, most)
        credit = Credit((self, tag), messages, size_bytes, deadline_ms, self.owner, lapses=True)
        self.credits[tag] = credit
        self.shared.perform(self.shared.cache.grant(credit, now))

    def grant(self, tag: int, messages: int) -> None:
        """Grant credit that stays until it is used up, or more of it; it is not drained now."""
        credit = self.credits.get(tag)
        if credit is None:
            if (busy := self._busy()) is not None:
                self._hand(Delivery(tag, (), busy))
                return
            credit = Credit((self, tag), 0, partition_asks.CACHE_BYTES_MAX, owner=self.owner)
            self.credits[tag] = credit
        assert not credit.lapses, tag
        credit.messages = min(credit.messages + max(0, messages), CREDIT_MESSAGES_MAX)
        credit.void = False
        if credit.messages:
            self.shared.perform(self.shared.cache.grant(credit, now_ms()))

    def drain(self, tag: int) -> None:
        """Hand over what is there now, then void what is left of the credit and report that."""
        credit = self.credits.get(tag)
        if credit is None:
            self._hand(Delivery(tag))
        elif not credit.void:
            self.shared.perform(self.shared.cache.drain(credit, now_ms()))

    def cancel(self, tag: int) -> None:
        """Void credit now; it is answered."""
        credit = self.credits.get(tag)
        if credit is None:
            return
        actions = self.shared.cache.cancel(credit, now_ms())
        if not actions:
            # Its messages are being deleted: they are its answer, or nothing is.
            del self.credits[tag]
        self.shared.perform(actions)

    def stop(self) -> None:
        """Receive nothing more from now on; `finish` follows, and withdraws what was asked for."""
        for credit in self.credits.values():
            credit.void = True
        self.shared.cache.forget(self.credits.values())

    def finish(self) -> None:
        """Receive nothing more; credit is not answered."""
        credits_, self.credits = self.credits, {}
        if credits_:
            self.shared.perform(self.shared.cache.drop(credits_.values(), now_ms()))

    def has(self, credit: Credit) -> bool:
        """Whether messages may be handed over for credit, and it is neither void nor cancelled."""
        return self.credits.get(credit.tag[1]) is credit and not credit.void

    def hand(self, credit: Credit, batches: Batches, error: BusError | None = None) -> None:
        """Hand messages over."""
        tag = credit.tag[1]
        if credit.lapses:
            self.credits.pop(tag, None)
        self._hand(Delivery(tag, batches, error))

    def end(self, credit: Credit, error: BusError | None = None) -> None:
        """Void what is left of credit; report that after messages that are being deleted."""
        credit.void, credit.messages = True, 0
        if not credit.handing:
            self.credits.pop(credit.tag[1], None)
            self._hand(Delivery(credit.tag[1], (), error))

    def fail(self, error: BusError) -> None:
        """End: there is nothing to receive from any more."""
        self.credits.clear()
        self._fail(error)

    def _busy(self) -> BusError | None:
        too_many = len(self.credits) >= CREDITS_MAX
        if not too_many and self.shared.cache.waiting() < limits.RECEIVERS_PER_ENTITY:
            return None
        most = CREDITS_MAX if too_many else limits.RECEIVERS_PER_ENTITY
        whose = "this receiver" if too_many else f"{self.entity.title}"
        return errors.ServerBusy(f"{whose}: too many pending receives (at most {most}). Retry.")
