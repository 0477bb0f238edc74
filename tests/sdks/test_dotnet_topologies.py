"""Topologies as frameworks on the SDK for .NET create them: names, settings, creation once more.

Source: how each framework's public source names, creates and updates its entities. A framework
creates what it needs at each start, and changes what it finds otherwise than it set it.
"""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.sdks.dotnet_bus import DotnetBus
from tests.sdks.dotnet_driver import SdkError

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R563")]
NEVER: Final = 2**31 - 1


class Administration:
    """A ServiceBusAdministrationClient of the program."""

    def __init__(self, bus: DotnetBus) -> None:
        self._driver, self.name = bus.driver, bus.name("administration")
        connection = bus.connection_string
        self._driver.call("administration", name=self.name, connection=connection)

    def call(self, operation: str, **fields: Any) -> Any:
        return self._driver.call(operation, administration=self.name, **fields)

    def ensured(self, operation: str, **fields: Any) -> Mapping[str, Any] | None:
        """Create something; None: it exists."""
        try:
            made: Mapping[str, Any] = self.call(operation, **fields)
        except SdkError as error:
            if error.reason != "MessagingEntityAlreadyExists":
                raise
            return None
        return made


@pytest.fixture(scope="module")
def admin(dotnet: DotnetBus) -> Administration:
    return Administration(dotnet)


def differences(settings: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a framework would set again."""
    names = {name: name[:1].lower() + name[1:] for name in settings}
    return {name: found[names[name]] for name in settings if found[names[name]] != settings[name]}


MASS_TRANSIT_QUEUE: Final = {
    "LockDuration": "PT5M",
    "MaxDeliveryCount": 5,
    "DefaultMessageTimeToLive": "P366D",
    "AutoDeleteOnIdle": "P427D",
    "EnableBatchedOperations": False,
    "DeadLetteringOnMessageExpiration": True,
}


@pytest.mark.parametrize(
    "topic",
    [
        "My.Contracts/SubmitOrder",
        "MassTransit/Fault--My.Contracts/SubmitOrder--",
        "MassTransit/Batch--My.Contracts/Order_Line--",
        "_internal/-Message.",
    ],
)
def test_mass_transit_binds_its_queue_to_the_topic_of_a_message(
    dotnet: DotnetBus, admin: Administration, topic: str
) -> None:
    queue = dotnet.name("submit-order")
    of_topic = {"DefaultMessageTimeToLive": "P365D", "EnableBatchedOperations": False}
    of_subscription = {"ForwardTo": queue, "MaxDeliveryCount": 5, "LockDuration": "PT5M"}
    names = {"topic": topic, "subscription": "submit-order"}

    for again in (False, True):
        for made, operation, fields in (
            (MASS_TRANSIT_QUEUE, "createqueue", {"queue": queue}),
            (of_topic, "createtopic", {"topic": topic}),
            (of_subscription, "createsubscription", names),
        ):
            found = admin.ensured(operation, **fields, settings=made)
            assert (found is None) is again
    for made, operation, fields in (
        (MASS_TRANSIT_QUEUE, "getqueue", {"queue": queue}),
        (of_topic, "gettopic", {"topic": topic}),
    ):
        assert differences(made, admin.call(operation, **fields)) == {}
    bound = admin.call("getsubscription", **names)
    assert bound["forwardTo"].endswith(f"/{queue}")
    client = dotnet.client()
    dotnet.driver.call("send", sender=client.sender(topic), message={"body": topic})
    [found] = dotnet.driver.call("receive", receiver=client.receiver(queue), waitS=20)
    assert found["body"] == topic


def test_nservicebus_subscribes_with_a_rule_of_its_own_beside_the_default(
    dotnet: DotnetBus, admin: Administration
) -> None:
    topic, queue = dotnet.name("bundle"), dotnet.name("Sales.Endpoint")
    names = {"topic": topic, "subscription": queue}
    of_queue = {"MaxDeliveryCount": NEVER, "LockDuration": "PT5M", "MaxSizeInMegabytes": 5_120}
    of_subscription = {
        "LockDuration": "PT5M",
        "ForwardTo": queue,
        "EnableDeadLetteringOnFilterEvaluationExceptions": False,
        "MaxDeliveryCount": NEVER,
        "EnableBatchedOperations": True,
        "UserMetadata": queue,
    }
    event = "Shipping.Events.OrderBilled"
    sql = f"[NServiceBus.EnclosedMessageTypes] LIKE '%{event}%'"

    for again in (False, True):
        assert (admin.ensured("createqueue", queue=queue, settings=of_queue) is None) is again
        assert (admin.ensured("createtopic", topic=topic) is None) is again
        default = {"name": "$default", "filter": "false"}
        made = admin.ensured("createsubscription", **names, settings=of_subscription, rule=default)
        assert (made is None) is again
        rule = {"name": event, "sql": sql}
        assert (admin.ensured("createrule", **names, rule=rule) is None) is again
    client, call = dotnet.client(), dotnet.driver.call
    for kind in (event, "Shipping.Events.Other"):
        properties = {"NServiceBus.EnclosedMessageTypes": f"{kind}, Shipping"}
        call("send", sender=client.sender(topic), message={"body": kind, "properties": properties})
    [found] = call("receive", receiver=client.receiver(queue), max=1, waitS=20)
    assert found["body"] == event
    assert admin.call("getrule", **names, rule="$DEFAULT")["filter"]["type"] == "FalseRuleFilter"
    assert sorted(admin.call("listrules", **names)) == sorted(["$default", event])
    admin.call("deleterule2", **names, rule="$Default")
    assert admin.call("listrules", **names) == [event]


def test_rebus_registers_its_queue_as_a_subscription_of_a_topic(
    dotnet: DotnetBus, admin: Administration
) -> None:
    queue, topic = dotnet.name("rebus_input"), "My.Events.OrderPlaced__My.Events"
    of_queue = {"LockDuration": "PT5M", "MaxDeliveryCount": 100, "EnablePartitioning": True}
    names = {"topic": topic, "subscription": queue[:50]}

    for again in (False, True):
        assert (admin.ensured("createqueue", queue=queue, settings=of_queue) is None) is again
        assert (admin.ensured("createtopic", topic=topic) is None) is again
        made = admin.ensured("createsubscription", **names)
        assert (made is None) is again
        found = admin.call("getsubscription", **names)
        if (found["forwardTo"] or "").rpartition("/")[2] != queue:
            assert not again
            admin.call("updatesubscription", **names, settings={"ForwardTo": queue})

    assert differences(of_queue, admin.call("getqueue", queue=queue)) == {}
    client = dotnet.client()
    dotnet.driver.call("send", sender=client.sender(topic), message={"body": "placed"})
    [message] = dotnet.driver.call("receive", receiver=client.receiver(queue), waitS=20)
    assert message["body"] == "placed"


def test_wolverine_has_queues_for_answers_that_go_when_they_are_idle(
    dotnet: DotnetBus, admin: Administration
) -> None:
    queue = dotnet.name("wolverine.response.app")
    settings = {"AutoDeleteOnIdle": "PT5M", "EnableBatchedOperations": True}

    assert admin.call("queueexists", queue=queue) is False
    admin.ensured("createqueue", queue=queue, settings=settings)

    assert admin.call("queueexists", queue=queue) is True
    assert differences(settings, admin.call("getqueue", queue=queue)) == {}


def test_slim_message_bus_replaces_the_rules_of_a_subscription(
    dotnet: DotnetBus, admin: Administration
) -> None:
    topic = dotnet.name("slim")
    names = {"topic": topic, "subscription": "consumer"}
    first = {"name": "default", "sql": "color = 'blue'"}
    admin.ensured("createtopic", topic=topic)
    admin.ensured("createsubscription", **names, rule=first)

    for again in (False, True):
        wanted = {"name": "tagged", "correlation": {"subject": "a", "properties": {"n": "x"}}}
        assert (admin.ensured("createrule", **names, rule=wanted) is None) is again
        for name in admin.call("listrules", **names):
            if name != wanted["name"]:
                admin.call("deleterule2", **names, rule=name)

    assert admin.call("listrules", **names) == ["tagged"]
    found = admin.call("getrule", **names, rule="TAGGED")["filter"]
    assert found["applicationProperties"] == {"n": "x"}


def test_azure_functions_and_keda_look_at_counts(dotnet: DotnetBus, admin: Administration) -> None:
    queue = dotnet.queue()
    client = dotnet.client()
    dotnet.driver.call("send", sender=client.sender(queue), messages=[{"body": "x"}] * 3)

    runtime = admin.call("queueruntime", queue=queue)

    assert runtime["activeMessageCount"] == runtime["totalMessageCount"] == 3


@pytest.mark.requirement("R564")
def test_a_number_of_a_rule_keeps_its_width(dotnet: DotnetBus, admin: Administration) -> None:
    """Tools that replace rules compare them with `Equals`: an int and a long are not equal."""
    topic = dotnet.name("widths")
    names = {"topic": topic, "subscription": "s"}
    values = {"long": 5, "int": {"t": "int", "v": 5}}
    correlation = {"name": "correlation", "correlation": {"properties": values}}
    sql = {"name": "sql", "sql": "a = @long AND b = @int", "parameters": values}
    admin.call("createtopic", topic=topic)
    admin.call("createsubscription", **names)
    typed = {"long": 5, "int": {"t": "int", "v": "5"}}

    for rule in (correlation, sql):
        admin.call("createrule", **names, rule=rule)

    shown = admin.call("getrule", **names, rule="correlation")["filter"]
    assert shown["applicationProperties"] == typed
    assert admin.call("getrule", **names, rule="sql")["filter"]["parameters"] == typed
    client = dotnet.client()
    receiver, sender = client.receiver(topic, subscription="s"), client.sender(topic)
    properties = {"a": 5, "b": {"t": "short", "v": 5}, **values}
    dotnet.driver.call("deleterule2", administration=admin.name, **names, rule="$Default")
    dotnet.driver.call("send", sender=sender, message={"body": "x", "properties": properties})
    [found] = dotnet.driver.call("receive", receiver=receiver, max=1, waitS=20)
    assert found["body"] == "x"


@pytest.mark.requirement("R576")
def test_a_time_span_is_a_value_of_rules(dotnet: DotnetBus, admin: Administration) -> None:
    topic = dotnet.name("spans")
    names = {"topic": topic, "subscription": "s"}
    values = {
        "span": {"t": "timespan", "v": "1.02:03:04.5000000"},
        "none": {"t": "timespan", "v": "00:00:00"},
    }
    admin.call("createtopic", topic=topic)
    admin.call("createsubscription", **names)
    admin.call("deleterule2", **names, rule="$Default")

    admin.call("createrule", **names, rule={"name": "same", "correlation": {"properties": values}})
    longer = {
        "name": "longer",
        "sql": "span > @most",
        "parameters": {"@most": {"t": "timespan", "v": "2.00:00:00"}},
    }

    admin.call("createrule", **names, rule=longer)

    assert admin.call("getrule", **names, rule="same")["filter"]["applicationProperties"] == values
    assert (
        admin.call("getrule", **names, rule="longer")["filter"]["parameters"]
        == longer["parameters"]
    )
    client = dotnet.client()
    receiver, sender = client.receiver(topic, subscription="s"), client.sender(topic)
    for body, span in (
        ("same", values["span"]),
        ("long", {"t": "timespan", "v": "3.00:00:00"}),
        ("text", "1.02:03:04"),
    ):
        properties = {**values, "span": span}
        dotnet.driver.call("send", sender=sender, message={"body": body, "properties": properties})
    found = dotnet.driver.call("receive", receiver=receiver, max=3, waitS=5)
    assert sorted(each["body"] for each in found) == ["long", "same"]
