"""Marks: the limits for figures of a run."""

import pytest

from bench import marks
from bench.row import Row


def cpu(system: str, what: str, cost_us: float) -> Row:
    """Return a row of the front end's processor time."""
    return Row(system, f"{what}_front_cpu", "", "µs CPU", [cost_us])


@pytest.mark.parametrize(
    ("role", "at_most_us"), [("send", 150.0), ("receive", 300.0)], ids=["send", "both requests"]
)
def test_http_may_cost_so_much_more_than_amqp(role: str, at_most_us: float) -> None:
    rows = [
        cpu(marks.MANY, f"many_{role}_16_4", 100.0),
        cpu(marks.MANY_HTTP, f"many_{role}_16_4", 100.0 + at_most_us),
        cpu(marks.MANY, f"many_{role}_64_4", 100.0),
        cpu(marks.MANY_HTTP, f"many_{role}_64_4", 101.0 + at_most_us),
        cpu(marks.MANY_HTTP, f"many_{role}_1_4", 9_999.0),
    ]

    found = {each.mark.figure[1]: each for each in marks.judge(rows) if each.value is not None}

    assert {what: each.met for what, each in found.items()} == {
        f"many_{role}_16_4_front_cpu": True,
        f"many_{role}_64_4_front_cpu": False,
    }
    assert found[f"many_{role}_16_4_front_cpu"].value == at_most_us
