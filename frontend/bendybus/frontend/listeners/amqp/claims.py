"""What the client of one AMQP connection may do: the tokens that it put, by audience.

A claim covers the links whose address lies under its audience, for the rights of its token, until
that expires or a policy no longer accepts it.
"""

from collections import OrderedDict
from typing import Final

from bendybus.domain import errors, shared_access
from bendybus.domain.errors import BusError
from bendybus.frontend.listeners.amqp import addresses
from bendybus.frontend.security.authenticator import Authenticator, Caller, Operation

# Of one connection; the one that was put first is forgotten. SDKs put one for each link's address.
CLAIMS_MAX: Final = 1_024


class Claims:
    """The claims of a connection."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        # Tokens by audience, as a path in lower case.
        self._tokens: OrderedDict[str, str] = OrderedDict()
        # Of a caller that authenticated as it opened the connection.
        self._token: str | None = None

    @property
    def any(self) -> bool:
        """Whether the client has shown that it may do anything at all."""
        return not self._authenticator.required or bool(self._tokens) or self._token is not None

    def put(self, audience: str, token: str) -> Caller:
        """Take a token for an audience. Raises Unauthenticated, InvalidArgument."""
        path = addresses.path_of(audience).lower()
        caller = self._authenticator.authenticate(token)
        self._tokens[path] = token
        self._tokens.move_to_end(path)
        if len(self._tokens) > CLAIMS_MAX:
            self._tokens.popitem(last=False)
        return caller

    def sign_in(self, policy: str, key: str) -> None:
        """Take the name of a policy and its key. Raises Unauthenticated."""
        token = shared_access.sign("amqp:///", policy, key, shared_access.NEVER_S)
        if self._authenticator.required:
            self._authenticator.authenticate(token)
        self._token = token

    def check(self, operation: Operation, path: str) -> Caller:
        """Return the caller that may do that to an entity. Raises Unauthenticated, Unauthorized."""
        if not self._authenticator.required:
            return self._authenticator.authenticate("")
        refused: BusError | None = None
        tokens = [token for audience, token in self._tokens.items() if _covers(audience, path)]
        if self._token is not None:
            tokens.append(self._token)
        for token in reversed(tokens):
            try:
                caller = self._authenticator.authenticate(token)
                caller.check(operation, path)
            except BusError as error:
                refused = refused or error
            else:
                return caller
        raise refused or errors.Unauthenticated(
            f"no token was put for {path!r}. Put one to $cbs, or connect with a connection string "
            "that has a key.",
            metadata={"cause": shared_access.Cause.NO_TOKEN},
        )

    def allows(self, operation: Operation, path: str) -> bool:
        """Whether `check` raises nothing."""
        try:
            self.check(operation, path)
        except BusError:
            return False
        return True


def _covers(audience: str, path: str) -> bool:
    """Whether a path lies under an audience: itself, a sub-queue, or a subscription of it."""
    management = audience.removesuffix("/$management")
    return shared_access.covers(management, path.lower())
