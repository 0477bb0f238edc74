"""What `make demo` shows of a topic and of sessions is what happens."""

import sys
from pathlib import Path

import pytest

from bendybus.client import ServiceBusClient
from tests.integration.processes import Bus

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_demo_counts_what_subscriptions_get_and_the_order_in_sessions(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import departures

    flights = [
        {
            "flight": str(number),
            "carrier": ("UA", "DL")[number % 2],
            "dep_delay": ("NA", "5", "61")[number % 3],
            "tailnum": f"N{number % 5}",
        }
        for number in range(60)
    ]

    departures.create(bus.connection_string)
    with ServiceBusClient.from_connection_string(bus.connection_string) as client:
        table, wrong = departures.publish(client, flights)
        sentence, out_of_order = departures.fly(client, flights)

    assert (wrong, out_of_order) == (0, 0)
    first = [next(iter(column.cells)) for column in table.columns]
    assert first == ["late", "delay > 60", "20", "20"]
    assert "60 flights of 5 airplanes" in sentence
    sys.modules.pop("departures")
