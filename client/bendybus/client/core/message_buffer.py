"""Messages that no receive has taken yet, in their order. A core without I/O."""

import itertools
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from bendybus.client.messages.received_message import Delivered
from bendybus.domain import lock_token

# Messages [start, stop) of a delivery.
BatchSlice = tuple[Delivered, int, int]

_TOKEN_BYTES: Final = lock_token.TOKEN_BYTES


class MessageBuffer:
    """A queue of slices that knows how many messages they are."""

    def __init__(self) -> None:
        self._slices: deque[BatchSlice] = deque()
        self.messages = 0

    def __bool__(self) -> bool:
        return bool(self._slices)

    def add(self, slices: Iterable[BatchSlice]) -> None:
        """Add messages at the end."""
        for part in slices:
            self._slices.append(part)
            self.messages += part[2] - part[1]

    def put_back(self, slices: Sequence[BatchSlice]) -> None:
        """Add messages at the beginning, in their order."""
        for part in reversed(slices):
            self._slices.appendleft(part)
            self.messages += part[2] - part[1]

    def take(self, max_messages: int) -> list[BatchSlice]:
        """Remove and return the first messages."""
        taken: list[BatchSlice] = []
        while self._slices and max_messages:
            delivered, start, stop = self._slices.popleft()
            end = min(stop, start + max_messages)
            taken.append((delivered, start, end))
            max_messages -= end - start
            self.messages -= end - start
            if end < stop:
                self._slices.appendleft((delivered, end, stop))
        return taken

    def take_stale(self, until_s: float) -> list[BatchSlice]:
        """Remove and return the messages whose lock ends before `until_s`."""
        stale = [part for part in self._slices if part[0].lock_end_s < until_s]
        if stale:
            self._slices = deque(p for p in self._slices if p[0].lock_end_s >= until_s)
            self.messages = sum(stop - start for _, start, stop in self._slices)
        return stale

    def take_all(self) -> list[BatchSlice]:
        """Remove and return everything."""
        slices, self._slices, self.messages = list(self._slices), deque(), 0
        return slices


def tokens(slices: Iterable[BatchSlice]) -> bytes:
    """Return the lock tokens of messages, one after the other."""
    return b"".join(
        itertools.chain(
            delivered.lock_tokens[start * _TOKEN_BYTES : stop * _TOKEN_BYTES]
            for delivered, start, stop in slices
        )
    )
