"""What a partition does when its process is about to stop."""

import pytest

from bendybus.domain.disposition import Disposition
from bendybus.partition_server.state.commands import StopDelivering
from tests.partition_server.driver import Driver
from tests.partition_server.session_driver import Sessions


@pytest.mark.requirement("R600")
def test_who_holds_messages_may_settle_them_and_nobody_gets_more(queue: Driver) -> None:
    queue.send(b"a", b"b", b"c")
    [(_, first), (_, second)] = queue.receive(2)

    assert queue.run(StopDelivering("t")) == [2]
    assert queue.receive(stream="another") == []
    queue.settle(Disposition.COMPLETE, first)
    assert queue.run(StopDelivering("t")) == [1]
    queue.settle(Disposition.ABANDON, second)
    assert queue.run(StopDelivering("t")) == [0]

    assert queue.receive() == []
    assert queue.counts().active == 2


@pytest.mark.requirement("R600")
def test_what_no_client_has_is_not_waited_for(queue: Driver) -> None:
    queue.send(b"in a front end's cache", b"abandoned with a delay")
    [(_, token)] = queue.receive()
    queue.settle(Disposition.ABANDON, token, delay_ms=60_000)
    queue.reserve()

    assert queue.run(StopDelivering("t")) == [0]


@pytest.mark.requirement("R600")
def test_an_ask_that_waits_gets_nothing_that_comes_later(queue: Driver) -> None:
    queue.run(StopDelivering("t"))
    assert queue.reserve(5) == []

    queue.send(b"later")

    assert queue.partition.state.unserved == {}
    assert queue.counts().active == 1


@pytest.mark.requirement("R600")
def test_no_session_is_accepted(sessions: Sessions) -> None:
    sessions.send(("A", b"a"))
    sessions.driver.run(StopDelivering("t"))

    assert sessions.ask_accept() == []
