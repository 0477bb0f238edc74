"""The rules of receiving from many partitions: one receiver's asks, cache and credit. Pure.

Source: "Service Bus queries all partitions for messages, then returns the first message that is
obtained from any of the messaging stores to the receiver. Service Bus caches the other messages
and returns them when it receives more receive requests."

    client ask ──► cache? ──yes──► hand over what is at hand
                     │no
                     ▼
                   ask partitions: small asks: one message from each; large ones: whole frames
                     │             from those that had enough the last time, in turn
                     ▼
    reserved ──► cache ──► hand over to the oldest open ask, at once, up to what it asked for

Asks that nobody waits for are withdrawn. The cache is given back after the receiver was idle for
5 s, when half of a lock is gone, and when the receiver ends; none of this counts as a delivery.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

IDLE_MS: Final = 5_000
# From here on an ask is large: partitions are asked for whole frames in turn.
LARGE_ASK: Final = 100
# A partition that had enough the last time and does not answer at once has nothing any more.
BROADEN_MS: Final = 20
# Asks that nobody waits for are withdrawn after this: the next receive often comes at once.
WITHDRAW_MS: Final = 50
# What one receiver may have reserved or cached, in bytes; one message is always allowed.
LINK_BYTES_MAX: Final = 16 * 1024 * 1024
MESSAGES_MAX: Final = 5_000
ASKS_MAX: Final = 64


@dataclass(slots=True)
class ClientAsk:
    """A receive that waits; `tag` finds the caller again. `deadline_ms` None: no end."""

    tag: Any
    messages: int
    size_bytes: int
    deadline_ms: int | None


@dataclass(slots=True)
class Chunk:
    """Cached messages of one partition: [start, len(sizes)) of `data`."""

    partition: int
    data: Any
    sizes: Sequence[int]
    start: int
    hand_over_until_ms: int

    @property
    def left(self) -> int:
        """How many are left."""
        return len(self.sizes) - self.start


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


@dataclass(frozen=True, slots=True)
class HandOver:
    """Give these slices (data, start, end, partition) to the caller of a receive; may be none."""

    tag: Any
    slices: Sequence[tuple[Any, int, int, int]]


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Release a slice: the client will not see it."""

    data: Any
    start: int
    end: int
    partition: int


Action = AskPartition | WithdrawAsk | HandOver | GiveBack


class Link:
    """One receiver of a client, or one lease of unary receives."""

    def __init__(
        self,
        partitions: Sequence[int],
        available: Callable[[int], bool],
        next_ask_id: Callable[[], int],
        now_ms: int,
    ) -> None:
        self._partitions = list(partitions)
        self._available = available
        self._next_ask_id = next_ask_id
        self._asks: deque[ClientAsk] = deque()
        self._cache: deque[Chunk] = deque()
        # partition → (ask id, messages still wanted, since when)
        self._open: dict[int, tuple[int, int, int]] = {}
        # Partitions that filled their last ask: they likely have more. In turn.
        self._full: deque[int] = deque()
        self._turn = 0
        self._used_ms = now_ms
        # Since when asks are open that nobody waits for; None: none.
        self._unwanted_since_ms: int | None = None
        self._closed = False
        self._paused = False
        # When `due` looked last: what was due by then is done, or cannot be.
        self._looked_ms = now_ms

    # From the client

    def ask(self, ask: ClientAsk, now_ms: int) -> list[Action]:
        """Open a receive."""
        self._used_ms = now_ms
        self._unwanted_since_ms = None
        self._asks.append(ask)
        return self._move(now_ms)

    def cancel(self, tag: Any, now_ms: int) -> list[Action]:
        """End a receive now; it is answered, empty."""
        for ask in self._asks:
            if ask.tag == tag:
                self._asks.remove(ask)
                return [HandOver(tag, ()), *self._note_unwanted(now_ms)]
        return []

    def pause(self) -> None:
        """Hand nothing over for now: the client does not read what it was given."""
        self._paused = True

    def resume(self, now_ms: int) -> list[Action]:
        """Go on after a pause."""
        self._paused = False
        self._used_ms = now_ms
        return self._move(now_ms) if self._asks else []

    def close(self) -> list[Action]:
        """End the receiver: nothing stays reserved for it."""
        self._closed = True
        actions: list[Action] = [HandOver(ask.tag, ()) for ask in self._asks]
        self._asks.clear()
        return [*actions, *self._withdraw_all(), *self._give_back_all()]

    # From partitions

    def reserved(
        self,
        ask_id: int,
        partition: int,
        data: Any,
        sizes: Sequence[int],
        *,
        lock_remaining_ms: int,
        complete: bool,
        now_ms: int,
    ) -> list[Action]:
        """Take messages that a partition reserved for an ask."""
        if self._closed:
            return [GiveBack(data, 0, len(sizes), partition)]
        known = self._open.get(partition)
        if known is not None and known[0] == ask_id:
            left = known[1] - len(sizes)
            if complete or left <= 0:
                del self._open[partition]
                if partition not in self._full:
                    self._full.append(partition)
            else:
                self._open[partition] = (ask_id, left, now_ms)
        if not complete and partition in self._full:
            self._full.remove(partition)
        until_ms = now_ms + lock_remaining_ms // 2
        self._cache.append(Chunk(partition, data, sizes, 0, until_ms))
        return self._move(now_ms)

    def ask_ended(self, ask_id: int, partition: int, now_ms: int) -> list[Action]:
        """Take the end of an ask that got no (more) messages: withdrawn or refused."""
        known = self._open.get(partition)
        if known is not None and known[0] == ask_id:
            del self._open[partition]
        if partition in self._full:
            self._full.remove(partition)
        return []

    def partition_lost(self, partition: int) -> list[Action]:
        """Take the end of the stream to a partition: what it reserved is void."""
        self._open.pop(partition, None)
        if partition in self._full:
            self._full.remove(partition)
        self._cache = deque(chunk for chunk in self._cache if chunk.partition != partition)
        return []

    def partition_back(self, partition: int, now_ms: int) -> list[Action]:
        """Ask a partition that returned, if somebody waits."""
        return self._move(now_ms) if self._asks and partition in self._partitions else []

    # Time

    def due(self, now_ms: int) -> list[Action]:
        """Take the passing of time: waits that are over, locks half gone, an idle receiver."""
        actions: list[Action] = []
        self._looked_ms = now_ms
        while self._asks and _over(self._asks[0], now_ms):
            actions.append(HandOver(self._asks.popleft().tag, ()))
        for ask in [ask for ask in self._asks if _over(ask, now_ms)]:
            self._asks.remove(ask)
            actions.append(HandOver(ask.tag, ()))
        actions += self._drop_stale(now_ms)
        if self._asks:
            actions += self._move(now_ms)
        else:
            actions += self._note_unwanted(now_ms)
            if now_ms - self._used_ms >= IDLE_MS:
                actions += self._give_back_all()
        return actions

    def next_due(self) -> int | None:
        """Return when `due` has something to do."""
        times = [ask.deadline_ms for ask in self._asks if ask.deadline_ms is not None]
        times += [chunk.hand_over_until_ms for chunk in self._cache]
        if self._cache and not self._asks:
            times.append(self._used_ms + IDLE_MS)
        if self._unwanted_since_ms is not None:
            times.append(self._unwanted_since_ms + WITHDRAW_MS)
        if self._asks and self._open and len(self._open) < len(self._partitions):
            # Once: the partitions that are missing then are out of reach.
            broaden_ms = max(since for _, _, since in self._open.values()) + BROADEN_MS
            if broaden_ms > self._looked_ms:
                times.append(broaden_ms)
        return min(times, default=None)

    def idle(self, now_ms: int) -> bool:
        """Whether nothing waits, is open or cached, and the last use is long ago."""
        quiet = not (self._asks or self._cache or self._open)
        return quiet and now_ms - self._used_ms >= IDLE_MS

    def waiting(self) -> int:
        """Return how many receives wait."""
        return len(self._asks)

    def cached(self) -> int:
        """Return how many messages are held ready."""
        return sum(chunk.left for chunk in self._cache)

    # Inside

    def _move(self, now_ms: int) -> list[Action]:
        actions: list[Action] = []
        actions += self._drop_stale(now_ms)
        if self._paused:
            return actions
        while self._asks and self._cache:
            ask = self._asks.popleft()
            actions.append(HandOver(ask.tag, self._slices(ask)))
            self._used_ms = now_ms
        if self._asks:
            actions += self._ask_partitions(now_ms)
        else:
            actions += self._note_unwanted(now_ms)
        return actions

    def _slices(self, ask: ClientAsk) -> list[tuple[Any, int, int, int]]:
        slices: list[tuple[Any, int, int, int]] = []
        messages, size_bytes = ask.messages, ask.size_bytes
        while self._cache and messages > 0 and size_bytes > 0:
            chunk = self._cache[0]
            end = chunk.start
            while end < len(chunk.sizes) and messages > 0:
                size = chunk.sizes[end]
                if size > size_bytes and (slices or end > chunk.start):
                    size_bytes = 0
                    break
                size_bytes -= size
                messages -= 1
                end += 1
            if end > chunk.start:
                slices.append((chunk.data, chunk.start, end, chunk.partition))
            chunk.start = end
            if not chunk.left:
                self._cache.popleft()
        return slices

    def _ask_partitions(self, now_ms: int) -> list[Action]:
        wanted = sum(ask.messages for ask in self._asks) - sum(
            left for _, left, _ in self._open.values()
        )
        if len(self._partitions) == 1:
            # A plain entity: exactly the caller's credit.
            return self._open_ask(self._partitions[0], wanted, now_ms) if wanted > 0 else []
        actions: list[Action] = []
        if wanted >= LARGE_ASK:
            while wanted > 0 and (partition := self._next_full()) is not None:
                count = min(wanted, self._asks[0].messages)
                actions += self._open_ask(partition, count, now_ms)
                wanted -= count
        fresh = any(since > now_ms - BROADEN_MS for _, _, since in self._open.values())
        if self._full_only(fresh):
            return actions
        share = max(1, wanted // len(self._partitions)) if wanted >= LARGE_ASK else 1
        for partition in self._in_turn():
            if partition not in self._open and self._available(partition):
                actions += self._open_ask(partition, share, now_ms)
        return actions

    def _full_only(self, fresh: bool) -> bool:
        """Whether a partition that likely has messages was asked just now: wait for it."""
        large = self._asks[0].messages >= LARGE_ASK
        return large and fresh and len(self._open) < len(self._partitions)

    def _next_full(self) -> int | None:
        for _ in range(len(self._full)):
            partition = self._full.popleft()
            if partition not in self._open and self._available(partition):
                return partition
        return None

    def _in_turn(self) -> list[int]:
        self._turn = (self._turn + 1) % len(self._partitions)
        return self._partitions[self._turn :] + self._partitions[: self._turn]

    def _open_ask(self, partition: int, messages: int, now_ms: int) -> list[Action]:
        if partition in self._open or not self._available(partition):
            return []
        ask_id = self._next_ask_id()
        self._open[partition] = (ask_id, messages, now_ms)
        size_bytes = max(1, LINK_BYTES_MAX // len(self._partitions))
        return [AskPartition(ask_id, partition, messages, size_bytes)]

    def _note_unwanted(self, now_ms: int) -> list[Action]:
        """Withdraw asks that nobody waits for, a moment after the last receive ended."""
        if not self._open:
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
        actions: list[Action] = [
            WithdrawAsk(ask_id, partition) for partition, (ask_id, _, _) in self._open.items()
        ]
        self._open.clear()
        return actions

    def _drop_stale(self, now_ms: int) -> list[Action]:
        stale = [chunk for chunk in self._cache if chunk.hand_over_until_ms <= now_ms]
        if not stale:
            return []
        self._cache = deque(c for c in self._cache if c.hand_over_until_ms > now_ms)
        return [GiveBack(c.data, c.start, len(c.sizes), c.partition) for c in stale]

    def _give_back_all(self) -> list[Action]:
        chunks, self._cache = self._cache, deque()
        return [GiveBack(c.data, c.start, len(c.sizes), c.partition) for c in chunks]


def _over(ask: ClientAsk, now_ms: int) -> bool:
    return ask.deadline_ms is not None and ask.deadline_ms <= now_ms
