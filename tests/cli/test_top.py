"""`bendybus top`: rates from what front ends count, and what entities hold."""

import json
from typing import Any

import pytest

from bendybus.cli.bus.management import Management
from bendybus.cli.commands import top_command
from bendybus.cli.commands.top_command import Rates, Row
from bendybus.cli.output.sums import Sum
from bendybus.domain import entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.v1 import management_pb2 as pb
from tests.cli.fake_management import FakeManagement
from tests.cli.test_entity_commands import run

pytestmark = pytest.mark.requirement("R373")
TEXT = """# HELP bendybus_incoming_messages_total IncomingMessages
bendybus_incoming_messages_total{entity="Orders"} 1.0e+02
bendybus_outgoing_messages_total{entity="Orders"} 40.0
bendybus_outgoing_messages_total{entity="news/Subscriptions/a\\"b"} 7.0
bendybus_incoming_messages_created{entity="Orders"} 1.7e+09
"""


def test_counters_of_a_front_end_are_read() -> None:
    found = top_command.counters(TEXT + 'bendybus_incoming_messages_total{entity="orders"} 1.0\n')

    assert found == {"orders": (101.0, 40.0), 'news/subscriptions/a"b': (0.0, 7.0)}


def test_rates_are_of_what_came_between_two_readings_also_after_a_new_start() -> None:
    before = {"a": {"orders": (100.0, 40.0), "gone": (1.0, 1.0)}, "b": {"orders": (7.0, 0.0)}}
    after = {"a": {"orders": (150.0, 30.0), "new": (4.0, 0.0)}, "b": {"orders": (9.0, 0.0)}}

    found = top_command.rates_between(before, after, 2.0)

    assert found == {"orders": Rates(26.0, 15.0), "new": Rates(2.0, 0.0)}
    assert top_command.rates_between(before, after, 0.0)["orders"] == Rates()


@pytest.mark.requirement("R475")
def test_a_front_end_that_starts_again_adds_no_traffic_that_there_was_not() -> None:
    both = {"a": {"orders": (1_000.0, 0.0)}, "b": {"orders": (500.0, 0.0)}}
    one = {"a": {"orders": (1_002.0, 0.0)}}
    again = {"a": {"orders": (1_004.0, 0.0)}, "b": {"orders": (500.0, 0.0)}}

    assert top_command.rates_between(both, one, 2.0) == {"orders": Rates(1.0, 0.0)}
    assert top_command.rates_between(one, again, 2.0) == {"orders": Rates(1.0, 0.0)}


@pytest.mark.requirement("R476")
@pytest.mark.parametrize("words", [("top", "--interval", "0.5"), ("get", "subscriptions")])
def test_a_topic_that_is_deleted_after_it_was_listed_ends_no_list(
    bus: FakeManagement,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    for made in (("topic", "news"), ("topic", "old"), ("subscription", "news", "a")):
        assert run(bus, "create", *made) == 0
    listed = Management.listed

    def then_deleted(self: Management, kind: EntityKind, *topic: str, **options: Any) -> Any:
        found = listed(self, kind, *topic, **options)
        if kind is EntityKind.TOPIC:
            bus.topics.answer("DeleteTopic", pb.DeleteTopicRequest(name="old"))
        return found

    monkeypatch.setattr(Management, "listed", then_deleted)
    capsys.readouterr()

    code = run(bus, *words)

    shown = capsys.readouterr()
    assert (code, shown.err) == (0, "")
    assert "a" in shown.out.split() or "news/Subscriptions/a" in shown.out


def test_the_busiest_stand_first_then_the_fullest() -> None:
    rows = [
        Row("Queue", "b", Rates(), Sum(9, whole=False), None, None, None, reachable=False),
        Row("Queue", "a", Rates(), None, None, None, None, reachable=False),
        Row("Queue", "c", Rates(1.0, 0.5), Sum(0, whole=True), None, None, None, reachable=True),
    ]

    assert [row.name for row in sorted(rows, key=lambda row: row.order)] == ["c", "b", "a"]


def test_a_pipe_gets_one_reading_of_a_bus_elsewhere_without_rates(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.add("orders", entity.Origin.CLIENT, enable_partitioning=True)
    for words in (("topic", "news"), ("subscription", "news", "a")):
        assert run(bus, "create", *words) == 0
    capsys.readouterr()

    codes = [
        run(bus, "top", "--interval", "0.5"),
        run(bus, "top", "--interval", "0.5", "-o", "json", "--max", "1"),
    ]

    shown = capsys.readouterr().out.splitlines()
    assert codes == [5, 5]
    assert shown[0].split() == ["NAME", "IN/S", "OUT/S", "ACTIVE", "DEAD", "SCHEDULED", "SIZE"]
    assert shown[1].split()[:6] == ["orders", "-", "-", "16+", "0+", "0+"]
    assert [line.split()[0] for line in shown[2:4]] == ["news", "news/Subscriptions/a"]
    assert json.loads(shown[4]) == {
        "kind": "Queue",
        "name": "orders",
        "incoming_per_s": None,
        "outgoing_per_s": None,
        "active": 16,
        "dead": 0,
        "scheduled": 0,
        "size_bytes": 1600,
        "reachable": False,
    }
    assert len(shown) == 5
