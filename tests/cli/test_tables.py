"""Tables fit the terminal, and nothing that a reader needs whole is broken."""

import pytest

from bendybus.cli.output import printing
from bendybus.cli.output.tables import Column, Layout, shortened, wide

COLUMNS = ("NAME", Column("PARTITIONS", wrap=10), "COUNT", Column("BODY", cut=8))


def test_a_table_is_as_wide_as_its_cells_where_there_is_room() -> None:
    lines = Layout(COLUMNS, 80).lines([["orders", "0,1,2,3", "5", "body"]])

    assert lines == ["NAME    PARTITIONS  COUNT  BODY", "orders  0,1,2,3         5  body"]


@pytest.mark.parametrize("width", [40, 50, 80])
def test_bodies_are_cut_and_lists_wrapped_but_names_and_numbers_stay_whole(width: int) -> None:
    row = ["a-queue-name", "0,1,2,3,4,5,6,7,8,9", "12345", "a body that is rather long " * 3]

    lines = Layout(COLUMNS, width).lines([row])

    assert all(wide(line) <= width for line in lines)
    assert any("a-queue-name" in line for line in lines)
    assert any("12345" in line for line in lines)
    assert any(line.endswith("…") for line in lines)


def test_ids_that_begin_with_a_digit_are_left_aligned_as_any_others() -> None:
    columns = (Column("ID", text=True), "COUNT")

    lines = Layout(columns, 80).lines([["7ff3-1", "5"], ["8", "12"]])

    assert lines == ["ID      COUNT", "7ff3-1      5", "8          12"]


def test_what_fits_no_table_becomes_blocks() -> None:
    row = ["a-queue-with-a-name-that-is-long", "0,1", "5", "body"]

    lines = Layout(COLUMNS, 30).lines([row, row])

    assert lines[0] == "NAME        a-queue-with-a-name-that-is-long"
    assert lines.count("") == 1


def test_a_pipe_gets_everything() -> None:
    body = "x" * 500

    first = Layout(COLUMNS, None)

    assert body in first.lines([["a", "0", "1", "short"], ["a", "0", "1", body]])[2]
    assert body in first.lines([["a", "0", "1", body]])[0]


def test_wide_characters_take_two_cells() -> None:
    assert wide("日本") == 4
    assert shortened("日本語", 5) == "日本…"


@pytest.mark.parametrize("text", ["\x1b[31m", "\x9b31m", "\x07", "\u202e", "\ud800", "a\nb"])
def test_control_characters_are_written_out(text: str) -> None:
    shown = printing.visible(text)
    as_json = printing.json_text({"body": text})

    assert all(character.isprintable() for character in shown + as_json)
