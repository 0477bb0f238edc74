"""Rules as Atom documents: what is written is read as it was, in the forms of XML Schema."""

import json
import math
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters import rule_json
from bendybus.domain.filters.rule import (
    SYSTEM_PROPERTIES,
    CorrelationFilter,
    FalseFilter,
    Rule,
    SqlFilter,
    SqlRuleAction,
    TrueFilter,
)
from bendybus.domain.filters.values import Duration, Int, Timestamp
from bendybus.frontend.listeners.web import atom, rule_documents
from bendybus.v1 import management_pb2
from bendybus.wire import entities
from tests.frontend.test_entity_documents import TEXTS, as_body

CONSTANTS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    TEXTS,
    st.binary(max_size=20),
    st.uuids(),
    st.integers(0, 253_402_300_799_999).map(Timestamp),
    st.integers(-(2**63), 2**63 - 1).map(Duration),
)
PROPERTIES = st.dictionaries(TEXTS, CONSTANTS, max_size=4)
FILTERS = st.one_of(
    st.just(TrueFilter()),
    st.just(FalseFilter()),
    st.builds(SqlFilter, TEXTS, PROPERTIES),
    st.builds(
        CorrelationFilter,
        **{name: st.none() | TEXTS.filter(bool) for name in SYSTEM_PROPERTIES},
        properties=PROPERTIES,
    ),
)
RULES = st.builds(
    Rule, TEXTS.map(str.strip), FILTERS, st.none() | st.builds(SqlRuleAction, TEXTS, PROPERTIES)
)


@given(rule=RULES)
def test_a_rule_that_is_written_is_read_as_it_was(rule: Rule) -> None:
    found = rule_documents.read(atom.described(as_body(rule_documents.written(rule))))

    assert found == rule


def rule_of(values: str) -> Rule:
    """Return the rule of a document whose filter has these values."""
    content = f'<Filter i:type="CorrelationFilter"><Properties>{values}</Properties></Filter>'
    return rule_documents.read(
        atom.described(as_body(atom.description("RuleDescription", content)))
    )


def value_of(kind: str, text: str, key: str = "k") -> str:
    value = f'<Key>{key}</Key><Value i:type="d:{kind}" xmlns:d="x">{text}</Value>'
    return f"<KeyValueOfstringanyType>{value}</KeyValueOfstringanyType>"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "1_0"), ("int", "\u0663"), ("long", "0x10"), ("long", "1.0"), ("int", "\u20031"),
        ("double", "nan"), ("double", "inf"), ("double", "Infinity"), ("double", "1_0.5"),
        ("double", "\u0663.5"), ("double", "."), ("float", "1e"), ("decimal", "1e5"),
        ("decimal", "INF"), ("boolean", "True"), ("boolean", "TRUE"), ("boolean", ""),
        ("dateTime", "20260705T111213Z"), ("dateTime", "2026-W27-1T00:00:00Z"),
        ("dateTime", "2026-186T00:00:00"), ("dateTime", "2026-07-05T11:12Z"),
        ("dateTime", "2026-07-05T11:12:13,5Z"), ("dateTime", "2026-07-05 11:12:13"),
        ("dateTime", "2026-02-30T00:00:00Z"), ("dateTime", "2026-07-05T11:12:13+2500"),
        ("guid", "12345678123456781234567812345678"),
        ("guid", "urn:uuid:12345678-1234-5678-1234-567812345678"),
    ],
)  # fmt: skip
def test_only_the_forms_of_xml_schema_are_values(kind: str, text: str) -> None:
    with pytest.raises(InvalidArgument, match=f"is not a valid {kind}"):
        rule_of(value_of(kind, text))


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        ("int", "+007", 7), ("int", " -1\n", -1), ("double", ".5", 0.5), ("double", "-5.E+1", -50),
        ("double", "-INF", -math.inf), ("decimal", "-1.50", -1.5), ("boolean", " false ", False),
        ("dateTime", "2026-07-05T11:12:13+02:00", Timestamp(1_783_242_733_000)),
        ("dateTime", "1970-01-01T00:00:00.0019999", Timestamp(1)),
        ("dateTime", "1969-12-31T23:59:59.9995Z", Timestamp(-1)),
        # The last moment of .NET's calendar.
        ("dateTime", "9999-12-31T23:59:59.9999999", Timestamp(253_402_300_799_999)),
        ("base64Binary", "AQ\n ID", b"\1\2\3"),
        ("duration", " PT1S\n", Duration(10_000_000)), ("duration", "-P1D", Duration(-864 * 10**9)),
        ("duration", "P1DT2H3M4.0000001S", Duration(937_840_000_001)),
        ("duration", "PT36H", Duration(1_296 * 10**9)),
        # TimeSpan.MinValue, and MaxValue.
        ("duration", "-P10675199DT2H48M5.4775808S", Duration(-(2**63))),
        ("duration", "P10675199DT2H48M5.4775807S", Duration(2**63 - 1)),
    ],
)  # fmt: skip
def test_each_form_of_xml_schema_is_read(kind: str, text: str, wanted: Any) -> None:
    found = rule_of(value_of(kind, text)).filter

    assert isinstance(found, CorrelationFilter)
    assert found.properties == {"k": wanted}


@pytest.mark.requirement("R579")
@pytest.mark.parametrize(
    "moment",
    ["2020-07-05T11:12:13", "2020-07-05T11:12:13Z", "2020-07-05T11:12:13.1234567Z",
     "2020-07-05T11:12:13.0000001", "2020-07-05T13:12:13.5+02:00"],
)  # fmt: skip
def test_a_moment_comes_back_as_it_was_written_wherever_it_was(moment: str) -> None:
    given = rule_of(value_of("dateTime", f" {moment}\n"))
    travelled = entities.rule_from_proto(
        management_pb2.Rule.FromString(entities.rule_to_proto(given).SerializeToString())
    )
    kept = rule_json.rule_from_json(json.loads(json.dumps(rule_json.rule_to_json(travelled))))

    assert f'i:type="d6p1:dateTime">{moment}</Value>' in rule_documents.written(kept)
    # It is the same moment in whatever way it was written.
    assert kept == given


def test_a_moment_of_any_number_of_digits_is_one_that_is_kept_in_milliseconds() -> None:
    given = rule_of(value_of("dateTime", f"2020-07-05T11:12:13.{'1' * 60}Z"))

    assert 'i:type="d6p1:dateTime">2020-07-05T11:12:13.111Z</Value>' in rule_documents.written(
        given
    )


@pytest.mark.parametrize(
    ("value", "text"), [(math.inf, "INF"), (-math.inf, "-INF"), (math.nan, "NaN"), (1e22, "1e+22")]
)
def test_numbers_are_written_as_xml_schema_has_them(value: float, text: str) -> None:
    found = rule_documents.written(Rule("r", SqlFilter("a = @p", {"@p": value})))

    assert f'i:type="d6p1:double">{text}</Value>' in found


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Int(-(2**31)), "int"), (Int(5), "int"), (5, "long"), (-(2**63), "long"),
        (2**63 - 1, "long"), (2**63, "unsignedLong"),
    ],
)  # fmt: skip
def test_a_whole_number_is_written_with_the_width_that_it_has(value: int, kind: str) -> None:
    found = rule_documents.written(Rule("r", SqlFilter("a = @p", {"@p": value})))

    assert f'i:type="d6p1:{kind}">{value}</Value>' in found


@pytest.mark.requirement("R576")
@pytest.mark.parametrize(
    ("ticks", "text"),
    [
        (0, "PT0S"), (1, "PT0.0000001S"), (-15_000_000, "-PT1.5S"), (864 * 10**9, "P1D"),
        (936_000_000_000, "P1DT2H"), (600_000_000, "PT1M"),
    ],
)  # fmt: skip
def test_a_duration_is_written_as_net_writes_a_time_span(ticks: int, text: str) -> None:
    found = rule_documents.written(Rule("r", SqlFilter("a = @p", {"@p": Duration(ticks)})))

    assert f'i:type="d6p1:duration">{text}</Value>' in found
    assert 'xmlns:d6p1="http://schemas.microsoft.com/2003/10/Serialization/"' in found


def test_values_are_written_in_one_order() -> None:
    names = [f"p{number}" for number in range(20)]
    first = CorrelationFilter(properties=dict.fromkeys(names, 1))
    second = CorrelationFilter(properties=dict.fromkeys(reversed(names), 1))

    assert rule_documents.written(Rule("r", first)) == rule_documents.written(Rule("r", second))


def test_a_key_that_is_there_twice_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="must have each key once \\(got 'k' twice\\)"):
        rule_of(value_of("int", "1") + value_of("int", "2"))


def test_the_beginning_of_1970_is_a_time_in_a_rule() -> None:
    rule = Rule("r", SqlFilter("a = @p", {"@p": Timestamp(0)}), None)

    found = rule_documents.read(atom.described(as_body(rule_documents.written(rule))))

    assert found == rule


def test_a_time_that_no_calendar_has_is_refused_and_if_stored_does_not_hide_its_rule() -> None:
    stored = Rule("r", SqlFilter("a = @p", {"@p": Timestamp(-(2**62))}), None)
    written = rule_documents.written(stored)
    earlier = as_body(written.replace("00:00:00.000Z", "00:00:00+14:00"))

    assert "0001-01-01T00:00:00.000Z" in written
    with pytest.raises(InvalidArgument, match="is not a valid dateTime"):
        rule_documents.read(atom.described(earlier))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "x"), ("int", "9" * 30), ("int", "9" * 6_000), ("boolean", "maybe"),
        ("double", "one"), ("dateTime", "yesterday"), ("guid", "1"), ("base64Binary", "?"),
        ("duration", "P"), ("duration", "PT"), ("duration", "P1M"), ("duration", "01:00:00"),
        ("duration", "P10675199DT2H48M5.4775808S"), ("duration", f"P{'9' * 6_000}D"), ("", "x"),
    ],
)  # fmt: skip
def test_a_value_that_its_type_does_not_have_is_refused(kind: str, text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"Filter\.Properties"):
        rule_of(value_of(kind, text))


def test_values_of_other_clients_are_read() -> None:
    values = {
        "short": "7", "unsignedByte": " 8 ", "decimal": "1.5", "float": "INF", "boolean": "1",
        "guid": "{12345678-1234-5678-1234-567812345678}",
    }  # fmt: skip
    content = "".join(value_of(kind, text, key=kind) for kind, text in values.items())

    found = rule_of(content).filter

    assert isinstance(found, CorrelationFilter)
    assert found.properties == {
        "short": 7, "unsignedByte": 8, "decimal": 1.5, "float": math.inf, "boolean": True,
        "guid": UUID("12345678-1234-5678-1234-567812345678"),
    }  # fmt: skip
