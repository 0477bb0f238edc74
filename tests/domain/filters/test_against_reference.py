"""SQL filters against the second evaluation in `reference`: any expression, any message."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bendybus.domain.filters import parser, sql_text
from bendybus.domain.filters.values import FilterError
from bendybus.domain.filters.view import Properties
from tests.domain.filters import reference
from tests.domain.filters.reference import Tree

NAMES = ["a", "b", "c", "odd ]name"]
TEXTS = st.text(alphabet="aA%_\\'é", max_size=4)
NUMBERS = st.one_of(
    st.integers(0, 4),
    st.sampled_from([2**63 - 1, 2**62, 3037000500]),
    st.sampled_from([0.0, 0.5, 1.0, 2.5, 1e300]),
)
CONSTANTS = st.tuples(st.just("constant"), st.none() | st.booleans() | NUMBERS | TEXTS)
PROPERTIES = st.tuples(st.just("property"), st.sampled_from(NAMES))


def _signed(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.tuples(st.just("sign"), st.sampled_from("+-"), inner)


EXPRESSIONS: st.SearchStrategy[Any] = st.recursive(
    CONSTANTS | PROPERTIES,
    lambda inner: st.one_of(
        st.tuples(st.just("arithmetic"), st.sampled_from("+-*/%"), inner, inner),
        _signed(inner),
    ),
    max_leaves=4,
)
PATTERNS = st.tuples(st.just("constant"), st.text(alphabet="aA%_é", max_size=5)) | PROPERTIES
CONDITIONS = st.tuples(st.just("compare"), st.just("="), PROPERTIES, CONSTANTS)
SIMPLE = st.one_of(
    CONDITIONS,
    st.tuples(
        st.just("compare"),
        st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
        EXPRESSIONS,
        EXPRESSIONS,
    ),
    st.tuples(st.just("null"), EXPRESSIONS),
    st.tuples(st.just("exists"), st.sampled_from(NAMES)),
    st.tuples(st.just("in"), EXPRESSIONS, st.lists(EXPRESSIONS, min_size=1, max_size=3)),
    st.tuples(st.just("like"), EXPRESSIONS, PATTERNS, st.just(None)),
    st.tuples(
        st.just("like"),
        PROPERTIES,
        # Each escape character has another one behind it.
        st.lists(st.sampled_from(["a", "%", "_", "!%", "!_", "!!", "é"]), max_size=4).map(
            lambda parts: ("constant", "".join(parts))
        ),
        st.just(("constant", "!")),
    ),
)
PREDICATES: st.SearchStrategy[Any] = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3)),
        st.tuples(st.just("not"), inner),
    ),
    max_leaves=6,
)
VALUES = st.none() | st.booleans() | NUMBERS | NUMBERS.map(lambda n: -n) | TEXTS
MESSAGES = st.dictionaries(st.sampled_from(NAMES), VALUES)


@pytest.mark.requirement("R60", "R61")
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(tree=PREDICATES, message=MESSAGES)
def test_a_filter_means_what_the_second_evaluation_says(
    tree: Tree, message: dict[str, Any]
) -> None:
    text = reference.render(tree)
    if len(text) > 1_024:
        return
    try:
        expected: bool | str = reference.evaluate(tree, message)
    except reference.Failed:
        expected = "fails"

    try:
        found: bool | str = sql_text.compiled_filter(text, {}, "filter").matches(
            Properties(message)
        )
    except FilterError:
        found = "fails"

    assert found == expected, text


@pytest.mark.requirement("R60")
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(tree=PREDICATES, message=MESSAGES)
def test_precedence_is_that_of_the_whole_parentheses(tree: Tree, message: dict[str, Any]) -> None:
    short, whole = reference.render(tree), reference.render(tree, whole=True)
    if len(whole) > 1_024:
        return

    outcomes = list[bool | str]()
    for text in (short, whole):
        try:
            outcomes.append(
                sql_text.compiled_filter(text, {}, "filter").matches(Properties(message))
            )
        except FilterError as error:
            outcomes.append(str(error))

    assert outcomes[0] == outcomes[1], (short, whole)


@pytest.mark.requirement("R60")
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(tree=PREDICATES, seed=st.randoms(use_true_random=False))
def test_upper_and_lower_case_and_white_space_make_no_difference(tree: Tree, seed: Any) -> None:
    text = reference.render(tree)
    parts = text.split(" ")
    if len(text) > 700 or "'" in text or "[" in text:
        return

    odd = "".join(
        seed.choice([str.upper, str.lower])(part) + seed.choice([" ", "\n", "  ", "\t"])
        for part in parts
    )

    assert _folded(parser.parse_filter(odd, "f")) == _folded(parser.parse_filter(text, "f"))


def _folded(tree: Any) -> str:
    return str(tree).lower()
