"""What a partition does when its process is about to stop."""

import asyncio

import pytest

from bendybus.domain.disposition import Disposition
from bendybus.partition_server.service.hosts import Hosts
from bendybus.partition_server.state.answers import Held
from bendybus.partition_server.state.commands import StopDelivering
from tests.partition_server.driver import Driver
from tests.partition_server.session_driver import Sessions


@pytest.mark.requirement("R600")
def test_who_holds_messages_may_settle_them_and_nobody_gets_more(queue: Driver) -> None:
    queue.send(b"a", b"b", b"c")
    [(_, first), (_, second)] = queue.receive(2)

    assert queue.run(StopDelivering("t")) == [Held(2, 0)]
    assert queue.receive(stream="another") == []
    queue.settle(Disposition.COMPLETE, first)
    assert queue.run(StopDelivering("t")) == [Held(1, 0)]
    queue.settle(Disposition.ABANDON, second)
    assert queue.run(StopDelivering("t")) == [Held(0, 0)]

    assert queue.receive() == []
    assert queue.counts().active == 2


@pytest.mark.requirement("R600")
def test_what_no_client_has_is_told_apart(queue: Driver) -> None:
    queue.send(b"in a front end's cache", b"abandoned with a delay")
    [(_, token)] = queue.receive()
    queue.settle(Disposition.ABANDON, token, delay_ms=60_000)
    queue.reserve()

    assert queue.run(StopDelivering("t")) == [Held(0, 1)]


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


class Reports(Hosts):
    """A process of one partition, whose front ends report what their clients did."""

    def __init__(self, *held: Held) -> None:
        super().__init__({})
        self.left = list(held)

    async def _stop_delivering_all(self) -> Held:
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]


@pytest.mark.requirement("R600")
async def test_a_report_that_is_on_its_way_is_waited_for() -> None:
    hosts = Reports(Held(0, 1), Held(0, 1), Held(1, 0), Held(1, 0), Held(0, 0))

    with hosts.traffic.stream(lambda: None):
        async with asyncio.timeout(20):
            await hosts.settled(60)

    assert hosts.left == [Held(0, 0)]


@pytest.mark.requirement("R600")
async def test_what_front_ends_keep_is_not_waited_for_long() -> None:
    hosts = Reports(Held(0, 9))

    with hosts.traffic.stream(lambda: None):
        async with asyncio.timeout(20):
            await hosts.settled(60)
