"""Sessions that receivers wait for: what partitions are asked for, and who gets their offers.

    by name   the partition of the name is asked: offered, or SESSION_CANNOT_BE_LOCKED
    any       waiting ──► an ask at each available partition ──► offered ──► who waits longest
                                                                     │ none waits any more
                                                                     ▼
                                                                  declined

For any session all partitions are asked at once, each for as many as receivers wait, up to a bound.
An offer is for whichever receiver waits longest at this front end, so that receivers which wait
together do not race for the same sessions.
"""

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from bendybus.domain import bounds, errors, limits, lock_token
from bendybus.domain.entity import Entity
from bendybus.domain.errors import BusError
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core.partition_asks import WithdrawAsk
from bendybus.frontend.core.receive import ReceiveDispatcher
from bendybus.frontend.core.shared_cache import REASK_S
from bendybus.frontend.upstreams import deliver_frames
from bendybus.frontend.upstreams.upstream import Upstream

# A partition that does not answer in this time about a lock: the outcome is unknown.
REQUEST_S: Final = 30.0
# Asks of one partition that are open for the receivers of one queue. More receivers wait behind
# these: an ask is opened again for each that is answered.
ASKS_MAX: Final = 64

Result = deliver_frames.SessionResult
Answered = Callable[[Result | BusError], None]


@dataclass(frozen=True, slots=True)
class AskForSession:
    """Ask a partition for a session."""

    ask_id: int
    partition: int


@dataclass(frozen=True, slots=True)
class Offer:
    """A session that a partition keeps for us, not for long."""

    partition: int
    session_id: str
    token: bytes
    entity_uid: str


Waiter = TypeVar("Waiter")


@dataclass(frozen=True, slots=True)
class Give(Generic[Waiter]):
    """Let a receiver confirm an offer."""

    waiter: Waiter
    offer: Offer


@dataclass(frozen=True, slots=True)
class Decline:
    """Give an offer back."""

    offer: Offer


Action = AskForSession | WithdrawAsk | Give[Waiter] | Decline


class NextSessions(Generic[Waiter]):
    """The receivers that wait for any session of one queue. Pure.

    `available`: whether a partition can be asked.
    """

    def __init__(
        self,
        partitions: Sequence[int],
        available: Callable[[int], bool],
        next_ask_id: Callable[[], int],
    ) -> None:
        self._partitions = partitions
        self._available = available
        self._next_ask_id = next_ask_id
        self._waiting: OrderedDict[Waiter, None] = OrderedDict()
        # By partition: asks that are not withdrawn, oldest first.
        self._asks: dict[int, dict[int, None]] = {partition: {} for partition in partitions}

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, waiter: Waiter, *, first: bool = False) -> list[Action[Waiter]]:
        """Take a receiver that waits; `first`: before the others, since it waited already."""
        self._waiting[waiter] = None
        if first:
            self._waiting.move_to_end(waiter, last=False)
        return self.ask()

    def leave(self, waiter: Waiter) -> list[Action[Waiter]]:
        """Forget a receiver that no longer waits."""
        self._waiting.pop(waiter, None)
        return self._withdraw()

    def ask(self) -> list[Action[Waiter]]:
        """Ask the partitions that are asked for less than is wanted."""
        wanted = self._wanted
        actions: list[Action[Waiter]] = []
        for partition, asks in self._asks.items():
            if len(asks) >= wanted or not self._available(partition):
                continue
            for _ in range(wanted - len(asks)):
                ask_id = self._next_ask_id()
                asks[ask_id] = None
                actions.append(AskForSession(ask_id, partition))
        return actions

    def offered(self, ask_id: int, offer: Offer) -> list[Action[Waiter]]:
        """Take an offer, also one for an ask that was withdrawn."""
        self._asks[offer.partition].pop(ask_id, None)
        if not self._waiting:
            return [Decline(offer)]
        waiter, _ = self._waiting.popitem(last=False)
        return [Give(waiter, offer), *self._withdraw(), *self.ask()]

    def ended(self, ask_id: int, partition: int) -> None:
        """Take the end of an ask without an offer."""
        self._asks[partition].pop(ask_id, None)

    def lost(self, partition: int) -> None:
        """Forget the asks of a partition whose stream ended."""
        if partition in self._asks:
            self._asks[partition].clear()

    def waiters(self) -> list[Waiter]:
        """Return who waits."""
        return list(self._waiting)

    @property
    def reachable(self) -> bool:
        """Whether some partition can be asked."""
        return any(map(self._available, self._partitions))

    @property
    def _wanted(self) -> int:
        return min(len(self._waiting), ASKS_MAX)

    def _withdraw(self) -> list[Action[Waiter]]:
        wanted = self._wanted
        actions: list[Action[Waiter]] = []
        for partition, asks in self._asks.items():
            while len(asks) > wanted:
                ask_id, _ = asks.popitem()
                actions.append(WithdrawAsk(ask_id, partition))
        return actions


_Future = asyncio.Future[Offer]


class _Asked(NamedTuple):
    """An ask that a partition has. `named`: what gets the offer of a session asked for by name."""

    partition: int
    entity_uid: str
    named: _Future | None = None


class SessionOffers:
    """Asks for sessions, and who waits. `decline` gives an offer back that no receiver takes."""

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
        self._next: dict[str, NextSessions[_Future]] = {}

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
        future: _Future = asyncio.get_running_loop().create_future()
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
        return self._upstreams[partition].available

    def _perform(self, uid: str, actions: list[Action[_Future]]) -> None:
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

    def _fail_waiting(self, accepts: NextSessions[_Future], error: BusError) -> None:
        for waiter in accepts.waiters():
            if not waiter.done():
                waiter.set_exception(error)

    def _decline_late(self, future: _Future) -> None:
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


class SessionRequests:
    """What partitions were asked about sessions' locks, and what takes the answers."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        # By request id: its partition, and what takes the answer.
        self._waiting: dict[int, tuple[int, Answered]] = {}

    def next_id(self) -> int:
        """Return an id for a request."""
        return next(self._ids)

    def await_answer(self, request_id: int, partition: int, answered: Answered) -> None:
        """Note what takes the answer of a request, or the error that there is none."""
        self._waiting[request_id] = (partition, answered)

    async def ask(self, upstream: Upstream, frame: Callable[[int], deliver_frames.Frame]) -> Result:
        """Return a partition's answer. Raises the domain error, PartitionUnavailable included."""
        request_id = self.next_id()
        if not upstream.follow(frame(request_id)):
            raise unavailable(upstream)
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        def answered(result: Result | BusError) -> None:
            if future.done():
                return
            if isinstance(result, BusError):
                future.set_exception(result)
            else:
                future.set_result(result)

        self.await_answer(request_id, upstream.partition, answered)
        try:
            async with asyncio.timeout(REQUEST_S):
                return await future
        except TimeoutError as error:
            raise errors.OutcomeUnknown(
                f"partition {upstream.partition} did not answer in {REQUEST_S:.0f} s about a "
                "session; the outcome is unknown. Repeat it."
            ) from error
        finally:
            self._waiting.pop(request_id, None)

    def answered(self, partition: int, result: Result) -> None:
        """Take a partition's answer."""
        _, taken = self._waiting.pop(result.request_id, (partition, _nothing))
        taken(result if result.error is None else result.error)

    def lost(self, partition: int) -> None:
        """Take the end of a partition's stream: what it was asked stays unanswered."""
        gone = errors.PartitionUnavailable(
            f"partition {partition} is unavailable: its stream ended.",
            metadata={"partition": str(partition)},
        )
        for request_id, (where, taken) in list(self._waiting.items()):
            if where == partition:
                del self._waiting[request_id]
                taken(gone)


def partition_of(token: bytes, partitions: Mapping[int, Upstream]) -> int:
    """Return the partition of a session's token. Raises InvalidArgument, SessionLockLost."""
    bounds.check_session_token(token)
    partition = lock_token.partition_of(token)
    if partition not in partitions:
        raise errors.SessionLockLost(
            f"invalid session token: this namespace has no partition {partition}.",
            metadata={"partition": str(partition)},
        )
    return partition


def unavailable(upstream: Upstream) -> BusError:
    """Return the error for a partition that cannot be asked now."""
    why = "; ".join(upstream.conditions()) or "its stream is not open"
    return errors.PartitionUnavailable(
        f"partition {upstream.partition} is unavailable ({why}). Try again when it is back.",
        metadata={"partition": str(upstream.partition)},
    )


def _nothing(_: object) -> None:
    """Take an answer that no caller waits for."""
