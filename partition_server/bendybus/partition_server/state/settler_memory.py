"""What receivers settled, remembered for a while: a repeat whose answer was lost succeeds.

A receiver names itself; what it settled is kept by its frames, bounded in number and bytes for
each receiver, for each queue (to its share of what is for all) and over all, and in age. Not
durable: after a restart every lock token of before is void anyway.
"""

from collections import OrderedDict, deque
from typing import Final

from bendybus.domain import limits, lock_token
from bendybus.domain.disposition import Disposition
from bendybus.partition_server.state import shares
from bendybus.partition_server.state.commands import Now
from bendybus.partition_server.state.outcomes import Bounds
from bendybus.partition_server.state.shares import Shares

AGE_MS_MAX: Final = 5 * limits.MINUTE_MS
FRAMES_PER_SETTLER_MAX: Final = 256
BYTES_PER_SETTLER_MAX: Final = limits.MB
BYTES_MAX: Final = 16 * limits.MB
# What an entry takes beside its tokens; with it BYTES_MAX bounds the number of entries as well.
ENTRY_BYTES: Final = 200
# Few tokens are searched for where they lie; more are looked up in a set of all, made for that.
SEARCHED_MAX: Final = 16
_REMEMBERED: Final = frozenset(
    (Disposition.COMPLETE, Disposition.ABANDON, Disposition.DEFER, Disposition.DEAD_LETTER)
)

# (when, what was done, 16 bytes per message)
_Entry = tuple[int, Disposition, bytes]


class Settlers:
    """The memory; bounded, each queue to its share. Receivers that settled last come last."""

    def __init__(self) -> None:
        self._frames: dict[bytes, deque[_Entry]] = {}
        self._sizes: dict[bytes, int] = {}
        # The receivers of a queue, by its slot; queues that were used last come last, too. The
        # first of a plain dict is behind all that were taken out before it.
        self._of_slot: OrderedDict[int, OrderedDict[bytes, None]] = OrderedDict()
        self._slots: dict[bytes, int] = {}
        self._shares: Shares[int] = Shares()

    def remember(
        self, settler_id: bytes, disposition: Disposition, tokens: bytes, now_mono_ms: int
    ) -> None:
        """Note what is settled and committed."""
        if disposition not in _REMEMBERED or not tokens:
            return
        frames = self._frames.get(settler_id)
        if frames is None:
            frames = self._frames[settler_id] = deque()
            self._slots[settler_id] = lock_token.slot_of(tokens)
            self._of_slot.setdefault(self._slots[settler_id], OrderedDict())[settler_id] = None
        slot = self._slots[settler_id]
        own = self._of_slot[slot]
        own.move_to_end(settler_id)
        self._of_slot.move_to_end(slot)
        frames.append((now_mono_ms, disposition, tokens))
        self._count(settler_id, len(tokens) + ENTRY_BYTES)
        while frames[0][0] < now_mono_ms - AGE_MS_MAX or (
            len(frames) > 1
            and (
                len(frames) > FRAMES_PER_SETTLER_MAX
                or self._sizes[settler_id] > BYTES_PER_SETTLER_MAX
            )
        ):
            self._forget_first(settler_id)
        self._forget_old(own, now_mono_ms)
        while (oldest := next(iter(self._of_slot.values()))) is not own:
            if not self._forget_old(oldest, now_mono_ms):
                break
        if self._shares.total > BYTES_MAX:
            self._forget_surplus(now_mono_ms)

    def _forget_old(self, receivers: OrderedDict[bytes, None], now_mono_ms: int) -> bool:
        """Forget receivers of a queue that settled nothing for long; return whether that is all."""
        while receivers:
            oldest = next(iter(receivers))
            if self._frames[oldest][-1][0] >= now_mono_ms - AGE_MS_MAX:
                return False
            self._forget_first(oldest)
        return True

    def _forget_surplus(self, now_mono_ms: int) -> None:
        """Forget what is too old, then the oldest of queues that have more than their share."""
        for receivers in list(self._of_slot.values()):
            self._forget_old(receivers, now_mono_ms)
        # Some at once: dealing it out is dear.
        most = shares.level(self._shares.uses(), BYTES_MAX - BYTES_MAX // 64)
        for slot, own in list(self._of_slot.items()):
            while self._shares.of(slot) > most:
                self._forget_first(next(iter(own)))

    def settled(self, settler_id: bytes, disposition: Disposition) -> set[bytes]:
        """Return the tokens that a receiver settled in this way."""
        size = lock_token.TOKEN_BYTES
        return {
            tokens[start : start + size]
            for _, done, tokens in self._frames.get(settler_id, ())
            if done is disposition
            for start in range(0, len(tokens), size)
        }

    def among(self, settler_id: bytes, disposition: Disposition, wanted: set[bytes]) -> set[bytes]:
        """Return those of `wanted` that a receiver settled in this way."""
        if len(wanted) > SEARCHED_MAX:
            return wanted & self.settled(settler_id, disposition)
        found: set[bytes] = set()
        for _, done, tokens in self._frames.get(settler_id, ()):
            if done is disposition:
                found.update(token for token in wanted - found if _holds(tokens, token))
        return found

    def bounds(self) -> Bounds:
        """Return what the memory may take."""
        return Bounds(BYTES_MAX // ENTRY_BYTES, BYTES_MAX, AGE_MS_MAX)

    def used(self) -> tuple[int, int]:
        """Return what it takes."""
        return sum(map(len, self._frames.values())), self._shares.total

    def unknown_before(self, user: int, now: Now) -> int:
        """Return until when something of a queue may be forgotten: its tokens are void by then,
        or its receivers have settled so much since that they wait for no answer to it.
        """
        return now.mono_ms - AGE_MS_MAX - 1

    def _count(self, settler_id: bytes, size_bytes: int) -> None:
        self._sizes[settler_id] = self._sizes.get(settler_id, 0) + size_bytes
        self._shares.add(self._slots[settler_id], size_bytes)

    def _forget_first(self, settler_id: bytes) -> None:
        frames = self._frames[settler_id]
        _, _, tokens = frames.popleft()
        self._count(settler_id, -len(tokens) - ENTRY_BYTES)
        if not frames:
            del self._frames[settler_id], self._sizes[settler_id]
            slot = self._slots.pop(settler_id)
            del self._of_slot[slot][settler_id]
            if not self._of_slot[slot]:
                del self._of_slot[slot]


def _holds(tokens: bytes, token: bytes) -> bool:
    at = tokens.find(token)
    while at > 0 and at % lock_token.TOKEN_BYTES:
        at = tokens.find(token, at + 1)
    return at >= 0
