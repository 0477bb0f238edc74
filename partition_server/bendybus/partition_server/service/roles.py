"""Who may call what: the table of methods and roles, and the role that a certificate gives. Pure.

A role is a URI among the names of the peer's certificate. That of the operator is the same for
every bus; those of front ends and partitions begin with the identity of their bus, so that no
peer of another bus is let in.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

OPERATOR_IDENTITY: Final = "spiffe://bendybus/operator"
_OURS: Final = "spiffe://bendybus/"
_PARTITION_SERVICE: Final = "/bendybus.internal.v1.PartitionService/"
_ENTITY_SERVICE: Final = "/bendybus.internal.v1.EntityService/"


class Role(StrEnum):
    """What a process of the bus is to the others."""

    FRONTEND = "frontend"
    PARTITION = "partition"
    OPERATOR = "operator"


class Refusal(StrEnum):
    """Why a peer was refused."""

    NO_IDENTITY = "no-identity"
    OTHER_BUS = "other-bus"
    WRONG_ROLE = "wrong-role"


_FRONTEND: Final = frozenset({Role.FRONTEND})
_BOTH: Final = frozenset({Role.FRONTEND, Role.OPERATOR})
_PARTITION: Final = frozenset({Role.PARTITION})
_ALL: Final = frozenset(Role)

METHODS: Final[dict[str, frozenset[Role]]] = {
    f"{_PARTITION_SERVICE}SendFrames": _FRONTEND,
    f"{_PARTITION_SERVICE}DeliverFrames": _FRONTEND,
    f"{_PARTITION_SERVICE}Transact": _FRONTEND,
    f"{_PARTITION_SERVICE}Forward": _PARTITION,
    f"{_PARTITION_SERVICE}Echo": _BOTH,
    f"{_PARTITION_SERVICE}Peek": _FRONTEND,
    f"{_PARTITION_SERVICE}ReceiveDeferred": _FRONTEND,
    f"{_PARTITION_SERVICE}CancelScheduledMessages": _FRONTEND,
    f"{_PARTITION_SERVICE}ReserveNumbers": _FRONTEND,
    f"{_PARTITION_SERVICE}DeleteMessages": _FRONTEND,
    f"{_PARTITION_SERVICE}GetCounts": _BOTH,
    f"{_PARTITION_SERVICE}SetSessionState": _FRONTEND,
    f"{_PARTITION_SERVICE}GetSessionState": _FRONTEND,
    f"{_PARTITION_SERVICE}ListSessions": _FRONTEND,
    f"{_PARTITION_SERVICE}CountSessions": _FRONTEND,
    f"{_PARTITION_SERVICE}GetRange": _FRONTEND,
    f"{_PARTITION_SERVICE}BrowseRange": _FRONTEND,
    f"{_PARTITION_SERVICE}FindNumber": _FRONTEND,
    f"{_PARTITION_SERVICE}Drain": _FRONTEND,
    f"{_PARTITION_SERVICE}SettleRange": _FRONTEND,
    f"{_PARTITION_SERVICE}SendFenced": _FRONTEND,
    f"{_PARTITION_SERVICE}GetFence": _FRONTEND,
    f"{_ENTITY_SERVICE}CommitEntity": _BOTH,
    f"{_ENTITY_SERVICE}ApplyEntity": _BOTH,
    f"{_ENTITY_SERVICE}WatchEntities": _ALL,
    f"{_ENTITY_SERVICE}FenceIdleEntity": _BOTH,
    "/grpc.health.v1.Health/Check": _ALL,
    "/grpc.health.v1.Health/Watch": _ALL,
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": _ALL,
}


def role_of(uris: Iterable[str], bus_identity: str) -> Role | Refusal:
    """Return the role that the URIs of a certificate give at the bus of that identity."""
    found = list(uris)
    if OPERATOR_IDENTITY in found:
        return Role.OPERATOR
    for role in (Role.FRONTEND, Role.PARTITION):
        if f"{bus_identity}/{role}" in found:
            return role
    if any(uri.startswith(_OURS) for uri in found):
        return Refusal.OTHER_BUS
    return Refusal.NO_IDENTITY


def check(method: str, uris: Iterable[str], bus_identity: str) -> Refusal | None:
    """Return why the peer may not call `method`; None if it may."""
    role = role_of(uris, bus_identity)
    if isinstance(role, Refusal):
        return role
    # What is not in the table is denied.
    return None if role in METHODS.get(method, frozenset()) else Refusal.WRONG_ROLE
