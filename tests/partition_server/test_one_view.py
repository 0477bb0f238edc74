"""Rules and actions of a topic see a message as a receiver would get it, and so do receivers."""

from typing import Any, Final

import pytest

from bendybus.client.messages import received_message, values
from bendybus.client.messages.received_message import Delivered, ServiceBusReceivedMessage
from bendybus.domain.disposition import Disposition
from bendybus.domain.filters.rule import CorrelationFilter, Rule, SqlFilter, SqlRuleAction
from bendybus.partition_server.service import conversions
from bendybus.partition_server.state.answers import Delivery
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append
from bendybus.v1 import message_pb2
from tests.partition_server import publishing
from tests.partition_server.driver import Driver
from tests.partition_server.topic_changes import subscription, topic

REASON: Final = "DeadLetterReason"
DESCRIPTION: Final = "DeadLetterErrorDescription"


def changes(**properties: Any) -> bytes:
    """Return changed properties, serialised."""
    head = message_pb2.Message.FromString(publishing.head(**properties))
    return message_pb2.ValueMap(entries=head.application_properties).SerializeToString()


def with_rule(driver: Driver, rule: Rule) -> None:
    """Make a queue whose dead letters go to the topic `news`, with one rule at subscription `a`."""
    topic(driver)
    subscription(driver, changes={"rules": (rule,)})
    driver.create(forward_dead_lettered_messages_to="news")
    # So that numbers at the topic are others than at the queue.
    publishing.publish(driver, publishing.head(first=1), publishing.head(first=1))


def dead_letter(driver: Driver) -> None:
    """Send a message, abandon it and dead-letter it, with changes each time."""
    heads = [publishing.head(Color="red", n=1, kept="yes", Old="x")]
    driver.run(Append("t", driver.ref(), Batch([publishing.BODY], heads=heads, formats=[1])))
    [(_, token)] = driver.receive()
    driver.settle(Disposition.ABANDON, token, changed_properties=changes(Color="blue"))
    [(_, token)] = driver.receive()
    driver.settle(
        Disposition.DEAD_LETTER,
        token,
        changed_properties=changes(n=2),
        dead_letter_reason="Bad",
        dead_letter_error_description="why so",
    )
    driver.sweep()


def received(driver: Driver, name: str = "a") -> list[ServiceBusReceivedMessage]:
    """Return what receivers of a subscription would get."""
    rows = [row for row in publishing.rows(driver, name) if row.hops]
    batch = conversions.delivery_to_proto(Delivery(1, 0, rows), partition=0)
    return received_message.make_all([(Delivered(batch), 0, len(rows))])


SEEN: Final = [
    "DeadLetterReason = 'Bad'",
    "deadletterreason = 'Bad' AND user.DeadLetterReason LIKE 'B%'",
    "sys.DeadLetterReason = 'Bad'",
    "sys.deadletterreason LIKE '%ad' AND EXISTS(sys.DeadLetterReason)",
    "property('sys.DeadLetterReason') = 'Bad'",
    "DeadLetterErrorDescription = 'why so' AND sys.DeadLetterErrorDescription LIKE 'why%'",
    "sys.DeadLetterSource = 'orders'",
    "Color = 'blue' AND n = 2 AND kept = 'yes'",
    "sys.EnqueuedSequenceNumber = 1 AND sys.SequenceNumber = 3",
    "sys.DeliveryCount = 0",
]


@pytest.mark.requirement("R521")
@pytest.mark.parametrize("text", SEEN)
def test_a_filter_sees_what_the_bus_and_receivers_wrote(driver: Driver, text: str) -> None:
    with_rule(driver, Rule("r", SqlFilter(text)))

    dead_letter(driver)

    [message] = received(driver)
    assert publishing.rows(driver, "a", dead_letter=True) == []
    assert message.decoded_properties == {
        "Color": "blue",
        "n": 2,
        "kept": "yes",
        "Old": "x",
        REASON: "Bad",
        DESCRIPTION: "why so",
    }
    assert message.dead_letter_source == "orders"
    assert message.enqueued_sequence_number == 1


@pytest.mark.requirement("R521")
@pytest.mark.parametrize("wanted", [{REASON: "Bad"}, {DESCRIPTION: "why so", "Color": "blue"}])
def test_so_does_a_correlation_filter(driver: Driver, wanted: dict[str, Any]) -> None:
    with_rule(driver, Rule("r", CorrelationFilter(properties=wanted)))

    dead_letter(driver)

    assert len(received(driver)) == 1


ACTIONS: Final[dict[str, dict[str, Any]]] = {
    "SET DeadLetterReason = 'Other'": {REASON: "Other"},
    "SET sys.DeadLetterReason = 'Other'": {REASON: "Other"},
    "SET sys.DeadLetterReason = DeadLetterReason + '!'": {REASON: "Bad!"},
    "REMOVE DeadLetterReason": {REASON: None},
    "REMOVE deadlettererrordescription; SET Reason = DeadLetterReason": {
        DESCRIPTION: None,
        "Reason": "Bad",
    },
    "SET DeadLetterReason = 5": {REASON: "5"},
    "SET Color = 'green'; REMOVE n": {"Color": "green", "n": None},
    "SET Color = Color + '!'": {"Color": "blue!"},
    "SET a = sys.EnqueuedSequenceNumber": {"a": 1},
    "SET a = sys.DeadLetterSource": {"a": "orders"},
}


@pytest.mark.requirement("R521")
@pytest.mark.parametrize("text", ACTIONS)
def test_an_action_changes_what_a_receiver_gets(driver: Driver, text: str) -> None:
    with_rule(driver, Rule("r", SqlFilter("kept = 'yes'"), SqlRuleAction(text)))

    dead_letter(driver)

    [message] = received(driver)
    found = message.decoded_properties
    wanted = {"Color": "blue", "n": 2, "kept": "yes", "Old": "x", "RuleName": "r"}
    wanted |= {REASON: "Bad", DESCRIPTION: "why so", **ACTIONS[text]}
    assert found == {name: value for name, value in wanted.items() if value is not None}
    reason = found.get(REASON)
    assert message.dead_letter_reason == (reason if isinstance(reason, str) else None)
    assert message.dead_letter_error_description == found.get(DESCRIPTION)


@pytest.mark.requirement("R521")
def test_the_size_of_a_copy_is_what_it_is_after_the_action(driver: Driver) -> None:
    text = "REMOVE DeadLetterReason; REMOVE DeadLetterErrorDescription"
    with_rule(driver, Rule("r", SqlFilter("kept = 'yes'"), SqlRuleAction(text)))

    dead_letter(driver)

    [row] = [row for row in publishing.rows(driver, "a") if row.hops]
    assert row.changed_properties is None
    assert row.extra_bytes == len("orders")


@pytest.mark.requirement("R521")
def test_the_first_number_is_seen_at_every_hop(driver: Driver) -> None:
    for name in ("last", "next"):
        topic(driver, name)
        publishing.publish(driver, publishing.head(first=1), name=name)
    wanted = (Rule("r", SqlFilter("sys.EnqueuedSequenceNumber = 2")),)
    changes = {"rules": wanted, "forward_to": "last"}
    subscription(driver, "next/Subscriptions/a", changes=changes)
    subscription(driver, "last/Subscriptions/a", changes={"rules": wanted})
    driver.create(forward_to="next")
    heads = [publishing.head(n=n) for n in (1, 2)]
    driver.run(Append("t", driver.ref(), Batch([b""] * 2, heads=heads, formats=[1, 1])))
    driver.sweep()

    [row] = publishing.rows(driver, "a", of="last")

    assert publishing.properties_of(row) == {"n": 2}
    assert row.enqueued_sequence_number == 2


@pytest.mark.requirement("R521")
def test_a_property_of_the_sender_by_that_name_is_the_reason_of_a_message(queue: Driver) -> None:
    heads = [publishing.head(**{REASON: "mine"})]
    queue.run(Append("t", queue.ref(), Batch([b""], heads=heads, formats=[1])))

    batch = conversions.delivery_to_proto(Delivery(1, 0, queue.peek()), partition=0)
    [message] = received_message.make_all([(Delivered(batch), 0, 1)])

    assert message.dead_letter_reason == "mine"
    assert message.application_properties == {REASON.encode(): values.Text(b"mine")}
