"""The rules of receiving from many partitions: asks, waits and cache of one queue. Pure.

Source: "Service Bus queries all partitions for messages, then returns the first message that is
obtained from any of the messaging stores to the receiver. Service Bus caches the other messages
and returns them when it receives more receive requests."

    client ask ──► cache? ──yes──► hand over what is at hand
                     │no
                     ▼
                   ask partitions, each at most once at a time
                     │
                     ▼
    reserved ──► cache ──► hand over to the oldest open ask of the connection that it was reserved
                           for, else to the oldest of all, at once, up to what it asked for

There is one cache for each (entity, sub-queue, mode), shared by the receivers of this front end.
Which partitions are asked, and for how many, is in `partition_asks`.

An ask whose wait is over is *closing*: asks of partitions that were not heard of just now are
withdrawn, which those partitions answer. It ends empty if some partition answered, and as
unanswered if none did.

Asks that nobody waits for are withdrawn. The cache is given back after nobody asked for 5 s (what
was asked for ahead: sooner), when half of a lock is gone, and when the connection that filled it
ends; nothing of this is a delivery.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from bendybus.frontend.core.cached_messages import CachedMessages, Chunk, HeldBytes
from bendybus.frontend.core.partition_asks import OpenAsk, PartitionAsks
from bendybus.frontend.core.receive_actions import Action, ClientAsk, GiveBack, HandOver

IDLE_MS: Final = 5_000
# The same for what was asked for ahead, because messages were taken quickly. Shorter than a client
# keeps a message that its iterator did not take (0.1 s): by the time that one is back, those behind
# it must be, too, or they would be delivered before it.
LEAD_IDLE_MS: Final = 60
# How long an ask whose wait is over waits for partitions to say that they have nothing.
CLOSING_MS: Final = 500
MESSAGES_MAX: Final = 5_000
# Deadlines of receives that ended, kept until this many are.
DEADLINES_SPARE: Final = 1_000
# How many asks are looked through for one of the connection that messages were reserved for.
OWNERS_LOOKED_AT: Final = 64


class Cache:
    """See the module's docstring. Counts what it holds in `held`, which caches share."""

    def __init__(
        self,
        partitions: Sequence[int],
        available: Callable[[int], bool],
        next_ask_id: Callable[[], int],
        now_ms: int,
        held: HeldBytes | None = None,
    ) -> None:
        self._partitions = PartitionAsks(partitions, available, next_ask_id)
        self._held = HeldBytes() if held is None else held
        self._messages = CachedMessages(self._held)
        self._asks: dict[Any, ClientAsk] = {}
        self._deadlines: list[tuple[int, int, ClientAsk]] = []
        self._order = itertools.count()
        # Messages that counted asks are for.
        self._wanted = 0
        # Asks that are closing, and until when, by tag. In order.
        self._closing: dict[Any, tuple[int, ClientAsk]] = {}
        self._paused: set[Any] = set()
        self.used_ms = now_ms
        self._closed_for_good = False
        # When `due` looked last: what was due by then is done, or cannot be.
        self._looked_ms = now_ms

    # From clients

    def ask(self, ask: ClientAsk, now_ms: int) -> list[Action]:
        """Open a receive."""
        self.used_ms = now_ms
        self._partitions.wanted_again()
        self._asks[ask.tag] = ask
        if ask.deadline_ms is not None:
            if len(self._deadlines) > 2 * len(self._asks) + DEADLINES_SPARE:
                # Of receives that ended long before their time.
                live = [entry for entry in self._deadlines if self._waits(entry[2])]
                heapq.heapify(live)
                self._deadlines = live
            heapq.heappush(self._deadlines, (ask.deadline_ms, next(self._order), ask))
        if ask.owner not in self._paused:
            self._count(ask)
        return self._move(now_ms)

    def cancel(self, tag: Any, now_ms: int) -> list[Action]:
        """End a receive now; it is answered, empty."""
        ask = self._asks.get(tag)
        if ask is None:
            return []
        self._forget(ask)
        return [HandOver(ask), *self._move(now_ms)]

    def drop(self, tags: Iterable[Any], now_ms: int) -> list[Action]:
        """Forget receives whose callers are gone; nobody is answered."""
        for tag in tags:
            ask = self._asks.get(tag)
            if ask is not None:
                self._forget(ask)
        return self._move(now_ms)

    def pause(self, owner: Any) -> None:
        """Hand nothing to a connection for now: it does not read what it was given."""
        self._paused.add(owner)
        for ask in self._asks.values():
            if ask.owner == owner:
                self._uncount(ask)

    def resume(self, owner: Any, now_ms: int) -> list[Action]:
        """Go on after a pause."""
        if owner not in self._paused:
            return []
        self._paused.discard(owner)
        for ask in self._asks.values():
            if ask.owner == owner and ask.checks is None:
                self._count(ask)
        return self._move(now_ms)

    def owner_gone(self, owner: Any) -> list[Action]:
        """Give back what waits for a connection that ended."""
        self._paused.discard(owner)
        return self.give_back_of(owner)

    def close(self) -> list[Action]:
        """Give everything back; who waits is forgotten."""
        self._closed_for_good = True
        self._asks.clear()
        self._deadlines.clear()
        self._closing.clear()
        self._wanted = 0
        return [*self._partitions.withdraw_all(), *self.give_back_all()]

    # From partitions

    def reserved(
        self,
        ask_id: int,
        partition: int,
        data: Any,
        sizes: Sequence[int],
        *,
        locked_until_ms: int,
        lock_ms: int,
        more: bool,
        now_ms: int,
    ) -> list[Action]:
        """Take messages that a partition reserved for an ask."""
        opened = self._answered(ask_id, partition, now_ms, full=more)
        if self._closed_for_good:
            return [GiveBack(data, 0, len(sizes), partition)]
        until_ms = locked_until_ms - lock_ms // 2
        owner, led = (None, False) if opened is None else (opened.owner, opened.led)
        self._messages.add(Chunk(partition, data, sizes, 0, until_ms, locked_until_ms, owner, led))
        return [*self._move(now_ms), *self._closed()]

    def ask_ended(
        self, ask_id: int, partition: int, now_ms: int, *, answered: bool = True
    ) -> list[Action]:
        """Take the end of an ask that got no messages; `answered`: because there were none."""
        self._answered(ask_id, partition, now_ms, full=False, heard=answered)
        return self._closed()

    def partition_lost(self, partition: int) -> list[Action]:
        """Take the end of the stream to a partition: what it reserved is void."""
        for ask_id in self._partitions.lose(partition):
            self._checked(ask_id, heard=False)
        self._messages.lose(partition)
        return self._closed()

    def partition_back(self, partition: int, now_ms: int) -> list[Action]:
        """Ask a partition that returned, if a receive waits."""
        return self._move(now_ms) if self._wanted and partition in self._partitions else []

    # Time

    def due(self, now_ms: int) -> list[Action]:
        """Take the passing of time: waits that are over, locks half gone, an idle cache."""
        self._looked_ms = now_ms
        actions: list[Action] = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, _, ask = heapq.heappop(self._deadlines)
            if self._waits(ask):
                actions += self._close(ask, now_ms)
        actions += self._closed()
        for until_ms, ask in list(self._closing.values()):
            if until_ms > now_ms:
                break
            actions += self._end_empty(ask)
        actions += self._move(now_ms)
        if not self._asks:
            actions += self._messages.give_back(
                lambda chunk: now_ms - self.used_ms >= _idle_ms(chunk)
            )
        return actions

    def next_due(self) -> int | None:
        """Return when `due` has something to do."""
        while self._deadlines and not self._waits(self._deadlines[0][2]):
            heapq.heappop(self._deadlines)
        times = self._messages.times(None if self._asks else self.used_ms, _idle_ms)
        if self._deadlines:
            times.append(self._deadlines[0][0])
        if self._closing:
            times.append(next(iter(self._closing.values()))[0])
        times += self._partitions.times(wanted=bool(self._wanted), looked_ms=self._looked_ms)
        return min(times, default=None)

    def idle(self, now_ms: int) -> bool:
        """Whether nothing waits, is open or cached, and the last use is long ago."""
        quiet = not (self._asks or self._messages or self._partitions.open)
        return quiet and now_ms - self.used_ms >= IDLE_MS

    def waiting(self) -> int:
        """Return how many receives wait."""
        return len(self._asks)

    def asks(self) -> list[ClientAsk]:
        """Return the receives that wait."""
        return list(self._asks.values())

    def cached(self) -> int:
        """Return how many messages are held ready."""
        return len(self._messages)

    def give_back_all(self) -> list[Action]:
        """Give back what is held ready."""
        return self._messages.give_back(lambda chunk: True)

    def give_back_of(self, owner: Any) -> list[Action]:
        """Give back what is held ready for a connection."""
        return self._messages.give_back(lambda chunk: chunk.owner == owner)

    # Serving

    def _move(self, now_ms: int) -> list[Action]:
        actions: list[Action] = []
        if self._messages:
            actions += self._messages.give_back(lambda each: each.hand_over_until_ms <= now_ms)
        while self._messages and (ask := self._next_served()) is not None:
            self._forget(ask)
            slices = self._messages.take(ask)
            self._partitions.pace.note(sum(end - start for _, start, end, _, _ in slices), now_ms)
            actions.append(HandOver(ask, slices))
            self.used_ms = now_ms
        if self._wanted:
            owner = next((ask.owner for ask in self._asks.values() if ask.counted), None)
            actions += self._partitions.ask(self._wanted, owner, now_ms)
        else:
            actions += self._partitions.unwanted(now_ms)
        return actions

    def _next_served(self) -> ClientAsk | None:
        owner = self._messages.first.owner
        oldest: ClientAsk | None = None
        looked = 0
        for ask in self._asks.values():
            if ask.owner in self._paused:
                continue
            if ask.owner == owner:
                return ask
            oldest = oldest or ask
            looked += 1
            if looked == OWNERS_LOOKED_AT:
                break
        return oldest

    def _count(self, ask: ClientAsk) -> None:
        if not ask.counted:
            ask.counted = True
            self._wanted += ask.messages

    def _uncount(self, ask: ClientAsk) -> None:
        if ask.counted:
            ask.counted = False
            self._wanted -= ask.messages

    def _forget(self, ask: ClientAsk) -> None:
        self._uncount(ask)
        del self._asks[ask.tag]
        self._closing.pop(ask.tag, None)

    def _waits(self, ask: ClientAsk) -> bool:
        return self._asks.get(ask.tag) is ask

    # The end of a wait

    def _close(self, ask: ClientAsk, now_ms: int) -> list[Action]:
        """Ask the partitions that were not heard of just now whether they have nothing."""
        self._uncount(ask)
        actions: list[Action] = []
        ask.checks = set()
        for ask_id, opened in self._partitions.open.items():
            if self._partitions.has_nothing(opened, now_ms):
                ask.answered = True
                continue
            ask.checks.add(ask_id)
            if not opened.withdrawn:
                actions.append(self._partitions.withdraw(ask_id, opened))
        self._closing[ask.tag] = (now_ms + CLOSING_MS, ask)
        return actions

    def _closed(self) -> list[Action]:
        """End the asks that wait for no partition's answer any more."""
        if not self._closing:
            return []
        ended = [ask for _, ask in self._closing.values() if not ask.checks]
        return [action for ask in ended for action in self._end_empty(ask)]

    def _end_empty(self, ask: ClientAsk) -> list[Action]:
        if not self._waits(ask):
            return []
        self._forget(ask)
        # What there was is not for a connection that is paused.
        known = ask.answered and ask.owner not in self._paused
        return [HandOver(ask, unanswered=not known)]

    def _answered(
        self, ask_id: int, partition: int, now_ms: int, *, full: bool, heard: bool = True
    ) -> OpenAsk | None:
        self._checked(ask_id, heard=heard)
        return self._partitions.answered(ask_id, partition, now_ms, full=full, heard=heard)

    def _checked(self, ask_id: int, *, heard: bool) -> None:
        for _, ask in self._closing.values():
            if ask.checks is not None and ask_id in ask.checks:
                ask.checks.discard(ask_id)
                ask.answered |= heard


def _idle_ms(chunk: Chunk) -> int:
    return LEAD_IDLE_MS if chunk.led else IDLE_MS
