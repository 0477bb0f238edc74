"""What commands print of messages, whatever is in these."""

import pytest

from bendybus.spark.commands import output

pytestmark = pytest.mark.requirement("R312")


@pytest.mark.parametrize("form", ["table", "markdown"])
@pytest.mark.parametrize("text", ["[/INST] x", "[red]x", ":smile:"])
def test_texts_of_messages_are_no_markup(
    capsys: pytest.CaptureFixture[str], form: str, text: str
) -> None:
    output.rows(["reason"], [[text]], form, "none")

    assert text in capsys.readouterr().out


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_texts_of_messages_change_nothing_in_a_terminal(
    capsys: pytest.CaptureFixture[str], form: str
) -> None:
    output.rows(["reason"], [["a\x1b[2Jb\x07\x9bc"]], form, "none")

    assert "a\ufffd[2Jb\ufffd\ufffdc" in capsys.readouterr().out
