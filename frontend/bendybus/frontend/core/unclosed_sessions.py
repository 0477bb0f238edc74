"""Sessions that are to be freed, and whose partition could not be told. Pure."""

from collections import OrderedDict
from typing import Final

# Of one partition. The locks of more end by themselves.
SESSIONS_MAX: Final = 10_000


class UnclosedSessions:
    """Locks that no receiver has, by partition; the oldest are dropped at the limit."""

    def __init__(self) -> None:
        # The UIDs of their entities, by token.
        self._sessions: dict[int, OrderedDict[bytes, str]] = {}

    def note(self, partition: int, token: bytes, entity_uid: str) -> None:
        """Note a session that is to be freed when its partition is back."""
        sessions = self._sessions.setdefault(partition, OrderedDict())
        sessions[token] = entity_uid
        if len(sessions) > SESSIONS_MAX:
            sessions.popitem(last=False)

    def keep(self, partition: int, token: bytes, entity_uid: str) -> None:
        """Forget a session of an entity: a receiver has it again."""
        sessions = self._sessions.get(partition, OrderedDict())
        if sessions.get(token) == entity_uid:
            del sessions[token]

    def take(self, partition: int) -> list[tuple[bytes, str]]:
        """Return, and forget, the sessions to free in a partition, and their entities."""
        return list(self._sessions.pop(partition, OrderedDict()).items())
