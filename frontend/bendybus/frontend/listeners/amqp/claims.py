"""Claims: the tokens that the client of one AMQP connection has put, by audience.

A claim covers the links whose address lies under its audience, for the rights of its token, until
the token expires or its policy or key is removed.
"""

import itertools
from collections import OrderedDict
from typing import Final

from bendybus.domain import bounds, errors, shared_access
from bendybus.domain.errors import BusError
from bendybus.frontend.core.quota.bounds import CLAIMS_CHARS_MAX, CLAIMS_MAX
from bendybus.frontend.listeners.amqp import addresses
from bendybus.frontend.security.authenticator import Authenticator, Caller, Operation

_MANAGEMENT: Final = "/$management"


class Claims:
    """The claims of a connection."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        # Tokens, their expiry and their number by audience, a path in lower case.
        self._tokens: OrderedDict[str, tuple[str, float | None, int]] = OrderedDict()
        self._numbers = itertools.count()
        self._chars = 0
        # The token of a client that authenticated with SASL PLAIN.
        self._token: str | None = None

    @property
    def any(self) -> bool:
        """Whether the client has a valid token, for any audience; True if none is required."""
        return not self._authenticator.required or any(
            self._authenticator.still_good(token) for token in self._all()
        )

    def put(self, audience: str, token: str) -> Caller:
        """Take a token for an audience. Raises Unauthenticated, InvalidArgument."""
        path = addresses.path_of(audience).lower()
        bounds.check_path(path)
        caller = self._authenticator.authenticate(token)
        self._forget(path)
        # The authenticator's own copy, which connections share.
        self._tokens[path] = (caller.token, caller.good_until_s, next(self._numbers))
        self._chars += len(path) + len(caller.token)
        while len(self._tokens) > CLAIMS_MAX or self._chars > CLAIMS_CHARS_MAX:
            self._forget(next(iter(self._tokens)))
        return caller

    def next_end_s(self, now_s: float) -> float | None:
        """Return when the next token expires, in seconds since 1970; None: none does."""
        ends_s = (end_s for _, end_s, _ in self._tokens.values() if end_s is not None)
        return min((end_s for end_s in ends_s if end_s > now_s), default=None)

    def sign_in(self, policy: str, key: str) -> Caller:
        """Take the name of a policy and its key. Raises Unauthenticated."""
        token = shared_access.sign("amqp:///", policy, key, shared_access.NEVER_S)
        caller = self._authenticator.authenticate(token)
        self._token = token
        return caller

    def check(self, operation: Operation, path: str) -> Caller:
        """Return the caller that may do that to an entity. Raises Unauthenticated, Unauthorized."""
        if not self._authenticator.required:
            return self._authenticator.authenticate("")
        refused: BusError | None = None
        for token in self._all(path):
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

    def _all(self, path: str | None = None) -> list[str]:
        """Return the tokens whose audience covers a path, or all: PLAIN, then the newest first."""
        signed_in = [] if self._token is None else [self._token]
        if path is None:
            return signed_in + [token for token, _, _ in reversed(self._tokens.values())]
        found = [self._tokens[each] for each in _audiences(path.lower()) if each in self._tokens]
        found.sort(key=lambda each: each[2], reverse=True)
        return signed_in + [token for token, _, _ in found]

    def _forget(self, path: str) -> None:
        if path in self._tokens:
            token, _, _ = self._tokens.pop(path)
            self._chars -= len(path) + len(token)


def _audiences(path: str) -> list[str]:
    """Return the audiences that cover a path: all, itself, or what it is a sub-queue or such of.

    Each also with $management at its end. Few, however many tokens there are.
    """
    ends = [at for at, character in enumerate(path) if character == "/"]
    scopes = ["", *(path[:end] for end in ends), path]
    covering = [scope for scope in scopes if shared_access.covers(scope, path)]
    return [*covering, *(f"{scope}{_MANAGEMENT}" for scope in covering if scope)]
