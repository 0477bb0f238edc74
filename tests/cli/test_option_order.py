"""Options of `bendybus` may stand anywhere; those of commands, and values, stay where they are."""

import pytest
import typer.main

from bendybus.cli.commands import option_order
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
    assert option_order.ordered(given.split(), ROOT) == ordered.split()
