"""Rules: names, correlation filters, values that a filter may hold."""

import dataclasses
import math
from uuid import uuid4

import pytest

from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters import rule
from bendybus.domain.filters.rule import CorrelationFilter, FalseFilter, Rule, SqlFilter, TrueFilter
from bendybus.domain.filters.values import Composite, Timestamp, Value
from bendybus.domain.filters.view import Properties

SYSTEM: dict[str, Value] = {
    "CorrelationId": "c",
    "MessageId": "m",
    "To": "t",
    "ReplyTo": "r",
    "Label": "l",
    "SessionId": "s",
    "ReplyToSessionId": "rs",
    "ContentType": "ct",
}
MESSAGE = Properties({"Color": "red", "size": 1, "id": uuid4()}, SYSTEM)
FIELDS = {
    "correlation_id": "c",
    "message_id": "m",
    "to": "t",
    "reply_to": "r",
    "label": "l",
    "session_id": "s",
    "reply_to_session_id": "rs",
    "content_type": "ct",
}


def taken(filter_: rule.Filter, view: Properties = MESSAGE) -> bool:
    return rule.compiled_filter(filter_).matches(view)


@pytest.mark.requirement("R68")
def test_a_correlation_filter_has_a_field_for_each_property() -> None:
    fields = {each.name for each in dataclasses.fields(CorrelationFilter)} - {"properties"}

    assert fields == set(FIELDS)


@pytest.mark.requirement("R68")
@pytest.mark.parametrize("field", sorted(FIELDS))
def test_each_field_is_compared_exactly(field: str) -> None:
    text = FIELDS[field]
    absent = {name: value for name, value in SYSTEM.items() if value != text}

    assert taken(CorrelationFilter(**{field: text}))  # type: ignore[arg-type]
    assert not taken(CorrelationFilter(**{field: text.upper()}))  # type: ignore[arg-type]
    assert not taken(CorrelationFilter(**{field: text + " "}))  # type: ignore[arg-type]
    assert not taken(
        CorrelationFilter(**{field: text}),  # type: ignore[arg-type]
        Properties({}, absent),
    )


@pytest.mark.requirement("R68")
def test_all_conditions_must_hold() -> None:
    every = CorrelationFilter(**FIELDS, properties={"color": "red", "SIZE": 1.0})

    assert taken(every)
    assert not taken(dataclasses.replace(every, to="x"))
    assert not taken(dataclasses.replace(every, properties={"color": "red", "size": 2}))
    assert not taken(dataclasses.replace(every, properties={"color": "red", "missing": 1}))


@pytest.mark.requirement("R68")
@pytest.mark.parametrize(
    ("wanted", "found", "same"),
    [
        (1, 1, True),
        (1, 1.0, True),
        (2**63, 2**63, True),
        (1, True, False),
        (1, "1", False),
        ("red", "Red", False),
        ("", "", True),
        (False, 0, False),
        (0.0, -0.0, True),
        (Timestamp(1), Timestamp(1), True),
        (Timestamp(1), 1, False),
        (b"x", b"x", True),
        (b"x", "x", False),
        (1, None, False),
        (1, Composite(), False),
        (1, math.nan, False),
    ],
)
def test_values_are_equal_as_in_sql(wanted: Value, found: Value, same: bool) -> None:
    view = Properties({"a": found})

    assert taken(CorrelationFilter(properties={"a": wanted}), view) is same
    assert taken(SqlFilter("a = @p", {"p": wanted}), view) is same
    assert taken(SqlFilter("a IN (@p)", {"p": wanted}), view) is same


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (CorrelationFilter(), "must have at least one property"),
        (CorrelationFilter(to="x" * 1_025), "filter.to: must be at most 1024"),
        (CorrelationFilter(to="\0"), "filter.to: must not contain the character NUL"),
        (CorrelationFilter(properties={"a": None}), "'a' must not be null or NaN"),
        (CorrelationFilter(properties={"a": math.nan}), "'a' must not be null or NaN"),
        (CorrelationFilter(properties={"": 1}), "a name must be 1 to 1024 characters"),
        (CorrelationFilter(properties={"a": Composite()}), "must be a simple value"),
        (CorrelationFilter(properties={"a": "x" * 1_025}), "must be at most 1024 char"),
        (CorrelationFilter(properties={"a": 2**64}), "must fit into 64 bits"),
        (
            CorrelationFilter(properties={str(n): n for n in range(65)}),
            r"must be at most 64 values \(got 65\)",
        ),
        (SqlFilter("a = 1", {str(n): n for n in range(65)}), "must be at most 64 values"),
        (SqlFilter("a = 1", {"b": b"x" * 1_025}), "must be at most 1024 char"),
    ],
)
def test_a_filter_past_its_bounds_is_refused(wanted: rule.Filter, sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        rule.check(Rule("r", wanted), partitioned=True)


def test_true_takes_everything_and_false_nothing() -> None:
    assert taken(TrueFilter())
    assert not taken(FalseFilter())
    assert Rule("r").filter == TrueFilter()


@pytest.mark.parametrize(
    "name", ["$Default", "$default", "$DEFAULT", "a", "A.b-c_d", "-a", "a.", "9", "x" * 50]
)
def test_a_rule_can_be_named(name: str) -> None:
    rule.check_name(name)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("", "must have only letters"),
        ("x" * 51, r"must be at most 50 characters \(got 51\)"),
        ("$defaults", "must have only letters"),
        ("a/b", "must have only letters"),
        ("a b", "must have only letters"),
        ("..", "not only dots"),
        ("a\n", "must have only letters"),
        ("é", "must have only letters"),
        ("a\0", "NUL"),
    ],
)
def test_a_name_that_a_rule_cannot_have_is_refused(name: str, sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=f"ruleName: .*{sentence}"):
        rule.check(Rule(name), partitioned=False)
