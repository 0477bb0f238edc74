"""One ReceiveStream of a client: its receiver or session, its settlements, its answers.

No rules here. A session is locked as the stream opens, and given up before it ends.
"""

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from bendybus.domain import bounds, errors, limits, lock_token
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.domain.message_state import ReceiveMode
from bendybus.frontend.core import settle
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.lease import SessionLease
from bendybus.frontend.core.quota.bounds import (
    RECEIVER_ANSWERS_MAX,
    SETTLES_MAX,
    WALK_STEPS_A_TURN,
)
from bendybus.frontend.core.quota.flow_control import StreamFlow, charged_tokens
from bendybus.frontend.core.quota.room import Holder, Room
from bendybus.frontend.core.receive import Source
from bendybus.frontend.core.receiver import Delivery, Receiver
from bendybus.frontend.core.sessions import LockedSession, SessionCache, SessionDispatcher
from bendybus.frontend.core.settle import SettleOutcome, SettleRequest
from bendybus.frontend.listeners import request_values
from bendybus.frontend.security.authenticator import Caller, Operation
from bendybus.frontend.upstreams.upstream import now_ms
from bendybus.v1 import message_pb2, receiver_pb2
from bendybus.wire import frame_forms, statuses
from bendybus.wire.streams import AnswerQueue

logger = logging.getLogger(__name__)
# How long a delivery waits for the outcome that it is to share a frame with.
HOLD_S: Final = 0.05
# A delivery that waited longer than this to be written has locks that are shorter by then.
LATE_MS: Final = 100
# The memory that an outcome needs until it is read, an error in it with its sentence and its facts,
# and the index of a token.
OUTCOME_BYTES: Final = 512
FAILURE_BYTES: Final = 1_024
INDEX_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Answer:
    """One event; counted in a flow of the stream until it is written."""

    frame: receiver_pb2.ReceiveStreamResponse
    # The bytes of messages.
    size_bytes: int = 0
    # The bytes of a failed settlement's outcome, or of a session's end.
    outcome_bytes: int = 0
    # Taken for a settlement.
    tokens: int = 0
    put_ms: int = 0
    # That of the messages, where they share one.
    lease: SessionLease | None = None


class Answers(AnswerQueue[Answer]):
    """The answers that wait to be written to the client; they share frames."""

    def __init__(self, outstanding: Callable[[], bool], flow: StreamFlow) -> None:
        super().__init__(outstanding)
        self._flow = flow

    async def written(
        self,
    ) -> AsyncIterator[tuple[receiver_pb2.ReceiveStreamResponse, list[Answer]]]:
        """Yield frames, and what they consist of, until the stream ends."""
        while True:
            try:
                entry = await self.next()
            except BusError as error:
                yield receiver_pb2.ReceiveStreamResponse(error=statuses.to_error(error)), []
                return
            if entry is None:
                return
            answers = [entry]
            frame = _as_of_now(entry)
            if len(self) and not frame.moving:
                frame = frame_forms.merged(frame, functools.partial(self._take_small, answers))
            yield frame, answers
            # The client took it off the wire, or there is room on the wire for it.
            size_bytes = sum(answer.size_bytes for answer in answers)
            if size_bytes:
                self._flow.read(size_bytes)

    def _take_small(
        self, taken: list[Answer], bytes_max: int
    ) -> receiver_pb2.ReceiveStreamResponse | None:
        answer = self.take(
            lambda each: not each.frame.moving and each.frame.ByteSize() <= bytes_max
        )
        if answer is None:
            return None
        taken.append(answer)
        return _as_of_now(answer)


class ReceiverStream:
    """See the module."""

    def __init__(
        self,
        front_end: FrontEnd,
        caller: Caller,
        holder: Holder,
        flow: StreamFlow,
        outcomes: StreamFlow,
    ) -> None:
        self._answers = Answers(self._outstanding, flow)
        self._front_end = front_end
        self._caller = caller
        self._holder = holder
        self._flow = flow
        # Outcomes have their own: a client that reads no messages can settle those that it has.
        self._outcomes = outcomes
        self._closed = False
        self._receiver: Receiver | None = None
        # What a session receiver waits for: to lock its session, or to give it up.
        self._session: SessionOpening | None = None
        # What tells the client that its session is locked, until it is written; and whether that
        # has begun: from then on the client may know.
        self._opened: Answer | None = None
        self._may_know = False
        self._settler_id = b""
        # Under way; and the last one of a frame id.
        self._settles: set[settle.Settling] = set()
        self._frames: dict[int, settle.Settling] = {}
        self._room = asyncio.Semaphore(SETTLES_MAX)
        # Tokens that were walked since others had a turn of the loop.
        self._walked = 0
        # Asks whose messages are used only after a settlement, and its frame id.
        self._follows: dict[int, int] = {}
        # Deliveries that wait for the outcome of that frame.
        self._held: dict[int, Answer] = {}

    async def __aenter__(self) -> "ReceiverStream":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closed = True
        if self._session is not None:
            self._session.end(self._receiver, told=self._may_know)
        if self._receiver is not None:
            self._front_end.receives.close(self._receiver)
        for settling in self._settles:
            self._front_end.settles.forget(settling)
        self._held.clear()

    async def frames(self) -> AsyncIterator[receiver_pb2.ReceiveStreamResponse]:
        """Yield what the client is told, until the stream ends."""
        async for frame, answers in self._answers.written():
            opens = self._opened is not None and self._opened in answers
            self._may_know |= opens
            yield frame
            if opens:
                self._told()
            for answer in answers:
                if answer.outcome_bytes:
                    self._outcomes.read(answer.outcome_bytes)
                if answer.tokens:
                    self._flow.give_tokens(answer.tokens)
                    self._room.release()

    def move(self) -> None:
        """Ask the client to half-close; end in any case when it does not."""
        self._answers.move(Answer(receiver_pb2.ReceiveStreamResponse(moving=True)), self.finish)

    def finish(self) -> None:
        """Take nothing more, hand nothing more over; end when all is answered."""
        if self._session is not None:
            self._session.finish()
        if self._receiver is not None:
            self._receiver.finish()
        self._answers.finish()

    def _outstanding(self) -> bool:
        # What partitions are deleting for this client must get to it.
        handing = self._receiver is not None and bool(self._receiver.handing)
        closing = self._session is not None and self._session.closing
        return bool(self._settles) or handing or closing

    async def read(self, requests: AsyncIterator[receiver_pb2.ReceiveStreamRequest]) -> None:
        """Process the client's frames until the stream ends."""
        try:
            async for request in requests:
                for part in frame_forms.parts(request):
                    await self._answers.room(RECEIVER_ANSWERS_MAX)
                    if self._outcomes.connection.paused:
                        await self._outcomes.connection.caught_up()
                    if not self._answers.finishing:
                        await self._take(part)
                # Their room is given back while the next frame is waited for.
                del request, part
            self.finish()
        except BusError as error:
            # Without its traceback, which would keep the frame.
            self._answers.put(error.with_traceback(None))

    async def _take(self, request: receiver_pb2.ReceiveStreamRequest) -> None:
        kind = request.WhichOneof("kind")
        if kind == "open":
            self._open(request.open)
            return
        if kind == "settle":
            await self._settle(request.settle)
            return
        if kind == "close_session" and self._session is not None:
            self._session.close(self._receiver)
            return
        if self._receiver is None:
            raise errors.InvalidArgument("kind", "the first frame must be `open`.")
        if kind == "ask":
            self._ask(self._receiver, request.ask)
        elif kind == "cancel_ask":
            self._receiver.cancel(request.cancel_ask.ask_id)
        else:
            raise errors.InvalidArgument("kind", "must be set.")

    def _open(self, request: receiver_pb2.OpenReceiver) -> None:
        if self._receiver is not None or self._session is not None:
            raise errors.InvalidArgument("open", "the receiver is already open.")
        if len(request.settler_id) > limits.SETTLER_ID_BYTES_MAX:
            raise errors.InvalidArgument(
                "settler_id", f"must be at most {limits.SETTLER_ID_BYTES_MAX} bytes."
            )
        self._caller.check(Operation.RECEIVE, request.entity_path)
        self._settler_id = request.settler_id
        name, sub_queue = request_values.entity_and_sub_queue(request.entity_path)
        source = Source(name, sub_queue, request_values.receive_mode(request.receive_mode))
        if request.HasField("session"):
            bounds.check_number("max_wait_ms", request.session.max_wait_ms, bounds.TIME_MS_MAX)
            self._session = SessionOpening(
                self._front_end.sessions,
                source,
                request.session,
                self._locked,
                self._put,
                self._settler_id,
                room=self._front_end.quota.settling,
                holder=self._holder,
            )
            return
        self._receiver = self._front_end.receives.open(
            source, self._hand, self._answers.put, owner=self._flow.connection.owner
        )
        opened = receiver_pb2.ReceiverOpened(
            lock_duration_ms=self._receiver.entity.description.lock_duration_ms,
        )
        self._answers.put(Answer(receiver_pb2.ReceiveStreamResponse(opened=opened)))

    def _locked(self, entity: Entity, mode: ReceiveMode, session: LockedSession) -> None:
        """Open the receiver of a session that is locked for it."""
        self._receiver = self._front_end.sessions.open(
            entity,
            mode,
            session,
            self._hand,
            self._answers.put,
            owner=self._flow.connection.owner,
        )
        opened = receiver_pb2.ReceiverOpened(
            lock_duration_ms=entity.description.lock_duration_ms,
            session=receiver_pb2.OpenedSession(
                session_id=session.session_id,
                session_token=session.token,
                locked_until_ms=session.locked_until_ms,
                lock_remaining_ms=session.lock_remaining_ms,
            ),
            sent_ms=now_ms(),
        )
        self._opened = Answer(receiver_pb2.ReceiveStreamResponse(opened=opened))
        self._answers.put(self._opened)

    def _told(self) -> None:
        """Take note that the client was told that its session is locked."""
        self._opened = None
        if self._session is not None and self._receiver is not None:
            self._session.told(self._receiver)

    def _ask(self, receiver: Receiver, ask: receiver_pb2.Ask) -> None:
        bounds.check_number("max_bytes", ask.max_bytes, bounds.BYTES_MAX)
        bounds.check_number("max_wait_ms", ask.max_wait_ms, bounds.TIME_MS_MAX, -bounds.TIME_MS_MAX)
        # In a session nothing overtakes an outcome: after that of an abandon, all is in order.
        if ask.with_settle_frame_id in self._frames and self._session is None:
            self._follows[ask.ask_id] = ask.with_settle_frame_id
        receiver.ask(ask.ask_id, ask.max_messages, ask.max_bytes, ask.max_wait_ms)

    def _hand(self, handed: Delivery) -> None:
        if self._closed:
            # It would not be read, so it would stay counted.
            return
        response = receiver_pb2.ReceiveStreamResponse()
        delivery = response.delivery
        delivery.ask_id, delivery.sent_ms = handed.tag, now_ms()
        for batch in handed.batches:
            # Given to a constructor it would be serialised and parsed.
            delivery.batches.add().CopyFrom(batch)
        if handed.error is not None:
            delivery.error.CopyFrom(statuses.to_error(handed.error))
        size_bytes = delivery.ByteSize()
        self._flow.handed(size_bytes)
        shared = None if self._receiver is None else self._receiver.shared
        lease = shared.lease if isinstance(shared, SessionCache) else None
        self._say_or_hold(Answer(response, size_bytes, put_ms=delivery.sent_ms, lease=lease))

    def _say_or_hold(self, answer: Answer) -> None:
        frame_id = self._follows.pop(answer.frame.delivery.ask_id, 0) if self._follows else 0
        if frame_id not in self._frames or frame_id in self._held:
            self._answers.put(answer)
            return
        self._held[frame_id] = answer
        asyncio.get_running_loop().call_later(HOLD_S, self._let_go, frame_id)

    def _let_go(self, frame_id: int) -> None:
        held = self._held.pop(frame_id, None)
        if held is not None:
            self._answers.put(held)

    async def _settle(self, frame: receiver_pb2.SettleFrame) -> None:
        if self._receiver is None:
            # Which entity the messages are of is not known.
            self._caller.check(Operation.SETTLE)
        request = to_request(frame)
        # A token can be guessed; what the receiver was opened for was checked.
        if self._receiver is not None:
            request.entity_uid = self._receiver.entity.uid
            request.session_token = self._receiver.shared.session_token
        request.settler_id = self._settler_id
        count = settle.check(request)
        await self._room.acquire()
        taken = await self._flow.take_tokens(charged_tokens(count, repeat=request.repeat))
        self._walked += count
        if self._walked > WALK_STEPS_A_TURN:
            self._walked = count
            await asyncio.sleep(0)
        room = self._front_end.quota.settling
        await room.wait(self._holder, taken)
        settling = self._front_end.settles.start(
            request,
            partial(self._settled, frame.frame_id, taken),
            partial(room.give, self._holder, taken),
        )
        if not settling.done:
            self._settles.add(settling)
            self._frames[frame.frame_id] = settling

    def _settled(self, frame_id: int, taken: int, settling: settle.Settling) -> None:
        self._settles.discard(settling)
        if self._frames.get(frame_id) is settling:
            del self._frames[frame_id]
        size_bytes = 0
        # One without failures is counted by its tokens.
        if failures := settling.outcome.failures:
            size_bytes = OUTCOME_BYTES + FAILURE_BYTES * len(failures) + INDEX_BYTES * taken
            self._outcomes.handed(size_bytes)
        self._answers.put(Answer(to_response(frame_id, settling.outcome), 0, size_bytes, taken))
        if self._held:
            self._let_go(frame_id)

    def _put(self, answer: Answer | BusError) -> None:
        """Add what becomes of a session: an answer, or the error that ends the stream."""
        if isinstance(answer, Answer):
            self._outcomes.handed(answer.outcome_bytes)
        self._answers.put(answer)


def to_request(frame: receiver_pb2.SettleFrame) -> SettleRequest:
    """Return what a frame of a client settles. Raises InvalidArgument."""
    return SettleRequest(
        request_values.disposition(frame.disposition),
        frame.lock_tokens,
        frame_forms.kept(frame.changed_properties)
        if frame.HasField("changed_properties")
        else None,
        frame.dead_letter_reason,
        frame.dead_letter_error_description,
        repeat=frame.repeat,
        delay_ms=frame.delay_ms,
    )


def to_response(frame_id: int, outcome: SettleOutcome) -> receiver_pb2.ReceiveStreamResponse:
    """Return what the client is told of a settlement."""
    return receiver_pb2.ReceiveStreamResponse(
        settle_result=receiver_pb2.SettleResult(
            frame_id=frame_id,
            failures=to_failures(outcome),
            locked_until_ms=outcome.locked_until_ms,
            lock_remaining_ms=outcome.lock_remaining_ms,
        )
    )


def to_failures(outcome: SettleOutcome) -> list[receiver_pb2.SettleFailure]:
    """Return which tokens were not settled, and why."""
    return [
        receiver_pb2.SettleFailure(indexes=indexes, error=statuses.to_error(error))
        for indexes, error in outcome.failures
    ]


Locked = Callable[[Entity, ReceiveMode, LockedSession], None]


class SessionOpening:
    """The session of one stream. `locked` is called once it is; `put` takes errors and answers.

    `room`: of locks that are being settled. Those that a receiver says that it has are looked up,
    too.
    """

    def __init__(
        self,
        sessions: SessionDispatcher,
        source: Source,
        wanted: receiver_pb2.AcceptSession,
        locked: Locked,
        put: Callable[[Answer | BusError], None],
        receiver_id: bytes = b"",
        *,
        room: Room,
        holder: Holder,
    ) -> None:
        self._sessions = sessions
        self._locks_room = room
        self._holder = holder
        self._put = put
        self._receiver_id = receiver_id
        self._entity = source.entity
        # Of a session that its receiver has locked already.
        self._token = wanted.session_token
        # Whether a CloseSession is not answered yet.
        self.closing = False
        self._closing: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        self._opening = loop.create_task(self._open(source, wanted, locked), name="accept-session")

    def finish(self) -> None:
        """Wait for no session any more; the stream moves."""
        self._opening.cancel()

    def end(self, receiver: Receiver | None, *, told: bool) -> None:
        """Let go: the stream has ended. A session that is locked stays so until its lock ends.

        `told`: whether its client may know that it is locked; else it is freed.
        """
        self._opening.cancel()
        if receiver is not None and isinstance(receiver.shared, SessionCache):
            self._sessions.leave(receiver.shared)
            if not told and not self._token:
                self._sessions.give_up(receiver.shared)

    def told(self, receiver: Receiver) -> None:
        """Take note that the client was told of the session, if it is one that it accepted."""
        if isinstance(receiver.shared, SessionCache) and not self._token:
            self._sessions.told(receiver.shared)

    def close(self, receiver: Receiver | None) -> None:
        """Give the session up, or wait for none any more; answered by SessionClosed."""
        if self.closing:
            return
        self.closing = True
        self._opening.cancel()
        loop = asyncio.get_running_loop()
        self._closing = loop.create_task(self._close(receiver), name="close-session")

    async def _open(
        self, source: Source, wanted: receiver_pb2.AcceptSession, locked: Locked
    ) -> None:
        which = wanted.WhichOneof("which")
        try:
            if which == "session_token":
                entity, session = await self._attach(source, wanted)
            elif which is None or (which == "next_available" and not wanted.next_available):
                raise errors.InvalidArgument("session.which", "must be set.")
            else:
                entity, session = await self._sessions.accept(
                    source.entity,
                    source.sub_queue,
                    wanted.session_id if which == "session_id" else None,
                    wanted.max_wait_ms,
                    receiver_id=self._receiver_id,
                )
        except BusError as error:
            self._put(error)
            return
        except Exception as error:
            # The boundary of this task: its client must not wait for ever.
            logger.exception("session: could not be accepted")
            self._put(errors.BusError(f"the session could not be accepted: {error!r}"))
            return
        locked(entity, source.mode, session)

    async def _attach(
        self, source: Source, wanted: receiver_pb2.AcceptSession
    ) -> tuple[Entity, LockedSession]:
        held = wanted.held_lock_tokens
        taken = charged_tokens(len(held) // lock_token.TOKEN_BYTES)
        await self._locks_room.wait(self._holder, taken)
        try:
            return await self._sessions.attach(source.entity, wanted.session_token, held)
        finally:
            self._locks_room.give(self._holder, taken)

    async def _close(self, receiver: Receiver | None) -> None:
        closed = receiver_pb2.SessionClosed()
        token = self._token if receiver is None else receiver.shared.session_token
        try:
            if token:
                await self._sessions.close(self._entity, token)
        except BusError as error:
            closed.error.CopyFrom(statuses.to_error(error))
        self.closing = False
        size_bytes = OUTCOME_BYTES + FAILURE_BYTES
        frame = receiver_pb2.ReceiveStreamResponse(session_closed=closed)
        self._put(Answer(frame, outcome_bytes=size_bytes))


def _as_of_now(answer: Answer) -> receiver_pb2.ReceiveStreamResponse:
    if answer.put_ms and (waited_ms := now_ms() - answer.put_ms) > LATE_MS:
        left_ms = None if answer.lease is None else answer.lease.until_ms - now_ms()
        age(answer.frame.delivery, waited_ms, left_ms)
    return answer.frame


def age(delivery: receiver_pb2.Delivery, waited_ms: int, left_ms: int | None = None) -> None:
    """Take the time that a delivery waited to be written off its locks; leave out what ended.

    `left_ms`: how long the one lock lasts that all messages share; it may have been renewed.
    """
    delivery.sent_ms += waited_ms
    kept: list[message_pb2.DeliveredBatch] = []
    for batch in delivery.batches:
        if batch.lock_tokens:
            left = batch.lock_remaining_ms - waited_ms if left_ms is None else left_ms
            if left <= 0:
                continue
            batch.lock_remaining_ms = left
        kept.append(batch)
    if len(kept) < len(delivery.batches):
        copies = [message_pb2.DeliveredBatch.FromString(b.SerializeToString()) for b in kept]
        del delivery.batches[:]
        delivery.batches.extend(copies)
