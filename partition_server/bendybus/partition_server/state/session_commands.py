"""Commands about sessions: their locks, what is kept for them, lists of them."""

from dataclasses import dataclass

from bendybus.partition_server.state.entity_ref import Caller, EntityRef, OfStream
from bendybus.partition_server.store.store import CountPlace


@dataclass(slots=True)
class AcceptSession(OfStream):
    """Offer a session, which is to be confirmed or closed; an ask like `Ask`.

    Answered once: SessionOffered, AskRefused or Withdrawn."""

    stream: Caller
    ask_id: int
    entity: EntityRef
    # None: the free session with the oldest message, as soon as there is one.
    session_id: str | None
    receiver_id: bytes = b""


@dataclass(slots=True)
class SessionRequest(OfStream):
    """What a receiver wants of its session's lock; answered by SessionResult."""

    stream: Caller
    request_id: int
    session_token: bytes
    # The entity that the caller was checked for; empty: it is not compared.
    entity_uid: str = ""


@dataclass(slots=True)
class ConfirmSession(SessionRequest):
    """Lock the session that was offered on this stream."""

    receiver_id: bytes = b""
    # A ToldSession follows.
    tells: bool = False


@dataclass(slots=True)
class ToldSession(OfStream):
    """Take note that the receiver of a session knows that it is locked. Not answered."""

    stream: Caller
    session_token: bytes
    entity_uid: str = ""


@dataclass(slots=True)
class CloseSession(SessionRequest):
    """Give up a session's lock, or decline its offer: its messages are free, uncounted."""


@dataclass(slots=True)
class RenewSession(SessionRequest):
    """Let a session's lock last for a whole lock duration from now."""


@dataclass(slots=True)
class AttachSession(SessionRequest):
    """Serve a locked session on this stream from now on; for the fields see the contract."""

    release_others: bool = False
    held_tokens: bytes = b""
    attachment: int = 0


@dataclass(slots=True)
class SetSessionState:
    """Keep something for a locked session, or nothing any more (None); answered by Done."""

    reply_to: Caller
    session_token: bytes
    state: bytes | None
    entity_uid: str = ""


@dataclass(slots=True)
class GetSessionState:
    """Return what is kept for a locked session; answered by SessionStateRead."""

    reply_to: Caller
    session_token: bytes
    entity_uid: str = ""


@dataclass(slots=True)
class ListSessions:
    """List sessions, by name; answered by SessionsListed. See the contract."""

    reply_to: Caller
    entity: EntityRef
    max_sessions: int
    after: str | None = None
    state_updated_after_ms: int = 0


@dataclass(slots=True)
class CountSessions:
    """Count what sessions hold, by name; answered by SessionsCounted. See the contract."""

    reply_to: Caller
    entity: EntityRef
    max_sessions: int
    after: CountPlace | None = None
