"""Publishes departures to a topic; each subscription takes those that its rules describe.

bendybus up -f examples/flights.yaml          # another terminal
python examples/topic.py
"""

import os
from typing import Final

from bendybus.client import ServiceBusClient, ServiceBusMessage
from bendybus.client.management import (
    CorrelationRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
)

LOCAL: Final = (
    "Endpoint=sb://127.0.0.1:7480;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=local;UseDevelopmentEmulator=true"
)
DEPARTURES: Final = (("UA", 5), ("DL", 95), ("UA", 130))


def create(connection_string: str, topic: str) -> None:
    """Create the topic and its subscriptions `all`, `united` and `late`."""
    with ServiceBusAdministrationClient.from_connection_string(connection_string) as administration:
        administration.create_topic(topic, enable_partitioning=True)
        for name in ("all", "united", "late"):
            administration.create_subscription(topic, name)
        # A new subscription takes everything, by its rule $Default.
        administration.create_rule(
            topic, "united", "carrier", filter=CorrelationRuleFilter(properties={"carrier": "UA"})
        )
        administration.delete_rule(topic, "united", "$Default")
        administration.create_rule(
            topic,
            "late",
            "an-hour",
            filter=SqlRuleFilter("delay > @minutes", {"minutes": 60}),
            action=SqlRuleAction("SET alarm = TRUE"),
        )
        administration.delete_rule(topic, "late", "$Default")


def main(connection_string: str, topic: str) -> dict[str, list[str]]:
    """Publish, then receive from each subscription; return what each had."""
    create(connection_string, topic)
    found: dict[str, list[str]] = {}
    with ServiceBusClient.from_connection_string(connection_string) as client:
        with client.get_topic_sender(topic) as sender:
            for carrier, delay in DEPARTURES:
                properties: dict[str | bytes, object] = {"carrier": carrier, "delay": delay}
                sender.send_messages(
                    ServiceBusMessage(
                        f"{carrier} is {delay} minutes late", application_properties=properties
                    )
                )
        for name in ("all", "united", "late"):
            found[name] = []
            with client.get_subscription_receiver(topic, name, max_wait_time=2) as receiver:
                for message in receiver:
                    text = str(message)
                    if (message.application_properties or {}).get(b"alarm"):
                        text += "!"
                    found[name].append(text)
                    receiver.complete_message(message)
    return {name: sorted(texts) for name, texts in found.items()}


if __name__ == "__main__":
    for subscription, texts in main(
        os.environ.get("BENDYBUS_CONNECTION_STRING", LOCAL), "departures"
    ).items():
        print(subscription, *texts, sep="\n  ")
