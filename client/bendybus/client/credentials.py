"""Credentials of an application, and the tokens that calls carry.

Taken are: a policy's name and key (a pair, or an object with `named_key` as azure-core's
AzureNamedKeyCredential), and a token that somebody else signed (a text, or an object with
`signature` as AzureSasCredential: it is read again for every stream and call, so that `update` on
it works). A key signs a token for an hour, and another one well before that ends.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from bendybus.domain import shared_access

TOKEN_LIFETIME_S: Final = 3_600
# A token is replaced when less than this part of its life is left.
RENEW_SHARE: Final = 0.25
HEADER: Final = "authorization"
_PREFIX: Final = "SharedAccessSignature "

Metadata = tuple[tuple[str, str], ...]


class Credentials:
    """Gives the metadata of calls to one bus. On the I/O thread only."""

    def __init__(self, credential: Any, host: str, clock: Callable[[], float] = time.time) -> None:
        """Take what an application gave. Raises TypeError for what is no credential."""
        self._uri = f"sb://{host}/"
        self._clock = clock
        self._key = _named_key(credential)
        self._signature = None if self._key is not None else _signature_of(credential)
        self._signed = ""
        self._renew_at_s = 0.0

    def metadata(self) -> Metadata:
        """Return what to send with a call or a stream."""
        token = self._token()
        return ((HEADER, token),) if token else ()

    def _token(self) -> str:
        if self._signature is not None:
            return self._signature()
        if self._key is None:
            return ""
        now_s = self._clock()
        if now_s >= self._renew_at_s:
            name, key = self._key()
            ends_s = int(now_s) + TOKEN_LIFETIME_S
            self._signed = shared_access.sign(self._uri, name, key, ends_s)
            self._renew_at_s = now_s + TOKEN_LIFETIME_S * (1 - RENEW_SHARE)
        return self._signed

    def refused(self) -> None:
        """Sign anew for the next call: the bus did not take the last token."""
        self._renew_at_s = 0.0

    def __repr__(self) -> str:
        return f"Credentials for {self._uri}"


def _named_key(credential: Any) -> Callable[[], tuple[str, str]] | None:
    if isinstance(credential, tuple | list):
        name, key = credential
        return lambda: (str(name), str(key))
    if hasattr(credential, "named_key"):
        return lambda: _pair(credential.named_key)
    if hasattr(credential, "policy") and hasattr(credential, "key"):
        return lambda: (str(credential.policy), str(credential.key))
    return None


def _pair(named_key: Any) -> tuple[str, str]:
    return str(named_key[0]), str(named_key[1])


def _signature_of(credential: Any) -> Callable[[], str] | None:
    if credential is None:
        return None
    if isinstance(credential, str):
        return lambda: _prefixed(credential)
    if hasattr(credential, "signature"):
        return lambda: _prefixed(str(credential.signature))
    raise TypeError(
        f"credential: {type(credential).__name__} is neither a (name, key) pair, nor a shared "
        "access signature, nor an object with named_key or signature."
    )


def _prefixed(signature: str) -> str:
    # What is no header's text would fail inside gRPC, with the text in the error.
    if not (signature.isascii() and signature.isprintable()):
        return ""
    return signature if signature.startswith(_PREFIX) else _PREFIX + signature
