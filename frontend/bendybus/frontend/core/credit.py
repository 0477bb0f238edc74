"""Credit of the receivers of one queue: how many messages each may still be handed. Pure.

    grant ──► outstanding ─── deliveries consume it ───────────────► used up
                 │    └────── first delivery, if it lapses ─────────► the rest is void
                 └─ deadline, or drain ──► draining ── drained ─────► the rest is void

*Drained* is credit when the receiver was given what was there. An ask, as a gRPC client makes it,
is credit that lapses at its first delivery and is drained at a deadline. Credit without both stays
until it is used up, drained or cancelled, as that of an AMQP link; there may be more of it at any
time.
"""

import heapq
import itertools
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from bendybus.frontend.core.receiver import Receiver

# The connection of a receiver, compared and never looked into; None: the front end's own.
Owner: TypeAlias = Hashable

# What partitions are asked for on behalf of one receiver, and what one delivery may bring.
MESSAGES_MAX: Final = 5_000
# Deadlines of credit that ended, kept until this many are.
DEADLINES_SPARE: Final = 1_000
# How many credits are searched for one of the connection that messages were reserved for.
OWNERS_LOOKED_AT: Final = 64


@dataclass(slots=True, eq=False)
class Credit:
    """Credit of one receiver. `tag`: the receiver, and its own name for the credit."""

    tag: tuple["Receiver", int]
    # What is left. Of credit that lapses: what was granted.
    messages: int
    # Bytes that one delivery may bring; one message is always allowed.
    size_bytes: int
    # When it is drained; None: only when that is asked for.
    deadline_ms: int | None = None
    owner: Owner = None
    # The rest is void after the first delivery.
    lapses: bool = False
    # What partitions are asked for: nothing while it is draining, or its owner is paused.
    wanted: int = 0
    # Asks of partitions whose answers it waits for to be drained; None: it is not draining.
    checks: set[int] | None = None
    # Whether a partition answered.
    answered: bool = False
    # Deliveries that wait for partitions to delete their messages; and whether the rest is void,
    # which the receiver is told after them.
    handing: int = 0
    void: bool = False


class OutstandingCredit:
    """The credit of all receivers of a queue, in the order in which they are served."""

    def __init__(self) -> None:
        # Messages that partitions are to be asked for.
        self.wanted = 0
        self._credits: dict[Credit, None] = {}
        self._deadlines: list[tuple[int, int, Credit]] = []
        self._order = itertools.count()
        # Until when answers of partitions are waited for. In order.
        self._draining: dict[Credit, int] = {}
        self._paused: set[Owner] = set()

    def __len__(self) -> int:
        return len(self._credits)

    def __contains__(self, credit: Credit) -> bool:
        return credit in self._credits

    def grant(self, credit: Credit) -> None:
        """Take new credit, or note that there is more of it: it is not drained any more."""
        if credit not in self._credits:
            self._credits[credit] = None
            if credit.deadline_ms is not None:
                self._set_deadline(credit, credit.deadline_ms)
        self._draining.pop(credit, None)
        credit.checks, credit.answered = None, False
        self._count(credit)

    def consume(self, credit: Credit, messages: int) -> None:
        """Deduct a delivery."""
        if credit.lapses:
            self.forget(credit)
            return
        credit.messages -= messages
        del self._credits[credit]
        if credit.messages > 0:
            # Others are served first now.
            self._credits[credit] = None
            self._count(credit)
        else:
            self._uncount(credit)
            self._draining.pop(credit, None)

    def forget(self, credit: Credit) -> None:
        """Remove credit: it is void, or its receiver is gone."""
        self._uncount(credit)
        del self._credits[credit]
        self._draining.pop(credit, None)

    def clear(self) -> None:
        """Forget all."""
        self._credits.clear()
        self._deadlines.clear()
        self._draining.clear()
        self.wanted = 0

    def pause(self, owner: Owner) -> None:
        """Serve nothing to a connection until `resume`."""
        self._paused.add(owner)
        for credit in self._credits:
            if credit.owner == owner:
                self._uncount(credit)

    def resume(self, owner: Owner) -> bool:
        """Go on after a pause; False: there was none."""
        if owner not in self._paused:
            return False
        self._paused.discard(owner)
        for credit in self._credits:
            if credit.owner == owner:
                self._count(credit)
        return True

    def paused(self, owner: Owner) -> bool:
        """Whether a connection is paused."""
        return owner in self._paused

    def next_served(self, owner: Owner) -> Credit | None:
        """Return the credit that gets messages which were reserved for `owner`.

        The oldest of that connection; else the oldest of all that are not paused.
        """
        oldest: Credit | None = None
        looked = 0
        for credit in self._credits:
            if credit.owner in self._paused:
                continue
            if credit.owner == owner:
                return credit
            oldest = oldest or credit
            looked += 1
            if looked == OWNERS_LOOKED_AT:
                break
        return oldest

    def asking_owner(self) -> Owner:
        """Return the connection for which partitions are asked now: that of the oldest credit."""
        return next((credit.owner for credit in self._credits if credit.wanted), None)

    # Draining

    def overdue(self, now_ms: int) -> Iterable[Credit]:
        """Yield credit that is to be drained, since its deadline is over."""
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, _, credit = heapq.heappop(self._deadlines)
            if credit in self._credits and credit.checks is None:
                yield credit

    def drain(self, credit: Credit, until_ms: int) -> set[int]:
        """Begin to drain; the caller adds the asks whose answers are waited for."""
        self._uncount(credit)
        self._draining[credit] = until_ms
        credit.checks = set()
        return credit.checks

    def checked(self, ask_id: int, *, heard: bool) -> None:
        """Take the end of an ask that may be waited for; `heard`: the partition answered."""
        for credit in self._draining:
            if credit.checks is not None and ask_id in credit.checks:
                credit.checks.discard(ask_id)
                credit.answered |= heard

    def drained(self) -> list[Credit]:
        """Return draining credit for which all partitions have answered."""
        return [credit for credit in self._draining if not credit.checks]

    def late(self, now_ms: int) -> list[Credit]:
        """Return draining credit that has waited long enough."""
        found = []
        for credit, until_ms in self._draining.items():
            if until_ms > now_ms:
                break
            found.append(credit)
        return found

    def times(self) -> list[int]:
        """Return when credit is overdue or late next."""
        while self._deadlines and self._deadlines[0][2] not in self._credits:
            heapq.heappop(self._deadlines)
        times = [self._deadlines[0][0]] if self._deadlines else []
        if self._draining:
            times.append(next(iter(self._draining.values())))
        return times

    def _set_deadline(self, credit: Credit, deadline_ms: int) -> None:
        if len(self._deadlines) > 2 * len(self._credits) + DEADLINES_SPARE:
            # Of credit that ended long before its time.
            live = [entry for entry in self._deadlines if entry[2] in self._credits]
            heapq.heapify(live)
            self._deadlines = live
        heapq.heappush(self._deadlines, (deadline_ms, next(self._order), credit))

    def _count(self, credit: Credit) -> None:
        asked = credit.checks is None and credit.owner not in self._paused
        wanted = min(credit.messages, MESSAGES_MAX) if asked else 0
        self.wanted += wanted - credit.wanted
        credit.wanted = wanted

    def _uncount(self, credit: Credit) -> None:
        self.wanted -= credit.wanted
        credit.wanted = 0
