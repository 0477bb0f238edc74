"""Links on which requests come and replies go, of an AMQP listener in this process."""

from collections.abc import Iterator
from typing import Any

import pytest

from bendybus.amqp import sections
from bendybus.amqp.performatives import Attach, Detach, Flow, Transfer
from bendybus.amqp.sections import Message, Properties
from bendybus.amqp.values import Ulong
from bendybus.frontend.core.quota.bounds import ANSWERS, REPLY_BYTES, REQUESTS
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.listeners.amqp.request_links import CREDIT
from tests.amqp.peers import framed
from tests.frontend.amqp_listening import Listening
from tests.integration.processes import eventually
from tests.integration.raw_amqp import RECEIVER, SENDER, attach_of, ended, flow_of


@pytest.fixture
def listening() -> Iterator[Listening]:
    with Listening() as made:
        yield made
    assert made.failures == []


def token(number: int) -> bytes:
    """Return a request that is always answered."""
    return sections.encode(
        Message(
            properties=Properties(message_id=str(number)),
            application_properties={"operation": "put-token", "name": "amqp://x/"},
            value="any",
            has_value=True,
        )
    )


def requests(count: int) -> bytes:
    """Return requests on handle 0, numbered from 0, each of which is answered with status 400."""
    asked = [
        Message(
            properties=Properties(message_id=number),
            application_properties={"operation": "com.microsoft:unknown"},
            value={},
            has_value=True,
        )
        for number in map(Ulong, range(count))
    ]
    return b"".join(
        framed(Transfer(0, at, at.to_bytes(4), 0, settled=True), sections.encode(each))
        for at, each in enumerate(asked)
    )


def status_of(reply: bytes) -> Any:
    found = sections.decode(reply).application_properties
    assert isinstance(found, dict)
    return found["statusCode"]


@pytest.mark.requirement("R544")
def test_requests_that_find_no_room_wait_for_it_and_are_not_refused(listening: Listening) -> None:
    rooms, count = listening.listener.front_end.quota.requests, 300
    with listening.raw().open() as raw:
        raw.send(attach_of("q/$management", SENDER, 0), attach_of("q/$management", RECEIVER, 1))
        raw.wait(Attach, lambda each: each.handle == 1)
        raw.send(flow_of(1, count))
        [connection] = listening.connections()
        filled = (connection.holder, REQUESTS.connection)
        assert listening.ask(lambda: rooms.take(*filled))

        raw.write(requests(count))
        eventually(lambda: listening.ask(lambda: connection.reading.paused))
        assert not raw.read(0.2)
        listening.ask(lambda: rooms.give(*filled))

        replies = [raw.wait_on_channel(Transfer, lambda *_: True)[2] for _ in range(count)]
        assert list(map(status_of, replies)) == [400] * count
    eventually(lambda: not listening.connections())
    assert listening.ask(lambda: rooms.held) == 0


@pytest.mark.requirement("R544")
def test_requests_that_waited_for_room_leave_nothing_with_their_connection(
    listening: Listening,
) -> None:
    rooms = listening.listener.front_end.quota.requests
    other = (Holder("other", ""), REQUESTS.all)
    with listening.raw().open() as raw:
        raw.send(attach_of("q/$management", SENDER, 0))
        raw.wait(Attach)
        assert listening.ask(lambda: rooms.take(*other))
        raw.write(requests(20))
        [connection] = listening.connections()
        eventually(lambda: listening.ask(lambda: connection.requests_without_room))

    listening.ask(lambda: rooms.give(*other))
    eventually(lambda: not listening.connections())
    assert listening.ask(lambda: (rooms.held, connection.requests_without_room)) == (0, 0)


def test_replies_that_are_not_read_are_forgotten_with_their_link(listening: Listening) -> None:
    calls = listening.listener.front_end.quota
    with listening.raw().open() as raw:
        raw.send(attach_of("$cbs", SENDER, 0), attach_of("$cbs", RECEIVER, 1))
        raw.wait(Attach, lambda each: each.handle == 1)
        [connection] = listening.connections()
        filled = (connection.holder, ANSWERS.connection - 10 * REPLY_BYTES)
        listening.ask(lambda: calls.answers.take(*filled))
        for number in range(10):
            tag = number.to_bytes(4, "big")
            raw.send(Transfer(0, number, tag, 0, settled=True), payload=token(number))
        assert ended(raw.wait(Detach)) == "amqp:resource-limit-exceeded"
        raw.send(Detach(1, True))
        raw.close()

    eventually(lambda: not listening.connections())
    listening.ask(lambda: calls.answers.give(*filled))
    assert listening.ask(lambda: calls.answers.held) == 0


def test_requests_that_were_aborted_leave_credit_for_others(listening: Listening) -> None:
    with listening.raw().open() as raw:
        raw.send(attach_of("$cbs", SENDER, 0))
        raw.wait(Attach)
        granted = raw.wait(Flow, lambda each: each.handle == 0).link_credit
        assert granted == CREDIT
        for number in range(CREDIT // 2 + 1):
            tag = number.to_bytes(4, "big")
            raw.write(framed(Transfer(0, number, tag, 0, more=True), b"part"))
            raw.write(framed(Transfer(0, aborted=True)))

        more = raw.wait(Flow, lambda each: each.handle == 0 and each.delivery_count != 0)
        assert (more.delivery_count or 0) + (more.link_credit or 0) > CREDIT
