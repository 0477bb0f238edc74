"""Receivers that wait for a session: what partitions are asked for, and who gets their offers.

by name   the partition of the name is asked: offered, or SESSION_CANNOT_BE_LOCKED
any       all partitions are asked, see `session_accepts`: offered when one has a free session
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from bendybus.domain import errors, limits
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core.receive import ReceiveDispatcher
from bendybus.frontend.core.receive_actions import WithdrawAsk
from bendybus.frontend.core.session_accepts import (
    Action,
    AskForSession,
    Decline,
    Give,
    NextSessions,
    Offer,
)
from bendybus.frontend.core.session_requests import REQUEST_S, unavailable
from bendybus.frontend.core.shared_cache import REASK_S
from bendybus.frontend.upstreams import deliver_frames
from bendybus.frontend.upstreams.upstream import Upstream


class _Asked(NamedTuple):
    """An ask that a partition has. `named`: what gets the offer of a session asked for by name."""

    partition: int
    entity_uid: str
    named: asyncio.Future[Offer] | None = None


class SessionOffers:
    """See the module. `decline` gives an offer back that no receiver takes."""

    def __init__(
        self,
        upstreams: dict[int, Upstream],
        receives: ReceiveDispatcher,
        decline: Callable[[Offer], None],
    ) -> None:
        self._upstreams = upstreams
        self._receives = receives
        self._decline = decline
        # Asks that are not answered.
        self._asks: dict[int, _Asked] = {}
        # Receivers that wait for any session, by UID.
        self._next: dict[str, NextSessions] = {}

    async def named(
        self, entity: Entity, session_id: str, until_s: float, *, receiver_id: bytes = b""
    ) -> Offer:
        """Return the offer of a session. Raises SessionCannotBeLocked."""
        partition = entity.partition_of(session_id)
        upstream = self._upstreams[partition]
        loop = asyncio.get_running_loop()
        while True:
            if not upstream.available:
                raise unavailable(upstream)
            _check_version(upstream)
            ask_id, future = self._receives.next_ask_id(), loop.create_future()
            self._asks[ask_id] = _Asked(partition, entity.uid, future)
            frame = deliver_frames.accept_session(
                partition=partition,
                ask_id=ask_id,
                entity=entity,
                sub_queue=SubQueue.MAIN,
                session_id=session_id,
                receiver_id=receiver_id,
            )
            if not upstream.ask(frame):
                del self._asks[ask_id]
                raise errors.ServerBusy(f"partition {partition}: request queue is full.")
            taken = False
            try:
                async with asyncio.timeout(REQUEST_S):
                    offer: Offer = await future
                taken = True
                return offer
            except TimeoutError as error:
                raise unavailable(upstream) from error
            except (errors.GenerationMismatch, errors.PartitionUnavailable):
                # The front end knows more in a moment; a stream may have moved.
                if loop.time() + REASK_S >= until_s:
                    raise
                await asyncio.sleep(REASK_S)
                entity = self._receives.directory.by_uid(entity.uid) or entity
            finally:
                if not taken:
                    if ask_id in self._asks:
                        upstream.follow(deliver_frames.withdraw(partition, ask_id))
                    self._decline_late(future)

    async def any_of(self, entity: Entity, until_s: float, *, first: bool) -> Offer:
        """Return the first offer of a session. Raises ServiceTimeout if there is none in time."""
        accepts = self._next.get(entity.uid)
        if accepts is None:
            accepts = self._next[entity.uid] = NextSessions(
                entity.partitions(), self._can_offer, self._receives.next_ask_id
            )
        if len(accepts) >= limits.RECEIVERS_PER_ENTITY:
            raise errors.ServerBusy(
                f"{entity.title}: too many pending session accepts (at most "
                f"{len(accepts)}). Retry.",
                retry_after_ms=1_000,
            )
        future: asyncio.Future[Offer] = asyncio.get_running_loop().create_future()
        self._perform(entity.uid, accepts.wait(future, first=first))
        taken = False
        try:
            async with asyncio.timeout_at(until_s):
                offer = await future
            taken = True
            return offer
        except TimeoutError as error:
            if not accepts.reachable:
                raise self._receives.unreachable(entity) from error
            raise errors.ServiceTimeout(
                f"{entity.title}: no session became free in the time given. Accept again."
            ) from error
        finally:
            self._perform(entity.uid, accepts.leave(future))
            if not taken:
                self._decline_late(future)
            if not accepts and self._next.get(entity.uid) is accepts:
                # Not another one, made since for a receiver that waits.
                del self._next[entity.uid]

    # Asking

    def _can_offer(self, partition: int) -> bool:
        upstream = self._upstreams[partition]
        return upstream.available and upstream.knows_sessions

    def _perform(self, uid: str, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, AskForSession):
                self._ask(uid, action)
            elif isinstance(action, WithdrawAsk):
                frame = deliver_frames.withdraw(action.partition, action.ask_id)
                self._upstreams[action.partition].follow(frame)
            elif isinstance(action, Give):
                if action.waiter.done():
                    self._decline(action.offer)
                else:
                    action.waiter.set_result(action.offer)
            else:
                assert isinstance(action, Decline), action
                self._decline(action.offer)

    def _ask(self, uid: str, action: AskForSession) -> None:
        entity = self._receives.directory.by_uid(uid)
        accepts = self._next.get(uid)
        if accepts is None:
            return
        if entity is not None:
            frame = deliver_frames.accept_session(
                partition=action.partition,
                ask_id=action.ask_id,
                entity=entity,
                sub_queue=SubQueue.MAIN,
                session_id=None,
            )
            if self._upstreams[action.partition].ask(frame):
                self._asks[action.ask_id] = _Asked(action.partition, uid)
                return
        accepts.ended(action.ask_id, action.partition)
        self._ask_later(uid)

    def _ask_later(self, uid: str) -> None:
        asyncio.get_running_loop().call_later(REASK_S, self._ask_again, uid)

    def _ask_again(self, uid: str) -> None:
        accepts = self._next.get(uid)
        if accepts is None:
            return
        if self._receives.directory.by_uid(uid) is None:
            self._fail_waiting(accepts, errors.EntityNotFound("the entity was deleted."))
            return
        self._perform(uid, accepts.ask())

    def _fail_waiting(self, accepts: NextSessions, error: BusError) -> None:
        for waiter in accepts.waiters():
            if not waiter.done():
                waiter.set_exception(error)

    def _decline_late(self, future: "asyncio.Future[Offer]") -> None:
        """Give back an offer that came in the moment in which its receiver stopped to wait."""
        if future.done() and not future.cancelled() and future.exception() is None:
            self._decline(future.result())

    # From partitions

    def offered(self, partition: int, offered: deliver_frames.SessionOffered) -> None:
        """Take an offer."""
        asked = self._asks.pop(offered.ask_id, None)
        if asked is None:
            # On a stream that moves: offers end with it.
            return
        uid, named = asked.entity_uid, asked.named
        offer = Offer(partition, offered.session_id, offered.session_token, uid)
        accepts = self._next.get(uid)
        if named is not None and not named.done():
            named.set_result(offer)
        elif named is None and accepts is not None:
            self._perform(uid, accepts.offered(offered.ask_id, offer))
        else:
            self._decline(offer)

    def ask_ended(self, partition: int, ended: deliver_frames.AskEnded) -> None:
        """Take the end of an ask without an offer."""
        asked = self._asks.pop(ended.ask_id, None)
        if asked is None:
            return
        uid, named = asked.entity_uid, asked.named
        if named is not None:
            if not named.done():
                named.set_exception(ended.error or errors.PartitionUnavailable("it was withdrawn."))
            return
        accepts = self._next.get(uid)
        if accepts is None:
            return
        accepts.ended(ended.ask_id, partition)
        error = ended.error
        if error is None:
            return
        if error.retryable and not isinstance(error, errors.EntityDisabled):
            self._ask_later(uid)
        else:
            self._fail_waiting(accepts, error)

    def back(self) -> None:
        """Ask a partition that returned for receivers that wait."""
        for uid, accepts in list(self._next.items()):
            self._perform(uid, accepts.ask())

    def lost(self, partition: int) -> None:
        """Forget what a stream that ended was asked for: its offers are void."""
        for accepts in self._next.values():
            accepts.lost(partition)
        for ask_id, asked in list(self._asks.items()):
            if asked.partition == partition:
                del self._asks[ask_id]
                if asked.named is not None and not asked.named.done():
                    asked.named.set_exception(errors.PartitionUnavailable("its stream ended."))


def _check_version(upstream: Upstream) -> None:
    if not upstream.knows_sessions:
        raise errors.InvalidOperation(
            f"partition {upstream.partition} runs an earlier version, which has no sessions. "
            "Finish the upgrade of the bus first."
        )
