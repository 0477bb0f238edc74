"""Idle AMQP links and connections: they stay, or end as the service ends them if asked for."""

from pathlib import Path
from typing import Any

import pytest

from bendybus.amqp.links import IncomingLink, Link, LinkState, OutgoingLink
from bendybus.amqp.performatives import Close, Error
from bendybus.frontend import __main__ as frontend_command
from bendybus.frontend.listeners.amqp.cbs import CbsLink
from bendybus.frontend.listeners.amqp.client_connection import Times
from bendybus.frontend.listeners.amqp.idle_limits import IdleLimits, IdleWatch
from bendybus.frontend.listeners.amqp.management import ManagementLink
from bendybus.frontend.listeners.amqp.receiving import ReceivingLink
from bendybus.frontend.listeners.amqp.replies import ReplyLink
from bendybus.frontend.listeners.amqp.sending import SendingLink
from tests.frontend.amqp_listening import KEY, POLICY, Listening
from tests.integration.raw_amqp import SENDER, attach_of, ended

LIMITS = IdleLimits(link_s=600, connection_s=300)


class Watched:
    """Stands for a connection: its links, and what became of them."""

    def __init__(self) -> None:
        self.attached: list[Link] = []
        self.detached: list[tuple[str, str | None]] = []
        self.closed: str | None = None
        connection: Any = self
        self.watch = IdleWatch(connection, LIMITS, 0.0)

    def link(self, name: str, kind: type, context: type) -> Any:
        """Attach a link."""
        session: Any = None
        made = kind(session, attach_of("orders", SENDER, 0, name=name), 0)
        made.state = LinkState.OPEN
        made.context = object.__new__(context)
        self.attached.append(made)
        return made

    def links(self) -> list[Link]:
        return self.attached

    def detach(self, link: Link, error: Error) -> None:
        self.attached.remove(link)
        self.detached.append((link.name, error.condition))

    def end(self, error: Error) -> None:
        self.closed = error.condition


@pytest.mark.requirement("R493")
def test_links_without_transfers_and_settlements_are_detached() -> None:
    watched = Watched()
    silent = watched.link("silent", IncomingLink, SendingLink)
    sends = watched.link("sends", IncomingLink, SendingLink)
    settles = watched.link("settles", OutgoingLink, ReceivingLink)
    watched.link("requests", IncomingLink, ManagementLink)
    settles.unsettled = 2
    for now_s in (0, 300, 599):
        watched.watch.check(now_s)
    assert watched.detached == []
    sends.delivery_count = 1
    settles.unsettled = 1

    watched.watch.check(600)
    assert watched.detached == [(silent.name, "amqp:link:detach-forced")]
    watched.watch.check(1_199)
    assert len(watched.detached) == 1
    watched.watch.check(1_200)

    assert [name for name, _ in watched.detached] == ["silent", "sends", "settles"]
    assert watched.closed is None


@pytest.mark.requirement("R493")
def test_a_connection_that_has_only_links_for_tokens_is_closed() -> None:
    watched = Watched()
    watched.link("$cbs", IncomingLink, CbsLink)
    watched.link("$cbs", OutgoingLink, ReplyLink)
    watched.watch.check(299)
    sender = watched.link("sender", IncomingLink, SendingLink)
    watched.watch.check(300)
    watched.attached.remove(sender)
    watched.watch.check(599)
    assert watched.closed is None

    watched.watch.check(600)

    assert watched.closed == "amqp:connection:forced"


@pytest.mark.requirement("R493")
@pytest.mark.parametrize("idle", [None, IdleLimits(connection_s=0.5)])
def test_connections_stay_unless_limits_are_asked_for(
    tmp_path: Path, idle: IdleLimits | None
) -> None:
    with (
        Listening(tmp_path, times=Times(idle=idle)) as listening,
        listening.raw().plain(POLICY, KEY) as peer,
    ):
        if idle is None:
            peer.read(1.0)
            assert not peer.ended
        else:
            assert ended(peer.wait(Close, within_s=3)) == "amqp:connection:forced"


@pytest.mark.parametrize(("text", "found"), [("", False), ("false", False), ("True", True)])
def test_idle_limits_are_set_by_a_variable(
    monkeypatch: pytest.MonkeyPatch, text: str, found: bool
) -> None:
    monkeypatch.setenv("BENDYBUS_AMQP_IDLE_LIMITS", text)

    assert frontend_command._parser().parse_args(["serve"]).amqp_idle_limits is found
    assert frontend_command._parser().parse_args(["serve", "--amqp-idle-limits"]).amqp_idle_limits


def test_a_variable_that_is_neither_true_nor_false_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BENDYBUS_AMQP_IDLE_LIMITS", "1")

    with pytest.raises(SystemExit):
        frontend_command._parser().parse_args(["serve"])

    error = capsys.readouterr().err
    assert "BENDYBUS_AMQP_IDLE_LIMITS, must be true or false (got '1')" in error
