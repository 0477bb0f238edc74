"""Which operation each gRPC method is, and where its request names the entity."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import Message

from bendybus.domain import forwarding, limits, subscription_name
from bendybus.frontend.security.authenticator import RULES, Operation

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
    # What its answer may take in memory at most; of messages, or one message that is larger.
    answer_bytes: int = limits.MB
    messages: bool = False

    @property
    def on_entity(self) -> bool:
        """Whether the right is looked for on the entity that the request names."""
        return not RULES[self.operation].whole_namespace

    def answer_bytes_of(self, request: Message, message_bytes: int) -> int:
        """Return what the answer to a request may take, where a message takes at most that."""
        if not self.messages:
            return self.answer_bytes
        numbers = getattr(request, "sequence_numbers", ())
        count = len(numbers) or getattr(request, "max_messages", 0)
        return max(message_bytes, min(self.answer_bytes, count * message_bytes))

    def destinations_of(self, request: Message) -> list[str]:
        """Return the entities that a request lets messages go on to: the right is needed there."""
        described = getattr(request, "description", None)
        names = (getattr(described, field, "") for field in forwarding.FIELDS)
        return [name for name in names if name]

    def entity_of(self, request: Message) -> str:
        """Return the path of the entity that a request names."""
        name: str = getattr(request, self.field)
        if not self.subscription_field:
            return name
        return subscription_name.compose(name, getattr(request, self.subscription_field))


def _small(operation: Operation) -> Method:
    """Return the method of a call whose answer is a few numbers, or errors of a few kinds."""
    return Method(operation, answer_bytes=0)


def _of_messages(operation: Operation, answer_bytes: int) -> Method:
    return Method(operation, answer_bytes=answer_bytes, messages=True)


def _on_rules(operation: Operation) -> Method:
    """Return the method of a call about rules, which are a part of their subscription."""
    return Method(operation, "topic_name", "subscription_name")


METHODS: Final[dict[str, Method]] = {
    f"{_SENDER}Send": _small(Operation.SEND),
    f"{_SENDER}SendStream": Method(Operation.SEND, stream=True),
    f"{_SENDER}CancelScheduledMessages": _small(Operation.CANCEL_SCHEDULED),
    f"{_SENDER}GetSendLimits": _small(Operation.SEND),
    f"{_RECEIVER}Receive": _of_messages(Operation.RECEIVE, limits.FRAME_BYTES_MAX),
    f"{_RECEIVER}ReceiveStream": Method(Operation.RECEIVE, stream=True),
    f"{_RECEIVER}Settle": _small(Operation.SETTLE),
    f"{_RECEIVER}ReceiveDeferred": _of_messages(
        Operation.RECEIVE_DEFERRED, limits.DEFERRED_BYTES_MAX
    ),
    f"{_RECEIVER}Peek": _of_messages(Operation.PEEK, limits.PEEK_BYTES_MAX),
    f"{_RECEIVER}DeleteMessages": _small(Operation.DELETE_MESSAGES),
    # Its sends and settlements need the rights that they need outside of it.
    f"{_TRANSACTION}Transact": Method(Operation.SEND, stream=True),
    f"{_RECEIVER}RenewSessionLock": _small(Operation.RENEW_SESSION),
    f"{_RECEIVER}GetSessionState": _of_messages(Operation.GET_SESSION_STATE, 0),
    f"{_RECEIVER}SetSessionState": _small(Operation.SET_SESSION_STATE),
    f"{_RECEIVER}ListSessions": Method(Operation.LIST_SESSIONS),
    f"{_RECEIVER}ListSessionCounts": Method(Operation.LIST_SESSIONS),
    f"{_PIPELINE}DescribePartitions": Method(Operation.DESCRIBE_PARTITIONS),
    f"{_PIPELINE}BrowsePartition": _of_messages(Operation.PEEK, limits.RANGE_BYTES_MAX),
    f"{_PIPELINE}GetSequenceNumberAt": _small(Operation.PEEK),
    f"{_PIPELINE}AcquireDrainLease": _small(Operation.DRAIN),
    f"{_PIPELINE}ReleaseDrainLease": _small(Operation.DRAIN),
    f"{_PIPELINE}SettleRange": _small(Operation.DRAIN),
    f"{_PIPELINE}SendFenced": _small(Operation.SEND),
    f"{_PIPELINE}GetProducerFence": _small(Operation.SEND),
    f"{_MANAGEMENT}GetNamespace": Method(Operation.GET_NAMESPACE),
    f"{_MANAGEMENT}CreateQueue": Method(Operation.CREATE_ENTITY, "name"),
    f"{_MANAGEMENT}UpdateQueue": Method(Operation.UPDATE_ENTITY, "name"),
    f"{_MANAGEMENT}DeleteQueue": Method(Operation.DELETE_ENTITY, "name"),
    f"{_MANAGEMENT}GetQueue": Method(Operation.GET_ENTITY, "name"),
    f"{_MANAGEMENT}ListQueues": Method(Operation.LIST_ENTITIES),
    f"{_MANAGEMENT}CreateTopic": Method(Operation.CREATE_ENTITY, "name"),
    f"{_MANAGEMENT}UpdateTopic": Method(Operation.UPDATE_ENTITY, "name"),
    f"{_MANAGEMENT}DeleteTopic": Method(Operation.DELETE_ENTITY, "name"),
    f"{_MANAGEMENT}GetTopic": Method(Operation.GET_ENTITY, "name"),
    f"{_MANAGEMENT}ListTopics": Method(Operation.LIST_ENTITIES),
    # Its subscriptions are a part of a topic: whoever manages it makes and lists them.
    f"{_MANAGEMENT}CreateSubscription": Method(Operation.UPDATE_ENTITY, "topic_name"),
    f"{_MANAGEMENT}ListSubscriptions": Method(Operation.GET_ENTITY, "topic_name"),
    f"{_MANAGEMENT}UpdateSubscription": Method(Operation.UPDATE_ENTITY, "topic_name", "name"),
    f"{_MANAGEMENT}DeleteSubscription": Method(Operation.DELETE_ENTITY, "topic_name", "name"),
    f"{_MANAGEMENT}GetSubscription": Method(Operation.GET_ENTITY, "topic_name", "name"),
    f"{_MANAGEMENT}CreateRule": _on_rules(Operation.UPDATE_ENTITY),
    f"{_MANAGEMENT}UpdateRule": _on_rules(Operation.UPDATE_ENTITY),
    f"{_MANAGEMENT}DeleteRule": _on_rules(Operation.UPDATE_ENTITY),
    f"{_MANAGEMENT}GetRule": _on_rules(Operation.GET_ENTITY),
    f"{_MANAGEMENT}ListRules": _on_rules(Operation.GET_ENTITY),
}
# What any token of this bus is enough for.
ANY_TOKEN: Final = frozenset({"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"})
# What carries messages, or something as large as one; requests of others are smaller.
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
