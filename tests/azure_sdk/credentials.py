"""Credentials with the interface of azure-identity, whose tokens are SAS of the bus."""

import time
from collections.abc import Callable
from typing import Final, Self

from azure.core.credentials import AccessToken

HOUR_S: Final = 3_600
# Signs a token that expires at a time, in seconds since 1970.
Sign = Callable[[int], str]


class Credential:
    """Signs a new token whenever it is asked for one."""

    def __init__(self, sign: Sign, lives_s: int = HOUR_S) -> None:
        self._sign = sign
        self._lives_s = lives_s
        # How many tokens it has signed.
        self.signed = 0

    def get_token(self, *scopes: str, **given: object) -> AccessToken:
        """Return a new token with the lifetime of this credential."""
        self.signed += 1
        ends_s = int(time.time()) + self._lives_s
        return AccessToken(self._sign(ends_s), ends_s)

    def close(self) -> None:
        """End it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None


class AsyncCredential:
    """The same for the asynchronous clients."""

    def __init__(self, sign: Sign, lives_s: int = HOUR_S) -> None:
        self._credential = Credential(sign, lives_s)

    @property
    def signed(self) -> int:
        """How many tokens it has signed."""
        return self._credential.signed

    async def get_token(self, *scopes: str, **given: object) -> AccessToken:
        """Return a new token with the lifetime of this credential."""
        return self._credential.get_token(*scopes)

    async def close(self) -> None:
        """End it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        return None
