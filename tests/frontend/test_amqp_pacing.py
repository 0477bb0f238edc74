"""What is handed to a link at once is sent a hundred at a time, so that clients keep up."""

from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import pytest

from bendybus.amqp.links import SND_SETTLED
from bendybus.amqp.performatives import Flow
from bendybus.frontend.core.quota.bounds import TRANSFERS_A_TURN
from bendybus.frontend.core.receiver import Delivery
from bendybus.frontend.listeners.amqp.receiving import ReceivingLink
from bendybus.v1.message_pb2 import DeliveredBatch
from tests.amqp.peers import Peer, transfers
from tests.frontend.amqp_examples import LOCKED_UNTIL_MS

pytestmark = pytest.mark.requirement("R548")


class Connection:
    """Stands for the connection of the links; `turn` is a turn of the loop."""

    def __init__(self, peer: Peer) -> None:
        self.peer, self.product = peer, None
        self.front_end = self.settles = self.receives = self.metrics = self.transfers = self
        self.counts: Counter[str] = Counter()
        self.released: list[bytes] = []
        self._soon: deque[Callable[[], None]] = deque()

    def soon(self, call: Callable[[], None]) -> None:
        self._soon.append(call)

    def turn(self) -> int:
        """Return how many transfers it wrote."""
        for _ in range(len(self._soon)):
            self._soon.popleft()()
        return self.written()

    def written(self) -> int:
        before = len(transfers(self.peer))
        self.peer.take()
        return len(transfers(self.peer)) - before

    def start(self, request: Any, _: Any) -> None:
        self.released.append(request.lock_tokens)

    def write_soon(self) -> None:
        pass

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        pass


def batch(count: int, *, locked: bool = True) -> DeliveredBatch:
    made = DeliveredBatch(messages=[b""] * count, sequence_numbers=range(1, count + 1))
    if locked:
        made.lock_tokens = b"".join(number.to_bytes(16) for number in range(count))
        made.locked_until_ms = LOCKED_UNTIL_MS
    return made


def receiving(
    connection: Connection, handle: int = 0, credit: int = 1_000, **options: Any
) -> ReceivingLink:
    link = connection.peer.attach_receiver(handle, credit=credit, **options)
    made = ReceivingLink(connection, link, "orders")  # type: ignore[arg-type]
    link.context = made
    connection.peer.take()
    return made


@pytest.fixture
def connection() -> Connection:
    peer = Peer()
    peer.open()
    return Connection(peer)


@pytest.mark.parametrize("mode", [0, SND_SETTLED])
def test_a_turn_sends_a_hundred(connection: Connection, mode: int) -> None:
    link = receiving(connection, snd_settle_mode=mode)

    link.hand(Delivery(0, [batch(150), batch(100)]))

    assert [connection.written(), *(connection.turn() for _ in range(3))] == [100, 100, 50, 0]
    tags = [each.delivery_id for each, _ in transfers(connection.peer)]
    assert tags == list(range(250))


def test_links_take_turns(connection: Connection) -> None:
    one, other = receiving(connection, 0), receiving(connection, 1)
    one.hand(Delivery(0, [batch(500)]))
    connection.written()

    other.hand(Delivery(0, [batch(150)]))
    connection.turn()

    handles = [each.handle for each, _ in transfers(connection.peer)]
    assert handles.count(0) == handles.index(1) + TRANSFERS_A_TURN
    assert handles.count(1) == 150


def test_a_drain_is_answered_after_what_was_handed_over(connection: Connection) -> None:
    link = receiving(connection)
    connection.peer.flow(0, 300, drain=True)
    link.hand(Delivery(0, [batch(250)]))
    link.hand(Delivery(0))
    assert not [each for each in connection.peer.said(Flow) if each.drain]

    for _ in range(3):
        connection.turn()

    [drained] = [each for each in connection.peer.said(Flow) if each.drain]
    assert (drained.delivery_count, drained.link_credit) == (300, 0)
    assert len(transfers(connection.peer)) == 250


def test_what_waits_is_given_back_when_there_is_no_credit_for_it(connection: Connection) -> None:
    link = receiving(connection)
    link.hand(Delivery(0, [batch(250)]))
    connection.written()

    connection.peer.flow(0, 0, delivery_count=100)
    connection.turn()

    assert b"".join(connection.released) == batch(250).lock_tokens[100 * 16 :]


def test_what_waits_is_given_back_with_its_link(connection: Connection) -> None:
    link = receiving(connection)
    link.hand(Delivery(0, [batch(150), batch(50)]))

    link.closed()

    assert b"".join(connection.released)[: 50 * 16] == batch(150).lock_tokens[100 * 16 :]
    assert sum(map(len, connection.released)) == 100 * 16
    assert connection.turn() == 100


def test_what_was_handed_over_is_sent_before_a_hand_over(connection: Connection) -> None:
    link = receiving(connection, snd_settle_mode=SND_SETTLED)
    link.hand(Delivery(0, [batch(950, locked=False)]))

    link.finish()

    assert connection.written() == 950


def test_a_drain_that_waits_is_answered_before_a_hand_over(connection: Connection) -> None:
    link = receiving(connection)
    connection.peer.flow(0, 300, drain=True)
    link.hand(Delivery(0, [batch(50)]))
    connection.written()

    link.finish()

    connection.written()
    [drained] = [each for each in connection.peer.said(Flow) if each.drain]
    assert (drained.delivery_count, drained.link_credit) == (300, 0)
