"""Links on which requests come and replies go, of an AMQP listener in this process."""

from collections.abc import Iterator

import pytest

from bendybus.amqp import sections
from bendybus.amqp.performatives import Attach, Detach, Flow, Transfer
from bendybus.amqp.sections import Message, Properties
from bendybus.frontend.listeners.amqp.request_links import CREDIT, REPLIES_MAX
from tests.frontend.amqp_listening import Listening
from tests.integration.processes import eventually
from tests.integration.raw_amqp import RECEIVER, SENDER, attach_of, ended


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


def test_replies_that_are_not_read_are_forgotten_with_their_link(listening: Listening) -> None:
    calls = listening.listener.front_end.calls
    with listening.raw().open() as raw:
        raw.send(attach_of("$cbs", SENDER, 0), attach_of("$cbs", RECEIVER, 1))
        raw.wait(Attach, lambda each: each.handle == 1)
        for number in range(REPLIES_MAX + 1):
            tag = number.to_bytes(4, "big")
            raw.send(Transfer(0, number, tag, 0, settled=True), payload=token(number))
        assert ended(raw.wait(Detach)) == "amqp:resource-limit-exceeded"
        raw.send(Detach(1, True))
        raw.close()

    eventually(lambda: not listening.connections())
    assert listening.ask(lambda: calls.answers.held) == 0


def test_requests_that_were_aborted_leave_credit_for_others(listening: Listening) -> None:
    with listening.raw().open() as raw:
        raw.send(attach_of("$cbs", SENDER, 0))
        raw.wait(Attach)
        granted = raw.wait(Flow, lambda each: each.handle == 0).link_credit
        assert granted == CREDIT
        for number in range(CREDIT):
            tag = number.to_bytes(4, "big")
            raw.send(Transfer(0, number, tag, 0, more=True), payload=b"part")
            raw.send(Transfer(0, aborted=True))

        more = raw.wait(Flow, lambda each: each.handle == 0 and each.delivery_count != 0)
        assert (more.delivery_count or 0) + (more.link_credit or 0) > CREDIT
