"""The table of rules: every command and every sweep has one row."""

from typing import get_args

from bendybus.domain import errors
from bendybus.partition_server.broker.rule_table import COMMANDS, SWEEPS, Phase
from bendybus.partition_server.state import commands
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, Counts, StreamEnded
from bendybus.partition_server.state.due_times import Sweep
from tests.partition_server.driver import Driver


def test_every_command_has_a_row_and_every_row_is_of_a_command() -> None:
    assert set(COMMANDS) == set(get_args(commands.Command))


def test_every_sweep_has_a_row() -> None:
    assert set(SWEEPS) == set(Sweep)


def test_a_command_that_reads_the_store_first_gets_a_stage_of_its_own(queue: Driver) -> None:
    alone = commands.CancelScheduled("t", queue.ref(), [1])
    send = Append("t", queue.ref(), Batch([b"x"]))
    count = Counts("t")

    groups = list(queue.partition.grouped([send, count, alone, send]))

    assert COMMANDS[commands.CancelScheduled].phase is Phase.ALONE
    assert groups == [[send, count], [alone], [send]]


# Their refusals name the request, and have tests of their own.
NAMED = {
    commands.Ask,
    commands.AcceptSession,
    commands.ConfirmSession,
    commands.CloseSession,
    commands.RenewSession,
    commands.AttachSession,
    commands.Deliver,
    commands.Settle,
}


def test_every_refusal_is_a_value_for_the_caller_or_none_where_no_caller_waits() -> None:
    error = errors.ServerBusy("later")
    silent = {commands.Release, commands.ToldSession, StreamEnded}

    for kind, rule in COMMANDS.items():
        if kind in NAMED:
            continue
        answer = rule.refused(None, error)
        assert (answer is None) is (kind in silent), kind
