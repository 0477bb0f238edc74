"""A connection, on the side that accepts it: bytes in, events out; commands in, bytes out.

    connection = Connection(ConnectionSettings(container_id="…", mechanisms=("ANONYMOUS",)))
    for event in connection.receive(data):
        …                                   # commands on the connection, sessions and links
    transport.write(connection.output())

    header ──► SASL ──► header ──► open ──► … ──► closed
    header ─────────────────────► open ──► …             as ANONYMOUS, where that is offered

A violation by the peer closes the connection with an error; no input raises an exception. The
engine itself answers whatever has only one possible answer: headers, open, begin, end, detach,
close, echoes of flow. The caller decides on the links that the peer attaches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from bendybus.amqp import events, frames
from bendybus.amqp.errors import ProtocolError
from bendybus.amqp.frames import Frame, FrameReader
from bendybus.amqp.links import IncomingLink, Link, OutgoingLink
from bendybus.amqp.performatives import (
    Begin,
    Close,
    End,
    Error,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
)
from bendybus.amqp.session import INCOMING_WINDOW, OUTGOING_WINDOW, Session, error_of, fitting

# Bytes of a frame before the connection is open. The specification has 512, but some peers send
# larger opens.
OPENING_FRAME_SIZE: Final = 4 * 1024
ANONYMOUS: Final = "ANONYMOUS"
SASL_OK: Final = 0
# Events that callers collect and process together. Of several flows of a link, the last one counts:
# a drain that is taken back in the same bytes is none.
_CHEAP: Final = (events.Delivered, events.Disposed, events.CreditChanged, events.WindowOpened)
SASL_AUTH: Final = 1


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Offers and bounds of a connection."""

    container_id: str
    # The offered SASL mechanisms, in this order.
    mechanisms: tuple[str, ...] = (ANONYMOUS,)
    # The largest frame that the peer may send, in bytes.
    max_frame_size: int = 64 * 1024
    # The largest frame that is accepted all the same. SDKs divide transfers among frames, but not
    # dispositions: one with a whole stack trace in it would be refused each time it is repeated.
    frame_bytes_taken: int = 256 * 1024
    # Concurrent sessions, links of all of them, and the highest handle in one session. As Service
    # Bus has them: its SDKs begin a session for each link.
    sessions_max: int = 5_000
    links_max: int = 5_000
    handle_max: int = 255
    # The highest handle that is accepted all the same. The SDK for Java attaches all session
    # receivers of a queue in one session, whatever its peer allows.
    handle_taken: int = 4_999
    # The peer must send a frame at least once in this time; None: it need not.
    idle_time_out_ms: int | None = None
    # The properties in our open.
    properties: tuple[tuple[str, Any], ...] = ()


class _State(Enum):
    HEADER = "a protocol header is expected"
    SASL = "a SASL frame is expected"
    OPENING = "an open is expected"
    OPEN = "open"
    # Closed from here; the peer has not answered.
    CLOSING = "closing"
    CLOSED = "closed"


def _always(size_bytes: int) -> bool:
    return True


def _never() -> bool:
    return False


def _ignored(size_bytes: int) -> None:
    pass


class Connection:
    """See the module.

    `reserve` is asked for room for the bytes of incomplete deliveries, and `release` is called when
    they are free again.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        *,
        reserve: Callable[[int], bool] = _always,
        release: Callable[[int], None] = _ignored,
    ) -> None:
        self.settings = settings
        self.reserve = reserve
        self.release = release
        # The peer's open.
        self.peer: Open | None = None
        # Attached links of all sessions, and bytes of transfers that wait for their windows.
        self.links = self.waiting_bytes = 0
        # The caller may lower these for a peer that is not authorized yet.
        self.sessions_max, self.links_max = settings.sessions_max, settings.links_max
        self._frame_bytes_taken = settings.frame_bytes_taken
        # Frames that the peer may still send; None: no limit.
        self.frames_left: int | None = None
        # The largest frame that the peer accepts, in bytes.
        self.frame_bytes_max = frames.MAX_FRAME_SIZE_MIN
        self._state = _State.HEADER
        # The peer has chosen a mechanism; it is authenticated.
        self._asked = self._authenticated = False
        self._reader = FrameReader(min(OPENING_FRAME_SIZE, settings.max_frame_size))
        self._out = bytearray()
        # Reserved for a frame that is not complete.
        self._large_bytes = 0
        self._events: list[events.Event] = []
        # `receive` stopped before all that had come was processed.
        self.has_input = False
        # By the peer's channel.
        self._sessions: dict[int, Session] = {}
        # Our channels that are free again.
        self._freed: list[int] = []
        self._to_flush: dict[Session, None] = {}
        # Sessions with transfers that waited for the peer's window, which is open now.
        self._opened: dict[Session, None] = {}
        # Links and sessions with a change of credit, or an open window, in `_events` already.
        self._reported: set[IncomingLink | OutgoingLink | Session] = set()

    @property
    def body_bytes_max(self) -> int:
        """The largest frame body that the peer accepts."""
        return self.frame_bytes_max - frames.HEADER_BYTES

    @property
    def is_open(self) -> bool:
        """Whether sessions may begin, and links be attached."""
        return self._state is _State.OPEN

    @property
    def is_closed(self) -> bool:
        """Whether no more input is read; there may be a last `output`."""
        return self._state is _State.CLOSED

    def take_frames(self, size_bytes: int) -> None:
        """Accept frames of this size, even if our open announced less; see the setting."""
        self._frame_bytes_taken = size_bytes
        if self._state is _State.OPEN:
            self._reader.size_max = max(self.settings.max_frame_size, size_bytes)

    @property
    def output_bytes(self) -> int:
        """How many bytes wait to be taken by `output`."""
        return len(self._out)

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The sessions that are not ended."""
        return tuple(self._sessions.values())

    @property
    def session_count(self) -> int:
        """How many sessions are not ended."""
        return len(self._sessions)

    # In and out

    def receive(self, data: bytes, is_over: Callable[[], bool] = _never) -> list[events.Event]:
        """Take bytes of the peer; return the events.

        With `is_over`, it stops after the frame at which that is true, and after each frame that
        changes a link: its event may cost the caller more than the frame. It also stops between
        two transfers that waited for a window which the peer has opened. While `has_input` is
        true, call it again with b"".
        """
        self.has_input = False
        if self._state is _State.CLOSED:
            return []
        self._reader.feed(data)
        try:
            while (self._opened and self._write_waiting()) or self._step():
                if is_over is not _never and (
                    is_over() or (self._events and type(self._events[-1]) not in _CHEAP)
                ):
                    self.has_input = True
                    break
        except ProtocolError as error:
            self._fail(error)
        found, self._events = self._events, []
        self._reported.clear()
        return found

    def output(self) -> bytes:
        """Return the bytes to write to the peer; each call returns only new ones."""
        for session in self._to_flush:
            session.flush()
        self._to_flush.clear()
        found = bytes(self._out)
        self._out.clear()
        return found

    # Commands

    def authenticate(self, accepted: bool) -> None:
        """Answer `Authenticating`. What the peer sent meanwhile is read by `receive(b"")`."""
        outcome = SaslOutcome(code=SASL_OK if accepted else SASL_AUTH)
        frames.write(frames.SASL, 0, outcome.encoded(), self._out)
        if accepted:
            self._authenticated = True
            self._state = _State.HEADER
        else:
            self._over()

    def close(self, error: Error | None = None) -> None:
        """Close it, with all sessions and links."""
        if self._state in (_State.CLOSED, _State.CLOSING):
            return
        if self._state is _State.OPEN:
            for session in self._sessions.values():
                session.flush()
            self.write_body(0, fitting(Close(error), self.body_bytes_max).encoded())
            self._state = _State.CLOSING
            self._let_go()
        else:
            self._over()

    def lost(self) -> None:
        """Take note that the transport is gone: nothing is read or written any more."""
        self._over()

    def heartbeat(self) -> None:
        """Write an empty frame, which keeps the connection alive."""
        if self._state in (_State.OPEN, _State.CLOSING):
            self._out += frames.EMPTY

    # For sessions

    def write_body(self, channel: int, body: bytes, payload: bytes = b"") -> None:
        """Write a frame."""
        if self._state is _State.OPEN:
            frames.write(frames.AMQP, channel, body, self._out, payload)

    def flush_later(self, session: Session) -> None:
        """Flush a session before the next output."""
        self._to_flush[session] = None

    def write_waiting_of(self, session: Session) -> None:
        """Write what waited for the window of a session, before the next frame is taken."""
        self._opened[session] = None

    def emit(self, event: events.Event) -> None:
        """Report an event."""
        self._events.append(event)

    def credit_changed(self, link: IncomingLink | OutgoingLink) -> None:
        """Report that the credit of a link changed; once per `receive`."""
        if link not in self._reported:
            self._reported.add(link)
            self._events.append(events.CreditChanged(link))

    def window_opened(self, session: Session) -> None:
        """Report that the window of a session is open again; once per `receive`."""
        if session not in self._reported:
            self._reported.add(session)
            self._events.append(events.WindowOpened(session))

    # Inside

    def _write_waiting(self) -> bool:
        """Write a transfer that waited for its window; False: no window has room for any."""
        while self._opened:
            session = next(iter(self._opened))
            if session.write_waiting():
                return True
            del self._opened[session]
        return False

    def _step(self) -> bool:
        """Take the next header or frame; False: it is not complete, or waits for an answer."""
        if self._state is _State.HEADER:
            header = self._reader.header()
            if header is None:
                return False
            self._take_header(header)
            return True
        if self._state is _State.CLOSED:
            return False
        if self._state is _State.SASL and self._asked:
            return False
        frame = self._reader.frame()
        if frame is None:
            if self._reader.coming > self.settings.max_frame_size:
                self._reserve_large(self._reader.coming)
            return False
        if self._large_bytes:
            self._release_large()
        if self._state is _State.SASL:
            self._take_sasl(frame)
        else:
            self._take_frame(frame)
        return True

    def _reserve_large(self, size_bytes: int) -> None:
        """Reserve what an incomplete frame takes that is larger than it may be."""
        if self._large_bytes:
            return
        if not self.reserve(size_bytes):
            raise ProtocolError(
                "amqp:resource-limit-exceeded",
                f"there is no room for a frame of {size_bytes} bytes",
            )
        self._large_bytes = size_bytes

    def _release_large(self) -> None:
        size_bytes, self._large_bytes = self._large_bytes, 0
        self.release(size_bytes)

    def _take_header(self, header: bytes) -> None:
        if header == frames.SASL_HEADER and not self._authenticated and not self._asked:
            self._out += frames.SASL_HEADER
            offered = SaslMechanisms(self.settings.mechanisms)
            frames.write(frames.SASL, 0, offered.encoded(), self._out)
            self._state = _State.SASL
        elif header == frames.AMQP_HEADER and (self._authenticated or self._may_skip_sasl()):
            self._out += frames.AMQP_HEADER
            self._state = _State.OPENING
        else:
            # Answer with the expected header, and close: part 2.2.
            wanted = frames.AMQP_HEADER if self._authenticated else frames.SASL_HEADER
            self._out += wanted
            self._over()
            self.emit(
                events.Closed(Error(frames.FRAMING_ERROR, f"{header!r} is not {wanted!r}"), False)
            )

    def _may_skip_sasl(self) -> bool:
        """Whether a peer may open without SASL: it has the rights of one that stays anonymous."""
        return not self._asked and ANONYMOUS in self.settings.mechanisms

    def _take_sasl(self, frame: Frame) -> None:
        if frame.kind != frames.SASL:
            raise ProtocolError(frames.FRAMING_ERROR, "a SASL frame is expected")
        init, _ = frames.performative(frame.body)
        if not isinstance(init, SaslInit):
            raise ProtocolError("amqp:not-allowed", "sasl-init is expected")
        if init.mechanism not in self.settings.mechanisms:
            self.authenticate(False)
            self.emit(
                events.Closed(
                    Error("amqp:unauthorized-access", f"{init.mechanism!r:.40} is not offered"),
                    False,
                )
            )
            return
        self._asked = True
        self.emit(events.Authenticating(init.mechanism, init.initial_response or b""))

    def _take_frame(self, frame: Frame) -> None:
        if frame.kind != frames.AMQP:
            raise ProtocolError(frames.FRAMING_ERROR, "an AMQP frame is expected")
        if self.frames_left is not None:
            self.frames_left -= 1
            if self.frames_left < 0:
                raise ProtocolError(
                    "amqp:resource-limit-exceeded", "too many frames before there are rights"
                )
        if not frame.body:
            return
        performative, payload = frames.performative(frame.body)
        if self._state is _State.CLOSING:
            if isinstance(performative, Close):
                self._over()
            return
        if isinstance(performative, Open):
            self._take_open(performative)
        elif self._state is not _State.OPEN:
            raise ProtocolError("amqp:not-allowed", "the first frame must be open")
        elif isinstance(performative, Begin):
            self._take_begin(frame.channel, performative)
        elif isinstance(performative, End):
            self._take_end(frame.channel, performative)
        elif isinstance(performative, Close):
            self._take_close(performative)
        else:
            session = self._sessions.get(frame.channel)
            if session is None:
                raise ProtocolError(
                    "amqp:not-found", f"no session has begun on channel {frame.channel}"
                )
            if not session.ending:
                session.take(performative, payload)

    def _take_open(self, asked: Open) -> None:
        if self._state is not _State.OPENING:
            raise ProtocolError("amqp:not-allowed", "the connection is open already")
        if asked.max_frame_size < frames.MAX_FRAME_SIZE_MIN:
            raise ProtocolError(
                "amqp:invalid-field",
                f"max-frame-size must be at least {frames.MAX_FRAME_SIZE_MIN}",
            )
        # The rest is not kept.
        self.peer = Open(asked.container_id, asked.hostname, asked.max_frame_size)
        self.frame_bytes_max = min(asked.max_frame_size, self.settings.max_frame_size)
        self._state = _State.OPEN
        self.take_frames(self._frame_bytes_taken)
        answer = Open(
            container_id=self.settings.container_id,
            max_frame_size=self.settings.max_frame_size,
            channel_max=self.settings.sessions_max - 1,
            idle_time_out=self.settings.idle_time_out_ms,
            properties=dict(self.settings.properties) or None,
        )
        self.write_body(0, answer.encoded())
        self.emit(events.Opened(asked))

    def _take_begin(self, channel: int, asked: Begin) -> None:
        if channel in self._sessions:
            raise ProtocolError("amqp:not-allowed", f"channel {channel} has a session already")
        if len(self._sessions) >= self.sessions_max:
            raise ProtocolError(
                "amqp:resource-limit-exceeded",
                f"at most {self.sessions_max} sessions may be begun",
            )
        ours = self._freed.pop() if self._freed else len(self._sessions)
        session = Session(self, ours, asked)
        self._sessions[channel] = session
        answer = Begin(
            remote_channel=channel,
            next_outgoing_id=0,
            incoming_window=INCOMING_WINDOW,
            outgoing_window=OUTGOING_WINDOW,
            handle_max=self.settings.handle_max,
        )
        self.write_body(ours, answer.encoded())
        self.emit(events.Begun(session))

    def _take_end(self, channel: int, asked: End) -> None:
        session = self._sessions.pop(channel, None)
        if session is None:
            # Both sides ended the session at the same time.
            return
        self._freed.append(session.channel)
        self._to_flush.pop(session, None)
        if session.ending:
            return
        session.flush()
        links = session.links
        session.ended()
        self.write_body(session.channel, End().encoded())
        session.ending = True
        self.emit(events.Ended(session, error_of(asked.error), links))

    def _take_close(self, asked: Close) -> None:
        for session in self._sessions.values():
            session.flush()
        self.write_body(0, Close().encoded())
        links = self._links()
        self._over()
        self.emit(events.Closed(error_of(asked.error), True, links))

    def _fail(self, error: ProtocolError) -> None:
        """Close the connection after a violation by the peer."""
        told = Error(error.condition, error.description)
        links = self._links()
        if self._state is _State.OPEN:
            self.close(told)
        self._over()
        self.emit(events.Closed(told, False, links))

    def _links(self) -> list[Link]:
        return [link for session in self._sessions.values() for link in session.links]

    def _over(self) -> None:
        self._state = _State.CLOSED
        self._let_go()

    def _let_go(self) -> None:
        self._to_flush.clear()
        self._opened.clear()
        for session in self._sessions.values():
            session.ended()
        self._sessions.clear()
        if self._large_bytes:
            self._release_large()
