"""Authentication of clients: a token becomes a caller, who may do what the policies grant.

Knows no protocol: a listener takes the token from where its protocol has it, authenticates it, and
checks the caller for each operation. Verified tokens are remembered, so that a call costs a look
into a dictionary and not a signature.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

from bendybus.domain import shared_access
from bendybus.domain.errors import BusError
from bendybus.domain.shared_access import CLOCK_SKEW_S, Grant
from bendybus.frontend.security.operations import RULES, Operation
from bendybus.frontend.security.policy_file import PolicyFile
from bendybus.wire.refusals import Refusals

logger = logging.getLogger(__name__)
VERIFIED_MAX: Final = 4_096
# Checked paths remembered per token. A key holder can create any number of tokens and paths.
CHECKED_MAX: Final = 16
LOOK_S: Final = 1.0
# Not from callers: what they call a policy that does not exist must not get into logs.
_UNKNOWN_POLICY: Final = "(none)"


class Caller(Protocol):
    """A client whose token was verified."""

    @property
    def token(self) -> str:
        """The token, "" where none is required."""

    @property
    def policy(self) -> str:
        """The name of the policy whose key signed it, "" where none is required."""

    @property
    def good_until_s(self) -> float | None:
        """When the token expires, in seconds since 1970; None: never."""

    def check_anywhere(self, operation: Operation) -> None:
        """Raise Unauthorized unless the caller may do that to some entity."""

    def check(self, operation: Operation, entity_path: str = "") -> None:
        """Raise Unauthorized unless the caller may do that, there."""


class _Anyone:
    token = policy = ""
    good_until_s = None

    def check_anywhere(self, operation: Operation) -> None:
        """Allow everything."""

    def check(self, operation: Operation, entity_path: str = "") -> None:
        """Allow everything."""


class _Holder:
    """The holder of a verified token. Entities that were checked once are not checked again."""

    def __init__(self, authenticator: "Authenticator", token: str, grant: Grant) -> None:
        self._authenticator = authenticator
        self._grant = grant
        self._checked: set[tuple[str, Operation]] = set()
        self.token = token
        self.policy = grant.policy.name
        self.good_until_s: float | None = grant.expires_at_s + CLOCK_SKEW_S

    def check_anywhere(self, operation: Operation) -> None:
        """Raise Unauthorized unless the token covers that for some entity."""
        self.check(operation, self._grant.scope)

    def check(self, operation: Operation, entity_path: str = "") -> None:
        """Raise Unauthorized unless the token covers that."""
        if (entity_path, operation) in self._checked:
            return
        rule = RULES[operation]
        where = "" if rule.whole_namespace else entity_path
        try:
            self._grant.check(where, rule.right, rule.other)
        except BusError as error:
            self._authenticator.note(error)
            raise
        if len(self._checked) < CHECKED_MAX and entity_path.isascii():
            self._checked.add((entity_path, operation))


class Authenticator:
    """Verifies tokens against the policies of a file; without one, every caller may do all."""

    def __init__(self, file: PolicyFile | None, clock: Callable[[], float] = time.time) -> None:
        self.refusals = Refusals(logger, "policy")
        self.required = file is not None
        self._file = file
        self._clock = clock
        self._verified: dict[str, _Holder] = {}

    def authenticate(self, token: str) -> Caller:
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
            # The oldest; if it is still used, it is verified again.
            del self._verified[next(iter(self._verified))]
        found = self._verified[token] = _Holder(self, token, grant)
        return found

    def still_good(self, token: str) -> bool:
        """Whether a token that was good still is."""
        try:
            self.authenticate(token)
        except BusError:
            return False
        return True

    def note(self, error: BusError) -> None:
        """Count and log a refusal."""
        cause = error.metadata.get("cause", error.reason)
        self.refusals.note(cause, error.metadata.get("policy", _UNKNOWN_POLICY))

    async def run(self, changed: Callable[[], None]) -> None:
        """Reload the file until cancelled; `changed` is called after it changed."""
        while True:
            await asyncio.sleep(LOOK_S)
            if self._file is not None and self._file.changed():
                self._verified.clear()
                changed()


_ANYONE: Final = _Anyone()
