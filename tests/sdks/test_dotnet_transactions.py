"""Transactions of the SDK for .NET, as its samples and live tests have them."""

from typing import Any, Final

import pytest

from tests.integration.processes import eventually
from tests.sdks.dotnet_bus import DotnetBus, DotnetClient
from tests.sdks.dotnet_driver import SdkError

pytestmark = [pytest.mark.integration]
HOUR_MS: Final = 3_600_000
SPANS: Final = "Local transactions cannot span multiple top-level entities"


class Scope:
    """A transaction of the program, which is committed at the end unless it is rolled back."""

    def __init__(self, bus: DotnetBus) -> None:
        self._driver, self.name = bus.driver, bus.name("transaction")
        self._driver.call("begin", name=self.name)

    def call(self, operation: str, **fields: Any) -> Any:
        return self._driver.call(operation, tx=self.name, **fields)

    def commit(self) -> None:
        self._driver.call("commit", name=self.name)

    def roll_back(self) -> None:
        self._driver.call("rollback", name=self.name)


def filled(bus: DotnetBus, client: DotnetClient, *bodies: str, **options: Any) -> tuple[str, str]:
    """Return a queue with messages and a receiver of it."""
    queue = bus.queue(**options)
    messages = [{"body": body} for body in bodies]
    bus.driver.call("send", sender=client.sender(queue), messages=messages)
    return queue, client.receiver(queue)


def take(bus: DotnetBus, receiver: str, wait_s: float = 10) -> Any:
    [message] = bus.driver.call("receive", receiver=receiver, max=1, waitS=wait_s)
    return message


def bodies_in(bus: DotnetBus, client: DotnetClient, queue: str) -> list[str]:
    shown = bus.driver.call("peek", receiver=client.receiver(queue), max=10, **{"from": 1})
    return [each["body"] for each in shown]


@pytest.mark.requirement("R561")
def test_a_message_is_dead_lettered_with_a_reason(dotnet: DotnetBus) -> None:
    client = dotnet.client()
    queue, receiver = filled(dotnet, client, "one")
    message, scope = take(dotnet, receiver), Scope(dotnet)

    scope.call(
        "deadletter", receiver=receiver, handle=message["handle"], reason="bad", description="it is"
    )
    scope.commit()

    dead = take(dotnet, client.receiver(queue, subQueue="deadLetter"))
    assert (dead["body"], dead["deadLetterReason"]) == ("one", "bad")
    assert dead["deadLetterErrorDescription"] == "it is"


@pytest.mark.requirement("R561")
@pytest.mark.parametrize("committed", [True, False])
def test_a_cancellation_is_done_at_the_commit(dotnet: DotnetBus, committed: bool) -> None:
    """As TransactionalCancelScheduleRollback."""
    client, queue = dotnet.client(), dotnet.queue()
    sender = client.sender(queue)
    messages = [{"body": "one"}, {"body": "two"}]
    numbers = dotnet.driver.call("schedule", sender=sender, inMs=HOUR_MS, messages=messages)
    scope = Scope(dotnet)

    scope.call("cancel", sender=sender, numbers=numbers[:1])
    before = bodies_in(dotnet, client, queue)
    if committed:
        scope.commit()
    else:
        scope.roll_back()

    assert before == ["one", "two"]
    assert bodies_in(dotnet, client, queue) == (["two"] if committed else ["one", "two"])


def scheduled_in(bus: DotnetBus, entity: str) -> int:
    administration = bus.administration
    topic = entity.startswith("topic")
    read = (
        administration.get_topic_runtime_properties
        if topic
        else administration.get_queue_runtime_properties
    )
    return int(read(entity).scheduled_message_count)


@pytest.mark.requirement("R580")
@pytest.mark.parametrize(
    "kind", ["queue", "partitioned queue", "topic", "another queue", "another partitioned queue"]
)
def test_a_message_is_scheduled_with_a_number_that_cancels_it(dotnet: DotnetBus, kind: str) -> None:
    """As transactionScheduleAndCommitTest of the SDK for Java, which wants a number above 0."""
    client, call = dotnet.client(crossEntity=kind.startswith("another")), dotnet.driver.call
    partitioned = "partitioned" in kind
    entity = dotnet.queue(enable_partitioning=partitioned)
    if kind == "topic":
        entity = dotnet.name("topic")
        dotnet.administration.create_topic(entity)
    keys: list[dict[str, str]] = [{"partitionKey": "k"} if partitioned else {}] * 2
    if kind == "another partitioned queue":
        keys = [{"partitionKey": key, "transactionPartitionKey": "v"} for key in ("k", "m")]
    messages = [{"body": body, **key} for body, key in zip(("one", "two"), keys, strict=True)]
    scope = Scope(dotnet)
    if kind.startswith("another"):
        _, receiver = filled(dotnet, client, "first")
        scope.call("complete", receiver=receiver, handle=take(dotnet, receiver)["handle"])

    sender = client.sender(entity)
    numbers = scope.call("schedule", sender=sender, inMs=HOUR_MS, messages=messages)
    scope.commit()

    assert len(set(numbers)) == 2
    assert min(numbers) > 0
    outside = dotnet.client().sender(entity)
    assert eventually(lambda: scheduled_in(dotnet, entity) == 2 or None)
    call("cancel", sender=outside, numbers=numbers[:1])
    assert scheduled_in(dotnet, entity) == 1
    with pytest.raises(SdkError):
        call("cancel", sender=outside, numbers=numbers[:1])


@pytest.mark.requirement("R561")
def test_nothing_is_done_if_a_cancelled_message_is_not_scheduled(dotnet: DotnetBus) -> None:
    client = dotnet.client()
    queue, receiver = filled(dotnet, client, "one")
    message, scope = take(dotnet, receiver), Scope(dotnet)

    scope.call("complete", receiver=receiver, handle=message["handle"])
    scope.call("cancel", sender=client.sender(queue), numbers=[message["sequenceNumber"]])
    with pytest.raises(SdkError, match="in doubt"):
        scope.commit()

    assert bodies_in(dotnet, client, queue) == ["one"]


@pytest.mark.requirement("R561")
@pytest.mark.parametrize("committed", [True, False])
def test_a_session_state_is_set_with_the_message_that_is_completed(
    dotnet: DotnetBus, committed: bool
) -> None:
    client, queue = dotnet.client(), dotnet.queue(requires_session=True)
    call = dotnet.driver.call
    call("send", sender=client.sender(queue), message={"body": "one", "sessionId": "s"})
    receiver = client.session(queue, sessionId="s")
    call("setstate", receiver=receiver, state="before")
    message, scope = take(dotnet, receiver), Scope(dotnet)

    scope.call("complete", receiver=receiver, handle=message["handle"])
    scope.call("setstate", receiver=receiver, state="between")
    scope.call("setstate", receiver=receiver, state="after")
    during = scope.call("state", receiver=receiver)
    if committed:
        scope.commit()
    else:
        scope.roll_back()

    assert during == "before"
    assert call("state", receiver=receiver) == ("after" if committed else "before")
    assert bodies_in(dotnet, client, queue) == ([] if committed else ["one"])
    assert dotnet.administration.get_queue_runtime_properties(queue).size_in_bytes > 0


@pytest.mark.requirement("R561")
def test_what_cannot_be_rolled_back_is_done_beside_the_transaction(dotnet: DotnetBus) -> None:
    """Renewals, deferred messages, peeks and states are read or extended in a TransactionScope."""
    client, queue = dotnet.client(), dotnet.queue(requires_session=True)
    call = dotnet.driver.call
    call("send", sender=client.sender(queue), message={"body": "one", "sessionId": "s"})
    receiver = client.session(queue, sessionId="s")
    message = take(dotnet, receiver)
    call("defer", receiver=receiver, handle=message["handle"])
    scope = Scope(dotnet)

    renewed = scope.call("renewsession", receiver=receiver)
    shown = scope.call("peek", receiver=receiver, max=1, **{"from": 1})
    [again] = scope.call("deferred", receiver=receiver, numbers=[message["sequenceNumber"]])
    scope.call("complete", receiver=receiver, handle=again["handle"])
    scope.commit()

    assert renewed
    assert [each["body"] for each in shown] == ["one"]
    assert bodies_in(dotnet, client, queue) == []


@pytest.mark.requirement("R561")
def test_the_lock_of_a_message_is_renewed_in_a_transaction_scope(dotnet: DotnetBus) -> None:
    client = dotnet.client()
    _, receiver = filled(dotnet, client, "one")
    message, scope = take(dotnet, receiver), Scope(dotnet)

    until = scope.call("renew", receiver=receiver, handle=message["handle"])
    scope.call("complete", receiver=receiver, handle=message["handle"])
    scope.commit()

    assert until >= message["lockedUntil"]


@pytest.mark.requirement("R562")
def test_a_transaction_is_about_one_entity_unless_its_client_is_made_for_more(
    dotnet: DotnetBus,
) -> None:
    client, queue, other = dotnet.client(), dotnet.queue(), dotnet.queue()
    first, second, scope = client.sender(queue), client.sender(other), Scope(dotnet)

    scope.call("send", sender=first, message={"body": "one"})
    with pytest.raises(SdkError, match=SPANS) as refused:
        scope.call("send", sender=second, message={"body": "two"})

    assert refused.value.kind == "InvalidOperationException"
    with pytest.raises(SdkError, match="aborted"):
        scope.commit()
    assert bodies_in(dotnet, client, queue) == bodies_in(dotnet, client, other) == []


@pytest.mark.requirement("R562")
def test_a_topic_and_its_subscription_are_one_entity(dotnet: DotnetBus) -> None:
    """As TransactionalSendAndReceiveSubscription."""
    client, topic = dotnet.client(), dotnet.name("topic")
    dotnet.administration.create_topic(topic)
    dotnet.administration.create_subscription(topic, "s")
    sender, receiver = client.sender(topic), client.receiver(topic, subscription="s")
    dotnet.driver.call("send", sender=sender, message={"body": "one"})
    message, scope = take(dotnet, receiver), Scope(dotnet)

    scope.call("send", sender=sender, message={"body": "two"})
    scope.call("complete", receiver=receiver, handle=message["handle"])
    scope.commit()

    assert take(dotnet, receiver)["body"] == "two"


@pytest.mark.requirement("R562")
def test_across_entities_only_the_first_one_is_received_from(dotnet: DotnetBus) -> None:
    """As CrossEntityTransactionSendsFirst."""
    client, first, other = dotnet.client(crossEntity=True), dotnet.queue(), dotnet.queue()
    third, call = dotnet.queue(), dotnet.driver.call
    of_other, of_first = client.receiver(other), client.receiver(first)
    call("send", sender=client.sender(first), message={"body": "one"})
    call("send", sender=client.sender(other), message={"body": "two"})

    with pytest.raises(SdkError) as refused:
        take(dotnet, of_other)
    message, scope = take(dotnet, of_first), Scope(dotnet)
    scope.call("complete", receiver=of_first, handle=message["handle"])
    scope.call("send", sender=client.sender(third), message={"body": "three"})
    scope.commit()

    assert refused.value.kind == "InvalidOperationException"
    assert take(dotnet, dotnet.client().receiver(third))["body"] == "three"
    assert bodies_in(dotnet, dotnet.client(), first) == []


@pytest.mark.requirement("R562")
def test_across_entities_a_second_receiver_is_refused(dotnet: DotnetBus) -> None:
    client, call = dotnet.client(crossEntity=True), dotnet.driver.call
    queues = [dotnet.queue(), dotnet.queue()]
    for queue in queues:
        call("send", sender=dotnet.client().sender(queue), message={"body": "one"})

    first = take(dotnet, client.receiver(queues[0]))
    with pytest.raises(SdkError) as refused:
        take(dotnet, client.receiver(queues[1]))

    assert first["body"] == "one"
    assert refused.value.kind == "InvalidOperationException"


@pytest.mark.requirement("R562")
def test_a_sender_of_another_client_takes_no_part_in_a_transaction(dotnet: DotnetBus) -> None:
    """As the end of CrossEntityTransactionSendsFirst: the SDK raises a ServiceBusException."""
    client = dotnet.client(crossEntity=True)
    _, receiver = filled(dotnet, client, "one")
    other, message, scope = dotnet.queue(), take(dotnet, receiver), Scope(dotnet)
    scope.call("complete", receiver=receiver, handle=message["handle"])

    with pytest.raises(SdkError) as refused:
        scope.call("send", sender=dotnet.client().sender(other), message={"body": "two"})

    assert refused.value.kind == "ServiceBusException"
    assert bodies_in(dotnet, dotnet.client(), other) == []


@pytest.mark.requirement("R569")
def test_a_transaction_across_partitioned_entities_has_a_key_for_its_way(
    dotnet: DotnetBus,
) -> None:
    """As CrossEntityTransactionReceivesFirst with partitions: no message has a partition key."""
    client, call = dotnet.client(crossEntity=True), dotnet.driver.call
    first, second, third = (dotnet.queue(enable_partitioning=True) for _ in range(3))
    key = {"transactionPartitionKey": "key"}
    call("send", sender=dotnet.client().sender(first), message={"body": "one", **key})
    receiver = client.receiver(first)
    message, scope = take(dotnet, receiver), Scope(dotnet)

    scope.call("complete", receiver=receiver, handle=message["handle"])
    scope.call("send", sender=client.sender(second), message={"body": "two", **key})
    scope.call("send", sender=client.sender(third), message={"body": "three", **key})
    scope.commit()

    other = dotnet.client()
    assert take(dotnet, other.receiver(second), 20)["body"] == "two"
    assert take(dotnet, other.receiver(third), 20)["body"] == "three"
    assert bodies_in(dotnet, other, first) == []


@pytest.mark.requirement("R569")
def test_messages_with_one_key_for_their_way_have_keys_of_their_own(dotnet: DotnetBus) -> None:
    client, call = dotnet.client(crossEntity=True), dotnet.driver.call
    first, second, third = (dotnet.queue(enable_partitioning=True) for _ in range(3))
    call("send", sender=dotnet.client().sender(first), message={"body": "one"})
    receiver = client.receiver(first)
    message, scope = take(dotnet, receiver), Scope(dotnet)
    via = {"transactionPartitionKey": "way"}

    scope.call("complete", receiver=receiver, handle=message["handle"])
    for queue, own in ((second, "a"), (third, "b")):
        sent = {"body": own, "partitionKey": own, **via}
        scope.call("send", sender=client.sender(queue), message=sent)
    scope.commit()

    other = dotnet.client()
    found = [take(dotnet, other.receiver(queue), 20) for queue in (second, third)]
    assert [each["partitionKey"] for each in found] == ["a", "b"]
