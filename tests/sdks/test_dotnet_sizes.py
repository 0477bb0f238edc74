"""Messages at the limit of size, through the SDK for .NET: all that is accepted can be received."""

from typing import Any, Final

import pytest

from tests.sdks.dotnet_bus import DotnetBus, DotnetClient

# As in its live test CanSendMessageWithMaxSize.
STANDARD_BODY: Final = 256 * 1024 - 77
PREMIUM_BODY: Final = 1024 * 1024 - 77
TEXT: Final = "\u20ac" * 4_096

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R560")]


def sizes(messages: list[Any]) -> list[int]:
    return [each["size"] for each in messages]


def received(bus: DotnetBus, receiver: str, count: int) -> list[Any]:
    """Receive messages, one at a time as programs do."""
    found: list[Any] = []
    while len(found) < count:
        more = bus.driver.call("receive", receiver=receiver, max=1, waitS=20)
        assert more, f"received {len(found)} of {count}"
        found += more
    return found


def send_large(bus: DotnetBus, client: DotnetClient, entity: str, body: int, **fields: Any) -> None:
    sender = client.sender(entity)
    bus.driver.call("send", sender=sender, message={"size": body, **fields})
    bus.driver.call("send", sender=sender, message={"body": "small", **fields})


def test_the_largest_message_is_received_and_so_are_those_behind_it(dotnet: DotnetBus) -> None:
    queue, client = dotnet.queue(), dotnet.client()
    send_large(dotnet, client, queue, STANDARD_BODY)

    messages = received(dotnet, client.receiver(queue), 2)

    assert sizes(messages) == [STANDARD_BODY, 5]
    assert [each["deliveryCount"] for each in messages] == [1, 1]


def test_the_largest_message_of_a_premium_bus_is_received(dotnet_premium: DotnetBus) -> None:
    queue, client = dotnet_premium.queue(), dotnet_premium.client()
    send_large(dotnet_premium, client, queue, PREMIUM_BODY)

    assert sizes(received(dotnet_premium, client.receiver(queue), 2)) == [PREMIUM_BODY, 5]


def test_the_largest_message_of_a_session_is_received(dotnet: DotnetBus) -> None:
    queue, client = dotnet.queue(requires_session=True), dotnet.client()
    send_large(dotnet, client, queue, STANDARD_BODY - 32, sessionId="s")

    receiver = client.session(queue, sessionId="s")

    assert sizes(received(dotnet, receiver, 2)) == [STANDARD_BODY - 32, 5]


def test_a_large_message_is_received_after_all_that_may_be_added_to_it(dotnet: DotnetBus) -> None:
    """Abandoned and dead-lettered with properties, with the longest texts, and forwarded."""
    target, client = dotnet.queue(), dotnet.client()
    queue = dotnet.queue(forward_dead_lettered_messages_to=target)
    send_large(dotnet, client, queue, STANDARD_BODY)
    receiver = client.receiver(queue)
    changes = {f"changed-{number}": "x" * 15_000 for number in range(2)}
    more = {f"dead-{number}": "x" * 15_000 for number in range(2)}
    call = dotnet.driver.call

    first = received(dotnet, receiver, 1)[0]
    call("abandon", receiver=receiver, handle=first["handle"], properties=changes)
    again = next(each for each in received(dotnet, receiver, 2) if each["size"] > 5)
    handle = again["handle"]
    call(
        "deadletter", receiver=receiver, handle=handle, properties=more, reason=TEXT,
        description=TEXT,
    )  # fmt: skip

    [dead] = received(dotnet, client.receiver(target), 1)
    assert dead["size"] == STANDARD_BODY
    assert dead["deadLetterReason"] == dead["deadLetterErrorDescription"] == TEXT
    assert {*changes, *more} <= set(dead["properties"])
