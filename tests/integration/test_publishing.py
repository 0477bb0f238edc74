"""Publishing through everything: client, front end, partitions, files."""

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bendybus.client import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from bendybus.client.exceptions import (
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
    ServiceBusError,
)
from bendybus.client.management import (
    CorrelationRuleFilter,
    FalseRuleFilter,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)
from tests.integration.processes import Bus, eventually

TOPIC = "news"


@pytest.fixture
def own_bus(tmp_path: Path) -> Iterator[Bus]:
    """A bus whose processes end during a test."""
    made = Bus(tmp_path, partitions=2)
    yield made
    made.end()


def message(body: str, **properties: Any) -> ServiceBusMessage:
    """Return a message with application properties."""
    given: dict[str | bytes, Any] = dict(properties.items())
    return ServiceBusMessage(body.ljust(100), application_properties=given)


def bodies(client: ServiceBusClient, topic: str, name: str, **options: Any) -> list[str]:
    """Receive and delete all that a subscription has."""
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_subscription_receiver(
        topic, name, receive_mode=mode, max_wait_time=2, **options
    ) as receiver:
        found: list[str] = []
        while got := receiver.receive_messages(max_message_count=100, max_wait_time=2):
            found += [str(each).strip() for each in got]
        return sorted(found)


@pytest.mark.requirement("R110", "R114", "R116", "R117")
def test_messages_go_from_a_topic_to_its_subscriptions(bus: Bus) -> None:
    with bus.administration() as administration, bus.client() as client:
        administration.create_topic("weather")
        for name in ("all", "red", "none"):
            administration.create_subscription("weather", name)
        administration.delete_rule("weather", "red", "$Default")
        administration.create_rule(
            "weather",
            "red",
            "is-red",
            filter=SqlRuleFilter("color = @wanted", {"wanted": "red"}),
            action=SqlRuleAction("SET hot = TRUE"),
        )
        rule = administration.get_rule("weather", "none", "$default")
        rule.filter = FalseRuleFilter()
        administration.update_rule("weather", "none", rule)

        with client.get_topic_sender("weather") as sender:
            sender.send_messages([message("1", color="red"), message("2", color="blue")])
            due = datetime.now(UTC) + timedelta(seconds=1)
            [kept, gone] = sender.schedule_messages([message("3", color="red"), message("4")], due)
            sender.cancel_scheduled_messages(gone)

        with client.get_subscription_receiver("weather", "red", max_wait_time=5) as receiver:
            [first] = receiver.receive_messages()
            assert str(first).strip() == "1"
            properties = first.application_properties or {}
            assert properties[b"hot"] is True
            assert properties[b"RuleName"] == b"is-red"
            receiver.complete_message(first)
            [third] = receiver.receive_messages()
            assert str(third).strip() == "3"
            receiver.dead_letter_message(third, reason="tried")
        [dead] = bodies(client, "weather", "red", sub_queue=ServiceBusSubQueue.DEAD_LETTER)
        assert dead == "3"
        eventually(
            lambda: _active(administration, "weather", "all") == 3, what="three copies in all"
        )
        shown = administration.get_topic_runtime_properties("weather")
        assert shown.size_in_bytes > 0
        assert bodies(client, "weather", "all") == ["1", "2", "3"]
        assert bodies(client, "weather", "none") == []
        assert kept > 0


@pytest.mark.requirement("R110", "R111")
def test_rules_are_administered_with_the_names_of_the_service(bus: Bus) -> None:
    with bus.administration() as administration:
        administration.create_topic("ruled")
        administration.create_subscription("ruled", "s")
        filters: dict[str, Any] = {
            "correlation": CorrelationRuleFilter(label="x", properties={"n": 5, "ok": True}),
            "sql": SqlRuleFilter("n > @least", {"@least": 3}),
            "none": FalseRuleFilter(),
        }
        for name, wanted in filters.items():
            made = administration.create_rule("ruled", "s", name, filter=wanted)
            assert vars(made.filter) == vars(wanted)
            assert made.created_at_utc is not None

        names = [each.name for each in administration.list_rules("ruled", "s")]
        assert names == ["$Default", "correlation", "none", "sql"]
        assert isinstance(administration.get_rule("ruled", "s", "$Default").filter, TrueRuleFilter)
        with pytest.raises(ResourceExistsError):
            administration.create_rule("ruled", "s", "SQL")
        with pytest.raises(ResourceNotFoundError, match="rule 'other'"):
            administration.delete_rule("ruled", "s", "other")
        with pytest.raises(ResourceNotFoundError):
            administration.create_rule("ruled", "t", "r")
        with pytest.raises(HttpResponseError, match="line 2, column 1") as caught:
            administration.create_rule("ruled", "s", "bad", filter=SqlRuleFilter("a = \n= 1"))
        assert "expected" in str(caught.value)
        assert len(list(administration.list_rules("ruled", "s"))) == 4


@pytest.mark.requirement("R88")
def test_wrong_ends_are_refused_in_a_sentence(bus: Bus) -> None:
    with bus.administration() as administration, bus.client() as client:
        administration.create_topic("ends")
        administration.create_subscription("ends", "s")

        with (
            pytest.raises(ServiceBusError, match="Receive from one of its subscriptions"),
            client.get_queue_receiver("ends", max_wait_time=1) as receiver,
        ):
            receiver.receive_messages()
        with (
            pytest.raises(ServiceBusError, match="Send to topic 'ends'"),
            client.get_queue_sender("ends/Subscriptions/s") as sender,
        ):
            sender.send_messages(message("x"))


def _active(administration: Any, topic: str, name: str) -> int:
    found = administration.get_subscription_runtime_properties(topic, name)
    return int(found.active_message_count)


@pytest.mark.requirement("R181")
def test_a_kill_while_publishing_loses_no_copy_and_leaves_no_body(own_bus: Bus) -> None:
    bus, accepted = own_bus, list[int]()
    with bus.administration() as administration:
        administration.create_topic(TOPIC)
        for name, wanted, action in (
            ("all", TrueRuleFilter(), None),
            ("even", SqlRuleFilter("n % 2 = 0"), None),
            ("tagged", TrueRuleFilter(), SqlRuleAction("SET tag = 1")),
        ):
            administration.create_subscription(TOPIC, name)
            administration.update_rule(
                TOPIC, name, {"name": "$Default"}, filter=wanted, action=action
            )
    stop = threading.Event()

    def publish() -> None:
        with bus.client() as client, client.get_topic_sender(TOPIC) as sender:
            while not stop.is_set():
                first = 10 * len(accepted)
                batch = [message(str(first + i), n=first + i) for i in range(10)]
                sender.send_messages(batch)
                accepted.append(first)

    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        for kill in range(4):
            before = len(accepted)
            eventually(lambda: len(accepted) > before + 10, what="more messages")  # noqa: B023
            bus.partitions[kill % 2].kill()
            bus.start_partition(kill % 2)
    finally:
        stop.set()
        publisher.join(60)
    assert not publisher.is_alive()

    with bus.administration() as administration:
        # A partition that is not back yet has its copies, and says nothing.
        eventually(
            lambda: all(
                each["available"]
                for each in administration.get_namespace_properties().partitions  # type: ignore[attr-defined]
            ),
            what="both partitions",
        )
    with bus.client() as client:
        found = {name: Counter(bodies(client, TOPIC, name)) for name in ("all", "even", "tagged")}

    for first in accepted:
        for n in range(first, first + 10):
            assert found["all"][str(n)] >= 1, n
    # What was stored twice, as a partition died before its answer, has all copies twice.
    assert found["tagged"] == found["all"]
    assert found["even"] == Counter({n: k for n, k in found["all"].items() if int(n) % 2 == 0})
    with bus.administration() as administration:
        eventually(
            lambda: administration.get_topic_runtime_properties(TOPIC).size_in_bytes == 0,
            what="no body that no message has",
        )


@pytest.mark.requirement("R113", "R181")
def test_rules_change_while_traffic_flows(own_bus: Bus) -> None:
    bus, sent = own_bus, list[int]()
    with bus.administration() as administration:
        administration.create_topic(TOPIC)
        administration.create_subscription(TOPIC, "some")
        administration.delete_rule(TOPIC, "some", "$Default")
        stop, expected, refused = threading.Event(), set[str](), set[str]()

        def publish() -> None:
            with bus.client() as client, client.get_topic_sender(TOPIC) as sender:
                while not stop.is_set():
                    sender.send_messages(message(str(len(sent)), n=len(sent)))
                    sent.append(len(sent))

        def more() -> tuple[int, int]:
            """Return the numbers of messages that are sent, first to last, from now on."""
            first = len(sent) + 1
            eventually(lambda: len(sent) > first + 20, what="more messages")
            return first, len(sent)

        publisher = threading.Thread(target=publish)
        publisher.start()
        try:
            for i in range(4):
                # One more than is under way: its send begins after the change is answered.
                administration.create_rule(TOPIC, "some", f"r{i}")
                first, end = more()
                expected |= {str(n) for n in range(first, end)}
                administration.delete_rule(TOPIC, "some", f"r{i}")
                first, end = more()
                refused |= {str(n) for n in range(first, end)}
        finally:
            stop.set()
            publisher.join(60)

    with bus.client() as client:
        found = bodies(client, TOPIC, "some")
    assert expected <= set(found)
    assert not refused & set(found)
