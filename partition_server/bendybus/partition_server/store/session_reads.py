"""The seam between the rules of sessions and the partition's file; a part of `store.Store`.

Only slots whose `SlotState.by_session` is set have anything to read here.
"""

from typing import NamedTuple, Protocol

from bendybus.partition_server.store.records import Row


class MessageRun(NamedTuple):
    """Messages of one session in one state."""

    session_id: str
    state: int
    messages: int
    # The counter of the last of them that was counted.
    last: int


class CountPlace(NamedTuple):
    """A place among messages by session: (session, state, counter), and what is counted so far.

    The counts are of this session's messages up to here: those in all three states, in their order.
    """

    session_id: str
    state: int
    counter: int
    active: int = 0
    deferred: int = 0
    scheduled: int = 0


class SessionReads(Protocol):
    """What is read of sessions. Reads see what is committed."""

    def rows(
        self, slot: int, session_id: str, after: int, limit: int, size_limit: int, expired_ms: int
    ) -> list[Row]:
        """Return ACTIVE rows of a session with a counter above `after`, in order.

        Leaves out what expires at or before `expired_ms`. Stops at `limit` rows, or as soon as
        what is delivered of them makes up `size_limit` bytes.
        """

    def head(self, slot: int, session_id: str, expired_ms: int) -> int | None:
        """Return the counter of the first row that `rows` would return; None if there is none."""

    def discover(
        self, slot: int, after: int, through: int, limit: int, expired_ms: int
    ) -> list[tuple[int, str]]:
        """Return (counter, session) of ACTIVE rows above `after`, up to `through`, in order."""

    def browse(
        self, slot: int, session_id: str, start: int, limit: int, size_limit: int
    ) -> list[Row]:
        """Return rows of a session in every state from counter `start` up; stops like `rows`."""

    def listed(self, slot: int, after: str | None, limit: int) -> tuple[list[str], str | None]:
        """Return sessions with ACTIVE messages or a state, by name, after a name (None: all).

        Looks at `limit` sessions at most; also returns where to go on, None at the end.
        """

    def updated(
        self, slot: int, after: str | None, limit: int, since_ms: int
    ) -> tuple[list[str], str | None]:
        """Return sessions whose state was set after `since_ms`; looks and goes on as `listed`."""

    def with_state(self, slot: int, limit: int) -> list[str]:
        """Return sessions that have a state."""

    def state(self, slot: int, session_id: str) -> bytes | None:
        """Return what is kept for a session."""

    def count(
        self, slot: int, after: tuple[str, int, int], rows: int, limit: int
    ) -> list[MessageRun]:
        """Count messages by session and state, in the order of (session, state, counter).

        Begins after such a place. Looks at `rows` messages, and returns `limit` runs, at most: the
        last one may be cut short.
        """

    def state_sizes(self, slot: int, start: str, limit: int) -> list[tuple[str, int]]:
        """Return sessions that have a state, by name, from `start` on; and its bytes."""
