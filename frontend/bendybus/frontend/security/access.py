"""Who may do what: tokens of clients, checked against the policies of this bus.

Every call passes the door (`door.py`) first. A stream is let in once and asks for each entity that
its frames name. Verified tokens are remembered, so that a call costs a look into a dictionary and
not a signature.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from bendybus.domain import shared_access
from bendybus.domain.errors import BusError
from bendybus.domain.shared_access import CLOCK_SKEW_S, Grant, Right
from bendybus.frontend.security.policy_file import PolicyFile
from bendybus.wire.refusals import Refusals

logger = logging.getLogger(__name__)
HEADER: Final = "authorization"
VERIFIED_MAX: Final = 4_096
# Checked paths remembered per token. A key holder can create any number of tokens and paths.
CHECKED_MAX: Final = 16
LOOK_S: Final = 1.0
# Not from callers: what they call a policy that does not exist must not get into logs.
_NOBODY: Final = "(none)"


class Pass(Protocol):
    """What a caller may do."""

    @property
    def token(self) -> str:
        """The token, "" where none is asked for."""

    @property
    def good_until_s(self) -> float | None:
        """When it ends, in seconds since 1970; None: never."""

    def check(self, entity_path: str, right: Right) -> None:
        """Raise Unauthorized unless it covers that."""


class _Anyone:
    token = ""
    good_until_s = None

    def check(self, entity_path: str, right: Right) -> None:
        """Let everybody in."""


class _Holder:
    """The holder of a verified token. Entities that were checked once are not checked again."""

    def __init__(self, access: "Access", token: str, grant: Grant) -> None:
        self._access = access
        self._grant = grant
        self._checked: set[tuple[str, Right]] = set()
        self.token = token
        self.good_until_s: float | None = grant.expires_at_s + CLOCK_SKEW_S

    def check(self, entity_path: str, right: Right) -> None:
        """Raise Unauthorized unless the token covers that."""
        if (entity_path, right) in self._checked:
            return
        try:
            self._grant.check(entity_path, right)
        except BusError as error:
            self._access.note(error)
            raise
        if len(self._checked) < CHECKED_MAX and entity_path.isascii():
            self._checked.add((entity_path, right))


class Access:
    """The door of a front end; without a file it is open."""

    def __init__(self, file: PolicyFile | None, clock: Callable[[], float] = time.time) -> None:
        self.refusals = Refusals(logger, "policy")
        self.demanded = file is not None
        self._file = file
        self._clock = clock
        self._verified: dict[str, _Holder] = {}

    def enter(self, metadata: Iterable[tuple[str, str | bytes]]) -> Pass:
        """Return what the caller may do. Raises Unauthenticated."""
        if self._file is None:
            return _ANYONE
        text = next((value for name, value in metadata if name == HEADER), "")
        return self.verified(text if isinstance(text, str) else "")

    def verified(self, token: str) -> Pass:
        """Return what a token allows. Raises Unauthenticated."""
        if self._file is None:
            return _ANYONE
        now_s = self._clock()
        known = self._verified.get(token)
        if known is not None and known.good_until_s is not None and now_s < known.good_until_s:
            return known
        try:
            grant = shared_access.authenticate(self._file.policies, token, now_s)
        except BusError as error:
            self._verified.pop(token, None)
            self.note(error)
            raise
        while len(self._verified) >= VERIFIED_MAX:
            # The oldest; whoever still uses it is verified again.
            del self._verified[next(iter(self._verified))]
        found = self._verified[token] = _Holder(self, token, grant)
        return found

    def still_good(self, token: str) -> bool:
        """Whether a token that was good still is."""
        try:
            self.verified(token)
        except BusError:
            return False
        return True

    def note(self, error: BusError) -> None:
        """Count and log a refusal."""
        cause = error.metadata.get("cause", error.reason)
        self.refusals.note(cause, error.metadata.get("policy", _NOBODY))

    async def run(self, changed: Callable[[], None]) -> None:
        """Look after the file until cancelled; `changed` is called when policies are others."""
        while True:
            await asyncio.sleep(LOOK_S)
            if self._file is not None and self._file.changed():
                self._verified.clear()
                changed()


_ANYONE: Final = _Anyone()
