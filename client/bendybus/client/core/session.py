"""What the sessions of both surfaces share: arguments, requests, and what is known of the lock."""

from datetime import UTC, datetime
from typing import Any, Final

from bendybus.client import arguments
from bendybus.client.core.session_link import SessionLink
from bendybus.client.exceptions import AutoLockRenewFailed, AutoLockRenewTimeout
from bendybus.client.messages import values
from bendybus.v1 import receiver_pb2

_PAGE_SIZE: Final = 1_000


class BaseSession:
    """The base of the sessions of both surfaces, which differ in how they wait."""

    def __init__(self, session_id: str | None, receiver: Any) -> None:
        self._wanted = session_id
        self._receiver = receiver
        # Set by an AutoLockRenewer whose renewals failed.
        self.auto_renew_error: AutoLockRenewFailed | AutoLockRenewTimeout | None = None

    @property
    def _link(self) -> SessionLink | None:
        stream = self._receiver._current
        return None if stream is None else stream.session

    @property
    def session_id(self) -> str:
        """The name of the session; None until the next available one is accepted."""
        link = self._link
        # The type is that of azure-servicebus.
        return self._wanted if link is None else link.session_id  # type: ignore[return-value]

    @property
    def locked_until_utc(self) -> datetime | None:
        """When the lock ends; None until the session is accepted."""
        link = self._link
        if link is None or not link.locked_until_ms:
            return None
        return _moment(link.locked_until_ms)

    def _token(self) -> bytes:
        link = self._link
        return b"" if link is None else link.token

    def _state_request(self, state: Any) -> receiver_pb2.SetSessionStateRequest:
        if isinstance(state, str):
            state = state.encode()
        if state is not None and not isinstance(state, bytes | bytearray):
            raise TypeError(f"state: must be str, bytes or None (got {type(state).__name__})")
        return receiver_pb2.SetSessionStateRequest(
            entity_path=self._receiver.entity_path,
            session_token=self._token(),
            state=None if state is None else bytes(state),
        )

    def _read_request(self) -> receiver_pb2.GetSessionStateRequest:
        return receiver_pb2.GetSessionStateRequest(
            entity_path=self._receiver.entity_path, session_token=self._token()
        )

    def _renew_request(self) -> receiver_pb2.RenewSessionLockRequest:
        return receiver_pb2.RenewSessionLockRequest(
            entity_path=self._receiver.entity_path, session_token=self._token()
        )

    def _renewed(self, answer: receiver_pb2.RenewSessionLockResponse, asked_s: float) -> datetime:
        link = self._link
        assert link is not None
        # Counted from the request: the response may have been delayed.
        link.renewed(answer.locked_until_ms, answer.lock_remaining_ms, asked_s)
        return _moment(answer.locked_until_ms)


def timeout_of(timeout: float | None, options: dict[str, Any]) -> float:
    """Return the seconds that a call about a session may take."""
    arguments.warn_of_unknown(options)
    return arguments.timeout(timeout)


def updated_after_ms(moment: datetime | None) -> int:
    """Return when states must have been set to be listed; 0: no matter."""
    if moment is None:
        return 0
    return max(1, values.to_milliseconds(arguments.moment("state_updated_after", moment)))


def list_request(path: str, token: str, after_ms: int) -> receiver_pb2.ListSessionsRequest:
    """Return the request for a page of sessions."""
    return receiver_pb2.ListSessionsRequest(
        entity_path=path,
        page_token=bytes.fromhex(token),
        page_size=_PAGE_SIZE,
        state_updated_after_ms=after_ms,
    )


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1_000, UTC)
