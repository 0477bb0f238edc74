"""Settlements of clients that cannot repeat them: the front end does, as long as there is time.

Lock tokens whose outcome is unknown are settled again by the same settler, until their partition
says what became of them. A client hears that a lock is lost only if it is: a partition that stopped
meanwhile has forgotten what it settled, so a lock that is lost in a repeat may be settled.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from bendybus.domain import lock_token
from bendybus.domain.disposition import Disposition
from bendybus.domain.errors import (
    BusError,
    MessageLockLost,
    OutcomeUnknown,
    PartitionUnavailable,
    ServerBusy,
    SessionLockLost,
)
from bendybus.frontend.core.settle import SettleDispatcher, SettleOutcome, SettleRequest, Settling

# Before the first repeat, and at most.
PAUSE_S: Final = 0.1
PAUSE_S_MAX: Final = 2.0
# From the beginning of the first try to that of the last repeat.
REPEAT_S: Final = 30.0
# Of a repeat, these say nothing of the try before.
_NOTHING_NEW: Final = (OutcomeUnknown, PartitionUnavailable, ServerBusy)
# A partition that stopped after the first try says these of what it settled, too.
_LOST: Final = (MessageLockLost, SessionLockLost)

Answer = Callable[[SettleOutcome], None]


class RepeatedSettles:
    """Settlements through a dispatcher, repeated while their outcome is unknown."""

    def __init__(self, settles: SettleDispatcher) -> None:
        self._settles = settles

    def start(
        self, request: SettleRequest, answer: Answer, let_go: Callable[[], None] | None = None
    ) -> None:
        """Begin a settlement that names its settler; `answer` is called once, perhaps at once.

        `let_go` is called once when no partition has anything of it any more, and it is answered.
        Raises InvalidArgument.
        """
        began_s = asyncio.get_running_loop().time()
        tries = _Tries(let_go)
        self._settles.start(
            request, partial(self._answered, request, answer, began_s, tries), tries.let_go
        )

    async def settle(
        self, request: SettleRequest, let_go: Callable[[], None] | None = None
    ) -> SettleOutcome:
        """Return the outcome of a settlement. Raises InvalidArgument. `let_go`: see `start`."""
        future: asyncio.Future[SettleOutcome] = asyncio.get_running_loop().create_future()

        def answer(outcome: SettleOutcome) -> None:
            if not future.done():
                future.set_result(outcome)

        self.start(request, answer, let_go)
        return await future

    def _answered(
        self,
        request: SettleRequest,
        answer: Answer,
        began_s: float,
        tries: "_Tries",
        settling: Settling,
    ) -> None:
        outcome = settling.outcome
        # Renewals are repeated by who needs them: what counts is when they begin.
        if outcome.failures and request.disposition is not Disposition.RENEW_LOCK:
            repeats = _Repeats(self._settles, request, answer, began_s, outcome, tries)
            if repeats.wanted(OutcomeUnknown):
                repeats.later()
                return
        answer(outcome)


class _Tries:
    """The tries of a settlement that partitions have something of, or that will follow."""

    def __init__(self, all_let_go: Callable[[], None] | None) -> None:
        self._all_let_go = all_let_go
        self._count = 1
        # To be called when partitions have nothing of a try any more; None: nobody counts.
        self.let_go = None if all_let_go is None else self._ended

    def follows(self) -> None:
        """Count a try that will follow, before the one that it repeats is let go."""
        self._count += 1

    def _ended(self) -> None:
        self._count -= 1
        if not self._count and self._all_let_go is not None:
            self._all_let_go()


class _Repeats:
    """A settlement with tokens whose outcome is unknown."""

    def __init__(
        self,
        settles: SettleDispatcher,
        request: SettleRequest,
        answer: Answer,
        began_s: float,
        outcome: SettleOutcome,
        tries: _Tries,
    ) -> None:
        self._settles = settles
        self._tries = tries
        self._request = request
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._until_s = began_s + REPEAT_S
        self._pause_s = PAUSE_S
        self._outcome = outcome
        # By token of the first request, why it is not settled.
        self._failed: dict[int, BusError] = {
            index: error for indexes, error in outcome.failures for index in indexes
        }
        # Those of which no repeat will say more.
        self._ended: set[int] = set()
        # The tokens that the try under way is for.
        self._unknown: list[int] = []

    def wanted(self, *unknown: type[BusError]) -> bool:
        """Whether there are such failures, and time for a repeat."""
        self._unknown = [
            index
            for index, error in self._failed.items()
            if isinstance(error, unknown) and index not in self._ended
        ]
        return bool(self._unknown) and self._loop.time() + self._pause_s < self._until_s

    def later(self) -> None:
        """Repeat after a pause."""
        self._tries.follows()
        self._loop.call_later(self._pause_s, self._repeat)
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)

    def _repeat(self) -> None:
        size, tokens = lock_token.TOKEN_BYTES, self._request.lock_tokens
        picked = b"".join([tokens[i * size : i * size + size] for i in self._unknown])
        request = replace(self._request, lock_tokens=picked, repeat=True)
        self._settles.start(request, self._answered, self._tries.let_go)

    def _answered(self, settling: Settling) -> None:
        failed = {i: error for indexes, error in settling.outcome.failures for i in indexes}
        for index, token in enumerate(self._unknown):
            error = failed.get(index)
            if error is None:
                del self._failed[token]
            elif isinstance(error, _LOST):
                self._failed[token] = _may_be_settled()
                self._ended.add(token)
            elif not isinstance(error, _NOTHING_NEW):
                self._failed[token] = error
        if self.wanted(OutcomeUnknown):
            self.later()
            return
        self._outcome.failures = [([index], error) for index, error in self._failed.items()]
        self._answer(self._outcome)


def _may_be_settled() -> BusError:
    return OutcomeUnknown(
        "the message may be settled: its partition did not answer at first, and the lock is lost "
        "by now. If it is not settled, it is received again."
    )
