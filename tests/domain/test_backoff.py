"""Exponential back-off."""

import pytest

from bendybus.domain.backoff import Backoff


def test_delays_double_up_to_the_maximum() -> None:
    backoff = Backoff(0.5, 3.0)

    assert [backoff.delay_s(failures) for failures in range(6)] == [0.0, 0.5, 1.0, 2.0, 3.0, 3.0]


def test_a_delay_stays_finite_after_any_number_of_failures() -> None:
    assert Backoff(0.05, 2.0).delay_s(1_000_000) == 2.0
    assert Backoff(0.0, 2.0).delay_s(1_000_000) == 0.0


def test_jitter_only_shortens_a_delay() -> None:
    backoff = Backoff(1.0, 2.0, jitter=0.5)

    assert backoff.delay_s(2, random=0.0) == 1.0
    assert backoff.delay_s(2, random=0.5) == 1.5
    assert backoff.delay_s(2, random=1.0) == 2.0
    assert backoff.delay_s(2) == 2.0


def test_an_attempt_that_lasted_ends_the_row_of_failures() -> None:
    backoff = Backoff(0.2, 5.0, reset_after_s=30.0)

    assert backoff.failures_after(4, lasted_s=29.9) == 5
    assert backoff.failures_after(4, lasted_s=30.0) == 1
    assert Backoff(0.2, 5.0).failures_after(4, lasted_s=1e9) == 5


@pytest.mark.parametrize(
    ("first_s", "max_s", "jitter", "field"),
    [(2.0, 1.0, 0.0, "first_s"), (-1.0, 1.0, 0.0, "first_s"), (1.0, 2.0, 1.5, "jitter")],
)
def test_delays_that_do_not_grow_are_refused(
    first_s: float, max_s: float, jitter: float, field: str
) -> None:
    with pytest.raises(ValueError, match=f"^{field}: "):
        Backoff(first_s, max_s, jitter=jitter)
