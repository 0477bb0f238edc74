"""Messages that partitions reserved and no client has yet: in chunks, as they came. Pure."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bendybus.frontend.core.credit import MESSAGES_MAX, Credit
from bendybus.frontend.core.lease import Lease
from bendybus.frontend.core.receive_actions import Action, GiveBack, Slice


@dataclass(slots=True)
class Chunk:
    """Cached messages of one partition: [start, len(sizes)) of `data`."""

    partition: int
    data: Any
    sizes: Sequence[int]
    start: int
    lease: Lease
    owner: Any
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

    def recall(self, recalled: Callable[[Any, int], bool]) -> None:
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
