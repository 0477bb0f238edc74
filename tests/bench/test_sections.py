"""How `make bench` runs its sections, and what it says of those that break."""

import pytest

from bench import __main__ as command
from bench import measuring
from bench.measuring import SECTIONS
from bench.row import Row

pytestmark = pytest.mark.integration


def test_a_section_that_runs_out_of_time_is_not_said_to_have_shown_an_error() -> None:
    rows: list[Row] = []

    why = command._run(next(iter(SECTIONS)), ["--quick"], rows, limit_s=0.05)

    assert why == "was ended after 0 s: it has fewer figures than it should"
    assert rows == []


@pytest.mark.parametrize(
    ("quick", "given", "seconds"),
    [(False, None, 120), (True, None, 8), (False, 30.0, 30), (True, 1.5, 1.5)],
)
def test_amqp_sends_for_two_minutes_unless_told_otherwise(
    quick: bool, given: float | None, seconds: float
) -> None:
    load = measuring.chosen_load(quick, given)

    assert load.amqp_s == seconds
    assert load.repeats == (1 if quick else 3)


def test_a_section_that_breaks_says_that_its_error_is_above(
    capfd: pytest.CaptureFixture[str],
) -> None:
    why = command._run("no such section", ["--quick"], [])

    assert why == "broke (exit code 2); its error is above"
    assert "no such section" in capfd.readouterr().err
