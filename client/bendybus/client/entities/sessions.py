"""Runtime properties of sessions: counts, the size of the state, the lock."""

from datetime import UTC, datetime
from typing import Final

from bendybus.v1 import receiver_pb2

_PAGE_SIZE: Final = 1_000


class SessionRuntimeProperties:
    """What a session held when it was counted."""

    def __init__(self) -> None:
        self._counts = receiver_pb2.SessionCounts()

    @property
    def session_id(self) -> str:
        """The name of the session."""
        return self._counts.session_id

    @property
    def active_message_count(self) -> int:
        """Number of messages that can be received, including locked ones."""
        return self._counts.active_message_count

    @property
    def deferred_message_count(self) -> int:
        """Number of deferred messages."""
        return self._counts.deferred_message_count

    @property
    def scheduled_message_count(self) -> int:
        """Number of messages that are scheduled."""
        return self._counts.scheduled_message_count

    @property
    def locked_message_count(self) -> int:
        """Number of messages that the receiver of the session has locked."""
        return self._counts.locked_message_count

    @property
    def total_message_count(self) -> int:
        """Number of messages in any state."""
        counts = self._counts
        return (
            counts.active_message_count
            + counts.deferred_message_count
            + counts.scheduled_message_count
        )

    @property
    def state_size_in_bytes(self) -> int | None:
        """Bytes that are kept as the state of the session; None: it has none."""
        has_state = self._counts.HasField("state_size_in_bytes")
        return self._counts.state_size_in_bytes if has_state else None

    @property
    def locked_until_utc(self) -> datetime | None:
        """When the lock of the session's receiver ends; None: it has no receiver."""
        if not self._counts.HasField("locked_until_ms"):
            return None
        return datetime.fromtimestamp(self._counts.locked_until_ms / 1_000, UTC)

    def __repr__(self) -> str:
        return f"<SessionRuntimeProperties session_id={self.session_id!r}>"


def list_request(path: str, token: str) -> receiver_pb2.ListSessionCountsRequest:
    """Return the request for a page of sessions."""
    return receiver_pb2.ListSessionCountsRequest(
        entity_path=path, page_size=_PAGE_SIZE, page_token=bytes.fromhex(token)
    )


def page(
    response: receiver_pb2.ListSessionCountsResponse,
) -> tuple[list[SessionRuntimeProperties], str]:
    """Return the sessions of a page, and the token of the next one or ""."""
    found = []
    for counts in response.sessions:
        made = SessionRuntimeProperties()
        made._counts = counts
        found.append(made)
    return found, response.next_page_token.hex()
