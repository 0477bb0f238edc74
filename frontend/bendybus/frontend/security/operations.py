"""The operations that clients may ask for, and the right that each needs. Pure.

Every listener maps what its protocol names (a gRPC method, an AMQP link, an HTTP route) to an
operation; `Caller.check` is the one guard.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bendybus.domain.shared_access import Right


class Operation(StrEnum):
    """What a client may ask for."""

    SEND = "send"
    CANCEL_SCHEDULED = "cancel-scheduled"
    RECEIVE = "receive"
    SETTLE = "settle"
    RECEIVE_DEFERRED = "receive-deferred"
    RENEW_SESSION = "renew-session"
    GET_SESSION_STATE = "get-session-state"
    SET_SESSION_STATE = "set-session-state"
    LIST_SESSIONS = "list-sessions"
    PEEK = "peek"
    DELETE_MESSAGES = "delete-messages"
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
    Operation.RECEIVE_DEFERRED: Rule(Right.LISTEN),
    Operation.RENEW_SESSION: Rule(Right.LISTEN),
    Operation.GET_SESSION_STATE: Rule(Right.LISTEN),
    Operation.SET_SESSION_STATE: Rule(Right.LISTEN),
    Operation.LIST_SESSIONS: Rule(Right.LISTEN),
    Operation.PEEK: Rule(Right.LISTEN),
    Operation.DELETE_MESSAGES: Rule(Right.LISTEN),
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
