"""ISO-8601 durations, both ways."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.domain import durations, limits
from bendybus.domain.errors import InvalidArgument


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT30S", 30_000),
        ("PT0.5S", 500),
        ("PT5M", 300_000),
        ("PT1H30M", 5_400_000),
        ("P7D", 604_800_000),
        ("P1DT1S", 86_401_000),
        ("PT0S", 0),
        (durations.FOREVER_ISO, None),
    ],
)
def test_durations_are_read(text: str, milliseconds: int | None) -> None:
    assert durations.parse("lockDuration", text) == milliseconds


@pytest.mark.parametrize(
    "text", ["", "5", "P", "PT", "P1DT", "5 minutes", "-PT5S", "P1M", "P1Y", "PT5", "P1W2"]
)
def test_what_is_no_duration_of_fixed_length_is_refused_by_its_field(text: str) -> None:
    with pytest.raises(InvalidArgument, match="lockDuration") as caught:
        durations.parse("lockDuration", text)

    assert caught.value.field == "lockDuration"


def test_a_long_text_is_refused_and_not_repeated() -> None:
    for text in ("P" + "1" * 500_000 + "D", "P" + "0" * 500_000 + "1D"):
        with pytest.raises(InvalidArgument, match="ISO 8601") as caught:
            durations.parse("lockDuration", text)

        assert len(str(caught.value)) < 300


@given(st.integers(0, limits.TIME_TO_LIVE_MS_MAX // 1000 - 1))
def test_what_is_rendered_is_read_again(milliseconds: int) -> None:
    text = durations.render(milliseconds)

    assert durations.parse("x", text) == milliseconds
    assert re.match(durations.ISO_PATTERN, text), text


def test_without_end_is_rendered_as_service_bus_does() -> None:
    assert durations.render(None) == "P10675199DT2H48M5.4775807S"
    assert durations.parse("x", durations.render(None)) is None
    assert durations.render(0) == "PT0S"


def test_what_is_as_good_as_without_end_is_without_end() -> None:
    assert durations.bounded(limits.TIME_TO_LIVE_MS_MAX) is None
    assert durations.bounded(limits.TIME_TO_LIVE_MS_MAX - 1) is not None
    assert durations.bounded(-1) is None
    assert durations.bounded(None) is None
    assert durations.bounded(0) == 0
