"""A connection of AMQP that is handed over: whatever was begun is answered first."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bendybus.frontend.listeners.amqp import hand_over as handing_over
from bendybus.frontend.listeners.amqp.stage import Stage
from tests.frontend.amqp_listening import Listening


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Listening]:
    with Listening(tmp_path) as made:
        yield made
    assert made.failures == []


@pytest.mark.requirement("R491")
def test_what_is_under_way_is_answered_even_if_the_time_is_over(
    listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handing_over, "ANSWERS_S", 30.0)

    async def hand_over(connection: Any) -> Stage:
        loop = asyncio.get_running_loop()
        connection.requests += 1
        handing = loop.create_task(handing_over.hand_over(connection, loop.time()))
        await asyncio.sleep(0.1)
        before: Stage = connection.stage
        connection.answered(requests=1)
        await handing
        return before

    with listening.raw().open() as peer:
        [connection] = listening.connections()

        handed = listening.start(hand_over(connection))
        peer.wait_for_end()
        peer.socket.close()

        assert handed.result(10) is Stage.SENDERS_FINISHED
        assert connection.stage is Stage.HANDED_OVER
