"""Fields of frames that clients of the service read."""

from collections.abc import Iterator

import pytest

from bendybus.amqp import frames
from bendybus.amqp.performatives import Attach, Close, SaslMechanisms
from tests.integration.amqp import AmqpBus
from tests.integration.guarded import Guarded
from tests.integration.raw_amqp import SENDER, RawAmqp, attach_of, ended
from tests.integration.secured import ROOT_KEY, ROOT_POLICY

pytestmark = pytest.mark.requirement("R574")
LIMIT = 1024 * 1024


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpBus]:
    made = AmqpBus(tmp_path_factory.mktemp("amqp"), partitions=1)
    with made.administration() as administration:
        administration.create_queue("orders")
    yield made
    made.end()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("guarded"))
    yield made
    made.end()


@pytest.mark.parametrize(
    ("own", "told"), [(None, LIMIT), (0, LIMIT), (2**63, LIMIT), (1_000, 1_000), (LIMIT, LIMIT)]
)
def test_a_sender_is_told_the_smaller_limit_of_both_sides(
    bus: AmqpBus, own: int | None, told: int
) -> None:
    with RawAmqp(bus.amqp_address) as raw:
        raw.open()

        raw.send(attach_of("orders", SENDER, 0, max_message_size=own))

        assert raw.wait(Attach).max_message_size == told


def test_a_bus_without_policies_takes_a_token_of_60_kb(bus: AmqpBus) -> None:
    with RawAmqp(bus.amqp_address) as raw:
        raw.open()

        assert raw.put_token("e" * 60_000, "amqp://host/orders") == 202


def test_external_is_offered_and_gives_no_rights(guarded: Guarded) -> None:
    with RawAmqp(guarded.amqp_address) as raw:
        raw.write(frames.SASL_HEADER)
        assert "EXTERNAL" in raw.wait(SaslMechanisms).mechanisms
    with RawAmqp(guarded.amqp_address) as raw:
        assert raw.sasl("EXTERNAL") == 0
        raw.opened()

        refused = raw.attach("orders", SENDER)

        assert refused is not None
        assert ended(refused) == "amqp:unauthorized-access"


@pytest.mark.requirement("R568")
@pytest.mark.parametrize("known", [False, True])
def test_only_a_client_with_a_token_may_write_frames_that_are_too_large(
    guarded: Guarded, known: bool
) -> None:
    """An incomplete frame is kept in memory: a stranger gets no more of it than before."""
    begun = (200_000).to_bytes(4, "big") + b"\2\0\0\0" + bytes(1_000)
    with RawAmqp(guarded.amqp_address) as raw:
        if known:
            raw.plain(ROOT_POLICY, ROOT_KEY)
        else:
            raw.open()

        raw.write(begun)
        raw.read(1.0)

        assert [ended(each) for each in raw.said(Close)] == (
            [] if known else ["amqp:connection:framing-error"]
        )
