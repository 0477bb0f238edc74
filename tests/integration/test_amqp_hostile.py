"""What hostile AMQP clients can do to a front end and to others: real processes, real memory.

`make test` has a hundred connections of each side. For a thousand, with figures:

    BENDYBUS_HOSTILE_CONNECTIONS=1000 python -m pytest -n0 -s tests/integration/test_amqp_hostile.py
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from azure.servicebus import ServiceBusMessage

from bendybus.amqp.performatives import Accepted
from tests.amqp.peers import message
from tests.integration import amqp_attack
from tests.integration.guarded import Guarded
from tests.integration.raw_amqp import SENDER, RawAmqp
from tests.integration.secured import ROOT_KEY, ROOT_POLICY

MB: Final = 1024 * 1024
CONNECTIONS: Final = int(os.environ.get("BENDYBUS_HOSTILE_CONNECTIONS", "100"))
GROWTH_MAX: Final = 128 * MB
SENDS: Final = 400


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    made = Guarded(tmp_path)
    yield made
    made.end()


@contextlib.contextmanager
def attacked(guarded: Guarded, *names: str, count: int = CONNECTIONS) -> Iterator[None]:
    """Let so many hostile connections do these things, while this lasts."""
    asked = {
        "address": guarded.amqp_address,
        "count": count,
        "token": guarded.token(ROOT_POLICY, ROOT_KEY),
        "names": names,
    }
    # Others' machines would not take the processor from the bus.
    command = [
        "nice",
        "-n10",
        sys.executable,
        "-m",
        "tests.integration.amqp_attack",
        json.dumps(asked),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert int(process.stdout.readline()) >= 0.9 * count
        try:
            yield
        finally:
            process.stdin.close()
            process.kill()


def p99_ms(guarded: Guarded, most: list[int] | None = None) -> float:
    """Return how long a send of another client takes, at most, in 99 of 100 cases."""
    took_s = []
    with RawAmqp(guarded.amqp_address).plain(ROOT_POLICY, ROOT_KEY) as peer:
        assert peer.attach("bills", SENDER) is None
        for _ in range(SENDS):
            began = time.perf_counter()
            assert isinstance(peer.transfer("bills", message()), Accepted)
            took_s.append(time.perf_counter() - began)
            if most is not None:
                most.append(guarded.front_end.rss_bytes())
            time.sleep(0.005)
    return sorted(took_s)[len(took_s) * 99 // 100] * 1_000


def fill(guarded: Guarded) -> None:
    """Put messages there that hostile clients ask for."""
    with (
        guarded.sdk_of(ROOT_POLICY, ROOT_KEY) as sdk,
        sdk.get_queue_sender("orders") as sender,
    ):
        for _ in range(60):
            sender.send_messages(ServiceBusMessage(b"x" * 200_000))


@pytest.mark.slow
@pytest.mark.parametrize("side", ["strangers", "holders"])
def test_hostile_connections_take_little_memory_and_others_go_on(
    guarded: Guarded, side: str
) -> None:
    attacks = amqp_attack.STRANGERS if side == "strangers" else amqp_attack.HOLDERS
    fill(guarded)
    usual_ms = p99_ms(guarded)
    before, seen = guarded.front_end.rss_bytes(), [0]

    with attacked(guarded, *(each.__name__ for each in attacks)):
        ms = p99_ms(guarded, seen)

    grown = max(seen) - before
    print(f"{side}: {CONNECTIONS} connections, +{grown // MB} MB, p99 {usual_ms:.1f} → {ms:.1f} ms")
    assert grown < GROWTH_MAX, f"{grown // MB} MB"
