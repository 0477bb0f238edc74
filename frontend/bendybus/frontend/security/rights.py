"""Which right each call of a client needs, and where the call says on which entity. Pure."""

from dataclasses import dataclass
from typing import Final

from bendybus.domain import limits
from bendybus.domain.shared_access import Right

_SENDER: Final = "/bendybus.v1.SenderService/"
_RECEIVER: Final = "/bendybus.v1.ReceiverService/"
_MANAGEMENT: Final = "/bendybus.v1.ManagementService/"


@dataclass(frozen=True, slots=True)
class Rule:
    """A right; `field` of the request names the entity, "" is the whole namespace."""

    right: Right
    field: str = ""
    # A stream names its entities in its frames: the service looks at each.
    stream: bool = False


# As Service Bus: reading a description is managing, peeking is listening.
RULES: Final[dict[str, Rule]] = {
    f"{_SENDER}Send": Rule(Right.SEND, "entity_path"),
    f"{_SENDER}SendStream": Rule(Right.SEND, "entity_path", stream=True),
    f"{_SENDER}CancelScheduledMessages": Rule(Right.SEND, "entity_path"),
    f"{_RECEIVER}Receive": Rule(Right.LISTEN, "entity_path"),
    f"{_RECEIVER}ReceiveStream": Rule(Right.LISTEN, "entity_path", stream=True),
    # Lock tokens do not name their entity.
    f"{_RECEIVER}Settle": Rule(Right.LISTEN),
    f"{_RECEIVER}ReceiveDeferred": Rule(Right.LISTEN, "entity_path"),
    f"{_RECEIVER}Peek": Rule(Right.LISTEN, "entity_path"),
    f"{_RECEIVER}DeleteMessages": Rule(Right.LISTEN, "entity_path"),
    f"{_MANAGEMENT}GetNamespace": Rule(Right.MANAGE),
    f"{_MANAGEMENT}CreateQueue": Rule(Right.MANAGE),
    f"{_MANAGEMENT}UpdateQueue": Rule(Right.MANAGE, "name"),
    f"{_MANAGEMENT}DeleteQueue": Rule(Right.MANAGE, "name"),
    f"{_MANAGEMENT}GetQueue": Rule(Right.MANAGE, "name"),
    f"{_MANAGEMENT}ListQueues": Rule(Right.MANAGE),
}
# What probes may call without a token: nothing of the bus is in the answers, which are about the
# whole server whatever service the caller names, since its request is not read.
OPEN: Final = frozenset({"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"})
# What any token of this bus will do for.
ANY_TOKEN: Final = frozenset({"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"})
# The largest request of a call that carries no messages.
REQUEST_BYTES_MAX: Final = 4 * limits.MB
CARRIES_MESSAGES: Final = frozenset({f"{_SENDER}Send", f"{_SENDER}SendStream"})
