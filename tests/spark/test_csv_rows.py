"""Rows of CSV: as they stand in the file, or refused."""

import pytest

from bendybus.spark.errors import RowError
from bendybus.spark.jobs import csv_rows

pytestmark = pytest.mark.requirement("R597")


def rows(text: str, **options: int) -> list[list[str]]:
    lines = text.removesuffix("\n").split("\n") if text else []
    return list(csv_rows.table(lines, "rows.csv", **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("a", [["a"]]),
        ("\ufeffa\n1", [["a"], ["1"]]),
        ('\ufeff"a,b"\n1', [["a,b"], ["1"]]),
        ("a\r\n1\n2\r\n3\r\n", [["a"], ["1"], ["2"], ["3"]]),
        ("a,b\n1,2\r\n", [["a", "b"], ["1", "2"]]),
        ("a\r1\r2\r", [["a"], ["1"], ["2"]]),
        ("a\r1\r\n2\n", [["a"], ["1"], ["2"]]),
        ("\n\na\n\n1\n\r\n", [["a"], ["1"]]),
        ("a\n  \n", [["a"], ["  "]]),
        ('a\n""\n', [["a"], [""]]),
        ("a,b\n,\n", [["a", "b"], ["", ""]]),
        ('a\n"1\r\n\r\n2\n3\r4"\r\n', [["a"], ["1\r\n\r\n2\n3\r4"]]),
        ('"a\rb"\n"c\rd"\n', [["a\rb"], ["c\rd"]]),
        ('a\n"x ""y"", z"\n', [["a"], ['x "y", z']]),
        ('a\n5" pipe\n', [["a"], ['5" pipe']]),
        ("a\n\\\n#\n", [["a"], ["\\"], ["#"]]),
        ("Name,name\n1,2\n", [["Name", "name"], ["1", "2"]]),
        (f"a\n{'x' * 200_000}\n", [["a"], ["x" * 200_000]]),
        ("a\n1\x002\u2028\x0b\n", [["a"], ["1\x002\u2028\x0b"]]),
    ],
)
def test_rows_are_those_that_stand_there(text: str, found: list[list[str]]) -> None:
    assert rows(text) == found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b,a\n", "rows.csv has the column 'a' twice, as its columns 1 and 3; give one"),
        ("a,\n", "rows.csv has no name for its column 2; give it one in the header"),
        ('a\n1\n"2\n3\n', "the quote that opens in line 3 is not closed; close it"),
        ('a\n"1\n2"\n"3\n', "the quote that opens in line 4 is not closed"),
        ('a,b\n"1\n2","3\n4\n', "the quote that opens in line 3 is not closed"),
        ('"a\n1\n', "the quote that opens in line 1 is not closed"),
        ('a\n"1\n"2"\n', "opens in line 2 is malformed: it closes in line 3 with text behind it"),
        ('a\n"1" \n', "opens in line 2 is malformed: it closes in line 2 with text behind it"),
        ("a\n1\n2\r3\n", "line 3 has a carriage return outside of quotes"),
        ("a,b\r1,2\r3\r", "line 3 is malformed: it has 1 value, and the header has 2"),
        ('a\n"1\n2"\n3,4\n', "line 4 is malformed: it has 2 values, and the header has 1"),
    ],
)
def test_what_has_no_exact_meaning_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(RowError, match=r"^--in: rows\.csv") as failed:
        rows(text)

    assert says in str(failed.value)


def test_a_row_without_an_end_is_not_kept_in_memory_as_a_whole() -> None:
    with pytest.raises(RowError, match="the row that begins in line 2 has more than 100 char"):
        rows('a\n"1\n' + "x\n" * 100, row_max=100)


def test_a_column_of_the_folders_is_none_of_the_file() -> None:
    with pytest.raises(RowError, match="has the column 'b', and is in a folder that is named b=…"):
        list(csv_rows.table(["a,b"], "rows.csv", ["b"]))
