"""AutoDeleteOnIdle: each command is a use of its entity, or is none."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Origin
from bendybus.domain.entity_settings import QueueDescription
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.message_state import MessageState
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.broker.rule_table import COMMANDS, CommandRule
from bendybus.partition_server.state import commands
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Command
from bendybus.partition_server.state.lanes import ForwardOutcome
from bendybus.partition_server.state.pipeline_commands import DrainAction
from bendybus.partition_server.store.records import ForwardSource
from tests.partition_server import draining
from tests.partition_server.driver import Driver
from tests.partition_server.session_driver import Sessions
from tests.partition_server.transacting import ID

IDLE_MS: Final = 10_000
_SOURCE: Final = ForwardSource("uid-source", SubQueue.MAIN, 1, b"i" * 16)


def accessed_ms(driver: Driver) -> int:
    """Return when an entity was last used."""
    return driver.counts().accessed_at_ms


# Before the time passes: what the command needs. After it: the command.
Scenario = Callable[[Driver], Callable[[], Command]]


def plain(driver: Driver) -> None:
    """Make a queue without sessions."""
    driver.create(auto_delete_on_idle_ms=300_000)


def simple(make: Callable[[Driver], Command]) -> Scenario:
    """A command that needs nothing but the queue."""

    def scenario(driver: Driver) -> Callable[[], Command]:
        plain(driver)
        return lambda: make(driver)

    return scenario


def locked(make: Callable[[Driver, bytes], Command]) -> Scenario:
    """A command about a locked message."""

    def scenario(driver: Driver) -> Callable[[], Command]:
        plain(driver)
        driver.send(b"a")
        [(_, token)] = driver.receive()
        return lambda: make(driver, token)

    return scenario


def reserved(make: Callable[[bytes], Command]) -> Scenario:
    """A command about a message in the cache of a front end."""

    def scenario(driver: Driver) -> Callable[[], Command]:
        plain(driver)
        driver.send(b"a")
        [answer] = driver.reserve()
        [(_, token)] = driver.tokens(answer)
        return lambda: make(token)

    return scenario


def in_session(make: Callable[[bytes], Command], *, confirmed: bool = True) -> Scenario:
    """A command about the lock of a session."""

    def scenario(driver: Driver) -> Callable[[], Command]:
        sessions = Sessions(driver, lock_duration_ms=60_000)
        if confirmed:
            token = sessions.accept("s")
            return lambda: make(token)

        def offered() -> Command:
            # An offer lasts for two seconds: it is made now, and that use is forgotten.
            [offer] = sessions.ask_accept("s")
            for queue in driver.partition.state.queues:
                queue.last_used_mono_ms = queue.accessed_at_ms = 0
            return make(offer.session_token)

        return offered

    return scenario


def of_sessions(make: Callable[[Sessions], Command]) -> Scenario:
    """A command about a queue with sessions."""

    def scenario(driver: Driver) -> Callable[[], Command]:
        sessions = Sessions(driver)
        return lambda: make(sessions)

    return scenario


def deferred(driver: Driver) -> Callable[[], Command]:
    """Receive a deferred message."""
    plain(driver)
    driver.send(b"a")
    [(row, token)] = driver.receive()
    driver.settle(Disposition.DEFER, token)
    return lambda: commands.ReceiveDeferred("t", driver.ref(), False, [row.counter])


def cancel(driver: Driver) -> Callable[[], Command]:
    """Cancel a scheduled message."""
    plain(driver)
    driver.send(b"a", scheduled_ms=[driver.wall_ms + 3_600_000])
    return lambda: commands.CancelScheduled("t", driver.ref(), [1])


def settle_range(driver: Driver) -> Callable[[], Command]:
    """Settle what a data pipeline has written."""
    plain(driver)
    driver.send(b"a")
    epoch = draining.drained(driver)
    return lambda: commands.SettleRange("t", driver.ref(), epoch, 1)


def hold_drain(driver: Driver) -> Callable[[], Command]:
    """Hold the lease of a data pipeline."""
    plain(driver)
    epoch = draining.grant(driver)
    hold, ms = DrainAction.HOLD, draining.LEASE_MS
    return lambda: commands.DrainEntity("t", driver.ref(), hold, "capture", ms, epoch)


def change(driver: Driver) -> Command:
    """Change the description at the registrar."""
    changes = {"lock_duration_ms": 30_000}
    return commands.CommitEntity("t", EntityAction.UPDATE, "orders", Origin.CLIENT, changes)


def copy(driver: Driver) -> Command:
    """Copy a changed description of the registrar."""
    known = driver.partition.state.catalogue.by_key("orders")
    assert known is not None
    changed = QueueDescription(auto_delete_on_idle_ms=IDLE_MS, lock_duration_ms=30_000)
    newer = replace(known, description=changed, generation=known.generation + 1)
    return commands.ApplyEntity("t", [newer])


COMPLETE: Final = Disposition.COMPLETE
SCENARIOS: Final[dict[Any, Scenario]] = {
    commands.Append: simple(lambda d: commands.Append("t", d.ref(), Batch([b"x"]))),
    commands.TakeForwarded: simple(
        lambda d: commands.TakeForwarded("t", d.ref(), _SOURCE, 1, 1, [1], Batch([b"x"]))
    ),
    commands.Transact: locked(
        lambda d, token: commands.Transact(
            "t", d.ref(), ID, [commands.Settle("", 0, COMPLETE, token)]
        )
    ),
    commands.TransactAlone: locked(
        lambda d, token: commands.TransactAlone(
            "t", d.ref(), ID, [commands.Settle("", 0, COMPLETE, token)]
        )
    ),
    commands.Settle: locked(lambda _, token: commands.Settle("s", 1, COMPLETE, token)),
    commands.Deliver: reserved(lambda token: commands.Deliver("s", 1, token)),
    commands.ConfirmSession: in_session(
        lambda token: commands.ConfirmSession("s", 9, token), confirmed=False
    ),
    commands.CloseSession: in_session(lambda token: commands.CloseSession("s", 9, token)),
    commands.RenewSession: in_session(lambda token: commands.RenewSession("s", 9, token)),
    commands.AttachSession: in_session(lambda token: commands.AttachSession("s2", 9, token)),
    commands.SetSessionState: in_session(lambda t: commands.SetSessionState("t", t, b"state")),
    commands.GetSessionState: in_session(lambda t: commands.GetSessionState("t", t)),
    commands.ReceiveDeferred: deferred,
    commands.CancelScheduled: cancel,
    commands.ReserveNumbers: simple(lambda d: commands.ReserveNumbers("t", d.ref(), 1)),
    commands.DeleteMessages: simple(
        lambda d: commands.DeleteMessages("t", d.ref(), 1, 0, frozenset({MessageState.ACTIVE}))
    ),
    commands.DrainEntity: hold_drain,
    commands.SettleRange: settle_range,
    commands.SendFenced: simple(
        lambda d: commands.SendFenced("t", d.ref(), draining.PRODUCER, 1, [1], Batch([b"x"]))
    ),
    commands.CommitEntity: simple(change),
    commands.ApplyEntity: simple(copy),
    commands.Ask: simple(lambda d: commands.Ask("s", 9, d.ref(), False, 1, 1_000)),
    commands.AcceptSession: of_sessions(
        lambda sessions: commands.AcceptSession("s", 9, sessions.ref(), None)
    ),
    commands.ListSessions: of_sessions(
        lambda sessions: commands.ListSessions("t", sessions.ref(), 1)
    ),
    commands.Peek: simple(lambda d: commands.Peek("t", d.ref(), 0, 1, 1_000)),
    commands.GetRange: simple(lambda d: commands.GetRange("t", d.ref())),
    commands.BrowseRange: simple(lambda d: commands.BrowseRange("t", d.ref(), 0, 0, 1, 1_000)),
    commands.FindNumber: simple(lambda d: commands.FindNumber("t", d.ref(), 1)),
    commands.GetFence: simple(lambda d: commands.GetFence("t", d.ref(), draining.PRODUCER)),
    ForwardOutcome: simple(lambda _: ForwardOutcome(9, 9, 9, 0, 0)),
    commands.Release: reserved(lambda token: commands.Release("s", token)),
    commands.StreamEnded: reserved(lambda _: commands.StreamEnded("s")),
    commands.ToldSession: in_session(lambda token: commands.ToldSession("s", token)),
    commands.CountSessions: of_sessions(
        lambda sessions: commands.CountSessions("t", sessions.ref(), 1)
    ),
    commands.Withdraw: simple(lambda _: commands.Withdraw("s", 9)),
    commands.Counts: simple(lambda _: commands.Counts("t")),
    commands.StopDelivering: simple(lambda _: commands.StopDelivering("t")),
    commands.FenceIdle: simple(lambda d: commands.FenceIdle("t", d.ref().uid, 0, 1)),
    commands.Watch: simple(lambda _: commands.Watch("s")),
}


# The bus's own work, and figures: all others are uses.
NO_USES: Final[set[Any]] = {
    ForwardOutcome,
    commands.Release,
    commands.StreamEnded,
    commands.ToldSession,
    commands.CountSessions,
    commands.Withdraw,
    commands.Counts,
    commands.FenceIdle,
    commands.StopDelivering,
    commands.Watch,
}


@pytest.mark.requirement("R520")
def test_a_command_cannot_but_say_whether_it_is_a_use() -> None:
    assert "is_use" not in CommandRule._field_defaults
    assert all(isinstance(rule.is_use, bool) for rule in COMMANDS.values())
    assert set(SCENARIOS) == set(COMMANDS)


@pytest.mark.requirement("R520")
@pytest.mark.parametrize("kind", SCENARIOS, ids=lambda kind: str(kind.__name__))
def test_a_command_is_a_use_unless_it_is_work_of_the_bus_itself(driver: Driver, kind: Any) -> None:
    make = SCENARIOS[kind](driver)
    driver.advance(2 * IDLE_MS)
    command = make()
    before_ms = accessed_ms(driver)

    driver.run(command)

    assert type(command) is kind
    assert accessed_ms(driver) == (before_ms if kind in NO_USES else driver.wall_ms)
