"""Sessions, between receivers and partitions: accepted, attached, renewed, closed; what they keep.

    accept ──► offered (`session_accepts`) ──confirm──► locked: `receive` makes its receiver

The lock is the partition's. This front end serves it on its stream to that partition; when that
stream is lost or moves, sessions with a receiver are attached to the next one before anything is
asked for. A message is handed over only after the partition has confirmed that it is delivered: it
may have been recalled in the meantime.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from bendybus.domain import bounds, errors, limits, message_access
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.domain.message_state import ReceiveMode
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import columns, lease, receive
from bendybus.frontend.core.credit import Owner
from bendybus.frontend.core.lease import Lease, SessionLease
from bendybus.frontend.core.receive import ReceiveDispatcher
from bendybus.frontend.core.receiver import Fail, Hand, Receiver
from bendybus.frontend.core.session_accepts import (
    Offer,
    Result,
    SessionOffers,
    SessionRequests,
    partition_of,
)
from bendybus.frontend.core.shared_cache import CacheHost, SharedCache
from bendybus.frontend.upstreams import deliver_frames, unary_calls
from bendybus.frontend.upstreams.unary_calls import SessionCounts, Target
from bendybus.frontend.upstreams.upstream import Upstream, now_ms

# The least time that partitions have to offer a session.
OFFER_S_MIN: Final = 0.25
# How long a session is asked for by name while its partition's stream moves.
NAMED_S: Final = 2.0
# Sessions that are to be freed, of one partition that cannot be told. The locks of more end by
# themselves.
UNCLOSED_MAX: Final = 10_000
PAGE_DEFAULT: Final = 100
PAGE_MAX: Final = 1_000
# A page's token: a partition, and a place in it.
_PARTITION_BYTES: Final = 2
_PAGE_TOKEN_BYTES_MAX: Final = 4 * limits.KEY_CHARS_MAX + 128

_T = TypeVar("_T")


class LockedSession(NamedTuple):
    """A session that a receiver of this front end has locked."""

    partition: int
    session_id: str
    token: bytes
    locked_until_ms: int
    lock_remaining_ms: int
    # On which stream to its partition, counted from the start of the front end.
    stream: int = 0
    # The partition's count of its attachments; 0: not known.
    attachment: int = 0


class SessionCache(SharedCache):
    """The cache of one session."""

    def __init__(
        self, host: CacheHost, entity: Entity, mode: ReceiveMode, session: LockedSession
    ) -> None:
        self.session = session
        # Served on the current stream to its partition.
        self.attached = True
        # Tokens that may be delivered at the partition, and surely not to the client.
        self.unconfirmed = bytearray()
        now = now_ms()
        self.lease = SessionLease(
            now + session.lock_remaining_ms, entity.description.lock_duration_ms, now
        )
        super().__init__(
            host,
            entity,
            SubQueue.MAIN,
            mode,
            partitions=(session.partition,),
            available=lambda partition: (
                self.attached and host.available(partition) and self.lease.askable(now_ms())
            ),
            lease=self.lease,
        )
        self.session_token = session.token
        self.confirms = True

    def lease_of(self, until_ms: int, lock_ms: int, now_ms: int) -> Lease:
        """Return the session's lease: what is received has no lock of its own."""
        self.lease.heard(until_ms, now_ms)
        return self.lease

    def renewed(self, until_ms: int) -> None:
        """Take the new end of the session's lock."""
        now = now_ms()
        self.lease.heard(until_ms, now)
        self.perform(self.cache.due(now))

    def left_unconfirmed(self, tokens: bytes) -> None:
        """Take messages of which it is unknown whether they are delivered: they are given back as
        the session is attached again, or later ones would overtake them.
        """
        self.unconfirmed += tokens

    def unanswered(self, owner: Owner) -> BusError:
        """Return why it is not known whether there are messages."""
        now = now_ms()
        if not self.lease.ending(now):
            return super().unanswered(owner)
        return errors.SessionLockLost(
            f"{self.entity.title}: the lock on session {self.session.session_id!r} ends in "
            f"{self.lease.until_ms - now} ms, too soon to receive under it. Renew it and receive "
            "again."
        )

    def recall(self, tokens: bytes) -> None:
        """Drop messages that the partition took back; they come again."""
        recalled = columns.token_set(tokens)
        self.perform(
            self.cache.recalled(
                lambda data, at: columns.tokens(data, at, at + 1) in recalled, now_ms()
            )
        )


class SessionDispatcher:
    """All sessions that receivers of this front end have or wait for."""

    def __init__(
        self, upstreams: dict[int, Upstream], receives: ReceiveDispatcher, *, timeout_s: float
    ) -> None:
        """`timeout_s`: of a call about what sessions keep."""
        self._upstreams = upstreams
        self._timeout_s = timeout_s
        self._receives = receives
        self._requests = SessionRequests()
        self._offers = SessionOffers(upstreams, receives, self._decline)
        # Locked, by token.
        self._served: dict[bytes, SessionCache] = {}
        self._unclosed = UnclosedSessions()
        # How often the stream to a partition ended: what was locked on an earlier one is not
        # served on this one.
        self._streams = dict.fromkeys(upstreams, 0)

    # From listeners

    async def accept(
        self,
        name: str,
        sub_queue: SubQueue,
        session_id: str | None,
        wait_ms: int,
        *,
        receiver_id: bytes = b"",
    ) -> tuple[Entity, LockedSession]:
        """Lock a session, None: any one that is free within the wait. Raises what refuses it.

        `receiver_id` is the same in each try of a receiver. ServiceTimeout if none is. A caller
        that is cancelled leaves no session locked.
        """
        if session_id is not None:
            bounds.check_text("session_id", session_id, limits.KEY_CHARS_MAX)
        least_s = OFFER_S_MIN if session_id is None else NAMED_S
        until_s = asyncio.get_running_loop().time() + max(least_s, wait_ms / 1_000)
        first = False
        while True:
            entity = receive.find_receivable(self._receives.directory, name)
            message_access.check_session(entity, sub_queue, by_session=True)
            if session_id is None:
                offer = await self._offers.any_of(entity, until_s, first=first)
            else:
                offer = await self._offers.named(
                    entity, session_id, until_s, receiver_id=receiver_id
                )
            locked = await self._confirm(offer, receiver_id)
            if locked is not None:
                return entity, locked
            # The stream of the offer was lost, or the offer lapsed.
            first = True
            if session_id is not None and asyncio.get_running_loop().time() >= until_s:
                raise errors.PartitionUnavailable(
                    f"{entity.title}: partition {offer.partition} offered session {session_id!r}, "
                    "and its lock could not be confirmed in time. Accept it again.",
                    metadata={"partition": str(offer.partition)},
                )

    async def attach(
        self, name: str, token: bytes, held_tokens: bytes
    ) -> tuple[Entity, LockedSession]:
        """Serve a session that its receiver has locked already. Raises SessionLockLost."""
        entity = receive.find_receivable(self._receives.directory, name)
        upstream = self._upstream_of(token)
        before = self._served_to(token, entity.uid)
        self._unclosed.keep(upstream.partition, token, entity.uid)
        if before is not None:
            # Its stream may not have ended yet, as seen from here.
            self._receives.fail(before, _elsewhere())
        stream = self._streams[upstream.partition]
        result = await self._requests.ask(
            upstream,
            lambda id_: deliver_frames.attach_session(
                upstream.partition, id_, token, entity.uid, held_tokens
            ),
        )
        offer = Offer(upstream.partition, "", token, entity.uid)
        return entity, _locked(offer, result, stream, upstream)

    def open(
        self,
        entity: Entity,
        mode: ReceiveMode,
        session: LockedSession,
        hand: Hand,
        fail: Fail,
        *,
        owner: Owner = None,
    ) -> Receiver:
        """Return the receiver of a session that is locked; it stays attached while it is open."""
        shared = SessionCache(self._receives, entity, mode, session)
        shared.attached = session.stream == self._streams[session.partition]
        self._served[session.token] = shared
        receiver = self._receives.open_session(shared, hand, fail, owner=owner)
        if not shared.attached:
            # The stream ended in the moment in which the session was locked.
            self._attach(shared)
        return receiver

    def told(self, shared: SessionCache) -> None:
        """Take note that a client was told of its session: STRICTLY AFTER that is written to it."""
        partition = shared.session.partition
        frame = deliver_frames.told_session(partition, shared.session_token, shared.entity.uid)
        # If its stream has ended, the session is attached to the next one, which says the same.
        self._upstreams[partition].follow(frame)

    def leave(self, shared: SessionCache) -> None:
        """Take note that a session has no receiver here any more; its lock stays."""
        if self._served.get(shared.session_token) is shared:
            del self._served[shared.session_token]

    async def renew(self, name: str, token: bytes) -> tuple[int, int]:
        """Renew a lock; return when it ends, and how long it lasts. Raises SessionLockLost."""
        entity = receive.find_receivable(self._receives.directory, name)
        upstream, shared = self._upstream_of(token), self._served_to(token, entity.uid)
        result = await self._requests.ask(
            upstream,
            lambda id_: deliver_frames.renew_session(upstream.partition, id_, token, entity.uid),
        )
        left_ms = _left_ms(upstream, result)
        if shared is not None:
            shared.renewed(now_ms() + left_ms)
        return result.locked_until_ms, left_ms

    async def close(self, name: str, token: bytes) -> None:
        """Free a session of an entity; one whose lock is lost, or whose entity is, is free.

        Raises what leaves that unknown; it is freed when its partition is back.
        """
        upstream = self._upstream_of(token)
        try:
            entity_uid = self._receives.directory.find(name).uid
            self._served_to(token, entity_uid)
        except (errors.EntityNotFound, errors.SessionLockLost):
            return
        self._served.pop(token, None)
        try:
            await self._requests.ask(
                upstream,
                lambda id_: deliver_frames.close_session(
                    upstream.partition, id_, token, entity_uid
                ),
            )
        except errors.SessionLockLost:
            return
        except (errors.PartitionUnavailable, errors.OutcomeUnknown):
            self._unclosed.note(upstream.partition, token, entity_uid)
            raise

    def give_up(self, shared: SessionCache) -> None:
        """Free a session of which no client was told."""
        self._free(shared.session.partition, shared.session_token, shared.entity.uid)

    def _served_to(self, token: bytes, entity_uid: str) -> SessionCache | None:
        """Return what serves a session here, for a caller who was checked for an entity.

        Raises SessionLockLost if the session is another entity's: nothing is done to its receiver.
        """
        shared = self._served.get(token)
        if shared is not None and shared.entity.uid != entity_uid:
            raise errors.SessionLockLost("the session token belongs to another entity.")
        return shared

    async def _confirm(self, offer: Offer, receiver_id: bytes) -> LockedSession | None:
        """Lock what was offered; None if the offer is void."""
        upstream, stream = self._upstreams[offer.partition], self._streams[offer.partition]
        try:
            result = await self._requests.ask(
                upstream,
                lambda id_: deliver_frames.confirm_session(
                    offer.partition, id_, offer.token, offer.entity_uid, receiver_id
                ),
            )
        except (errors.SessionLockLost, errors.PartitionUnavailable, errors.OutcomeUnknown):
            self._decline(offer)
            return None
        except asyncio.CancelledError:
            self._decline(offer)
            raise
        return _locked(offer, result, stream, upstream)

    def _decline(self, offer: Offer) -> None:
        self._free(offer.partition, offer.token, offer.entity_uid)

    def _free(self, partition: int, token: bytes, entity_uid: str) -> None:
        """Give up a lock that no receiver has; until its partition has read that, again."""
        request_id = self._requests.next_id()
        frame = deliver_frames.close_session(partition, request_id, token, entity_uid)
        if not self._upstreams[partition].follow(frame):
            self._unclosed.note(partition, token, entity_uid)
            return

        def answered(result: Result | BusError) -> None:
            if isinstance(result, errors.PartitionUnavailable):
                self._unclosed.note(partition, token, entity_uid)

        self._requests.await_answer(request_id, partition, answered)

    # What sessions keep

    async def state(self, name: str, token: bytes) -> bytes | None:
        """Return what is kept for a session, None: nothing. Raises SessionLockLost."""
        upstream, target = self._located(name, token)
        return await unary_calls.session_state(upstream, target, token)

    async def keep(self, name: str, token: bytes, state: bytes | None) -> None:
        """Keep something for a session, None: nothing any more. Raises SessionLockLost."""
        upstream, target = self._located(name, token)
        await unary_calls.set_session_state(upstream, target, token, state)

    async def page(
        self, name: str, size: int, page_token: bytes, state_updated_after_ms: int
    ) -> tuple[Sequence[str], bytes]:
        """Return sessions with active messages or a state, and the next page's token.

        With a time only those whose state was set after it; for the token see `_paged`.
        """

        async def listed(
            upstream: Upstream, target: Target, sessions: int, place: bytes
        ) -> tuple[Sequence[str], bytes]:
            found, following = await unary_calls.list_sessions(
                upstream,
                target,
                sessions=sessions,
                after=_session_at(place),
                state_updated_after_ms=state_updated_after_ms,
            )
            return found, b"" if following is None else _place_of(following)

        return await self._paged(name, size, page_token, listed)

    async def counts(
        self, name: str, size: int, page_token: bytes
    ) -> tuple[Sequence[SessionCounts], bytes]:
        """Return what sessions hold, and the next page's token; see `_paged`."""

        async def counted(
            upstream: Upstream, target: Target, sessions: int, place: bytes
        ) -> tuple[Sequence[SessionCounts], bytes]:
            found, following = await unary_calls.count_sessions(
                upstream, target, sessions=sessions, after=place or None
            )
            return found, following or b""

        return await self._paged(name, size, page_token, counted)

    async def _paged(
        self,
        name: str,
        size: int,
        page_token: bytes,
        fetch: Callable[[Upstream, Target, int, bytes], Awaitable[tuple[Sequence[_T], bytes]]],
    ) -> tuple[Sequence[_T], bytes]:
        """Return a page, partition after partition, and the next one's token; empty: that is all.

        Raises PartitionUnavailable rather than leave out those of a partition.
        """
        entity = self._receives.directory.find(name)
        message_access.check(entity, message_access.Access.RECEIVE)
        message_access.check_session(entity, SubQueue.MAIN, by_session=True)
        bounds.check_number("page_size", size, PAGE_MAX)
        if len(page_token) > _PAGE_TOKEN_BYTES_MAX:
            raise errors.InvalidArgument("page_token", "is not valid for this call.")
        partition = int.from_bytes(page_token[:_PARTITION_BYTES], "big")
        left = [each for each in sorted(entity.partitions()) if each >= partition]
        if not left:
            return (), b""
        place = page_token[_PARTITION_BYTES:] if left[0] == partition else b""
        target = Target(entity, SubQueue.MAIN, self._timeout_s)
        found, following = await fetch(
            self._upstreams[left[0]], target, size or PAGE_DEFAULT, place
        )
        if following:
            return found, left[0].to_bytes(_PARTITION_BYTES, "big") + following
        return found, left[1].to_bytes(_PARTITION_BYTES, "big") if len(left) > 1 else b""

    def _located(self, name: str, token: bytes) -> tuple[Upstream, Target]:
        entity = receive.find_receivable(self._receives.directory, name)
        return self._upstream_of(token), Target(entity, SubQueue.MAIN, self._timeout_s)

    # From partitions

    def answered(self, partition: int, answer: deliver_frames.Answer) -> None:
        """Take an answer about sessions, or the end of an ask for one."""
        if isinstance(answer, deliver_frames.SessionResult):
            self._requests.answered(partition, answer)
        elif isinstance(answer, deliver_frames.SessionOffered):
            self._offers.offered(partition, answer)
        elif isinstance(answer, deliver_frames.Recalled):
            shared = self._served.get(answer.session_token)
            if shared is not None:
                shared.recall(answer.lock_tokens)
        elif isinstance(answer, deliver_frames.AskEnded):
            self._offers.ask_ended(partition, answer)

    def lost(self, partition: int) -> None:
        """Take the end of a partition's stream: its offers are void, requests are unanswered."""
        self._detach(partition)
        self._requests.lost(partition)

    def moving(self, partition: int) -> None:
        """Take note that a partition's stream closes cleanly; another one is opened."""
        self._detach(partition)
        self.back(partition)

    def back(self, partition: int) -> None:
        """Attach sessions, and ask for those that receivers wait for, on a new stream."""
        for token, entity_uid in self._unclosed.take(partition):
            self._free(partition, token, entity_uid)
        self._offers.back()
        for token, shared in list(self._served.items()):
            if shared.closed:
                # Its receiver was told; its client has not let go of the stream yet.
                del self._served[token]
            elif shared.session.partition == partition and not shared.attached:
                self._attach(shared)

    def _detach(self, partition: int) -> None:
        self._streams[partition] += 1
        self._offers.lost(partition)
        for shared in self._served.values():
            if shared.session.partition == partition:
                shared.attached = False

    def _attach(self, shared: SessionCache) -> None:
        partition, token = shared.session.partition, shared.session_token
        upstream = self._upstreams[partition]
        released = bytes(shared.unconfirmed)
        if released:
            # STRICTLY BEFORE it is attached: the answer to that is the answer to both.
            upstream.follow(deliver_frames.release(partition, released))
        request_id = self._requests.next_id()
        frame = deliver_frames.attach_session(
            partition,
            request_id,
            token,
            shared.entity.uid,
            attachment=shared.session.attachment,
        )
        if not upstream.follow(frame):
            return

        def attached(result: Result | BusError) -> None:
            if isinstance(result, errors.PartitionUnavailable):
                return
            if isinstance(result, BusError):
                self._served.pop(token, None)
                self._receives.fail(shared, result)
                return
            del shared.unconfirmed[: len(released)]
            shared.attached = True
            shared.renewed(now_ms() + _left_ms(upstream, result))
            shared.again(partition)

        self._requests.await_answer(request_id, partition, attached)

    def _upstream_of(self, token: bytes) -> Upstream:
        return self._upstreams[partition_of(token, self._upstreams)]


class UnclosedSessions:
    """Locks that no receiver has, of partitions that could not be told. Pure.

    The oldest are dropped at the limit.
    """

    def __init__(self) -> None:
        # The UIDs of their entities, by token.
        self._sessions: dict[int, OrderedDict[bytes, str]] = {}

    def note(self, partition: int, token: bytes, entity_uid: str) -> None:
        """Note a session that is to be freed when its partition is back."""
        sessions = self._sessions.setdefault(partition, OrderedDict())
        sessions[token] = entity_uid
        if len(sessions) > UNCLOSED_MAX:
            sessions.popitem(last=False)

    def keep(self, partition: int, token: bytes, entity_uid: str) -> None:
        """Forget a session of an entity: a receiver has it again."""
        sessions = self._sessions.get(partition, OrderedDict())
        if sessions.get(token) == entity_uid:
            del sessions[token]

    def take(self, partition: int) -> list[tuple[bytes, str]]:
        """Return, and forget, the sessions to free in a partition, and their entities."""
        return list(self._sessions.pop(partition, OrderedDict()).items())


def _locked(offer: Offer, result: Result, stream: int, upstream: Upstream) -> LockedSession:
    return LockedSession(
        offer.partition,
        offer.session_id,
        offer.token,
        result.locked_until_ms,
        _left_ms(upstream, result),
        stream,
        result.attachment,
    )


def _left_ms(upstream: Upstream, result: Result) -> int:
    """Return how long a session's lock lasts from now on."""
    now = now_ms()
    until_ms = lease.end_ms(
        now,
        result.lock_remaining_ms,
        result.locked_until_monotonic_ms,
        upstream.clock_offset_ms,
    )
    return until_ms - now


def _elsewhere() -> BusError:
    return errors.SessionLockLost("the session moved to another stream of its receiver.")


def _place_of(session_id: str) -> bytes:
    # A name may be empty: the first byte says that there is one.
    return b"\0" + session_id.encode("utf-8", "surrogatepass")


def _session_at(place: bytes) -> str | None:
    try:
        return place[1:].decode("utf-8", "surrogatepass") if place else None
    except ValueError as error:
        raise errors.InvalidArgument("page_token", "is not valid for this call.") from error
