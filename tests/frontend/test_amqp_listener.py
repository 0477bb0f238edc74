"""The AMQP listener in this process: how long clients may take, and what they leave behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bendybus.amqp.performatives import Close
from bendybus.frontend.listeners.amqp.client_connection import Times
from tests.frontend.amqp_listening import KEY, POLICY, Listening
from tests.integration.raw_amqp import ended

TIMES = Times(open_s=0.4, token_s=0.8, close_s=0.5)


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Listening]:
    with Listening(tmp_path, times=TIMES) as made:
        yield made
    assert made.failures == []


def test_a_connection_opens_in_time_or_is_closed(listening: Listening) -> None:
    with listening.raw() as silent, listening.raw() as half:
        half.sasl()

        assert silent.wait_for_end(3) < 1.5
        half.wait_for_end(3)


def test_a_connection_without_a_token_is_closed_also_if_it_never_answers(
    listening: Listening,
) -> None:
    with listening.raw().open() as stranger, listening.raw().open() as holder:
        assert holder.put_token(listening.token(), "amqp://x/") == 202

        assert ended(stranger.wait(Close, within_s=3)) == "amqp:unauthorized-access"
        stranger.wait_for_end(3)
        holder.read(0.5)
        assert not holder.ended


def test_a_connection_whose_last_token_ended_is_closed_after_the_same_time(
    listening: Listening,
) -> None:
    with listening.raw().open() as peer, listening.raw().plain(POLICY, KEY) as other:
        assert peer.put_token(listening.token(1.5), "amqp://x/") == 202

        assert ended(peer.wait(Close, within_s=6)) == "amqp:unauthorized-access"
        other.read(0.2)
        assert not other.ended


def test_tokens_that_are_put_again_and_again_leave_nothing_behind(listening: Listening) -> None:
    with listening.raw().open() as peer:
        for number in range(300):
            assert peer.put_token(listening.token(600 + number), f"amqp://x/q{number % 7}") == 202
        [connection] = listening.connections()

        assert listening.ask(lambda: len(connection._timers)) < 5
        assert listening.ask(lambda: len(connection.claims._tokens)) == 7


def test_claims_of_a_connection_are_bounded_in_bytes(listening: Listening) -> None:
    with listening.raw().open() as peer:
        for number in range(300):
            path = f"amqp://x/{'q' * 400}{number}"
            assert peer.put_token(listening.token(600 + number), path) == 202
        assert peer.put_token(listening.token(), f"amqp://x/{'q' * 600}") == 400
        [connection] = listening.connections()

        assert listening.ask(lambda: connection.claims._chars) <= 512 * 1024
