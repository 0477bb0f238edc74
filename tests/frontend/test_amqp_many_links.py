"""Many links of AMQP that end together: their connections do so in turns."""

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.amqp.performatives import Attach, Close, Detach, End
from bendybus.domain import errors
from bendybus.frontend.core.quota.bounds import TURN_S
from bendybus.frontend.listeners.amqp.receiving import ReceivingLink
from tests.amqp.peers import framed
from tests.frontend.amqp_listening import Listening
from tests.integration.raw_amqp import RECEIVER, RawAmqp, attach_of, ended

LINKS = 50
# Links whose end fills a turn.
A_TURN = 5


@pytest.fixture
def listening() -> Iterator[Listening]:
    with Listening() as made:
        yield made
    assert made.failures == []


def attached(listening: Listening, raw: RawAmqp, context: Callable[[Any, Any], Any]) -> Any:
    """Attach links, with a context of ours for each; return what the listener has of them."""
    [connection] = [each for each in listening.connections() if not each.links()]
    for handle in range(LINKS):
        raw.send(attach_of("$cbs", RECEIVER, handle, name=f"r{handle}"))
        raw.wait(Attach)

    def give() -> None:
        for link in connection.links():
            link.context.closed()
            link.context = context(connection, link)

    listening.ask(give)
    return connection


def receiving(connection: Any, link: Any) -> ReceivingLink:
    """Return the context of a link as if it received from a queue."""
    return ReceivingLink(connection, link, "q")


class Clock:
    """A clock that only work moves."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.done = 0

    def __call__(self) -> float:
        return self.now_s

    def work(self, *_: object, **__: object) -> None:
        """Do something that takes a part of a turn."""
        self.done += 1
        self.now_s += TURN_S / A_TURN


async def most_at_once(clock: Clock, start: Callable[[], None], count: int) -> int:
    """Return how much of some work is done at most before others have their turn."""
    start()
    most = clock.done
    while clock.done < count:
        before = clock.done
        await asyncio.sleep(0)
        most = max(most, clock.done - before)
    return most


@pytest.mark.requirement("R633")
@pytest.mark.parametrize("connections", [1, 3])
def test_links_whose_tokens_have_ended_are_detached_in_turns(
    listening: Listening, connections: int
) -> None:
    clock = Clock()

    def check(*_: object) -> None:
        clock.work()
        raise errors.Unauthorized("the token has ended.")

    clients = []
    for _ in range(connections):
        clients.append(listening.raw().open())
        connection = attached(listening, clients[-1], receiving)
        connection.claims.check = check
    listening.ask(lambda: setattr(listening.listener.turns, "clock", clock))

    recheck = listening.listener.recheck
    most = listening.run(most_at_once(clock, recheck, connections * LINKS))

    assert most <= 2 * A_TURN
    for client in clients:
        refused = [ended(client.wait(Detach)) for _ in range(LINKS)]
        assert refused == ["amqp:unauthorized-access"] * LINKS
        client.socket.close()


@pytest.mark.requirement("R633")
@pytest.mark.parametrize("how", ["session", "close", "lost"])
def test_links_that_end_with_their_session_or_connection_do_so_in_turns(
    listening: Listening, how: str
) -> None:
    clock = Clock()
    with listening.raw().open() as raw:
        connection = attached(listening, raw, lambda *_: SimpleNamespace(closed=clock.work))
        listening.ask(lambda: setattr(listening.listener.turns, "clock", clock))
        ending = {"session": framed(End()), "close": framed(Close())}.get(how)

        def end() -> None:
            if ending is None:
                connection.lost()
            else:
                connection.received(ending)

        most = listening.run(most_at_once(clock, end, LINKS))

    assert (clock.done, most) == (LINKS, A_TURN + 1)
