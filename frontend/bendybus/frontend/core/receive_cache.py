"""The rules of receiving from many partitions: credit, asks and cache of one queue. Pure.

Source: "Service Bus queries all partitions for messages, then returns the first message that is
obtained from any of the messaging stores to the receiver. Service Bus caches the other messages
and returns them when it receives more receive requests."

    credit ──► cache? ──yes──► hand over what is there
                  │no
                  ▼
                ask partitions, each at most once at a time
                  │
                  ▼
    reserved ──► cache ──► hand over to the oldest credit of the connection that it was reserved
                           for, else to the oldest of all, at once, up to what it is for

There is one cache for each (entity, sub-queue, mode), shared by the receivers of this front end.
What credit is, and how it ends, is in `credit`. Which partitions are asked, and for how many, is in
`partition_asks`.

To drain credit, asks of partitions that were not heard of just now are withdrawn, which those
partitions answer. It is drained if some partition answered, and ends as unanswered if none did.

Asks without credit are withdrawn. The cache is given back when there was no credit for 5 s (what
was asked for ahead: sooner), when too little of a lock is left, and when the connection that filled
it ends; nothing of this is a delivery.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from bendybus.frontend.core import columns
from bendybus.frontend.core.credit import MESSAGES_MAX, Credit, OutstandingCredit, Owner
from bendybus.frontend.core.lease import Lease, SessionLease
from bendybus.frontend.core.partition_asks import (
    Action,
    GiveBack,
    HandOver,
    OpenAsk,
    PartitionAsks,
    Slice,
)

IDLE_MS: Final = 5_000
# The same for what was asked for ahead, because messages were taken quickly. Shorter than a client
# keeps a message that its iterator did not take (0.1 s): by the time that one is back, those behind
# it must be, too, or they would be delivered before it.
AHEAD_IDLE_MS: Final = 60
# How long partitions are waited for when credit is drained: a slow disk or a busy machine must not
# be taken for an outage. Less than clients wait for the answer at the end of a receive (4 s).
DRAIN_MS: Final = 2_000


@dataclass(slots=True)
class Chunk:
    """Cached messages of one partition: [start, len(sizes)) of `data`."""

    partition: int
    data: columns.DeliveredBatch
    sizes: Sequence[int]
    start: int
    lease: Lease
    owner: Owner
    # More than was wanted when it was asked for.
    ahead: bool = False

    @property
    def left(self) -> int:
        """How many are left."""
        return len(self.sizes) - self.start

    @property
    def bytes_left(self) -> int:
        """How many bytes are left."""
        return sum(self.sizes[self.start :])


@dataclass(slots=True)
class HeldBytes:
    """Bytes that wait in caches, over all and by connection."""

    total: int = 0
    by_owner: dict[Owner, int] = field(default_factory=dict)
    # Whose has grown last.
    grown: Owner = None

    def add(self, owner: Owner, size_bytes: int) -> None:
        """Count bytes in, or out."""
        self.total += size_bytes
        if size_bytes > 0:
            self.grown = owner
        left = self.by_owner.get(owner, 0) + size_bytes
        if left:
            self.by_owner[owner] = left
        else:
            # Not there: messages without a byte were all that there was.
            self.by_owner.pop(owner, None)


class CachedMessages:
    """The chunks of one cache, in order; what they hold is counted in `held`."""

    def __init__(self, held: HeldBytes) -> None:
        self._held = held
        self._chunks: deque[Chunk] = deque()

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def __len__(self) -> int:
        return sum(chunk.left for chunk in self._chunks)

    @property
    def first(self) -> Chunk:
        """The chunk that is served first."""
        return self._chunks[0]

    def add(self, chunk: Chunk) -> None:
        """Add a chunk."""
        self._chunks.append(chunk)
        self._held.add(chunk.owner, chunk.bytes_left)

    def lose(self, partition: int) -> None:
        """Forget what a partition reserved: it is void."""
        self._remove(lambda chunk: chunk.partition == partition)

    def give_back(self, doomed: Callable[[Chunk], bool]) -> list[Action]:
        """Remove chunks; return what gives them back."""
        return [
            GiveBack(each.data, each.start, len(each.sizes), each.partition)
            for each in self._remove(doomed)
        ]

    def recall(self, recalled: Callable[[columns.DeliveredBatch, int], bool]) -> None:
        """Forget messages, by (data, index), that a partition took back; the others stay."""
        kept: deque[Chunk] = deque()
        for chunk in self._chunks:
            self._held.add(chunk.owner, -chunk.bytes_left)
            start = chunk.start
            for at in range(chunk.start, len(chunk.sizes) + 1):
                if at == len(chunk.sizes) or recalled(chunk.data, at):
                    if at > start:
                        run = replace(chunk, sizes=chunk.sizes[:at], start=start)
                        kept.append(run)
                        self._held.add(run.owner, run.bytes_left)
                    start = at + 1
        self._chunks = kept

    def times(self, used_ms: int | None, idle_ms: Callable[[Chunk], int]) -> list[int]:
        """Return when chunks are to be given back; not used since `used_ms`, None: in use."""
        times = [chunk.lease.hand_over_until_ms for chunk in self._chunks]
        if used_ms is not None:
            times += [used_ms + idle_ms(chunk) for chunk in self._chunks]
        return times

    def take(self, credit: Credit) -> list[Slice]:
        """Remove and return what a receiver gets: first what was reserved for its connection."""
        slices: list[Slice] = []
        messages, size_bytes = min(credit.messages, MESSAGES_MAX), credit.size_bytes
        chunks = list(self._chunks)
        if len(chunks) > 1:
            chunks.sort(key=lambda chunk: chunk.owner != credit.owner)
        for chunk in chunks:
            start = end = chunk.start
            taken = 0
            while end < len(chunk.sizes) and messages > 0:
                size = chunk.sizes[end]
                if size > size_bytes and (slices or end > start):
                    messages = 0
                    break
                size_bytes -= size
                taken += size
                messages -= 1
                end += 1
            if end > start:
                slices.append((chunk.data, start, end, chunk.partition, chunk.lease.until_ms))
                self._held.add(chunk.owner, -taken)
            chunk.start = end
            if messages <= 0 or size_bytes <= 0:
                break
        if any(not chunk.left for chunk in chunks):
            self._chunks = deque(chunk for chunk in self._chunks if chunk.left)
        return slices

    def _remove(self, doomed: Callable[[Chunk], bool]) -> list[Chunk]:
        gone = [chunk for chunk in self._chunks if doomed(chunk)]
        if gone:
            self._chunks = deque(chunk for chunk in self._chunks if not doomed(chunk))
            for chunk in gone:
                self._held.add(chunk.owner, -chunk.bytes_left)
        return gone


class Cache:
    """See the module's docstring. Counts what it holds in `held`, which caches share."""

    def __init__(
        self,
        partitions: Sequence[int],
        available: Callable[[int], bool],
        next_ask_id: Callable[[], int],
        now_ms: int,
        held: HeldBytes | None = None,
        lease: SessionLease | None = None,
    ) -> None:
        self._partitions = PartitionAsks(partitions, available, next_ask_id)
        self._held = HeldBytes() if held is None else held
        self._messages = CachedMessages(self._held)
        self._credits = OutstandingCredit()
        # Of the one session that it is the cache of.
        self._lease = lease
        self.used_ms = now_ms
        self._closed_for_good = False
        # When `due` looked last: what was due by then is done, or cannot be.
        self._looked_ms = now_ms

    # From receivers

    def __contains__(self, credit: Credit) -> bool:
        return credit in self._credits

    def grant(self, credit: Credit, now_ms: int) -> list[Action]:
        """Take credit of a receiver, or note that there is more of it."""
        self.used_ms = now_ms
        self._partitions.wanted_again()
        self._credits.grant(credit)
        return self._move(now_ms)

    def drain(self, credit: Credit, now_ms: int) -> list[Action]:
        """Hand over what is there now, then void the rest, told by a HandOver without messages."""
        if credit not in self._credits:
            # Used up.
            return [HandOver(credit)]
        if credit.checks is not None:
            return []
        return [*self._drain(credit, now_ms), *self._drained(now_ms), *self._move(now_ms)]

    def cancel(self, credit: Credit, now_ms: int) -> list[Action]:
        """Void credit now, told by a HandOver without messages unless it has lapsed already."""
        if credit not in self._credits:
            return [] if credit.lapses else [HandOver(credit)]
        self._credits.forget(credit)
        return [HandOver(credit), *self._move(now_ms)]

    def forget(self, credits_: Iterable[Credit]) -> None:
        """Hand nothing over for credit any more; what was asked for it waits for `drop`."""
        for credit in credits_:
            if credit in self._credits:
                self._credits.forget(credit)

    def drop(self, credits_: Iterable[Credit], now_ms: int) -> list[Action]:
        """Forget credit of receivers that are gone; they are not answered."""
        self.forget(credits_)
        return self._move(now_ms)

    def pause(self, owner: Owner) -> None:
        """Hand nothing to a connection for now: it does not read what it was given."""
        self._credits.pause(owner)

    def resume(self, owner: Owner, now_ms: int) -> list[Action]:
        """Go on after a pause."""
        return self._move(now_ms) if self._credits.resume(owner) else []

    def owner_gone(self, owner: Owner) -> list[Action]:
        """Give back what waits for a connection that ended."""
        self._credits.resume(owner)
        return self.give_back_of(owner)

    def close(self) -> list[Action]:
        """Give everything back; receivers that wait are forgotten."""
        self._closed_for_good = True
        self._credits.clear()
        return [*self._partitions.withdraw_all(), *self.give_back_all()]

    # From partitions

    def reserved(
        self,
        ask_id: int,
        partition: int,
        data: columns.DeliveredBatch,
        sizes: Sequence[int],
        *,
        lease: Lease,
        more: bool,
        now_ms: int,
    ) -> list[Action]:
        """Take messages that a partition reserved for an ask."""
        opened = self._answered(ask_id, partition, now_ms, full=more)
        if self._closed_for_good:
            return [GiveBack(data, 0, len(sizes), partition)]
        owner, ahead = (None, False) if opened is None else (opened.owner, opened.ahead)
        self._messages.add(Chunk(partition, data, sizes, 0, lease, owner, ahead))
        return [*self._move(now_ms), *self._drained(now_ms)]

    def ask_ended(
        self, ask_id: int, partition: int, now_ms: int, *, answered: bool = True
    ) -> list[Action]:
        """Take the end of an ask that got no messages; `answered`: because there were none."""
        self._answered(ask_id, partition, now_ms, full=False, heard=answered)
        return self._drained(now_ms)

    def partition_lost(self, partition: int, now_ms: int) -> list[Action]:
        """Take the end of the stream to a partition: what it reserved is void."""
        for ask_id in self._partitions.lose(partition):
            self._credits.checked(ask_id, heard=False)
        self._messages.lose(partition)
        return self._drained(now_ms)

    def recalled(
        self, recalled: Callable[[columns.DeliveredBatch, int], bool], now_ms: int
    ) -> list[Action]:
        """Forget messages, by (data, index), that a partition took back: they come again."""
        self._messages.recall(recalled)
        return self._move(now_ms)

    def partition_back(self, partition: int, now_ms: int) -> list[Action]:
        """Ask a partition that returned, if there is credit."""
        wanted = self._credits.wanted and partition in self._partitions
        return self._move(now_ms) if wanted else []

    # Time

    def due(self, now_ms: int) -> list[Action]:
        """Act on the passing of time: deadlines of credit, leases, an idle cache."""
        self._looked_ms = now_ms
        actions: list[Action] = []
        for credit in self._credits.overdue(now_ms):
            actions += self._drain(credit, now_ms)
        actions += self._drained(now_ms)
        for credit in self._credits.late(now_ms):
            actions += self._void(credit)
        actions += self._move(now_ms)
        if not self._credits:
            actions += self._messages.give_back(
                lambda chunk: now_ms - self.used_ms >= _idle_ms(chunk)
            )
        return actions

    def next_due(self) -> int | None:
        """Return when `due` has something to do."""
        times = self._messages.times(None if self._credits else self.used_ms, _idle_ms)
        times += self._credits.times()
        wanted = bool(self._credits.wanted)
        times += self._partitions.times(wanted=wanted, looked_ms=self._looked_ms)
        if wanted and self._lease is not None and self._lease.until_ms > self._looked_ms:
            times.append(self._lease.until_ms)
        return min(times, default=None)

    def idle(self, now_ms: int) -> bool:
        """Whether nothing is granted, asked for or cached, and the last use was long ago."""
        quiet = not (self._credits or self._messages or self._partitions.open)
        return quiet and now_ms - self.used_ms >= IDLE_MS

    def waiting(self) -> int:
        """Return how many receives wait, or receivers have credit."""
        return len(self._credits)

    def cached(self) -> int:
        """Return how many messages are held ready."""
        return len(self._messages)

    @property
    def holds(self) -> bool:
        """Whether any message is held ready."""
        return bool(self._messages)

    def give_back_all(self) -> list[Action]:
        """Give back what is held ready."""
        return self._messages.give_back(lambda chunk: True)

    def give_back_of(self, owner: Owner) -> list[Action]:
        """Give back what is held ready for a connection."""
        return self._messages.give_back(lambda chunk: chunk.owner == owner)

    # Serving

    def _move(self, now_ms: int) -> list[Action]:
        actions: list[Action] = []
        credits_, messages = self._credits, self._messages
        if messages:
            actions += messages.give_back(lambda each: each.lease.hand_over_until_ms <= now_ms)
        while messages and (credit := credits_.next_served(messages.first.owner)) is not None:
            given = HandOver(credit, messages.take(credit))
            count = given.messages
            credits_.consume(credit, count)
            self._partitions.pace.note(count, now_ms)
            actions.append(given)
            if credit.checks is not None and not credit.lapses and credit not in credits_:
                # All of it was used up: that is how it is drained.
                actions.append(HandOver(credit))
            self.used_ms = now_ms
        if credits_.wanted:
            actions += self._partitions.ask(credits_.wanted, credits_.asking_owner(), now_ms)
        else:
            actions += self._partitions.unwanted(now_ms)
        return actions

    # Draining

    def _drain(self, credit: Credit, now_ms: int) -> list[Action]:
        """Ask the partitions that were not heard of just now whether they have nothing."""
        actions: list[Action] = []
        checks = self._credits.drain(credit, now_ms + DRAIN_MS)
        for ask_id, opened in self._partitions.open.items():
            if self._partitions.has_nothing(opened, now_ms):
                credit.answered = True
                continue
            checks.add(ask_id)
            if not opened.withdrawn:
                actions.append(self._partitions.withdraw(ask_id, opened))
        return actions

    def _drained(self, now_ms: int) -> list[Action]:
        """End the draining of credit for which all partitions have answered."""
        actions: list[Action] = []
        for credit in self._credits.drained():
            actions += self._drain_further(credit, now_ms) or self._void(credit)
        return actions

    def _drain_further(self, credit: Credit, now_ms: int) -> list[Action]:
        """Ask partitions that had more, for credit that did not lapse with what they gave."""
        if credit.lapses or credit.checks is None or self._credits.paused(credit.owner):
            return []
        actions: list[Action] = []
        for ask in self._partitions.ask_full(credit.messages, credit.owner, now_ms):
            credit.checks.add(ask.ask_id)
            opened = self._partitions.open[ask.ask_id]
            # Withdrawn at once: the partition gives what it has, or says that it has nothing.
            actions += [ask, self._partitions.withdraw(ask.ask_id, opened)]
        return actions

    def _void(self, credit: Credit) -> list[Action]:
        if credit not in self._credits:
            return []
        self._credits.forget(credit)
        # What there was is not for a connection that is paused.
        known = credit.answered and not self._credits.paused(credit.owner)
        return [HandOver(credit, unanswered=not known)]

    def _answered(
        self, ask_id: int, partition: int, now_ms: int, *, full: bool, heard: bool = True
    ) -> OpenAsk | None:
        self._credits.checked(ask_id, heard=heard)
        return self._partitions.answered(ask_id, partition, now_ms, full=full, heard=heard)


def _idle_ms(chunk: Chunk) -> int:
    return AHEAD_IDLE_MS if chunk.ahead else IDLE_MS
