"""Messages and numbers as programs on the SDK for .NET see them, and its live tests want them."""

from typing import Any

import pytest

from tests.sdks.dotnet_bus import DotnetBus
from tests.sdks.dotnet_driver import SdkError

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R570")]


def taken(bus: DotnetBus, receiver: str) -> Any:
    [message] = bus.driver.call("receive", receiver=receiver, max=1, waitS=20)
    return message


@pytest.mark.parametrize("partitioned", [False, True])
def test_an_unknown_number_is_not_found(dotnet: DotnetBus, partitioned: bool) -> None:
    """Also beside the number of a deferred message of a plain queue."""
    queue, client = dotnet.queue(enable_partitioning=partitioned), dotnet.client()
    call, receiver = dotnet.driver.call, client.receiver(queue)
    call("send", sender=client.sender(queue), message={"body": "one"})
    message = taken(dotnet, receiver)
    call("defer", receiver=receiver, handle=message["handle"])
    wrong = [123_456, 2**62]
    numbers = [[each] for each in wrong]
    if not partitioned:
        numbers += [[message["sequenceNumber"], each] for each in wrong]

    for each in numbers:
        with pytest.raises(SdkError) as failed:
            call("deferred", receiver=receiver, numbers=each)
        assert failed.value.reason == "MessageNotFound"

    [again] = call("deferred", receiver=receiver, numbers=[message["sequenceNumber"]])
    assert again["body"] == "one"


@pytest.mark.parametrize("partitioned", [False, True])
def test_another_sessions_number_is_not_found(dotnet: DotnetBus, partitioned: bool) -> None:
    queue = dotnet.queue(enable_partitioning=partitioned, requires_session=True)
    client, call = dotnet.client(), dotnet.driver.call
    sender = client.sender(queue)
    for session in ("a", "b"):
        call("send", sender=sender, message={"body": session, "sessionId": session})
    own, other = (client.session(queue, sessionId=session) for session in ("a", "b"))
    message = taken(dotnet, own)
    call("defer", receiver=own, handle=message["handle"])

    with pytest.raises(SdkError) as failed:
        call("deferred", receiver=other, numbers=[message["sequenceNumber"]])

    assert failed.value.reason == "MessageNotFound"
    assert taken(dotnet, other)["body"] == "b"


def test_a_deferred_message_of_a_subscription_is_shown_with_all_its_facts(
    dotnet: DotnetBus,
) -> None:
    """As CreateFromReceivedMessageCopiesPropertiesTopic."""
    topic, client, call = dotnet.name("topic"), dotnet.client(), dotnet.driver.call
    dotnet.administration.create_topic(topic, enable_partitioning=True)
    dotnet.administration.create_subscription(topic, "s", requires_session=True)
    sent = {"body": "one", "sessionId": "key", "partitionKey": "key"}
    call("send", sender=client.sender(topic), message=sent)
    receiver = client.session(topic, subscription="s")
    message = taken(dotnet, receiver)

    call("defer", receiver=receiver, handle=message["handle"])
    [shown] = call("peek", receiver=receiver, max=1)

    assert shown["state"] == "Deferred"
    assert shown["enqueuedSequenceNumber"] > 0
    # SDKs that find no such annotation show the year 1.
    assert shown["lockedUntil"].startswith("1970-01-01")
