"""docs/reference/filters.md: its code runs, its tables of examples and properties are true."""

import re
from typing import Any

import pytest

from bendybus.domain import limits
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters import rule, syntax
from bendybus.domain.filters.rule import SqlFilter
from bendybus.domain.filters.syntax import Setting
from bendybus.domain.filters.values import FilterError
from tests.domain.filters import conversion_table
from tests.test_tidy import ROOT

PAGE = (ROOT / "docs" / "reference" / "filters.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
EXAMPLES = re.findall(r"^\| `([^`]+)` \| (yes|no|error|refused) \|", PAGE, re.MULTILINE)


def run() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for block in BLOCKS:
        exec(compile(block, "filters.md", "exec"), names)
    return names


def test_the_code_runs() -> None:
    assert len(BLOCKS) == 3
    run()


@pytest.mark.requirement("R60", "R61", "R62", "R63", "R65")
@pytest.mark.parametrize(("text", "expected"), EXAMPLES)
def test_the_examples_are_true(text: str, expected: str) -> None:
    try:
        found = "yes" if rule.compiled_filter(SqlFilter(text)).matches(run()["message"]) else "no"
    except FilterError:
        found = "error"
    except InvalidArgument:
        found = "refused"

    assert found == expected


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 20


def test_the_table_of_system_properties_is_whole() -> None:
    words = {Setting.YES: "sets", Setting.IGNORED: "is ignored", Setting.NO: "is refused"}
    expected = [
        (each.name, each.kind.value.partition(" ")[2], words[each.setting])
        for each in syntax.ALL.values()
    ]

    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (sets|is \w+) \|$", PAGE, re.MULTILINE)

    assert rows == expected


def test_the_limits_are_those_of_the_code() -> None:
    for limit in (limits.SQL_FILTERS_PER_TOPIC, limits.CORRELATION_FILTERS_PER_TOPIC):
        assert f"| {limit:,} |" in PAGE
    assert f"| {limits.RULE_NAME_CHARS_MAX} |" in PAGE
    for words in (
        f"At most {limits.SQL_TEXT_CHARS_MAX:,} characters",
        f"at most {limits.SQL_ACTION_STATEMENTS_MAX}, one after the other",
        f"nested {limits.SQL_NESTING_MAX} deep",
        f"up to {limits.RULE_VALUES_MAX}\napplication properties",
        f"A pattern has at most {limits.LIKE_PATTERN_CHARS_MAX:,} characters",
        f"up to {limits.PROPERTY_BYTES_MAX:,} characters",
    ):
        assert words in PAGE


@pytest.mark.requirement("R522")
def test_the_table_of_conversions_is_that_of_the_code() -> None:
    assert "\n".join(conversion_table.table()) in PAGE
