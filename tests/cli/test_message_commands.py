"""`send`, `receive`, `purge`, `deadletter`: what the command line says, before a bus is asked."""

import io

import pytest

from bendybus.cli import __main__ as command

NOWHERE = (
    "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=x;UseDevelopmentEmulator=true"
)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["purge", "q", "--older-than", "yesterday"],
            "--older-than: 'yesterday': must be like PT1H or P7D.",
        ),
        (
            ["purge", "q", "--older-than", "PT1H", "--dry-run"],
            "--dry-run: messages are not counted by age. Leave out --older-than.",
        ),
        (
            ["purge", "q", "--dead-letters", "--state", "active", "--dry-run"],
            "--dry-run: dead letters are not counted by state. Leave out --state.",
        ),
        (
            ["purge", "news/Subscriptions/a"],
            "Delete all messages of 'news/Subscriptions/a'? Confirm with --yes: there is no "
            "terminal.",
        ),
        (
            ["receive", "q", "--mode", "receive-and-delete", "--no-complete"],
            "--no-complete: cannot be used with --mode receive-and-delete, which deletes "
            "messages when they are printed.",
        ),
        (
            ["receive", "q", "--session", "s", "--dead-letters"],
            "--session, --next-session, --dead-letters: only one of them is allowed.",
        ),
        (["receive", "q", "--abandon", "soon"], "--abandon: 'soon': must be like PT1H or P7D."),
        (
            ["receive", "q", "--abandon", "P8D"],
            "--abandon: must be at most P7D (got 'P8D').",
        ),
        (
            ["send", "q", "x", "-p", "colour=red", "-p", "colour=blue"],
            "--property colour: contradicts itself (got 'red' and 'blue'). Leave one out.",
        ),
        (
            ["receive", "q", "--abandon", "PT1H", "--no-complete"],
            "--abandon: cannot be used with --no-complete or receive-and-delete.",
        ),
        (
            ["session", "state", "q", "s", "--set", "x", "--clear"],
            "--clear: cannot be used with --set.",
        ),
        (["send", "q", "x", "--ttl", "0"], "--ttl: must be greater than 0; 0 expires at once."),
        (
            ["send", "q", "x", "-p", "time_to_live=5"],
            "--property: time_to_live cannot be set as a property; use --ttl.",
        ),
    ],
)
def test_what_contradicts_itself_is_refused_before_a_bus_is_asked(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = command.main(["--connection-string", NOWHERE, *arguments])

    assert (code, capsys.readouterr().err) == (2, f"bendybus: {sentence}\n")


def test_input_that_is_no_text_is_named_by_its_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = io.TextIOWrapper(io.BytesIO(b"first\n\xff\n"), errors="surrogateescape")
    monkeypatch.setattr("sys.stdin", given)

    code = command.main(["--connection-string", NOWHERE, "send", "q"])

    assert code == 1
    assert capsys.readouterr().err == (
        "bendybus: stdin, line 2: is not UTF-8 text. Send it as UTF-8, or use --raw.\n"
    )
