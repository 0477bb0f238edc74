"""The rules of receiving from many partitions: asks, cache and credit of one queue. Pure.

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
A few messages are asked for one from each partition. More are asked for in whole frames: from the
partitions that had more the last time, in turn. Those of which nothing is known have a small ask
open all the time that somebody waits, so that no partition waits behind another one's backlog.

An ask whose wait is over is *closing*: asks of partitions that were not heard of just now are
withdrawn, which those partitions answer. It ends empty if some partition answered, and as
unanswered if none did.

Asks that nobody waits for are withdrawn. The cache is given back after nobody asked for 5 s, when
half of a lock is gone, and when the connection that filled it ends; nothing of this is a delivery.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bendybus.domain import limits

IDLE_MS: Final = 5_000
# From here on whole frames are asked for, from partitions in turn.
FRAMES_FROM: Final = 5
# What one ask of a partition may be for.
FRAME_MESSAGES: Final = 500
# A partition that had more the last time and does not answer at once has nothing any more.
BROADEN_MS: Final = 20
# Asks that nobody waits for are withdrawn after this: the next receive often comes at once.
WITHDRAW_MS: Final = 50
# A partition that said something within this time need not be asked whether it answers.
HEARD_MS: Final = 1_000
# How long an ask whose wait is over waits for partitions to say that they have nothing.
CLOSING_MS: Final = 500
# What one cache may have asked for, in bytes, over all partitions; one message is always allowed.
CACHE_BYTES_MAX: Final = 16 * limits.MB
MESSAGES_MAX: Final = 5_000
# Deadlines of receives that ended, kept until this many are.
DEADLINES_SPARE: Final = 1_000
# How many asks are looked through for one of the connection that messages were reserved for.
OWNERS_LOOKED_AT: Final = 64


@dataclass(slots=True)
class ClientAsk:
    """A receive that waits; `tag` finds the caller again. `deadline_ms` None: no end."""

    tag: Any
    messages: int
    size_bytes: int
    deadline_ms: int | None
    # The connection.
    owner: Any = None
    # Whether its messages are asked for: not while it is closing, nor while its owner is paused.
    counted: bool = False
    # Asks of partitions whose answers it waits for at its end; None: its wait is not over.
    checks: set[int] | None = None
    # Whether a partition answered.
    answered: bool = False


@dataclass(slots=True)
class Chunk:
    """Cached messages of one partition: [start, len(sizes)) of `data`."""

    partition: int
    data: Any
    sizes: Sequence[int]
    start: int
    hand_over_until_ms: int
    locked_until_ms: int
    owner: Any

    @property
    def left(self) -> int:
        """How many are left."""
        return len(self.sizes) - self.start

    @property
    def bytes_left(self) -> int:
        """How many bytes are left."""
        return sum(self.sizes[self.start :])


@dataclass(slots=True)
class Open:
    """An ask of a partition."""

    partition: int
    messages: int
    since_ms: int
    # For the partition had more the last time.
    fills: bool
    owner: Any
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class AskPartition:
    """Ask a partition for messages."""

    ask_id: int
    partition: int
    messages: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class WithdrawAsk:
    """Take an ask back."""

    ask_id: int
    partition: int


# (data, start, end, partition, when the locks end)
Slice = tuple[Any, int, int, int, int]


@dataclass(frozen=True, slots=True)
class HandOver:
    """Give these slices to the caller of a receive; none: its wait is over."""

    ask: ClientAsk
    slices: Sequence[Slice] = ()
    # No partition answered, or its connection is paused: whether there are messages is not known.
    unanswered: bool = False

    @property
    def tag(self) -> Any:
        """The caller."""
        return self.ask.tag


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Release a slice: no client will see it."""

    data: Any
    start: int
    end: int
    partition: int


Action = AskPartition | WithdrawAsk | HandOver | GiveBack


@dataclass(slots=True)
class Held:
    """Bytes that wait in caches, over all and by connection."""

    total: int = 0
    by_owner: dict[Any, int] = field(default_factory=dict)
    # Whose has grown last.
    grown: Any = None

    def add(self, owner: Any, size_bytes: int) -> None:
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


class Cache:
    """See the module's docstring. Counts what it holds in `held`, which caches share."""

    def __init__(
        self,
        partitions: Sequence[int],
        available: Callable[[int], bool],
        next_ask_id: Callable[[], int],
        now_ms: int,
        held: Held | None = None,
    ) -> None:
        self._partitions = list(partitions)
        self._available = available
        self._next_ask_id = next_ask_id
        self._held = Held() if held is None else held
        self._asks: dict[Any, ClientAsk] = {}
        self._deadlines: list[tuple[int, int, ClientAsk]] = []
        self._order = itertools.count()
        # Messages that counted asks are for.
        self._wanted = 0
        # Asks that are closing, and until when, by tag. In order.
        self._closing: dict[Any, tuple[int, ClientAsk]] = {}
        self._paused: set[Any] = set()
        self._chunks: deque[Chunk] = deque()
        # By ask id, until they are answered; and the one that is not withdrawn, by partition.
        self._open: dict[int, Open] = {}
        self._asked: dict[int, int] = {}
        # Partitions that had more the last time. In turn.
        self._full: deque[int] = deque()
        self._turn = 0
        # When a partition last said something.
        self._heard_ms: dict[int, int] = {}
        self.used_ms = now_ms
        self._closed_for_good = False
        # Since when asks are open that nobody waits for; None: none.
        self._unwanted_since_ms: int | None = None
        # When `due` looked last: what was due by then is done, or cannot be.
        self._looked_ms = now_ms

    # From clients

    def ask(self, ask: ClientAsk, now_ms: int) -> list[Action]:
        """Open a receive."""
        self.used_ms = now_ms
        self._unwanted_since_ms = None
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
        return [*self._withdraw_all(), *self.give_back_all()]

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
        opened = self._answered(ask_id, partition, now_ms)
        if self._closed_for_good:
            return [GiveBack(data, 0, len(sizes), partition)]
        self._know(partition, full=more)
        until_ms = locked_until_ms - lock_ms // 2
        owner = None if opened is None else opened.owner
        chunk = Chunk(partition, data, sizes, 0, until_ms, locked_until_ms, owner)
        self._chunks.append(chunk)
        self._held.add(owner, chunk.bytes_left)
        return [*self._move(now_ms), *self._closed()]

    def ask_ended(
        self, ask_id: int, partition: int, now_ms: int, *, answered: bool = True
    ) -> list[Action]:
        """Take the end of an ask that got no messages; `answered`: because there were none."""
        self._answered(ask_id, partition, now_ms, heard=answered)
        self._know(partition, full=False)
        return self._closed()

    def partition_lost(self, partition: int) -> list[Action]:
        """Take the end of the stream to a partition: what it reserved is void."""
        for ask_id in [ask_id for ask_id, o in self._open.items() if o.partition == partition]:
            self._answered(ask_id, partition, 0, heard=False)
        self._know(partition, full=False)
        self._heard_ms.pop(partition, None)
        for chunk in self._chunks:
            if chunk.partition == partition:
                self._held.add(chunk.owner, -chunk.bytes_left)
        self._chunks = deque(chunk for chunk in self._chunks if chunk.partition != partition)
        return self._closed()

    def partition_back(self, partition: int, now_ms: int) -> list[Action]:
        """Ask a partition that returned, if somebody waits."""
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
        if not self._asks and now_ms - self.used_ms >= IDLE_MS:
            actions += self.give_back_all()
        return actions

    def next_due(self) -> int | None:
        """Return when `due` has something to do."""
        while self._deadlines and not self._waits(self._deadlines[0][2]):
            heapq.heappop(self._deadlines)
        times = [chunk.hand_over_until_ms for chunk in self._chunks]
        if self._deadlines:
            times.append(self._deadlines[0][0])
        if self._closing:
            times.append(next(iter(self._closing.values()))[0])
        if self._chunks and not self._asks:
            times.append(self.used_ms + IDLE_MS)
        if self._unwanted_since_ms is not None:
            times.append(self._unwanted_since_ms + WITHDRAW_MS)
        if self._wanted:
            late = [o.since_ms + BROADEN_MS for o in self._open.values() if o.fills]
            times += [time for time in late if time > self._looked_ms]
        return min(times, default=None)

    def idle(self, now_ms: int) -> bool:
        """Whether nothing waits, is open or cached, and the last use is long ago."""
        quiet = not (self._asks or self._chunks or self._open)
        return quiet and now_ms - self.used_ms >= IDLE_MS

    def waiting(self) -> int:
        """Return how many receives wait."""
        return len(self._asks)

    def asks(self) -> list[ClientAsk]:
        """Return the receives that wait."""
        return list(self._asks.values())

    def cached(self) -> int:
        """Return how many messages are held ready."""
        return sum(chunk.left for chunk in self._chunks)

    def give_back_all(self) -> list[Action]:
        """Give back what is held ready."""
        return self._give_back(lambda chunk: True)

    def give_back_of(self, owner: Any) -> list[Action]:
        """Give back what is held ready for a connection."""
        return self._give_back(lambda chunk: chunk.owner == owner)

    # Serving

    def _move(self, now_ms: int) -> list[Action]:
        actions: list[Action] = []
        if self._chunks:
            actions += self._give_back(lambda chunk: chunk.hand_over_until_ms <= now_ms)
        while self._chunks and (ask := self._next_served()) is not None:
            self._forget(ask)
            actions.append(HandOver(ask, self._slices(ask)))
            self.used_ms = now_ms
        if self._wanted:
            self._unwanted_since_ms = None
            actions += self._ask_partitions(now_ms)
        else:
            actions += self._note_unwanted(now_ms)
        return actions

    def _next_served(self) -> ClientAsk | None:
        owner = self._chunks[0].owner
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

    def _slices(self, ask: ClientAsk) -> list[Slice]:
        slices: list[Slice] = []
        messages, size_bytes = ask.messages, ask.size_bytes
        chunks = list(self._chunks)
        if len(chunks) > 1:
            chunks.sort(key=lambda chunk: chunk.owner != ask.owner)
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
                slices.append((chunk.data, start, end, chunk.partition, chunk.locked_until_ms))
                self._held.add(chunk.owner, -taken)
            chunk.start = end
            if messages <= 0 or size_bytes <= 0:
                break
        self._chunks = deque(chunk for chunk in self._chunks if chunk.left)
        return slices

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
        for ask_id, opened in self._open.items():
            heard_ms = self._heard_ms.get(opened.partition, -HEARD_MS)
            waited = opened.since_ms <= now_ms - BROADEN_MS
            if waited and heard_ms >= opened.since_ms and heard_ms > now_ms - HEARD_MS:
                ask.answered = True
                continue
            ask.checks.add(ask_id)
            if not opened.withdrawn:
                actions.append(self._withdraw(ask_id, opened))
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
        self, ask_id: int, partition: int, now_ms: int, *, heard: bool = True
    ) -> Open | None:
        opened = self._open.pop(ask_id, None)
        if self._asked.get(partition) == ask_id:
            del self._asked[partition]
        if heard:
            self._heard_ms[partition] = now_ms
        for _, ask in self._closing.values():
            if ask.checks is not None and ask_id in ask.checks:
                ask.checks.discard(ask_id)
                ask.answered |= heard
        return opened

    def _know(self, partition: int, *, full: bool) -> None:
        if not full:
            if partition in self._full:
                self._full.remove(partition)
        elif partition not in self._full:
            self._full.append(partition)

    # Asking

    def _ask_partitions(self, now_ms: int) -> list[Action]:
        if len(self._partitions) == 1:
            return self._ask_plain(now_ms)
        actions: list[Action] = []
        small = self._wanted < FRAMES_FROM
        late = False
        if not small:
            under_way = 0
            for opened in self._open.values():
                if opened.fills and not opened.withdrawn:
                    if opened.since_ms > now_ms - BROADEN_MS:
                        under_way += opened.messages
                    else:
                        late = True
            left = self._wanted - under_way
            while left > 0 and (partition := self._next_full()) is not None:
                count = min(left, FRAME_MESSAGES)
                actions.append(self._open_ask(partition, count, now_ms, fills=True))
                left -= count
        share = min(max(1, self._wanted // len(self._partitions)), FRAME_MESSAGES)
        for partition in self._in_turn():
            if partition in self._asked or not self._available(partition):
                continue
            if small or late or partition not in self._full:
                actions.append(self._open_ask(partition, share, now_ms))
        return actions

    def _ask_plain(self, now_ms: int) -> list[Action]:
        """Ask for exactly what is wanted; a plain entity has one partition."""
        [partition] = self._partitions
        if not self._available(partition):
            return []
        live = {ask_id: o for ask_id, o in self._open.items() if not o.withdrawn}
        left = self._wanted - sum(opened.messages for opened in live.values())
        actions: list[Action] = []
        for ask_id in reversed(live):
            if left >= 0:
                break
            left += live[ask_id].messages
            actions.append(self._withdraw(ask_id, live[ask_id]))
        if left > 0:
            actions.append(self._open_ask(partition, left, now_ms))
        return actions

    def _next_full(self) -> int | None:
        for _ in range(len(self._full)):
            partition = self._full.popleft()
            if partition not in self._asked and self._available(partition):
                return partition
        return None

    def _in_turn(self) -> list[int]:
        self._turn = (self._turn + 1) % len(self._partitions)
        return self._partitions[self._turn :] + self._partitions[: self._turn]

    def _open_ask(
        self, partition: int, messages: int, now_ms: int, *, fills: bool = False
    ) -> AskPartition:
        ask_id = self._next_ask_id()
        owner = next((ask.owner for ask in self._asks.values() if ask.counted), None)
        self._open[ask_id] = Open(partition, messages, now_ms, fills, owner)
        self._asked[partition] = ask_id
        size_bytes = max(1, CACHE_BYTES_MAX // len(self._partitions))
        return AskPartition(ask_id, partition, messages, size_bytes)

    def _note_unwanted(self, now_ms: int) -> list[Action]:
        """Withdraw asks that nobody waits for, a moment after the last receive ended."""
        if not any(not opened.withdrawn for opened in self._open.values()):
            self._unwanted_since_ms = None
        elif len(self._partitions) == 1:
            return self._withdraw_all()
        elif self._unwanted_since_ms is None:
            self._unwanted_since_ms = now_ms
        elif now_ms - self._unwanted_since_ms >= WITHDRAW_MS:
            return self._withdraw_all()
        return []

    def _withdraw_all(self) -> list[Action]:
        self._unwanted_since_ms = None
        return [
            self._withdraw(ask_id, opened)
            for ask_id, opened in self._open.items()
            if not opened.withdrawn
        ]

    def _withdraw(self, ask_id: int, opened: Open) -> WithdrawAsk:
        opened.withdrawn = True
        if self._asked.get(opened.partition) == ask_id:
            del self._asked[opened.partition]
        return WithdrawAsk(ask_id, opened.partition)

    def _give_back(self, doomed: Callable[[Chunk], bool]) -> list[Action]:
        back = [chunk for chunk in self._chunks if doomed(chunk)]
        if not back:
            return []
        self._chunks = deque(chunk for chunk in self._chunks if not doomed(chunk))
        for chunk in back:
            self._held.add(chunk.owner, -chunk.bytes_left)
        return [GiveBack(c.data, c.start, len(c.sizes), c.partition) for c in back]
