"""Which partitions are asked for messages of one queue, for how many, and until when. Pure.

A few messages are asked for one from each partition. More are asked for in whole frames: from the
partitions that had more the last time, in turn. Those of which nothing is known have a small ask
open all the time that a receive waits, so that no partition waits behind another one's backlog.

Where messages are taken quickly, by a loop of small receives, partitions are asked for as many as
were taken in the last moment: a frame for each of them would cost more than the messages.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bendybus.domain import bounds, limits
from bendybus.frontend.core import columns
from bendybus.frontend.core.credit import Credit, Owner


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
Slice = tuple[columns.DeliveredBatch, int, int, int, int]


@dataclass(frozen=True, slots=True)
class HandOver:
    """Give these slices to a receiver; none: its credit is drained, or void for another reason."""

    credit: Credit
    slices: Sequence[Slice] = ()
    # No partition answered, or its connection is paused: whether there are messages is not known.
    unanswered: bool = False

    @property
    def messages(self) -> int:
        """The number of messages in the slices."""
        return sum(end - start for _, start, end, _, _ in self.slices)


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Release a slice: no client will see it."""

    data: columns.DeliveredBatch
    start: int
    end: int
    partition: int


Action = AskPartition | WithdrawAsk | HandOver | GiveBack


# From here on whole frames are asked for, from partitions in turn.
FRAMES_FROM: Final = 5
# What one ask of a partition may be for.
FRAME_MESSAGES: Final = 500
# Receivers that take messages quickly have those of this time cached, up to so many.
AHEAD_MS: Final = 100
AHEAD_MAX: Final = 250
# A partition that had more the last time and does not answer at once has nothing any more.
BROADEN_MS: Final = 20
# Asks without a waiting receive are withdrawn after this: the next receive often comes at once.
WITHDRAW_MS: Final = 50
# A partition that said something within this time need not be asked whether it answers.
HEARD_MS: Final = 1_000
# What one cache may have asked for, in bytes, over all partitions; one message is always allowed.
CACHE_BYTES_MAX: Final = 16 * limits.MB


@dataclass(slots=True)
class OpenAsk:
    """An ask of a partition."""

    partition: int
    messages: int
    since_ms: int
    # For the partition had more the last time.
    fills: bool
    owner: Owner
    # Asks ahead: for more than is wanted now.
    ahead: bool = False
    withdrawn: bool = False


class Pace:
    """How many messages are handed over in a moment: counted in spans of `AHEAD_MS`."""

    __slots__ = ("_before", "_count", "_span")

    def __init__(self) -> None:
        self._span = self._count = self._before = 0

    def note(self, messages: int, now_ms: int) -> None:
        """Count messages that are handed over."""
        span = now_ms // AHEAD_MS
        if span != self._span:
            self._before = self._count if span == self._span + 1 else 0
            self._span, self._count = span, 0
        self._count += messages

    def recent(self, now_ms: int) -> int:
        """Return how many are worth having ready: what the span before this one took."""
        span = now_ms // AHEAD_MS
        took = self._before if span == self._span else self._count if span == self._span + 1 else 0
        return min(took, AHEAD_MAX)


class PartitionAsks:
    """The asks of one cache, each partition at most once at a time."""

    def __init__(
        self,
        partitions: Sequence[int],
        available: Callable[[int], bool],
        next_ask_id: Callable[[], int],
    ) -> None:
        self._partitions = list(partitions)
        self._available = available
        self._next_ask_id = next_ask_id
        # By ask id, until they are answered; and the one that is not withdrawn, by partition.
        self.open: dict[int, OpenAsk] = {}
        self._asked: dict[int, int] = {}
        # Those of `open` that are not withdrawn, the latest last, and what they are for; and those
        # that go to partitions which had more. A receiver that leaves costs the same however many
        # asks there are.
        self._live: dict[int, OpenAsk] = {}
        self._live_messages = 0
        self._filling: dict[int, OpenAsk] = {}
        # Partitions that had more the last time. In turn.
        self._full: deque[int] = deque()
        self._turn = 0
        self.pace = Pace()
        # When a partition last said something.
        self._heard_ms: dict[int, int] = {}
        # Since when asks are open without a waiting receive; None: none are.
        self._unwanted_since_ms: int | None = None

    def __contains__(self, partition: int) -> bool:
        return partition in self._partitions

    def answered(
        self, ask_id: int, partition: int, now_ms: int, *, full: bool, heard: bool = True
    ) -> OpenAsk | None:
        """Take the end of an ask; `full`: the partition has more, `heard`: it said so itself."""
        opened = self.open.pop(ask_id, None)
        if opened is not None:
            self._filling.pop(ask_id, None)
            self._not_live(ask_id, opened)
        if self._asked.get(partition) == ask_id:
            del self._asked[partition]
        if heard:
            self._heard_ms[partition] = now_ms
        if not full:
            if partition in self._full:
                self._full.remove(partition)
        elif partition not in self._full:
            self._full.append(partition)
        return opened

    def lose(self, partition: int) -> list[int]:
        """Forget a partition whose stream ended; return the asks that it will not answer."""
        lost = [ask_id for ask_id, opened in self.open.items() if opened.partition == partition]
        for ask_id in lost:
            self.answered(ask_id, partition, 0, full=False, heard=False)
        if partition in self._full:
            self._full.remove(partition)
        self._heard_ms.pop(partition, None)
        return lost

    def has_nothing(self, opened: OpenAsk, now_ms: int) -> bool:
        """Whether a partition is known to have nothing: it answers, but not this ask."""
        heard_ms = self._heard_ms.get(opened.partition, -HEARD_MS)
        waited = opened.since_ms <= now_ms - BROADEN_MS
        return waited and heard_ms >= opened.since_ms and heard_ms > now_ms - HEARD_MS

    # Asking

    def ask(self, wanted: int, owner: Owner, now_ms: int) -> list[AskPartition | WithdrawAsk]:
        """Ask for what is wanted and not asked for yet."""
        self.wanted_again()
        if len(self._partitions) == 1:
            return self._ask_plain(wanted, owner, now_ms)
        actions: list[AskPartition | WithdrawAsk] = []
        small = wanted < FRAMES_FROM
        messages = self._ahead(wanted, now_ms)
        ahead = messages > wanted
        late = False
        if not small:
            under_way = 0
            for opened in self._filling.values():
                if not opened.withdrawn:
                    if opened.since_ms > now_ms - BROADEN_MS:
                        under_way += opened.messages
                    else:
                        late = True
            actions += self.ask_full(messages - under_way, owner, now_ms, ahead=ahead)
        share = min(max(1, messages // len(self._partitions)), FRAME_MESSAGES)
        for partition in self._in_turn():
            if partition in self._asked or not self._available(partition):
                continue
            if small or late or partition not in self._full:
                actions.append(self._open(OpenAsk(partition, share, now_ms, False, owner, ahead)))
        return actions

    def ask_full(
        self, messages: int, owner: Owner, now_ms: int, *, ahead: bool = False
    ) -> list[AskPartition]:
        """Ask partitions that had more the last time, in turn, until so many are asked for."""
        actions: list[AskPartition] = []
        while messages > 0 and (partition := self._next_full()) is not None:
            count = min(messages, FRAME_MESSAGES)
            actions.append(self._open(OpenAsk(partition, count, now_ms, True, owner, ahead)))
            messages -= count
        return actions

    def _ahead(self, wanted: int, now_ms: int) -> int:
        """Return how many messages to ask for: what is wanted now, and what will be in a moment."""
        recent = self.pace.recent(now_ms)
        # In whole receives: what is left over would make a small one.
        return wanted if recent <= wanted else recent - recent % wanted

    def _ask_plain(
        self, wanted: int, owner: Owner, now_ms: int
    ) -> list[AskPartition | WithdrawAsk]:
        """Ask for exactly what is wanted; a plain entity has one partition."""
        [partition] = self._partitions
        if not self._available(partition):
            return []
        left = wanted - self._live_messages
        actions: list[AskPartition | WithdrawAsk] = []
        while left < 0:
            ask_id, opened = self._live.popitem()
            left += opened.messages
            actions.append(self.withdraw(ask_id, opened))
        if left > 0:
            left = min(left, bounds.ASK_MESSAGES_MAX)
            actions.append(self._open(OpenAsk(partition, left, now_ms, False, owner)))
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

    def _open(self, ask: OpenAsk) -> AskPartition:
        ask_id = self._next_ask_id()
        self.open[ask_id] = self._live[ask_id] = ask
        self._live_messages += ask.messages
        if ask.fills:
            self._filling[ask_id] = ask
        self._asked[ask.partition] = ask_id
        size_bytes = max(1, CACHE_BYTES_MAX // len(self._partitions))
        return AskPartition(ask_id, ask.partition, ask.messages, size_bytes)

    # Withdrawing

    def wanted_again(self) -> None:
        """Note that a receive waits."""
        self._unwanted_since_ms = None

    def unwanted(self, now_ms: int) -> list[WithdrawAsk]:
        """Withdraw asks without a waiting receive, shortly after the last receive ended."""
        if not self._live:
            self._unwanted_since_ms = None
        elif len(self._partitions) == 1:
            return self.withdraw_all()
        elif self._unwanted_since_ms is None:
            self._unwanted_since_ms = now_ms
        elif now_ms - self._unwanted_since_ms >= WITHDRAW_MS:
            return self.withdraw_all()
        return []

    def withdraw_all(self) -> list[WithdrawAsk]:
        """Withdraw all asks."""
        self._unwanted_since_ms = None
        return [self.withdraw(ask_id, opened) for ask_id, opened in list(self._live.items())]

    def withdraw(self, ask_id: int, opened: OpenAsk) -> WithdrawAsk:
        """Take an ask back."""
        self._not_live(ask_id, opened)
        opened.withdrawn = True
        if self._asked.get(opened.partition) == ask_id:
            del self._asked[opened.partition]
        return WithdrawAsk(ask_id, opened.partition)

    def _not_live(self, ask_id: int, opened: OpenAsk) -> None:
        if not opened.withdrawn:
            self._live.pop(ask_id, None)
            self._live_messages -= opened.messages

    def times(self, *, wanted: bool, looked_ms: int) -> list[int]:
        """Return when asks are to be withdrawn, or slow partitions no longer waited for."""
        times = []
        if self._unwanted_since_ms is not None:
            times.append(self._unwanted_since_ms + WITHDRAW_MS)
        if wanted:
            late = [opened.since_ms + BROADEN_MS for opened in self._filling.values()]
            times += [time for time in late if time > looked_ms]
        return times
