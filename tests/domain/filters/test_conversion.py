"""Implicit conversions of SET and +: value by value, for every system property."""

import math
from uuid import UUID

import pytest

from bendybus.domain import limits
from bendybus.domain.filters import conversion, rule, syntax
from bendybus.domain.filters.rule import Rule, SqlFilter, SqlRuleAction
from bendybus.domain.filters.syntax import Setting
from bendybus.domain.filters.values import Composite, Duration, FilterError, Kind, Timestamp, Value
from bendybus.domain.filters.view import Properties
from tests.domain.filters.conversion_table import (
    ID,
    MOMENT,
    TEXT_PROPERTIES,
    VALUES,
    set_system,
    set_user,
)

HOUR_MS = 3_600_000
LONG = "9" * 30_000


def test_the_page_names_every_text_property_that_an_action_sets() -> None:
    settable = [each for each in syntax.ALL.values() if each.setting is Setting.YES]

    assert tuple(each.name for each in settable if each.kind is Kind.TEXT) == TEXT_PROPERTIES
    assert [each.name for each in settable if each.kind is not Kind.TEXT] == ["TimeToLive"]


@pytest.mark.requirement("R522")
@pytest.mark.parametrize("name", TEXT_PROPERTIES)
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("red", "red"),
        (5, "5"),
        (-5, "-5"),
        (2.5, "2.5"),
        (25.0, "25"),
        (True, "True"),
        (False, "False"),
        (ID, str(ID)),
        (MOMENT, "2025-11-28T04:00:00.000Z"),
        (None, None),
    ],
)
def test_every_text_property_takes_what_has_a_text(
    name: str, value: Value, text: str | None
) -> None:
    assert set_system(name, value) == text


@pytest.mark.requirement("R522")
@pytest.mark.parametrize("name", [*TEXT_PROPERTIES, "TimeToLive"])
def test_what_has_no_text_is_a_filter_error(name: str) -> None:
    with pytest.raises(FilterError, match=f"sys.{name} must be"):
        set_system(name, b"raw")


@pytest.mark.requirement("R522")
def test_ids_are_made_of_what_a_message_has() -> None:
    message = Properties({"n": 5, "Region": "eu", "fragile": True}, {}, lambda: ID)
    text = (
        "SET sys.SessionId = newid(); SET sys.CorrelationId = 'o-' + n;"
        "SET sys.Label = Region + '/' + fragile + '/' + 2.0; SET sys.To = n"
    )

    action = rule.compiled(Rule("r", action=SqlRuleAction(text)), partitioned=False)

    assert action.changes(message).system == {
        "SessionId": str(ID),
        "CorrelationId": "o-5",
        "Label": "eu/True/2",
        "To": "5",
    }


@pytest.mark.requirement("R522")
@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        (Duration(15_000), 1),
        (Duration(2**63 - 1), limits.TIME_TO_LIVE_MS_MAX),
        ("60000", 60_000),
        ("PT5M", 300_000),
        ("P1DT2H", 26 * HOUR_MS),
        ("PT0.5S", 500),
        ("00:05:00", 300_000),
        ("01:30", 90 * 60_000),
        ("1.02:03:04.5", 26 * HOUR_MS + 184_500),
        ("10675199.02:48:05.4775807", limits.TIME_TO_LIVE_MS_MAX),
        ("P10675199DT2H48M5.4775807S", limits.TIME_TO_LIVE_MS_MAX),
        (60_000.0, 60_000),
    ],
)
def test_a_time_to_live_is_a_number_or_a_duration(value: Value, milliseconds: int) -> None:
    assert set_system("TimeToLive", value) == milliseconds


@pytest.mark.requirement("R522")
@pytest.mark.parametrize(
    "value",
    [
        *("", "x", "24:00:00", "00:60", "-00:05:00", "0", "-5", "P1Y", "PT", "1.5", LONG),
        *(0, -1, 1.5, math.nan, math.inf, 1e300, True, ID, MOMENT, Duration(9_999), Duration(-1)),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_nothing_else_is_one(value: Value) -> None:
    with pytest.raises(FilterError, match="or a duration such as 'PT5M' or '00:05:00'"):
        set_system("TimeToLive", value)


@pytest.mark.requirement("R522")
@pytest.mark.parametrize(
    ("existing", "value", "found"),
    [
        (7, "12", 12),
        (7, " 12", " 12"),
        (7, "12.0", 12),
        (7, "1_2", "1_2"),
        (7, "18446744073709551615", 18_446_744_073_709_551_615),
        (7, "18446744073709551616", "18446744073709551616"),
        (7, LONG, LONG),
        (7, 1e300, 1e300),
        (7, math.nan, math.nan),
        (7.5, "-1.5e3", -1_500.0),
        (7.5, "NaN", "NaN"),
        (False, "TRUE", True),
        (False, "yes", "yes"),
        (False, 2, 2),
        (UUID(int=7), str(ID).upper(), ID),
        (UUID(int=7), ID.hex, ID.hex),
        (Timestamp(7), "2025-11-28", Timestamp(1_764_288_000_000)),
        (Timestamp(7), "2025-11-28T05:00:00+01:00", MOMENT),
        (Timestamp(7), "never mind", "never mind"),
        ("old", Timestamp(2**62), Timestamp(2**62)),
        (Composite(), 5, 5),
        (None, 5, 5),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_value_is_converted_only_where_nothing_is_lost(
    existing: Value, value: Value, found: Value
) -> None:
    made = set_user(existing, value)

    assert type(made) is type(found)
    assert made == found or made != made


@pytest.mark.requirement("R522")
def test_a_later_expression_sees_the_converted_value() -> None:
    message = Properties({"q": 1})
    action = SqlRuleAction("SET q = '12'; SET twice = q * 2")

    changes = rule.compiled(Rule("r", action=action), partitioned=True).changes(message)

    assert changes.user["q"].value == 12
    assert changes.user["twice"].value == 24


@pytest.mark.requirement("R522")
@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (0.1, "0.1"),
        (0.0001, "0.0001"),
        (0.00001, "1E-05"),
        (-1.5e-7, "-1.5E-07"),
        (123456789012345.0, "123456789012345"),
        (1e15, "1E+15"),
        (-1234567890123456.0, "-1.234567890123456E+15"),
        (1234567890123456.8, "1.2345678901234568E+15"),
        (1e16, "1E+16"),
        (1.5e300, "1.5E+300"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_texts_of_numbers_are_those_of_the_invariant_culture(number: float, text: str) -> None:
    assert conversion.as_text(number) == text


@pytest.mark.requirement("R522")
@pytest.mark.parametrize("value", [each for each in VALUES.values() if each is not None])
def test_a_string_is_joined_with_the_text_of_what_has_one(value: Value) -> None:
    joined = "a + '/' + b = @joined"
    text = conversion.as_text(value)
    found = rule.compiled_filter(SqlFilter(joined, {"@joined": f"{text}/{text}"}))
    message = Properties({"a": value, "b": value})

    if text is None:
        with pytest.raises(FilterError, match=r"binary data .* a string is not defined"):
            found.matches(message)
    else:
        assert found.matches(message)


@pytest.mark.requirement("R522")
def test_a_text_that_would_be_too_long_is_a_filter_error() -> None:
    with pytest.raises(FilterError, match="at most 128 characters"):
        set_system("MessageId", "9" * 129)
