"""What SQL filters mean, as tables. Each row: a filter, and what it makes of the message below."""

import math
import subprocess
import sys
from uuid import UUID

import pytest

from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters import rule
from bendybus.domain.filters.rule import SqlFilter
from bendybus.domain.filters.values import Composite, FilterError, Timestamp, Value
from bendybus.domain.filters.view import Properties

ID = UUID("00000000-0000-4000-8000-000000000001")
MESSAGE = Properties(
    {
        "Color": "red",
        "quantity": 10,
        "weight": 2.5,
        "fragile": True,
        "nothing": None,
        "two words": "x",
        'it\'s ] "odd"': 1,
        "numeral": "10",
        "huge": 2**64 - 1,
        "data": b"\x01",
        "id": ID,
        "moment": Timestamp(5),
        "tree": Composite(),
        "nan": math.nan,
        "Größe": 1,
    },
    {
        "Label": "order/new",
        "SequenceNumber": 7,
        "EnqueuedTimeUtc": Timestamp(9),
        "SessionId": "",
    },
    lambda: ID,
)
PARAMETERS: dict[str, Value] = {
    "@Color": "red",
    "ten": 10,
    "id": ID,
    "later": Timestamp(6),
    "data": b"\x01",
    "none": None,
    "nan": math.nan,
}


def matches(text: str) -> bool:
    return rule.compiled_filter(SqlFilter(text, PARAMETERS)).matches(MESSAGE)


@pytest.mark.requirement("R60")
@pytest.mark.parametrize(
    "text",
    [
        "color = 'red'",
        "COLOR = 'red'",
        "user.Color = 'red' AND USER.color = 'red'",
        "sys.Label = 'order/new'",
        "SYS.subject = 'order/new'",
        "'red' = color",
        "color <> 'blue' AND color != 'blue'",
        "quantity > 9 AND quantity >= 10 AND quantity < 11 AND quantity <= 10",
        "color > 'blue' AND color < 'ruby'",
        "'B' < 'a'",
        "[two words] = 'x' AND \"two words\" = 'x'",
        '[it\'s ]] "odd"] = 1 AND "it\'s ] ""odd""" = 1',
        "größe = 1",
        "color IN ('blue', 'red')",
        "color NOT IN ('blue', 'green')",
        "quantity IN (weight * 4, 3)",
        "color LIKE 'r%' AND color NOT LIKE 'b%'",
        "fragile = TRUE and not fragile = false",
        "EXISTS(color) AND EXISTS(nothing) AND NOT EXISTS(missing)",
        "EXISTS(sys.Label) AND NOT EXISTS(sys.ReplyTo)",
        "nothing IS NULL AND missing IS NULL AND color IS NOT NULL",
        "sys.ReplyTo IS NULL AND sys.SessionId = ''",
        "property('color') = 'red' AND P('two ' + 'words') = 'x'",
        "p('sys.Label') = 'order/new' AND p('user.color') = 'red'",
        "p('missing') IS NULL AND p(missing) IS NULL",
        "newid() = @id AND id = newid()",
        "color = @color AND quantity = @TEN AND moment < @later AND data = @data",
        "sys.EnqueuedTimeUtc > @later AND sys.SequenceNumber = 7",
        "quantity=10 and(color='red')or 1=2",
        "set = 1 OR remove = 2 OR quantity = 10",
        "color = 'it''s' OR 'it''s' = 'it''s'",
        "quantity = +10 AND quantity = - -10 AND -quantity = -10",
        "1.5e1 = 15 AND .5 = 0.5 AND 2. = 2 AND 1E2 = 100",
    ],
)
def test_takes(text: str) -> None:
    assert matches(text)


@pytest.mark.requirement("R60")
@pytest.mark.parametrize(
    ("text", "taken"),
    [
        # NOT before AND before OR; * / % before + -; from left to right.
        ("1=1 OR 1=1 AND 1=2", True),
        ("(1=1 OR 1=1) AND 1=2", False),
        ("NOT 1=2 AND 1=1", True),
        ("NOT (1=2 OR 1=1)", False),
        ("NOT NOT 1=1", True),
        ("2 + 3 * 4 = 14 AND (2 + 3) * 4 = 20", True),
        ("10 - 4 - 3 = 3 AND 100 / 10 / 5 = 2 AND 7 % 4 * 2 = 6", True),
        ("-2 * 3 = -6 AND 2 - -3 = 5", True),
    ],
)
def test_precedence(text: str, taken: bool) -> None:
    assert matches(text) is taken


@pytest.mark.requirement("R61")
@pytest.mark.parametrize(
    "text",
    [
        "missing = 1",
        "missing <> 1",
        "NOT missing = 1",
        "NOT (missing = 1 AND 1 = 1)",
        "nothing = NULL",
        "NULL = NULL",
        "NULL IS NOT NULL",
        "color = @none",
        "missing + 1 = 1 OR -missing = 1 OR missing > 1",
        "missing LIKE '%' OR missing NOT LIKE 'a'",
        "color LIKE missing OR color NOT LIKE NULL OR color LIKE 'red' ESCAPE missing",
        "missing IN (1, 2) OR missing NOT IN (1, 2)",
        "color NOT IN ('blue', NULL)",
        "color NOT IN ('blue', missing)",
        "(missing = 1) AND NOT (missing = 1)",
        "missing = 1 OR NOT missing = 1",
        "p(missing) = 1",
        "sys.ReplyTo = 'x' OR sys.ReplyTo <> 'x'",
    ],
)
def test_what_is_unknown_is_not_taken(text: str) -> None:
    assert not matches(text)


@pytest.mark.requirement("R61")
@pytest.mark.parametrize(
    "text",
    [
        "NOT (missing = 1 AND 1 = 2)",
        "missing = 1 OR 1 = 1",
        "1 = 1 OR missing = 1",
        "color IN ('red', NULL)",
        "color IN (missing, 'red')",
        "NOT (1 = 2 AND missing = 1)",
    ],
)
def test_what_is_known_without_the_unknown_is_taken(text: str) -> None:
    assert matches(text)


@pytest.mark.requirement("R63")
@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("quantity = 10.0 AND 10.0 = quantity AND weight = 2.5 AND weight < 3", True),
        ("quantity / 4 = 2 AND quantity / 4.0 = 2.5 AND -7 / 2 = -3 AND -7 % 4 = -3", True),
        ("7 % -4 = 3 AND -7.5 % 2 = -1.5", True),
        ("1.0 / 0 > 9e300 AND -1.0 / 0 < -9e300", True),
        ("0.0 / 0 = 0.0 / 0 OR 0.0 / 0 < 1 OR nan = nan OR nan = @nan OR nan IN (@nan)", False),
        ("nan <> nan", True),
        ("9223372036854775807 = 9223372036854775807.0", False),
        ("-9223372036854775808 < -9223372036854775807", True),
        ("huge > 9223372036854775807", True),
        ("1e300 * 1e300 > 1e308", True),
        ("'a' + 'b' = 'ab'", True),
        # Of different kinds: not equal, and that is known.
        ("numeral = 10 OR quantity = '10' OR fragile = 1 OR fragile = 'true'", False),
        ("numeral <> 10 AND fragile <> 1 AND NOT numeral = 10", True),
        ("fragile IN (1) OR quantity IN ('10')", False),
        ("id = '00000000-0000-4000-8000-000000000001' OR moment = 5 OR data = 'x'", False),
        ("tree = tree OR tree = 1 OR tree IN (1)", False),
        ("tree IS NOT NULL AND EXISTS(tree)", True),
    ],
)
def test_numbers_and_kinds(text: str, taken: bool) -> None:
    assert matches(text) is taken


@pytest.mark.requirement("R63")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("color > 1", "a string cannot be compared with a number by >"),
        ("fragile < TRUE", "a boolean cannot be compared with a boolean by <"),
        ("data <= data", "binary data cannot be compared"),
        ("moment >= 5", "a timestamp cannot be compared with a number"),
        ("color - 1 = 2", r"a string - a number is not defined"),
        ("color * 'a' = 2", r"a string \* a string is not defined"),
        ("fragile + 1 = 2", r"a boolean \+ a number is not defined"),
        ("-color = 2", "- a string is not defined"),
        ("+fragile = 2", r"\+ a boolean is not defined"),
        ("quantity LIKE '1%'", "the operand of LIKE must be a string"),
        ("color LIKE quantity", "a pattern of LIKE must be a string"),
        ("color LIKE numeral ESCAPE 'ab'", "ESCAPE must be a single character"),
        ("p(quantity) = 1", r"the name in property\(\) must be a string"),
        ("9223372036854775807 + quantity = 1", "does not fit into 64 bits"),
        ("-9223372036854775808 - quantity = 1", "does not fit into 64 bits"),
        ("3037000500 * 3037000500 = quantity", "does not fit into 64 bits"),
        ("-(-9223372036854775808) = 1", "does not fit into 64 bits"),
        ("-9223372036854775808 / -1 = 1", "does not fit into 64 bits"),
        ("huge + 0 = 1", "does not fit into 64 bits"),
        ("quantity / 0 = 1", "divided by zero"),
        ("quantity % (quantity - 10) = 1", "divided by zero"),
    ],
)
def test_what_is_not_defined_fails_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(FilterError, match=sentence):
        matches(text)


@pytest.mark.requirement("R62")
@pytest.mark.parametrize(
    "text",
    [
        "sys.Nonsense = 1",
        "sys.Nonsense IS NULL",
        "EXISTS(sys.Nonsense)",
        "p('sys.nonsense') = 1",
        "color = 'red' AND sys.LockToken = 'x'",
        "color LIKE NULL OR sys.LockToken LIKE NULL",
    ],
)
def test_a_system_property_that_does_not_exist_is_an_error(text: str) -> None:
    with pytest.raises(FilterError, match=r"sys\.\w+: there is no such system property.*MessageId"):
        matches(text)


@pytest.mark.requirement("R62")
@pytest.mark.parametrize(
    "text",
    [
        # Equalities of the whole filter come first, then the order of the text.
        "sys.Nonsense = 1 AND color = 'blue'",
        "color > 1 AND (quantity = 11 AND weight > 1)",
        "color LIKE 'b%' AND sys.Nonsense = 1",
        "missing > 1 AND sys.Nonsense = 1",
        "NOT (1 = 1 OR sys.Nonsense = 1)",
        "NOT (NOT (1 = 2 AND sys.Nonsense = 1))",
    ],
)
def test_what_need_not_be_evaluated_does_not_fail(text: str) -> None:
    assert not matches(text)


def test_of_properties_whose_names_differ_in_case_the_one_sorted_first_counts() -> None:
    view = Properties({"b": 1, "B": 2, "a": 3})

    assert rule.compiled_filter(SqlFilter("b = 2 AND a = 3")).matches(view)


def test_a_parameter_without_a_value_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="the parameter @color has no value"):
        rule.compiled_filter(SqlFilter("a = @color", {"colour": 1}))


def test_strings_that_grow_are_bounded() -> None:
    text = "a + " * 20 + "a = ''"
    view = Properties({"a": "x" * 32_768})

    with pytest.raises(FilterError, match="longer than 32768"):
        rule.compiled_filter(SqlFilter(text)).matches(view)


def test_lark_is_imported_only_when_a_text_is_parsed() -> None:
    program = (
        "import sys\n"
        "from bendybus.domain.filters import rule, rule_index\n"
        "rule.compiled_filter(rule.TrueFilter())\n"
        "assert 'lark' not in sys.modules\n"
        "assert 'bendybus.domain.filters.syntax' not in sys.modules\n"
        "rule.compiled_filter(rule.SqlFilter('a = 1'))\n"
        "assert 'lark' in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
