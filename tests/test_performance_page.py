"""The page of figures shows what a run measured, and nothing else."""

from typing import Any

import pytest

from bench import marks
from docs import performance_page
from docs.performance_page import Run

PAGE = "Before.\n\n<!-- figures: {} -->\nold\n<!-- end of figures -->\n\nAfter.\n"


def row(section: str, what: str, system: str = marks.OURS, **others: Any) -> dict[str, Any]:
    """Return a row as `make bench` writes it."""
    plain = {"title": what, "unit": "/s", "values": [], "frames": "", "cpu_us": {}, "note": ""}
    return {"section": section, "system": system, "what": what, **plain, **others}


def shown(names: str, *rows: dict[str, Any]) -> str:
    """Return the page with the figures of these sections in their place."""
    run = Run({"machine": {"cores": 2, "Linux": "6.1"}, "rows": list(rows)})
    return performance_page.with_figures(PAGE.format(names), run)


def test_figures_stand_in_their_place_and_the_rest_of_the_page_stays() -> None:
    cost = {"client": [1.5], "servers": [2.0, 3.0]}

    page = shown(
        "bare idle",
        row("bare", "send", "bare pipeline", values=[100.0, 300.0, 200.0], cpu_us=cost),
        row("bare", "receive", "bare pipeline", values=[5.0], note="unconfirmed"),
        row("idle", "memory", "Bendybus, idle", unit="MB", values=[60.0]),
        row("other", "elsewhere"),
    )

    assert page == PAGE.format("bare idle").replace(
        "old\n",
        "| system | what | figure | CPU µs a message, each process = sum |\n"
        "|---|---|---|---|\n"
        "| bare pipeline | send | 200 /s (100–300) | client 1.50; servers 2.00 + 3.00 = 6.50 |\n"
        "|  | receive (unconfirmed) | 5.00 /s |  |\n"
        "| Bendybus, idle | memory | 60.0 MB |  |\n",
    )
    assert shown("machine").splitlines()[3] == "`make bench`, cores 2, Linux 6.1."


def test_a_system_that_was_missing_says_why() -> None:
    missing = row("kafka", "kafka", "Kafka", title="not measured", note="java is missing")

    assert "| Kafka | java is missing | not measured |\n" in shown("kafka", missing)


def test_a_place_for_a_section_that_was_not_run_is_an_error() -> None:
    with pytest.raises(KeyError, match="amqp"):
        shown("bare amqp", row("bare", "send", values=[1.0]))


def test_rate_times_and_cost_of_many_clients_share_a_line() -> None:
    def pair(system: str, what: str, rate: float, cost: float) -> list[dict[str, Any]]:
        note = "p50 2.00 ms, p99 9.0 ms; settlements are unconfirmed"
        return [
            row("many", what, system, values=[rate], note=note),
            row("many", f"{what}_cpu", system, values=[cost], unit="µs CPU"),
        ]

    rows = [
        *pair(marks.MANY, "many_send_1_4", 500, 900),
        *pair(marks.MANY, "many_send_16_4", 2_000, 300),
        *pair(marks.MANY, "many_send_16_1", 2_500, 250),
        *pair(marks.QUORUM_AMQP, "many_receive_16", 3_000, 200),
    ]

    assert shown("many", *rows).splitlines()[5:-3] == [
        "| Bendybus | send, 1 connection | 500 /s | p50 2.00 ms, p99 9.0 ms | 900 µs |",
        "|  | send, 16 connections | 2,000 /s | p50 2.00 ms, p99 9.0 ms | 300 µs |",
        "| RabbitMQ quorum | receive and settle, 16 connections | 3,000 /s "
        "| p50 2.00 ms, p99 9.0 ms | 200 µs |",
    ]
    assert "\n|  | 16 | 2,500 /s, 250 µs |  |  |\n| 4 |" in shown("partitions", *rows)


def test_marks_say_what_is_not_met_and_what_was_not_measured() -> None:
    page = shown("marks", row("bendybus", "tasks", values=[20_000.0]))

    assert "| 1,000 tasks awaiting their sends | ≥ 15,000 /s | 20,000 /s | met |\n" in page
    goal = "| goal: 1,000 tasks awaiting their sends | ≥ 30,000 /s | 20,000 /s | **not met** |\n"
    assert goal in page
    assert "| – | not measured |\n" in page
