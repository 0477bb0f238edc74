"""What `make demo` shows of a topic and of a queue with sessions. Raises nothing of its own.

Each subscription gets the flights that its rule describes; each airplane's flights are a session,
which one receiver at a time gets, in order.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from rich.table import Table

from bendybus.client import NEXT_AVAILABLE_SESSION, ServiceBusClient, ServiceBusMessage
from bendybus.client.exceptions import OperationTimeoutError
from bendybus.client.management import (
    CorrelationRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleFilter,
)

TOPIC: Final = "departures"
QUEUE: Final = "airplanes"
AN_HOUR: Final = 60
CARRIER: Final = "UA"
BATCH: Final = 250
AIRPLANES: Final = 24
CREWS: Final = 3
# How long a receiver waits for more: everything has been sent before.
WAIT_S: Final = 1.0

Flight = dict[str, str]
RULES: Final[dict[str, tuple[str, SqlRuleFilter | CorrelationRuleFilter]]] = {
    "late": (f"delay > {AN_HOUR}", SqlRuleFilter("delay > @minutes", {"minutes": AN_HOUR})),
    "united": (f"carrier = '{CARRIER}'", CorrelationRuleFilter(properties={"carrier": CARRIER})),
}
WANTED: Final[dict[str, Callable[[Flight], bool]]] = {
    "late": lambda flight: delay(flight) > AN_HOUR,
    "united": lambda flight: flight["carrier"] == CARRIER,
}


def delay(flight: Flight) -> int:
    """Return by how many minutes a flight left late; one that was cancelled: 0."""
    text = flight["dep_delay"]
    return 0 if text == "NA" else int(text)


def create(connection_string: str) -> None:
    """Create the topic, its two subscriptions with a rule each, and the queue with sessions."""
    with ServiceBusAdministrationClient.from_connection_string(connection_string) as administration:
        administration.create_topic(TOPIC, enable_partitioning=True)
        for name, (_, rule) in RULES.items():
            administration.create_subscription(TOPIC, name)
            administration.create_rule(TOPIC, name, "wanted", filter=rule)
            # It takes everything.
            administration.delete_rule(TOPIC, name, "$Default")
        administration.create_queue(QUEUE, enable_partitioning=True, requires_session=True)


def publish(client: ServiceBusClient, flights: Sequence[Flight]) -> tuple[Table, int]:
    """Publish flights and receive them from both subscriptions; return figures, and what lacks."""
    with client.get_topic_sender(TOPIC) as sender:
        for first in range(0, len(flights), BATCH):
            sender.send_messages(
                [
                    ServiceBusMessage(
                        flight["flight"],
                        message_id=str(number),
                        application_properties={
                            "carrier": flight["carrier"],
                            "delay": delay(flight),
                        },
                    )
                    for number, flight in enumerate(flights[first : first + BATCH], first)
                ]
            )
    table = Table(title=f"{len(flights):,} flights published to a topic", title_justify="left")
    for column in ("subscription", "its rule", "flights like that", "received"):
        table.add_column(column, justify="right" if column in ("received",) else "left")
    wrong = 0
    for name, (rule, _) in RULES.items():
        expected = {str(n) for n, flight in enumerate(flights) if WANTED[name](flight)}
        found = received(client, name)
        wrong += len(expected ^ found)
        table.add_row(name, rule, f"{len(expected):,}", f"{len(found):,}")
    return table, wrong


def received(client: ServiceBusClient, subscription: str) -> set[str]:
    """Receive and complete all that a subscription has."""
    found: set[str] = set()
    with client.get_subscription_receiver(TOPIC, subscription) as receiver:
        while batch := receiver.receive_messages(BATCH, WAIT_S):
            found.update(str(each.message_id) for each in batch)
            receiver.complete_messages(batch)
    return found


def fly(client: ServiceBusClient, flights: Sequence[Flight]) -> tuple[str, int]:
    """Send airplanes' flights, receive session by session; return a sentence, and what is wrong."""
    legs: dict[str, list[str]] = defaultdict(list)
    for number, flight in enumerate(flights):
        legs[flight["tailnum"]].append(str(number))
    busiest = sorted(legs, key=lambda tail: -len(legs[tail]))[:AIRPLANES]
    with client.get_queue_sender(QUEUE) as sender:
        for tail in busiest:
            sender.send_messages([ServiceBusMessage(leg, session_id=tail) for leg in legs[tail]])
    logs: dict[str, list[str]] = defaultdict(list)
    crews = [threading.Thread(target=work, args=(client, logs)) for _ in range(CREWS)]
    for crew in crews:
        crew.start()
    for crew in crews:
        crew.join()
    wrong = sum(logs[tail] != legs[tail] for tail in busiest)
    count = sum(map(len, logs.values()))
    return (
        f"{count} flights of {len(logs)} airplanes, a session each, went through {CREWS} receivers "
        f"that take the next free session: {len(busiest) - wrong} airplanes have theirs in order, "
        f"{wrong} have not."
    ), wrong


def work(client: ServiceBusClient, logs: dict[str, list[str]]) -> None:
    """Take one free session after the other until none has messages."""
    while True:
        receiver = client.get_queue_receiver(
            QUEUE, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=WAIT_S
        )
        try:
            with receiver:
                session = receiver.session
                assert session is not None
                while batch := receiver.receive_messages(BATCH, WAIT_S / 10):
                    # Its lock makes this airplane's log this thread's.
                    logs[str(session.session_id)] += [str(each) for each in batch]
                    receiver.complete_messages(batch)
                session.set_state(f"{len(logs[str(session.session_id)])} flights")
        except OperationTimeoutError:
            return
