"""What receivers settled, remembered for a while: a repeat whose answer was lost succeeds.

A receiver names itself; what it settled is kept by its frames, bounded in number and bytes for
each receiver and over all, and in age. Not durable: after a restart every lock token of before is
void anyway.
"""

from collections import OrderedDict, deque
from typing import Final

from bendybus.domain import limits, lock_token
from bendybus.domain.disposition import Disposition

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
    """The memory. Receivers that settled last come last."""

    def __init__(self) -> None:
        # The first of a plain dict is behind all that were taken out before it.
        self._frames: OrderedDict[bytes, deque[_Entry]] = OrderedDict()
        self._sizes: dict[bytes, int] = {}
        self._bytes = 0

    def remember(
        self, settler_id: bytes, disposition: Disposition, tokens: bytes, now_mono_ms: int
    ) -> None:
        """Note what is settled, STRICTLY AFTER its commit."""
        if disposition not in _REMEMBERED or not tokens:
            return
        frames = self._frames.setdefault(settler_id, deque())
        self._frames.move_to_end(settler_id)
        frames.append((now_mono_ms, disposition, tokens))
        self._count(settler_id, len(tokens) + ENTRY_BYTES)
        while frames[0][0] < now_mono_ms - AGE_MS_MAX or (
            len(frames) > 1
            and (
                len(frames) > FRAMES_PER_SETTLER_MAX
                or self._sizes[settler_id] > BYTES_PER_SETTLER_MAX
            )
        ):
            self._forget_first(settler_id, frames)
        oldest = next(iter(self._frames))
        while self._bytes > BYTES_MAX or (
            self._frames[oldest][-1][0] < now_mono_ms - AGE_MS_MAX and oldest != settler_id
        ):
            self._forget_first(oldest, self._frames[oldest])
            oldest = next(iter(self._frames))

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

    def size_bytes(self) -> int:
        """Return what the memory takes."""
        return self._bytes

    def _count(self, settler_id: bytes, size_bytes: int) -> None:
        self._sizes[settler_id] = self._sizes.get(settler_id, 0) + size_bytes
        self._bytes += size_bytes

    def _forget_first(self, settler_id: bytes, frames: deque[_Entry]) -> None:
        _, _, tokens = frames.popleft()
        self._count(settler_id, -len(tokens) - ENTRY_BYTES)
        if not frames:
            del self._frames[settler_id], self._sizes[settler_id]


def _holds(tokens: bytes, token: bytes) -> bool:
    at = tokens.find(token)
    while at > 0 and at % lock_token.TOKEN_BYTES:
        at = tokens.find(token, at + 1)
    return at >= 0
