"""Texts that are refused: where, what was found, what was expected. And texts made to hurt."""

import sys
import time

import pytest

from bendybus.domain import limits
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters import parser, sql_text
from bendybus.domain.filters.view import Properties

pytestmark = pytest.mark.requirement("R64")
OPERAND = "a property, a constant or '('"
COMPARISON = "a comparison (=, <>, <, <=, >, >=), NOT, IS, IN"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a", f"line 1, column 2: the text ends too early: expected {COMPARISON} or LIKE."),
        ("a =\n", f"line 2, column 1: the text ends too early: expected {OPERAND}."),
        ("a == 2", f"line 1, column 4: unexpected '=': expected {OPERAND}."),
        ("a IN ()", f"line 1, column 7: unexpected ')': expected {OPERAND}."),
        (
            "a BETWEEN 1",
            f"line 1, column 3: unexpected 'BETWEEN': expected {COMPARISON}, LIKE, "
            "an arithmetic operator, '.' or '('.",
        ),
        (
            "a = 1\nAND\n  b ! 2",
            "line 3, column 5: unexpected character '!'; "
            "names with it must be in brackets: [name].",
        ),
        ("a = 1;", "line 1, column 6: unexpected ';': expected AND, OR or the end."),
        ("a = 'x", "line 1, column 5: the string that starts here has no closing '."),
        ("[a = 1", "line 1, column 1: the name that starts here has no closing ]."),
        ('"a = 1', 'line 1, column 1: the name that starts here has no closing ".'),
        ("[] = 1", "line 1, column 1: a name must not be empty."),
        ("a = @", "line 1, column 5: @ must be followed by the name of a parameter."),
        ("a = 1x", "line 1, column 5: a number must not be followed by a letter, digit or _."),
        ("EXISTS(1)", "line 1, column 8: unexpected '1': expected a property."),
        (
            "a.b = 1",
            "line 1, column 1: the scope of a property is sys or user (got 'a'); "
            "a name with a dot in it must be in brackets: [name].",
        ),
        (
            "len(a) = 1",
            "line 1, column 1: the function 'len' is unknown; "
            "the functions are newid(), property(name) and p(name).",
        ),
        ("newid(a) = 1", "line 1, column 1: the function 'newid' takes no argument."),
        ("p() = 1", "line 1, column 1: the function 'p' takes a name."),
        (
            "a = 9223372036854775808",
            "line 1, column 5: the number '9223372036854775808' does not fit into 64 bits.",
        ),
        (
            "a = 1 AND\n99999999999999999999 = b",
            "line 2, column 1: the number '99999999999999999999' does not fit into 64 bits.",
        ),
        ("a = 1e999", "line 1, column 5: the number '1e999' does not fit into 64 bits."),
        (
            "a " + "b" * 50,
            f"line 1, column 3: unexpected '{'b' * 40}…': expected {COMPARISON}, LIKE, "
            "an arithmetic operator, '.' or '('.",
        ),
        ("", "must not be empty."),
        (" \n", "must not be empty."),
        ("a = '" + "x" * 1_020, "must be at most 1024 characters (got 1025)."),
        ("a = '\0'", "must not contain the character NUL (U+0000)."),
    ],
)
def test_a_wrong_filter_is_refused_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        sql_text.compiled_filter(text, {}, "filter.sqlExpression")

    assert str(refused.value) == f"filter.sqlExpression: {sentence}"
    assert refused.value.metadata["field"] == "filter.sqlExpression"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a = 1", "line 1, column 1: unexpected 'a': expected SET or REMOVE."),
        ("SET a > 1", "line 1, column 7: unexpected '>': expected = or '.'."),
        ("SET a = 1, b = 2", "column 10: unexpected ',': expected SET, REMOVE, ';' or the end."),
        ("REMOVE a +", "line 1, column 10: unexpected '+': expected "),
        ("SET a = 1;; ", "line 1, column 11: unexpected ';': expected SET, REMOVE or the end."),
    ],
)
def test_a_wrong_action_is_refused_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parser.parse_action(text, "action")

    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 500 + "a=1" + ")" * 500,
        "a=" + "(" * 500 + "1" + ")" * 500,
        "NOT " * 60 + "a=1",
        " OR ".join(["a=1"] * 146),
        " AND ".join(["a>1"] * 127),
        "1=" + "+".join("1" * 500),
        "1=" + "-" * 1_000 + "1",
        "a IN (" + ",".join("1" * 500) + ")",
        "(a=1 OR " * 60 + "a=1" + ")" * 60,
        "[" + "x" * 1_000 + "]=1",
    ],
)
def test_a_long_text_is_parsed_and_evaluated_within_a_small_stack(text: str) -> None:
    assert len(text) <= limits.SQL_TEXT_CHARS_MAX
    depth, frame = 0, sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + 250)
    try:
        sql_text.compiled_filter(text, {}, "f").matches(Properties({"a": 1}))
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize(
    "text",
    [
        "NOT " * 250 + "a=1",
        "a=" + "-" * 1_000 + "b",
        "a=" + "p(" * 300 + "b" + ")" * 300,
        "a=" + "(1+" * 200 + "b" + ")" * 200,
        "NOT (" * 150 + "a=1" + ")" * 150,
        "a IN (b+(c-" * 70 + "1" + "))" * 70,
    ],
)
def test_what_is_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"at most 64 deep|expected"):
        sql_text.compiled_filter(text, {}, "f")


@pytest.mark.parametrize("text", ["(" * 1_024, "'" * 1_023, "[" * 1_024, "NOT" * 341, "-" * 1_024])
def test_a_text_made_to_hurt_is_refused_quickly(text: str) -> None:
    parser.parse_filter("a=1", "f")
    began = time.process_time()

    with pytest.raises(InvalidArgument):
        sql_text.compiled_filter(text, {}, "f")

    assert time.process_time() - began < 1.0
