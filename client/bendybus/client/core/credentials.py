"""Credentials of an application, and the tokens that calls carry.

Accepted are: the name and key of a policy (a pair, or an object with `named_key`, as azure-core's
AzureNamedKeyCredential), a shared access signature (a text, or an object with `signature`, as
AzureSasCredential, which is read for every stream and call, so that its `update` works), and a
TokenCredential of azure-identity, synchronous or asynchronous: an object with `get_token`. A key
signs a token for an hour and replaces it well before it expires; tokens of a credential are kept
until shortly before they expire.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import quote

from bendybus.client import arguments
from bendybus.domain import shared_access
from bendybus.domain.errors import BusError, RetryableError, Unauthenticated

TOKEN_LIFETIME_S: Final = 3_600
# A token is replaced when less than this share of its lifetime is left.
RENEW_SHARE: Final = 0.25
HEADER: Final = "authorization"
# The scope that azure-servicebus requests.
SCOPE: Final = "https://servicebus.azure.net//.default"
# A credential's token is replaced this long before it expires, as in azure-core.
RENEW_BEFORE_S: Final = 300.0
GET_TOKEN_S: Final = 60.0
_PREFIX: Final = "SharedAccessSignature "
_BEARER: Final = "Bearer "

Metadata = tuple[tuple[str, str], ...]


class Credentials:
    """Gives the metadata of calls to one bus. On the I/O thread only."""

    def __init__(
        self,
        credential: Any,
        host: str,
        clock: Callable[[], float] = time.time,
        loop: asyncio.AbstractEventLoop | None = None,
        *,
        entity_name: str = "",
    ) -> None:
        """Take the credential of an application. Raises TypeError if it is not one.

        `loop`: the application's, on which an asynchronous credential is awaited. `entity_name`:
        what tokens are signed for, such as the EntityPath of a connection string; "": the whole
        namespace.
        """
        self._uri = f"sb://{host}/{quote(entity_name)}"
        self._clock = clock
        self._key = _named_key(credential)
        self._signature = None if self._key is not None else _signature_of(credential)
        self._provider = (
            None
            if credential is None or self._key is not None or self._signature is not None
            else Provider(credential, clock, loop)
        )
        self._signed = ""
        self._renew_at_s = 0.0

    async def metadata(self) -> Metadata:
        """Return the metadata of a call or a stream. Raises BusError if there is no token."""
        if self._provider is not None:
            token = await self._provider.token()
        else:
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
            try:
                self._signed = shared_access.sign(self._uri, name, key, ends_s)
            except UnicodeEncodeError:
                # Without the value: it is a key.
                raise Unauthenticated(
                    "credential: name and key must be valid Unicode. Use the connection string of "
                    "this bus."
                ) from None
            self._renew_at_s = now_s + TOKEN_LIFETIME_S * (1 - RENEW_SHARE)
        return self._signed

    def refused(self) -> None:
        """Get a new token for the next call: the bus rejected the last one."""
        self._renew_at_s = 0.0
        if self._provider is not None:
            self._provider.refused()

    def __repr__(self) -> str:
        return f"Credentials for {self._uri}"


class Provider:
    """A TokenCredential and its current token. Requests one token at a time."""

    def __init__(
        self,
        credential: Any,
        clock: Callable[[], float],
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        method: Any = getattr(credential, "get_token", None)
        if not callable(method):
            method = getattr(credential, "get_token_info", None)
        if not callable(method):
            raise TypeError(
                f"credential: {type(credential).__name__} is neither a (name, key) pair, nor a "
                "shared access signature, nor an object with named_key, signature or get_token."
            )
        self._ask: Callable[[], Any] = lambda: method(SCOPE)
        self._awaits = inspect.iscoroutinefunction(method)
        self._clock = clock
        self._loop = loop
        self._kept = ""
        self._renew_at_s = 0.0
        self._asking: asyncio.Task[str] | None = None

    async def token(self) -> str:
        """Return the header's value. Raises Unauthenticated or RetryableError."""
        if self._kept and self._clock() < self._renew_at_s:
            return self._kept
        if self._asking is None:
            self._asking = asyncio.create_task(self._renew(), name="bendybus-token")
            self._asking.add_done_callback(self._asked)
        # A caller may be cancelled while others wait for the same token.
        return await asyncio.shield(self._asking)

    def refused(self) -> None:
        """Request a new token before the next call."""
        self._kept = ""

    def _asked(self, task: "asyncio.Task[str]") -> None:
        self._asking = None
        if not task.cancelled():
            task.exception()  # retrieved: the callers that waited got it

    async def _renew(self) -> str:
        try:
            given = await asyncio.wait_for(self._get(), GET_TOKEN_S)
            token, ends_s = given.token, float(given.expires_on)
        except TimeoutError as exc:
            raise RetryableError(
                f"credential: no token within {GET_TOKEN_S:.0f} s. Check the token provider."
            ) from exc
        except BusError:
            raise
        except Exception as exc:  # a boundary: whatever the application's credential raises
            raise Unauthenticated(
                f"credential: get_token failed: {type(exc).__name__}: {exc}",
                metadata={"cause": "credential"},
            ) from exc
        if not (token and isinstance(token, str) and token.isascii() and token.isprintable()):
            raise Unauthenticated(
                "credential: get_token returned a token that is not valid in a header"
            )
        self._kept = token if token.startswith(_PREFIX) else _BEARER + token
        now_s = self._clock()
        left_s = max(0.0, ends_s - now_s)
        self._renew_at_s = now_s + max(left_s - RENEW_BEFORE_S, left_s / 2)
        return self._kept

    async def _get(self) -> Any:
        if not self._awaits:
            # It may use the network: never on the I/O thread.
            found = await asyncio.to_thread(self._ask)
            return await found if inspect.isawaitable(found) else found
        loop = self._loop
        if loop is None or loop.is_closed() or loop is asyncio.get_running_loop():
            return await self._ask()
        # Its connections belong to the application's loop.
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._awaited(), loop))

    async def _awaited(self) -> Any:
        found: Awaitable[Any] = self._ask()
        return await found


def _named_key(credential: Any) -> Callable[[], tuple[str, str]] | None:
    if isinstance(credential, tuple | list):
        if len(credential) != 2:
            raise TypeError("credential: a pair must be (policy name, key)")
        name, key = credential
        arguments.text("credential: the policy's name", name)
        arguments.text("credential: the key", key)
        return lambda: (name, key)
    if hasattr(credential, "named_key"):
        return lambda: _pair(credential.named_key)
    if hasattr(credential, "policy") and hasattr(credential, "key"):
        return lambda: (str(credential.policy), str(credential.key))
    return None


def _pair(named_key: Any) -> tuple[str, str]:
    return str(named_key[0]), str(named_key[1])


def _signature_of(credential: Any) -> Callable[[], str] | None:
    if isinstance(credential, str):
        return lambda: _prefixed(credential)
    if hasattr(credential, "signature"):
        return lambda: _prefixed(str(credential.signature))
    return None


def _prefixed(signature: str) -> str:
    # An invalid header value would fail inside gRPC, with the value in the error.
    if not (signature.isascii() and signature.isprintable()):
        return ""
    return signature if signature.startswith(_PREFIX) else _PREFIX + signature
