"""Dapr's component for topics of Service Bus, which creates its topic and its subscription."""

import itertools
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.azure_sdk.live_bus import AMQPS_PORT, HTTPS_PORT
from tests.integration.processes import eventually
from tests.integration.secured import ROOT_KEY, ROOT_POLICY, SecuredBus
from tests.ports import HOST, loopback_address

FOLDER: Final = Path(__file__).parent / "dapr"
BUILD_S: Final = 400.0
ENDS_S: Final = 60.0
TEXTS: Final = [*(f"good {number}" for number in range(20)), "bad"]
# What the program prints before each text, and how often it wants a message at most.
GIVEN: Final = "given "
DELIVERIES: Final = 3


class DaprBus(SecuredBus):
    """A bus where the SDK looks for one: Dapr's names no ports."""

    def __init__(self, folder: Path) -> None:
        self.address = loopback_address(AMQPS_PORT, HTTPS_PORT)
        super().__init__(
            folder,
            addresses=(HOST, self.address),
            front_end_options=(
                f"--amqps-listen={self.address}:{AMQPS_PORT}",
                f"--http-listen={self.address}:{HTTPS_PORT}",
            ),
        )


@pytest.fixture
def program(tmp_path: Path) -> Path:
    assert shutil.which("go"), "go not installed, see CONTRIBUTING.md"
    made = tmp_path / "publishes"
    done = subprocess.run(
        ["go", "build", "-o", str(made), "."],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return made


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[DaprBus]:
    made = DaprBus(tmp_path / "bus")
    yield made
    made.end()


@pytest.mark.requirement("R519")
def test_what_is_published_is_processed_and_what_cannot_be_ends_as_dead_letter(
    bus: DaprBus, program: Path
) -> None:
    string = f"Endpoint=sb://{bus.address}/;SharedAccessKeyName={ROOT_POLICY};"
    variables = {
        "SERVICEBUS_CONNECTION_STRING": f"{string}SharedAccessKey={ROOT_KEY}",
        "SSL_CERT_FILE": str(bus.ca_file),
    }
    with (
        subprocess.Popen(
            [program, *TEXTS],
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
        bus.administration() as administration,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        given = (line.rstrip() for line in process.stdout if line.startswith(GIVEN))
        texts = Counter(
            line.removeprefix(GIVEN)
            for line in itertools.islice(given, len(TEXTS) - 1 + DELIVERIES)
        )

        def counts() -> tuple[int, int]:
            found = administration.get_subscription_runtime_properties("orders", "billing")
            return found.active_message_count, found.dead_letter_message_count

        eventually(
            lambda: counts() == (0, 1), within_s=ENDS_S, what="only a dead letter to be left"
        )
        process.stdin.close()
        assert process.wait(ENDS_S) == 0
        subscription = administration.get_subscription("orders", "billing")

    assert texts == Counter(TEXTS) + Counter({"bad": DELIVERIES - 1})
    assert subscription.max_delivery_count == DELIVERIES
