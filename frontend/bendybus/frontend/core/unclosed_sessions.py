"""Sessions that are to be freed, and whose partition could not be told. Pure."""

from collections import OrderedDict
from typing import Final

# Of one partition. The locks of more end by themselves.
SESSIONS_MAX: Final = 10_000


class UnclosedSessions:
    """Tokens of locks that no receiver has, by partition; the oldest are dropped at the limit."""

    def __init__(self) -> None:
        self._tokens: dict[int, OrderedDict[bytes, None]] = {}

    def note(self, partition: int, token: bytes) -> None:
        """Note a session that is to be freed when its partition is back."""
        tokens = self._tokens.setdefault(partition, OrderedDict())
        tokens[token] = None
        if len(tokens) > SESSIONS_MAX:
            tokens.popitem(last=False)

    def keep(self, partition: int, token: bytes) -> None:
        """Forget a session: a receiver has it again."""
        self._tokens.get(partition, OrderedDict()).pop(token, None)

    def take(self, partition: int) -> list[bytes]:
        """Return, and forget, the sessions to free in a partition."""
        return list(self._tokens.pop(partition, ()))
