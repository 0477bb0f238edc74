"""The tokens of one AMQP connection: which of them covers an entity, and what finding it costs."""

from pathlib import Path

import pytest

from bendybus.domain.errors import InvalidArgument, Unauthenticated
from bendybus.frontend.core.quota.bounds import CLAIMS_CHARS_MAX
from bendybus.frontend.listeners.amqp.claims import Claims
from bendybus.frontend.security.authenticator import Operation
from tests.frontend.amqp_listening import Listening
from tests.work import steps


@pytest.fixture
def listening(tmp_path: Path) -> Listening:
    """One that does not listen: its policies are what is needed."""
    made = Listening(tmp_path)
    with made:
        pass
    return made


def claims(listening: Listening, *audiences: str) -> Claims:
    made = Claims(listening.listener.authenticator)
    for audience in audiences:
        made.put(audience, listening.token())
    return made


@pytest.mark.requirement("R546")
@pytest.mark.parametrize(
    "audience",
    [
        "amqp://x/",
        "sb://x/Orders/eu",
        "sb://x/orders/eu/$management",
        "sb://x/orders/eu/$deadletterqueue",
        "sb://x/orders/eu/$deadletterqueue/$management",
    ],
)
def test_a_token_covers_its_entity_and_what_belongs_to_that(
    listening: Listening, audience: str
) -> None:
    made = claims(listening, "sb://x/other", audience)

    made.check(Operation.RECEIVE, "Orders/EU/$DeadLetterQueue")


@pytest.mark.parametrize("audience", ["sb://x/orders", "sb://x/orders/e", "sb://x/orders/eu/x"])
def test_a_token_of_another_entity_does_not_cover_it(listening: Listening, audience: str) -> None:
    made = claims(listening, audience)

    with pytest.raises(Unauthenticated):
        made.check(Operation.RECEIVE, "orders/eu")


def test_claims_are_bounded_in_bytes(listening: Listening) -> None:
    made = claims(listening)
    for number in range(4_000):
        made.put(f"amqp://x/{'q' * 450}{number}", listening.token())
    with pytest.raises(InvalidArgument):
        made.put(f"amqp://x/{'q' * 600}", listening.token())

    assert CLAIMS_CHARS_MAX * 0.9 < made._chars <= CLAIMS_CHARS_MAX


@pytest.mark.requirement("R546")
def test_finding_a_token_costs_the_same_however_many_there_are(listening: Listening) -> None:
    def work(count: int) -> int:
        made = claims(listening, *(f"sb://x/orders-{each}" for each in range(count)))
        return steps(lambda: made.check(Operation.SEND, "orders-3"))

    assert work(1_000) < 1.5 * work(10)
