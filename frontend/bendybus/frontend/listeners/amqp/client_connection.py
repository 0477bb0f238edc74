"""One AMQP connection of a client: the engine, its transport, and the contexts of its links.

    bytes ──► engine ──► events ──► links (sending, receiving, requests) ──► the core
    the core ──► links ──► engine ──► bytes

Input is batched: after the last event of a read, sending links pass on what they collected, and
all output is written at once. `attach` decides what a link becomes, `turns` when input is read.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from bendybus.amqp import events
from bendybus.amqp.connection import Connection, ConnectionSettings
from bendybus.amqp.links import Link, LinkState, OutgoingDelivery, OutgoingLink
from bendybus.amqp.performatives import Error
from bendybus.domain.errors import BusError
from bendybus.domain.steps import Steps
from bendybus.frontend.core.quota.bounds import (
    CROWDED_BYTES,
    LINK_BYTES,
    LINKS_MIN,
    SENDS_MAX,
    STRANGER_FRAMES,
    STRANGER_LINKS,
    STRANGER_REFUSALS,
    STRANGER_SESSIONS,
    UNREAD_S,
    UNWRITTEN_MAX,
    UNWRITTEN_MIN,
)
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.quota.turns import Reading
from bendybus.frontend.listeners.amqp import attach, conditions
from bendybus.frontend.listeners.amqp.claims import Claims
from bendybus.frontend.listeners.amqp.coordinator import CoordinatorLink
from bendybus.frontend.listeners.amqp.hand_over import DETACHED
from bendybus.frontend.listeners.amqp.held_sessions import HeldSessions
from bendybus.frontend.listeners.amqp.idle_limits import IdleLimits, IdleWatch
from bendybus.frontend.listeners.amqp.receiving import ReceivingLink
from bendybus.frontend.listeners.amqp.replies import Replies, ReplyLink
from bendybus.frontend.listeners.amqp.sending import SendingLink
from bendybus.frontend.listeners.amqp.session_lists import SessionLists
from bendybus.frontend.listeners.amqp.session_receiving import SessionReceivingLink
from bendybus.frontend.listeners.amqp.stage import Stage

if TYPE_CHECKING:
    from bendybus.frontend.listeners.amqp.listener import AmqpListener

logger = logging.getLogger(__name__)
# If a check for silence runs this late, the process was suspended and has input left to read.
LATE_S: Final = 2.0
PLAIN: Final = "PLAIN"


@dataclass(frozen=True, slots=True)
class Times:
    """Time limits of a client.

    Hundreds of clients that a loaded machine starts at once need tens of seconds. The number of
    strangers is bounded: the oldest one makes room for the next.
    """

    # Until a shared port knows what it speaks, and until the headers of an HTTP request are there.
    first_s: float = 10.0
    # Until its connection is open.
    open_s: float = 30.0
    # Without any valid token, where tokens are required.
    token_s: float = 60.0
    # To read the remaining output and answer the close.
    close_s: float = 5.0
    # For unused links and connections; None: no limit.
    idle: IdleLimits | None = None


class Wire(Protocol):
    """The transport of a connection: TCP, TLS or a WebSocket."""

    def write(self, data: bytes) -> None:
        """Write bytes."""

    def unwritten(self) -> int:
        """Return how many bytes are buffered."""

    def pause_reading(self) -> None:
        """Read nothing more until `resume_reading`."""

    def resume_reading(self) -> None:
        """Read again."""

    def known(self, policy: str) -> None:
        """Take note that the client has presented a valid token, of a policy."""

    def finish(self) -> None:
        """End the output when all is written; what still comes is passed on until its end."""

    def close(self) -> None:
        """Close it when all is written."""

    def abort(self) -> None:
        """Close it now."""


class ClientConnection:
    """See the module."""

    def __init__(self, listener: "AmqpListener", wire: Wire, settings: ConnectionSettings) -> None:
        self._listener = listener
        self._times = listener.times
        self._wire = wire
        self.front_end = listener.front_end
        self.repeated_settles = listener.repeated_settles
        self.metrics = listener.metrics
        self.authenticator = listener.authenticator
        self.quota = self.front_end.quota
        self.claims = Claims(listener.authenticator)
        # Whom what it holds of the front end is counted for. Its policy is that of the latest
        # token; "" where none is required.
        self.holder = Holder(listener.next_name(), "")
        self.new_id = listener.new_id
        # The product that the open of the client names, if any.
        self.product: Any = None
        # Requests in flight to the core.
        self.sends = self.settlements = 0
        # When the client last settled something (the loop's clock), and was last sent a message.
        self.settled_s = self.delivered_s = 0.0
        # Sending links with transfers to pass on at the end of this read.
        self.collected: dict[SendingLink, None] = {}
        self.replies = Replies(self)
        self.coordinators: set[CoordinatorLink] = set()
        self.held_sessions, self.session_lists = HeldSessions(), SessionLists()
        self._engine = Connection(settings, reserve=self.reserve, release=self.release)
        self._engine.sessions_max, self._engine.links_max = STRANGER_SESSIONS, STRANGER_LINKS
        self._engine.frames_left = STRANGER_FRAMES
        # A stranger has nothing to settle, so that larger frames are of no use to it.
        self._engine.take_frames(0)
        # For whom incomplete deliveries are counted.
        self._incomplete_holder = self.holder
        # Sessions and links that are counted, and for whom.
        self._links_counted = 0
        self._links_holder = self.holder
        # Requests to management nodes, and commits, under way; and requests that wait for room: as
        # long as there are any, nothing is read.
        self.requests = self.commits = self.requests_without_room = 0
        self._loop = asyncio.get_running_loop()
        self.reading = Reading(wire, listener.turns, self._take_bytes, self._taken, self._waits)
        self._timers: set[asyncio.TimerHandle] = set()
        self._called_later: set[Callable[[], None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._heartbeat: asyncio.TimerHandle | None = None
        # When the next token expires, or one did that was replaced.
        self._recheck: asyncio.TimerHandle | None = None
        self._recheck_s = math.inf
        # Set after each answer.
        self._answered = asyncio.Event()
        self._writing = self._closing = self._finished = False
        # The wire is lost.
        self.gone = False
        self.stage = Stage.SERVES
        # It reads nothing more.
        self.hushed = False
        # Since when too much output is unwritten; 0: it is not.
        self._stuck_s = 0.0
        self._refused = 0
        self._stack = contextlib.ExitStack()
        self.flow = self._stack.enter_context(self.front_end.deliveries.of(self))
        self._unwritten = self._stack.enter_context(self.flow.stream())
        self._unwritten_bytes = self._output_bytes = 0
        self.later(self._times.open_s, self._must_be_open)
        self._heard_s = self._loop.time()
        self._silence_s = (settings.idle_time_out_ms or 0) / 1_000
        self._watch_silence(self._heard_s)
        if self._times.idle is not None:
            self._watch_links(self._times.idle)

    # From the wire

    def received(self, data: bytes) -> None:
        """Take bytes of the client."""
        self._heard_s = self._loop.time()
        self.reading.received(data)

    def written(self) -> None:
        """Take note that buffered output was written."""
        self._account()
        self.reading.go_on()

    def _take_bytes(self, data: bytes) -> bool:
        """Process bytes until the turn is over; return whether the engine has some left."""
        while not self.gone:
            found = self._engine.receive(data, self.reading.is_over)
            # The engine stops at an Authenticating event until that is answered.
            more = self._engine.has_input
            for event in found:
                more |= self._take(event)
            if not more:
                return False
            if self.reading.is_over():
                return True
            data = b""
        # The connection was lost between two turns.
        return False

    def _taken(self) -> bool:
        """Pass on what links collected, write output; return whether the connection goes on."""
        collected, self.collected = self.collected, {}
        for sending in collected:
            sending.flush()
        self._write()
        return not (self.gone or self._engine.is_closed)

    def _waits(self, part: int) -> bool:
        """Whether sends in flight or unwritten output reach the bounds divided by `part`.

        Or whether requests wait for room, or nothing more is to be read.
        """
        most = UNWRITTEN_MAX
        if self.reading.stranger or self.front_end.deliveries.unread_bytes >= CROWDED_BYTES:
            most = UNWRITTEN_MIN
        stuck = self._wire.unwritten() >= most // part
        self._stuck_s = (self._stuck_s or self._loop.time()) if stuck else 0.0
        many = self.sends >= SENDS_MAX // part or self.requests_without_room > 0
        return stuck or many or self.hushed

    def lost(self) -> None:
        """Take note that the wire is gone."""
        if self.gone:
            return
        self.gone = True
        self._leave(self.links(), lost=True)
        self._count_links()
        self._engine.lost()
        self.replies.lost()
        for timer in self._timers:
            timer.cancel()
        for handle in (self._heartbeat, self._recheck):
            if handle is not None:
                handle.cancel()
        self._stack.close()
        self._answered.set()
        self._listener.forget(self)

    # For links

    def write_soon(self) -> None:
        """Write the engine's output once, after the current callback."""
        if not self._writing:
            self._writing = True
            self._loop.call_soon(self._write)

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call something later, unless the connection is lost before."""

        def run() -> None:
            self._timers.discard(timer)
            call()

        timer = self._loop.call_later(delay_s, run)
        self._timers.add(timer)

    def later_once(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call something later; further requests until then are ignored."""
        if call not in self._called_later:
            self._called_later.add(call)

            def run() -> None:
                self._called_later.discard(call)
                call()

            self.later(delay_s, run)

    def soon(self, call: Callable[..., None], *given: Any) -> None:
        """Call something after the current callback."""
        self._loop.call_soon(call, *given)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task that may outlive the connection."""
        task = self._loop.create_task(work, name="amqp-work")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def answered(self, *, sends: int = 0, settlements: int = 0, requests: int = 0) -> None:
        """Take note that requests of the client were answered."""
        self.sends -= sends
        self.settlements -= settlements
        self.requests -= requests
        self._answered.set()
        self.reading.go_on()

    def put_token(self, audience: str, token: str) -> None:
        """Take a token of the client. Raises Unauthenticated, InvalidArgument."""
        caller = self.claims.put(audience, token)
        self._is_of(caller.policy)
        if self._recheck is None or (caller.good_until_s or math.inf) < self._recheck_s:
            self._recheck_in_time()
        self._known()

    def session_token(self, path: str, session_id: str | None, link_name: str) -> bytes | None:
        """Return the token of a session that a link of this connection holds, or None.

        It is the session of the link with a name. If there is no such link, the one with an id:
        of several links, of which all but one have lost it, that which locked it last.
        """
        return self.held_sessions.token(path, session_id, link_name)

    def recheck(self) -> None:
        """Detach the links whose tokens are no longer valid, in turns of the connection."""
        self.start(self._detach_invalid())
        self._recheck_in_time()
        if not self.claims.any:
            self.later(self._times.token_s, self._must_have_token)

    async def _detach_invalid(self) -> None:
        await self.reading.own_turn()
        await self.reading.do(self._check_links())

    def _check_links(self) -> Steps[None]:
        for link in self.links():
            if link.is_open and isinstance(link.context, (SendingLink, ReceivingLink)):
                operation, path = link.context.right
                try:
                    self.claims.check(operation, path)
                except BusError as error:
                    self.detach(link, conditions.of(error, path))
                yield

    def _recheck_in_time(self) -> None:
        """Schedule `recheck` for when the next token expires."""
        if self._recheck is not None:
            self._recheck.cancel()
            self._recheck = None
        now_s = self._listener.clock()
        end_s = self.claims.next_end_s(now_s)
        if end_s is not None:
            self._recheck_s = end_s
            self._recheck = self._loop.call_later(end_s - now_s + 0.01, self.recheck)

    @property
    def busy(self) -> bool:
        """Whether something that the client asked for is not answered yet."""
        asked = self.sends or self.settlements or self.requests or self.commits
        return bool(asked or self._engine.waiting_bytes or self.replies.sending)

    @property
    def output_end(self) -> int:
        """Where the output ends now, from its beginning, in bytes."""
        return self._output_bytes + self._engine.output_bytes

    @property
    def unsettled(self) -> int:
        """How many deliveries the client has, and has not settled."""
        return sum(each.unsettled for each in self._engine.sessions)

    @property
    def quiet_s(self) -> float:
        """For how long nothing was received."""
        return self._loop.time() - self._heard_s

    async def changed(self) -> None:
        """Wait until something was answered, or the wire is gone."""
        self._answered.clear()
        await self._answered.wait()

    def detach(self, link: Link, error: Error) -> None:
        """Detach a link for a reason of the bus."""
        self.start(self.detach_dropped(link, error, self.drop(link)))

    def drop(self, link: Link) -> Awaitable[None] | None:
        """Do nothing more for a link; return what gives up the session that it holds."""
        context, link.context = link.context, None
        held = context.give_up() if isinstance(context, SessionReceivingLink) else None
        if context is not None:
            context.closed()
        return held

    async def detach_dropped(self, link: Link, error: Error, held: Awaitable[None] | None) -> None:
        """Detach a link that was dropped, after it gave up what it held."""
        if held is not None:
            await held
        link.detach(error)
        self.write_soon()

    def end(self, error: Error) -> None:
        """Close the connection."""
        self._leave(self.links())
        self._engine.close(error)
        self._write()
        self._close_in_time()
        # The client's answer is to be read.
        self.hushed = False
        self.reading.go_on()

    def cut(self) -> None:
        """End the transport after what is written: for the client the connection is lost."""
        self._leave(self.links(), lost=True)
        self._write()
        self._finished = True
        self._engine.lost()
        self._wire.finish()
        self._close_in_time()
        # What the client still sends is read and dropped: else TCP might take back what it has not
        # read yet.
        self.hushed = False
        self.reading.go_on()

    @property
    def sessions(self) -> int:
        """How many AMQP sessions there are."""
        return self._engine.session_count

    def links(self) -> list[Link]:
        """Return the links of all sessions."""
        return [link for session in self._engine.sessions for link in session.links]

    # Inside

    def reserve(self, size_bytes: int) -> bool:
        """Reserve bytes for what comes and is not complete; return whether there is room."""
        room = self.quota.incomplete
        if not room.of(self._incomplete_holder):
            self._incomplete_holder = self.holder
        return room.take(self._incomplete_holder, size_bytes)

    def release(self, size_bytes: int) -> None:
        """Release reserved bytes."""
        self.quota.incomplete.give(self._incomplete_holder, size_bytes)

    def _write(self) -> None:
        self._writing = False
        if self.gone or self._finished:
            return
        self._count_links()
        self._answered.set()
        data = self._engine.output()
        if data:
            self._output_bytes += len(data)
            self._wire.write(data)
            self._account()
        if self._engine.is_closed:
            self._wire.close()
            self._close_in_time()

    def _close_in_time(self) -> None:
        """Abort the transport later, in case the client does not read or does not answer."""
        if not self._closing:
            self._closing = True
            self.later(self._times.close_s, self._wire.abort)

    def _count_links(self) -> None:
        """Count links and sessions; close the connection if all have too many and it has many.

        Those of strangers are not counted: each may have few, and their number is bounded.
        """
        counts = not (self.gone or self.reading.stranger)
        now = self._engine.links + self._engine.session_count if counts else 0
        if now == self._links_counted:
            return
        room, change = self.quota.links, now - self._links_counted
        if self._links_holder != self.holder:
            room.give(self._links_holder, self._links_counted * LINK_BYTES)
            self._links_holder, change = self.holder, now
        self._links_counted = now
        if change < 0:
            room.give(self._links_holder, -change * LINK_BYTES)
        elif not room.hold(self._links_holder, change * LINK_BYTES) and now > LINKS_MIN:
            text = "too many links and sessions, of one policy or of all"
            self.soon(self.end, Error("amqp:resource-limit-exceeded", text))

    def _account(self) -> None:
        """Count unwritten output."""
        if self.gone:
            return
        unwritten = self._wire.unwritten()
        self.replies.read(self._output_bytes - unwritten)
        now = unwritten + self._engine.waiting_bytes
        change, self._unwritten_bytes = now - self._unwritten_bytes, now
        if change > 0:
            self._unwritten.handed(change)
        elif change < 0:
            self._unwritten.read(-change)

    def _must_be_open(self) -> None:
        if self._engine.peer is None:
            within_s = self._times.open_s
            self.end(Error("amqp:connection:forced", f"not opened within {within_s:.0f} s"))
        elif not self.claims.any:
            self.later(self._times.token_s - self._times.open_s, self._must_have_token)

    def _must_have_token(self) -> None:
        if not self.claims.any:
            within_s = self._times.token_s
            # Not unauthorized: the SDK for Go would never connect again.
            self.end(Error("amqp:connection:forced", f"no token was put within {within_s:.0f} s"))

    def _watch_silence(self, due_s: float) -> None:
        """Close the connection of a client that has sent, or read, nothing for too long."""
        now_s = self._loop.time()
        late = now_s - due_s > LATE_S
        if self.reading.paused:
            # There may be input that was not read.
            self._heard_s = now_s
        if self._stuck_s and now_s - self._stuck_s > UNREAD_S:
            self.end(Error("amqp:resource-limit-exceeded", "what is written is not read"))
            return
        if self._silence_s and not late and now_s - self._heard_s > 2 * self._silence_s:
            self.end(Error("amqp:resource-limit-exceeded", "nothing was sent for too long"))
        elif self._silence_s:
            next_s = self._silence_s / 2
            self.later(next_s, partial(self._watch_silence, now_s + next_s))

    def _watch_links(self, most: IdleLimits) -> None:
        """Check regularly for idle links."""
        watch = IdleWatch(self, most, self._loop.time())

        def check() -> None:
            watch.check(self._loop.time())
            self.later(most.check_s, check)

        self.later(most.check_s, check)

    def _beat(self, every_s: float) -> None:
        if not self._wire.unwritten():
            # Otherwise the buffered output serves as a heartbeat.
            self._engine.heartbeat()
            self._write()
        self._heartbeat = self._loop.call_later(every_s, self._beat, every_s)

    def _take(self, event: events.Event) -> bool:
        """Handle an event; return whether the engine waited for that to read on."""
        if self.stage is Stage.HANDED_OVER:
            if isinstance(event, events.Attached):
                event.link.refuse(DETACHED)
            return False
        if isinstance(event, events.Delivered):
            self.metrics.transfers.counts["in"] += 1
            if event.link.context is not None:
                event.link.context.delivered(event)
        elif isinstance(event, events.Disposed):
            self._disposed(event)
        elif isinstance(event, events.CreditChanged):
            if event.link.context is not None:
                event.link.context.credit_changed()
        elif isinstance(event, events.WindowOpened):
            self.replies.window_opened(event.session)
        elif isinstance(event, events.Attached):
            self._attached(event)
        elif isinstance(event, events.Detached):
            self._leave([event.link])
        elif isinstance(event, events.Ended):
            self._leave(event.links)
        elif isinstance(event, events.Closed):
            self._leave(event.links, lost=not event.by_peer)
        elif isinstance(event, events.Authenticating):
            self._authenticate(event)
            return True
        elif isinstance(event, events.Opened):
            self.product = (event.open.properties or {}).get("product")
            if self.claims.any:
                self._known()
            if event.open.idle_time_out:
                self._beat(max(0.1, event.open.idle_time_out / 2_000))
        return False

    def _disposed(self, event: events.Disposed) -> None:
        links: dict[OutgoingLink, list[OutgoingDelivery]] = {}
        for delivery in event.deliveries:
            links.setdefault(delivery.link, []).append(delivery)
        for link, deliveries in links.items():
            if isinstance(link.context, ReceivingLink):
                link.context.disposed(deliveries, event.state, event.settled)

    def _is_of(self, policy: str) -> None:
        """Take note of the policy of the client: what it holds and its turns count for that."""
        self.holder = self.holder._replace(policy=policy)
        self.reading.policy = policy

    def _known(self) -> None:
        """Lift the bounds of strangers: the client has presented a valid token."""
        if self.reading.stranger:
            self.reading.stranger = False
            self._listener.known(self)
            self._wire.known(self.holder.policy)
            settings = self._engine.settings
            self._engine.sessions_max, self._engine.links_max = (
                settings.sessions_max,
                settings.links_max,
            )
            self._engine.frames_left = None
            self._engine.take_frames(settings.frame_bytes_taken)

    def give_up(self) -> None:
        """Make room for another connection."""
        self.lost()
        self._wire.abort()

    def _authenticate(self, event: events.Authenticating) -> None:
        if event.mechanism == PLAIN:
            try:
                _, policy, key = event.response.decode().split("\0")
                caller = self.claims.sign_in(policy, key)
                self._is_of(caller.policy)
            except (ValueError, BusError):
                self._engine.authenticate(False)
                return
        self._engine.authenticate(True)

    def _leave(self, links: Iterable[Link], *, lost: bool = False) -> None:
        """Do nothing more for links that have ended; what each holds is given back in turns."""
        contexts = []
        for link in links:
            context, link.context = link.context, None
            if isinstance(context, (ReceivingLink, ReplyLink)):
                # At once: a message, or a reply, that came before its turn would be lost with it.
                context.stop()
            contexts.append(context)
        closing = _closing(contexts, lost)
        if not self.reading.work(closing):
            self.start(self.reading.do(closing))

    def _attached(self, event: events.Attached) -> None:
        refused = attach.attach(self, event.link, event.attach)
        if refused is not None:
            self._refused += 1
            if self.reading.stranger and self._refused > STRANGER_REFUSALS:
                self.soon(self.end, refused)
        if event.link.state is LinkState.DETACHING:
            # The attach was too large for a frame of the client.
            self._leave([event.link])


def _closing(contexts: Iterable[Any], lost: bool) -> Steps[None]:
    for context in contexts:
        if context is not None:
            context.closed(lost=lost)
            yield
