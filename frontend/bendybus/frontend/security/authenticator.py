"""Authentication of clients: a token becomes a caller, who may do what the policies grant.

Knows no protocol: a listener takes the token from where its protocol has it, authenticates it, and
checks the caller for each operation. Verified tokens are remembered, so that a call costs a look
into a dictionary and not a signature.

Every listener maps what its protocol names (a gRPC method, an AMQP link, an HTTP route) to an
operation; `Caller.check` is the one guard.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from bendybus.domain import shared_access
from bendybus.domain.errors import BusError
from bendybus.domain.shared_access import CLOCK_SKEW_S, Grant, Policy, Right, Token
from bendybus.frontend.security.policy_file import PolicyFile
from bendybus.wire.refusals import Refusals


class Operation(StrEnum):
    """What a client may ask for."""

    SEND = "send"
    CANCEL_SCHEDULED = "cancel-scheduled"
    RECEIVE = "receive"
    SETTLE = "settle"
    SETTLE_OF_ENTITY = "settle-of-entity"
    RECEIVE_DEFERRED = "receive-deferred"
    RENEW_SESSION = "renew-session"
    GET_SESSION_STATE = "get-session-state"
    SET_SESSION_STATE = "set-session-state"
    LIST_SESSIONS = "list-sessions"
    PEEK = "peek"
    GET_SCALING = "get-scaling"
    DELETE_MESSAGES = "delete-messages"
    CHANGE_RULES = "change-rules"
    DESCRIBE_PARTITIONS = "describe-partitions"
    DRAIN = "drain"
    GET_NAMESPACE = "get-namespace"
    CREATE_ENTITY = "create-entity"
    UPDATE_ENTITY = "update-entity"
    DELETE_ENTITY = "delete-entity"
    GET_ENTITY = "get-entity"
    LIST_ENTITIES = "list-entities"


@dataclass(frozen=True, slots=True)
class Rule:
    """A right, on the entity that the request names or on the whole namespace."""

    right: Right
    whole_namespace: bool = False
    # Another right that is enough.
    other: Right | None = None


# As Service Bus: reading a description is managing, peeking is listening.
RULES: Final[dict[Operation, Rule]] = {
    Operation.SEND: Rule(Right.SEND),
    Operation.CANCEL_SCHEDULED: Rule(Right.SEND),
    Operation.RECEIVE: Rule(Right.LISTEN),
    # Lock tokens do not name their entity; an open receiver does, and was checked.
    Operation.SETTLE: Rule(Right.LISTEN, whole_namespace=True),
    # The path of a request over HTTP does.
    Operation.SETTLE_OF_ENTITY: Rule(Right.LISTEN),
    Operation.RECEIVE_DEFERRED: Rule(Right.LISTEN),
    Operation.RENEW_SESSION: Rule(Right.LISTEN),
    Operation.GET_SESSION_STATE: Rule(Right.LISTEN),
    Operation.SET_SESSION_STATE: Rule(Right.LISTEN),
    Operation.LIST_SESSIONS: Rule(Right.LISTEN),
    Operation.PEEK: Rule(Right.LISTEN),
    # Consumers are scaled by who may look at their messages.
    Operation.GET_SCALING: Rule(Right.LISTEN),
    Operation.DELETE_MESSAGES: Rule(Right.LISTEN),
    # Over AMQP, as a rule manager of the SDKs does.
    Operation.CHANGE_RULES: Rule(Right.LISTEN),
    # Of those who read, and of those who send.
    Operation.DESCRIBE_PARTITIONS: Rule(Right.LISTEN, other=Right.SEND),
    # As deleting messages.
    Operation.DRAIN: Rule(Right.LISTEN),
    Operation.GET_NAMESPACE: Rule(Right.MANAGE, whole_namespace=True),
    Operation.CREATE_ENTITY: Rule(Right.MANAGE, whole_namespace=True),
    Operation.UPDATE_ENTITY: Rule(Right.MANAGE),
    Operation.DELETE_ENTITY: Rule(Right.MANAGE),
    Operation.GET_ENTITY: Rule(Right.MANAGE),
    Operation.LIST_ENTITIES: Rule(Right.MANAGE, whole_namespace=True),
}


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
        """The share of the bus that its calls take: the name of the policy whose key signed it.

        Of the policies that an entity has itself, one for all of them. "" where none is required.
        """

    @property
    def good_until_s(self) -> float | None:
        """When the token expires, in seconds since 1970; None: never."""

    @property
    def allowed(self) -> Hashable:
        """The grant of the token: another value when its policy grants something else."""

    def check_anywhere(self, operation: Operation) -> None:
        """Raise Unauthorized unless the caller may do that to some entity."""

    def check(
        self, operation: Operation, entity_path: str = "", *, resources: Sequence[str] = ()
    ) -> None:
        """Raise Unauthorized unless the caller may do that, there.

        `resources`: paths of the request, if clients sign tokens for these; see `Grant.check`.
        """


class _Anyone:
    token = policy = allowed = ""
    good_until_s = None

    def check_anywhere(self, operation: Operation) -> None:
        """Allow everything."""

    def check(
        self, operation: Operation, entity_path: str = "", *, resources: Sequence[str] = ()
    ) -> None:
        """Allow everything."""


class _Holder:
    """The holder of a verified token. Entities that were checked once are not checked again."""

    def __init__(self, authenticator: "Authenticator", token: str, grant: Grant) -> None:
        self._authenticator = authenticator
        self._grant = grant
        self._checked: set[tuple[str, Operation]] = set()
        self.token = token
        self.policy = authenticator.share_of(grant.policy)
        self.allowed: Hashable = (grant.policy.rights, grant.policy.entity, grant.resource)
        self.good_until_s: float | None = grant.expires_at_s + CLOCK_SKEW_S

    def check_anywhere(self, operation: Operation) -> None:
        """Raise Unauthorized unless the token covers that for some entity."""
        self.check(operation, self._grant.scope)

    def check(
        self, operation: Operation, entity_path: str = "", *, resources: Sequence[str] = ()
    ) -> None:
        """Raise Unauthorized unless the token covers that."""
        if (entity_path, operation) in self._checked:
            return
        rule = RULES[operation]
        where = "" if rule.whole_namespace else entity_path
        try:
            self._grant.check(where, rule.right, rule.other, resources=resources)
        except BusError as error:
            self._authenticator.note(error)
            raise
        if resources:
            # It may be allowed for this request only.
            return
        if len(self._checked) < CHECKED_MAX and entity_path.isascii():
            self._checked.add((entity_path, operation))


class EntityPolicies(Protocol):
    """The policies that entities have themselves, as far as they are known."""

    @property
    def authorization_changes(self) -> int:
        """Another number when they may have changed."""

    def authorization_rules(self, path: str) -> list[Policy]:
        """Return those on what a path begins with."""


class Authenticator:
    """Verifies tokens against the policies of a file, and of entities.

    Without a file, every caller may do all.
    """

    def __init__(
        self,
        file: PolicyFile | None,
        clock: Callable[[], float] = time.time,
        *,
        hosts: Collection[str] = (),
        entities: EntityPolicies | None = None,
    ) -> None:
        """`hosts`: the host names that tokens may be for; none: any.

        `entities`: None if none has policies.
        """
        self.refusals = Refusals(logger, "policy")
        self.required = file is not None
        self._file = file
        self._clock = clock
        self._hosts = frozenset(map(str.lower, hosts))
        self._entities = entities
        self._changes = 0
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
            grant = shared_access.authenticate(
                self._file.policies, token, now_s, self._hosts, self._on_entities
            )
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

    def allows_the_same(self, caller: Caller) -> bool:
        """Whether the token of a caller is still good, and allows what it did."""
        try:
            return self.authenticate(caller.token).allowed == caller.allowed
        except BusError:
            return False

    def _on_entities(self, token: Token) -> list[Policy]:
        if self._entities is None:
            return []
        return self._entities.authorization_rules(token.resource)

    def share_of(self, policy: Policy) -> str:
        """Return whose share the calls of a policy take.

        Who manages one entity names its policies: they take nothing from a policy of the namespace
        that has the same name, and more of them have no more.
        """
        assert self._file is not None
        declared = policy in self._file.policies.get(policy.name, ())
        return policy.name if declared else f"entity {policy.entity}"

    def _changed(self) -> bool:
        """Whether there are other policies now than at the last look."""
        changes = 0 if self._entities is None else self._entities.authorization_changes
        same, self._changes = changes == self._changes, changes
        assert self._file is not None
        return self._file.changed() or not same

    def policies_of(self, entity_path: str) -> list[Policy]:
        """Return the policies of the file that grant rights on one entity alone, by name."""
        if self._file is None:
            return []
        found = (each for named in self._file.policies.values() for each in named)
        key = entity_path.lower()
        return sorted(
            (each for each in found if each.entity.lower() == key), key=lambda each: each.name
        )

    def note(self, error: BusError) -> None:
        """Count and log a refusal."""
        cause = error.metadata.get("cause", error.reason)
        self.refusals.note(cause, error.metadata.get("policy", _UNKNOWN_POLICY))

    async def run(self, *changed: Callable[[], None]) -> None:
        """Look for other policies until cancelled; each of `changed` is called when there are."""
        while True:
            await asyncio.sleep(LOOK_S)
            if self._file is not None and self._changed():
                self._verified.clear()
                for tell in changed:
                    tell()


_ANYONE: Final = _Anyone()
