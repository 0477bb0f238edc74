"""Options of `bendybus` may stand anywhere; those of commands, and values, stay where they are."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from bendybus.cli.commands import run_command
from bendybus.cli.commands.app import app

ROOT = typer.main.get_command(app)


@pytest.mark.parametrize(
    ("given", "ordered"),
    [
        ("get queues --kube", "--kube get queues"),
        ("get queues --bus b -o wide", "--bus b get queues -o wide"),
        ("send q body --connection-string=x --ttl 5", "--connection-string=x send q body --ttl 5"),
        ("deadletter resubmit q -n space --max 3", "-n space deadletter resubmit q --max 3"),
        # The command's own, and the value of one.
        ("up -f x --data d", "up -f x --data d"),
        ("send q -p --kube", "send q -p --kube"),
        ("send q -- --kube", "send q -- --kube"),
        ("send q -", "send q -"),
        ("--bus b get queues", "--bus b get queues"),
    ],
)
def test_options_before_a_command_may_stand_behind_it(given: str, ordered: str) -> None:
    assert run_command.ordered_options(given.split(), ROOT) == ordered.split()


def _results(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, each in getattr(command, "commands", {}).items():
        yield from _results(each, (*path, name))
    if path and not getattr(command, "commands", {}):
        yield path, command


# What ends without a result, hands its words to another program, asks first, prints manifests, or
# has the output of another program.
_WITHOUT = {"pipeline", "delete", "export", "copy", "convert", "emulator"}


@pytest.mark.requirement("R366")
@pytest.mark.parametrize(("path", "command"), [*_results(ROOT)], ids=str)
def test_each_command_with_a_result_has_one_option_for_how_it_is_printed(
    path: tuple[str, ...], command: Any
) -> None:
    options = {name for each in command.params for name in each.opts}

    assert "--json" not in options
    assert {"--output", "-o"} <= options or _WITHOUT & {*path}


@pytest.mark.requirement("R366")
def test_the_old_spelling_of_json_is_taken_where_there_is_an_output() -> None:
    assert run_command.ordered_options(["ps", "--json"], ROOT) == ["ps", "--output=json"]
    assert run_command.ordered_options(["send", "q", "--", "--json"], ROOT) == [
        "send",
        "q",
        "--",
        "--json",
    ]
    assert run_command.ordered_options(["send", "-p", "--json"], ROOT) == ["send", "-p", "--json"]
    assert run_command.ordered_options(["delete", "queue", "--json"], ROOT)[-1] == "--json"


@pytest.mark.parametrize(("path", "command"), [*_results(ROOT)], ids=str)
def test_no_help_begins_as_if_the_name_of_its_option_were_read_before_it(
    path: tuple[str, ...], command: Any
) -> None:
    helps = [getattr(each, "help", None) or "" for each in command.params]

    assert [each for each in helps if each.startswith(("Of ", "of ", "By ", "From which"))] == []
