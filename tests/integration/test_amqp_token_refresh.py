"""Clients whose tokens end while they work, or that have only a token. Real processes.

`make azure-tokens` is the long form, over TLS.
"""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from bendybus.domain import shared_access
from tests.azure_sdk import tokens
from tests.azure_sdk.token_load import Plan, Target
from tests.integration.guarded import Guarded
from tests.integration.raw_amqp import RECEIVER, SENDER, ended
from tests.integration.secured import ROOT_KEY, ROOT_POLICY, SEND_KEY

# azure-servicebus leaves sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    made = Guarded(tmp_path)
    yield made
    made.end()
    gc.collect()


@pytest.mark.requirement("R494")
def test_clients_that_put_new_tokens_in_time_lose_nothing_and_get_no_error(
    guarded: Guarded,
) -> None:
    def sign(ends_s: int) -> str:
        # Not good for longer than the client is told.
        ends_s -= shared_access.CLOCK_SKEW_S
        return shared_access.sign(guarded.uri(), ROOT_POLICY, ROOT_KEY, ends_s)

    target = Target(guarded.amqp_address, sign, {"use_tls": False})
    with guarded.administration() as administration:
        tokens.create(administration)
        figures, wrong = tokens.run(target, administration, Plan(13.0, 11))

    assert wrong == [], figures


@pytest.mark.requirement("R540")
def test_a_client_that_opens_without_sasl_has_the_rights_of_its_token(guarded: Guarded) -> None:
    with guarded.raw() as peer:
        peer.opened()
        refused = peer.attach("orders", RECEIVER)
        assert refused is not None
        assert ended(refused) == "amqp:unauthorized-access"

        assert peer.put_token(guarded.token("sender", SEND_KEY), guarded.uri("orders")) == 202

        assert peer.attach("orders", SENDER) is None
