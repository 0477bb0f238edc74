"""Which operation each gRPC method is, and where its request names the entity."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from bendybus.domain import forwarding, limits, subscription_name
from bendybus.frontend.security.operations import RULES, Operation

_SENDER: Final = "/bendybus.v1.SenderService/"
_RECEIVER: Final = "/bendybus.v1.ReceiverService/"
_TRANSACTION: Final = "/bendybus.v1.TransactionService/"
_PIPELINE: Final = "/bendybus.v1.PipelineService/"
_MANAGEMENT: Final = "/bendybus.v1.ManagementService/"
# Metadata that carries the token.
AUTHORIZATION: Final = "authorization"


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the services for clients."""

    operation: Operation
    # The field of the request that names the entity.
    field: str = "entity_path"
    # Of a subscription: the field that names it within its topic, which `field` names.
    subscription_field: str = ""
    # A stream names its entities in its frames: the service checks each.
    stream: bool = False
    # It can be repeated at will, and each time its answer may be large.
    large_answer: bool = False

    @property
    def on_entity(self) -> bool:
        """Whether the right is looked for on the entity that the request names."""
        return not RULES[self.operation].whole_namespace

    def destinations_of(self, request: Any) -> list[str]:
        """Return the entities that a request lets messages go on to: the right is needed there."""
        described = getattr(request, "description", None)
        names = (getattr(described, field, "") for field in forwarding.FIELDS)
        return [name for name in names if name]

    def entity_of(self, request: Any) -> str:
        """Return the path of the entity that a request names."""
        name: str = getattr(request, self.field)
        if not self.subscription_field:
            return name
        return subscription_name.compose(name, getattr(request, self.subscription_field))


def _on_rules(operation: Operation, *, large_answer: bool = False) -> Method:
    """Return the method of a call about rules, which are a part of their subscription."""
    return Method(operation, "topic_name", "subscription_name", large_answer=large_answer)


METHODS: Final[dict[str, Method]] = {
    f"{_SENDER}Send": Method(Operation.SEND),
    f"{_SENDER}SendStream": Method(Operation.SEND, stream=True),
    f"{_SENDER}CancelScheduledMessages": Method(Operation.CANCEL_SCHEDULED),
    f"{_RECEIVER}Receive": Method(Operation.RECEIVE),
    f"{_RECEIVER}ReceiveStream": Method(Operation.RECEIVE, stream=True),
    f"{_RECEIVER}Settle": Method(Operation.SETTLE),
    f"{_RECEIVER}ReceiveDeferred": Method(Operation.RECEIVE_DEFERRED),
    f"{_RECEIVER}Peek": Method(Operation.PEEK, large_answer=True),
    f"{_RECEIVER}DeleteMessages": Method(Operation.DELETE_MESSAGES),
    # Its sends and settlements need the rights that they need outside of it.
    f"{_TRANSACTION}Transact": Method(Operation.SEND, stream=True),
    f"{_RECEIVER}RenewSessionLock": Method(Operation.RENEW_SESSION),
    f"{_RECEIVER}GetSessionState": Method(Operation.GET_SESSION_STATE, large_answer=True),
    f"{_RECEIVER}SetSessionState": Method(Operation.SET_SESSION_STATE),
    f"{_RECEIVER}ListSessions": Method(Operation.LIST_SESSIONS, large_answer=True),
    f"{_RECEIVER}ListSessionCounts": Method(Operation.LIST_SESSIONS, large_answer=True),
    f"{_PIPELINE}DescribePartitions": Method(Operation.DESCRIBE_PARTITIONS),
    f"{_PIPELINE}BrowsePartition": Method(Operation.PEEK, large_answer=True),
    f"{_PIPELINE}GetSequenceNumberAt": Method(Operation.PEEK),
    f"{_PIPELINE}AcquireDrainLease": Method(Operation.DRAIN),
    f"{_PIPELINE}ReleaseDrainLease": Method(Operation.DRAIN),
    f"{_PIPELINE}SettleRange": Method(Operation.DRAIN),
    f"{_PIPELINE}SendFenced": Method(Operation.SEND),
    f"{_PIPELINE}GetProducerFence": Method(Operation.SEND),
    f"{_MANAGEMENT}GetNamespace": Method(Operation.GET_NAMESPACE),
    f"{_MANAGEMENT}CreateQueue": Method(Operation.CREATE_ENTITY, "name"),
    f"{_MANAGEMENT}UpdateQueue": Method(Operation.UPDATE_ENTITY, "name"),
    f"{_MANAGEMENT}DeleteQueue": Method(Operation.DELETE_ENTITY, "name"),
    f"{_MANAGEMENT}GetQueue": Method(Operation.GET_ENTITY, "name"),
    f"{_MANAGEMENT}ListQueues": Method(Operation.LIST_ENTITIES, large_answer=True),
    f"{_MANAGEMENT}CreateTopic": Method(Operation.CREATE_ENTITY, "name"),
    f"{_MANAGEMENT}UpdateTopic": Method(Operation.UPDATE_ENTITY, "name"),
    f"{_MANAGEMENT}DeleteTopic": Method(Operation.DELETE_ENTITY, "name"),
    f"{_MANAGEMENT}GetTopic": Method(Operation.GET_ENTITY, "name"),
    f"{_MANAGEMENT}ListTopics": Method(Operation.LIST_ENTITIES, large_answer=True),
    # Its subscriptions are a part of a topic: whoever manages it makes and lists them.
    f"{_MANAGEMENT}CreateSubscription": Method(Operation.UPDATE_ENTITY, "topic_name"),
    f"{_MANAGEMENT}ListSubscriptions": Method(
        Operation.GET_ENTITY, "topic_name", large_answer=True
    ),
    f"{_MANAGEMENT}UpdateSubscription": Method(Operation.UPDATE_ENTITY, "topic_name", "name"),
    f"{_MANAGEMENT}DeleteSubscription": Method(Operation.DELETE_ENTITY, "topic_name", "name"),
    f"{_MANAGEMENT}GetSubscription": Method(Operation.GET_ENTITY, "topic_name", "name"),
    f"{_MANAGEMENT}CreateRule": _on_rules(Operation.UPDATE_ENTITY),
    f"{_MANAGEMENT}UpdateRule": _on_rules(Operation.UPDATE_ENTITY),
    f"{_MANAGEMENT}DeleteRule": _on_rules(Operation.UPDATE_ENTITY),
    f"{_MANAGEMENT}GetRule": _on_rules(Operation.GET_ENTITY),
    f"{_MANAGEMENT}ListRules": _on_rules(Operation.GET_ENTITY, large_answer=True),
}
# What probes may call without a token: nothing of the bus is in the answers, which are about the
# whole server whatever service the caller names, since its request is not read.
OPEN: Final = frozenset({"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"})
# What any token of this bus is enough for.
ANY_TOKEN: Final = frozenset({"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"})
# The largest request of a call that carries no messages, and nothing as large as one.
REQUEST_BYTES_MAX: Final = 4 * limits.MB
CARRIES_MESSAGES: Final = frozenset(
    {
        f"{_SENDER}Send",
        f"{_SENDER}SendStream",
        f"{_RECEIVER}SetSessionState",
        f"{_PIPELINE}SendFenced",
    }
)


def token(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    """Return the token in the metadata of a call; "" if there is none."""
    text = next((value for name, value in metadata or () if name == AUTHORIZATION), "")
    return text if isinstance(text, str) else ""
