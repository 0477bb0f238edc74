"""Shared access: policies with keys, and the tokens that are signed with them. Service Bus's form.

    SharedAccessSignature sr=<URI>&sig=<HMAC>&se=<seconds since 1970>&skn=<policy>

Every value is URL-encoded; what is signed is `<sr as it stands in the token>` + newline + `<se>`,
with HMAC-SHA256 and the key's UTF-8 bytes. The path of the URI is the entity that the token is
for, empty for the whole namespace. Its host is compared only where a namespace lists its host
names, since the keys are of this namespace alone; scheme and port never, since clients differ.

A policy grants rights on the namespace or on one entity. What a token allows is what both allow.
Keys never appear in what these values print.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from urllib.parse import SplitResult, quote_plus, unquote_plus, urlencode, urlsplit

from bendybus.domain import bounds
from bendybus.domain.errors import Unauthenticated, Unauthorized

# Clocks of clients and servers differ: a token is good for so much longer than it says.
CLOCK_SKEW_S: Final = 5
TOKEN_CHARS_MAX: Final = 4_096
KEY_BYTES: Final = 32
# For tokens that are good as long as their key is: the year 9999.
NEVER_S: Final = 253_402_300_799
_SCHEME: Final = "SharedAccessSignature "
# What follows an entity's name in the paths of its sub-queues and subscriptions.
_BELOW: Final = ("$", "subscriptions/")
_FIELDS: Final = frozenset({"sr", "sig", "se", "skn"})


class Right(StrEnum):
    """What a policy may grant."""

    MANAGE = "Manage"
    SEND = "Send"
    LISTEN = "Listen"


class Cause(StrEnum):
    """Why a caller was refused; `metadata["cause"]` of the error, label of the metric."""

    NO_TOKEN = "no-token"
    MALFORMED = "malformed-token"
    UNKNOWN_POLICY = "unknown-policy"
    WRONG_KEY = "wrong-key"
    EXPIRED = "expired-token"
    WRONG_HOST = "wrong-host"
    WRONG_ENTITY = "wrong-entity"
    MISSING_RIGHT = "missing-right"


@dataclass(frozen=True, slots=True)
class Policy:
    """Rights on an entity, "" for the whole namespace, and the keys that stand for them."""

    name: str
    rights: frozenset[Right]
    entity: str = ""
    keys: tuple[str, ...] = field(default=(), repr=False)

    @property
    def granted(self) -> frozenset[Right]:
        """The rights, with those that Manage implies."""
        return frozenset(Right) if Right.MANAGE in self.rights else self.rights


# By name; entities may have policies of the same name.
Policies = Mapping[str, Sequence[Policy]]


@dataclass(frozen=True, slots=True)
class Token:
    """A token's parts. `host` and `resource`, the path, are what it is for, in lower case."""

    host: str
    resource: str
    policy: str
    expires_at_s: int
    signed: str = field(repr=False)
    signature: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Grant:
    """What a verified token allows until it expires."""

    policy: Policy
    resource: str
    expires_at_s: int

    @property
    def scope(self) -> str:
        """The entity that it is for; "": the whole namespace."""
        return max(self.policy.entity.lower(), self.resource, key=len)

    def check(
        self,
        entity_path: str,
        right: Right,
        other: Right | None = None,
        *,
        resources: Iterable[str] = (),
    ) -> None:
        """Raise Unauthorized unless the grant covers that right there; "" is the namespace.

        `other`: a right that is enough, too. `resources`: paths of the request itself, since some
        clients sign a token for each URL; one of these is for it, too.
        """
        bounds.check_path(entity_path)
        path = entity_path.lower()
        for_request = self.resource in map(str.lower, resources)
        for scope in (self.policy.entity.lower(), "" if for_request else self.resource):
            if not covers(scope, path):
                where = f"entity {entity_path!r}" if entity_path else "the whole namespace"
                raise Unauthorized(
                    f"policy {self.policy.name!r}: the token is not for {where}. Use a key of a "
                    "policy on it, or on the namespace.",
                    metadata={"cause": Cause.WRONG_ENTITY, "policy": self.policy.name},
                )
        if right not in self.policy.granted and other not in self.policy.granted:
            raise Unauthorized(
                f"policy {self.policy.name!r} does not grant {right}. Use a key of a policy that "
                "does.",
                metadata={
                    "cause": Cause.MISSING_RIGHT,
                    "policy": self.policy.name,
                    "right": right,
                },
            )


def group(policies: Iterable[Policy]) -> Policies:
    """Return policies by name."""
    found: dict[str, list[Policy]] = {}
    for policy in policies:
        found.setdefault(policy.name, []).append(policy)
    return found


def new_key() -> str:
    """Return a new key, as long as those of Service Bus."""
    return base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode("ascii")


def sign(uri: str, policy: str, key: str, expires_at_s: int) -> str:
    """Return a token for `uri` that ends at `expires_at_s`."""
    encoded = quote_plus(uri)
    signature = base64.b64encode(_signature(f"{encoded}\n{expires_at_s}", key)).decode("ascii")
    parts = {"sr": uri, "sig": signature, "se": str(expires_at_s), "skn": policy}
    return _SCHEME + urlencode(parts)


def parse(text: str) -> Token:
    """Return the parts of a token. Raises Unauthenticated, without the text."""
    if not text:
        raise _unauthenticated(
            Cause.NO_TOKEN,
            "the call carries no token. Connect with a connection string that has a key; over "
            "HTTP, `bendybus token` prints one for the header Authorization.",
        )
    if not text.startswith(_SCHEME) or len(text) > TOKEN_CHARS_MAX:
        raise _malformed("it does not begin with SharedAccessSignature, or is too long")
    parts: dict[str, str] = {}
    for part in text[len(_SCHEME) :].split("&"):
        name, _, value = part.partition("=")
        if name not in _FIELDS or name in parts or not value:
            raise _malformed("it must have sr, sig, se and skn, each once")
        parts[name] = value
    if len(parts) != len(_FIELDS):
        raise _malformed("it must have sr, sig, se and skn, each once")
    expires = parts["se"]
    if not (expires.isascii() and expires.isdigit() and len(expires) <= 12):
        raise _malformed("se must be a number of seconds")
    try:
        signature = base64.b64decode(unquote_plus(parts["sig"]), validate=True)
        uri = unquote_plus(parts["sr"])
        host, resource = host_of(uri), path_of(uri)
        # Bytes that are not UTF-8 come as surrogates, which cannot be signed.
        text.encode()
    except (binascii.Error, ValueError):
        raise _malformed("sig must be base64, and sr a URI") from None
    signed = f"{parts['sr']}\n{expires}"
    return Token(host, resource, unquote_plus(parts["skn"]), int(expires), signed, signature)


def expires_at_s(text: str) -> int | None:
    """Return when a token expires; None if it is malformed."""
    try:
        return parse(text).expires_at_s
    except Unauthenticated:
        return None


def _none(token: Token) -> Iterable[Policy]:
    return ()


def authenticate(
    policies: Policies,
    text: str,
    now_s: float,
    hosts: Collection[str] = (),
    on_entities: Callable[[Token], Iterable[Policy]] = _none,
) -> Grant:
    """Return what a token allows. Raises Unauthenticated unless a key of its policy signed it.

    Every key of the policy is compared in constant time, so that timing reveals nothing. `hosts`:
    the host names that tokens may be for, in lower case; none: any. `on_entities`: returns the
    policies beside `policies` that are on what a token is for.
    """
    token = parse(text)
    others = (each for each in on_entities(token) if each.name == token.policy)
    named = [*policies.get(token.policy, ()), *others]
    if not named:
        raise _unauthenticated(
            Cause.UNKNOWN_POLICY,
            "the policy named in the token does not exist. Use the connection string of this bus.",
        )
    matching: Policy | None = None
    for policy in named:
        for key in policy.keys:
            same = hmac.compare_digest(_signature(token.signed, key), token.signature)
            matching = matching or (policy if same else None)
    if matching is None:
        raise _unauthenticated(
            Cause.WRONG_KEY,
            f"the token is not signed with a key of policy {token.policy!r}: the key was "
            "rotated, or belongs to another bus. Use the connection string of this bus.",
            policy=token.policy,
        )
    if now_s >= token.expires_at_s + CLOCK_SKEW_S:
        raise _unauthenticated(
            Cause.EXPIRED,
            f"the token of policy {token.policy!r} has expired. Create a new one; if it is new, "
            "correct the clock.",
            policy=token.policy,
        )
    if hosts and token.host not in hosts:
        raise _unauthenticated(
            Cause.WRONG_HOST,
            f"the token of policy {token.policy!r} is for another host. Sign it for one of the "
            "names of this bus: those of its Service, or of spec.frontend.hostNames.",
            policy=token.policy,
        )
    return Grant(matching, token.resource, token.expires_at_s)


def verify(policies: Policies, text: str, entity_path: str, right: Right, now_s: float) -> Grant:
    """Return the grant of a token that allows `right` there. Raises Unauth… errors with a cause."""
    grant = authenticate(policies, text, now_s)
    grant.check(entity_path, right)
    return grant


def path_of(uri: str) -> str:
    """Return the path of a resource's URI, without slashes around it, in lower case."""
    return _split(uri).path.strip("/").lower()


def host_of(uri: str) -> str:
    """Return the host of a resource's URI, without its port, in lower case."""
    return _split(uri).hostname or ""


def _split(uri: str) -> SplitResult:
    return urlsplit(uri if "//" in uri else f"//{uri}")


def covers(scope: str, path: str) -> bool:
    """Whether a policy or token on `scope` is for `path`; both in lower case.

    It is for the entity, its sub-queues and its subscriptions. An entity whose name only begins
    like it, such as orders/eu beside orders, is another one.
    """
    if not scope or path == scope:
        return True
    below = path.removeprefix(f"{scope}/") if path.startswith(f"{scope}/") else ""
    return below.startswith(_BELOW)


def _signature(text: str, key: str) -> bytes:
    return hmac.new(key.encode("utf-8"), text.encode("utf-8"), hashlib.sha256).digest()


def _malformed(why: str) -> Unauthenticated:
    return _unauthenticated(Cause.MALFORMED, f"the token cannot be read: {why}.")


def _unauthenticated(cause: Cause, message: str, policy: str = "") -> Unauthenticated:
    metadata = {"cause": str(cause), **({"policy": policy} if policy else {})}
    return Unauthenticated(message, metadata=metadata)
