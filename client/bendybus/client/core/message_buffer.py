"""Messages that were delivered to nobody yet, in their order. A core without I/O."""

import itertools
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from bendybus.client.messages.received_message import Delivered
from bendybus.domain import lock_token

# Messages [start, stop) of a delivery.
Piece = tuple[Delivered, int, int]

_TOKEN_BYTES: Final = lock_token.TOKEN_BYTES


class MessageBuffer:
    """A queue of pieces that knows how many messages they are."""

    def __init__(self) -> None:
        self._pieces: deque[Piece] = deque()
        self.messages = 0

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, pieces: Iterable[Piece]) -> None:
        """Add messages at the end."""
        for piece in pieces:
            self._pieces.append(piece)
            self.messages += piece[2] - piece[1]

    def put_back(self, pieces: Sequence[Piece]) -> None:
        """Add messages at the beginning, in their order."""
        for piece in reversed(pieces):
            self._pieces.appendleft(piece)
            self.messages += piece[2] - piece[1]

    def take(self, max_messages: int) -> list[Piece]:
        """Remove and return the first messages."""
        taken: list[Piece] = []
        while self._pieces and max_messages:
            delivered, start, stop = self._pieces.popleft()
            end = min(stop, start + max_messages)
            taken.append((delivered, start, end))
            max_messages -= end - start
            self.messages -= end - start
            if end < stop:
                self._pieces.appendleft((delivered, end, stop))
        return taken

    def take_stale(self, until_s: float) -> list[Piece]:
        """Remove and return the messages whose lock ends before `until_s`."""
        stale = [piece for piece in self._pieces if piece[0].lock_end_s < until_s]
        if stale:
            self._pieces = deque(p for p in self._pieces if p[0].lock_end_s >= until_s)
            self.messages = sum(stop - start for _, start, stop in self._pieces)
        return stale

    def take_all(self) -> list[Piece]:
        """Remove and return everything."""
        pieces, self._pieces, self.messages = list(self._pieces), deque(), 0
        return pieces


def tokens(pieces: Iterable[Piece]) -> bytes:
    """Return the lock tokens of messages, one after the other."""
    return b"".join(
        itertools.chain(
            delivered.lock_tokens[start * _TOKEN_BYTES : stop * _TOKEN_BYTES]
            for delivered, start, stop in pieces
        )
    )
