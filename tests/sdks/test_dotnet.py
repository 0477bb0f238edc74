"""A program on the SDK for .NET, where there is dotnet; tests/integration/dotnet plays it."""

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.azure_sdk.live_bus import AMQPS_PORT
from tests.integration.processes import eventually
from tests.integration.secured import ROOT_KEY, ROOT_POLICY, SecuredBus
from tests.ports import HOST, loopback_address
from tests.sdks.dotnet_driver import dotnet

FOLDER: Final = Path(__file__).parent / "dotnet"
ENDS_S: Final = 300.0


@pytest.mark.skipif(
    dotnet() is None,
    reason="NOT RUN: there is no dotnet; tests/integration/dotnet plays what its SDK writes",
)
def test_a_program_sends_settles_and_uses_sessions_and_transactions(tmp_path: Path) -> None:
    address = loopback_address(AMQPS_PORT)
    bus = SecuredBus(
        tmp_path / "bus",
        partitions=1,
        addresses=(HOST, address),
        front_end_options=(f"--amqps-listen={address}:{AMQPS_PORT}",),
    )
    try:
        with bus.administration() as administration:
            for name in ("queue", "target"):
                administration.create_queue(name)
            administration.create_queue("sessions", requires_session=True)
            string = (
                f"Endpoint=sb://{address}/;SharedAccessKeyName={ROOT_POLICY};"
                f"SharedAccessKey={ROOT_KEY}"
            )
            done = subprocess.run(
                [dotnet() or "", "run", "--project", FOLDER, string, "queue", "sessions", "target"],
                env={**os.environ, "SSL_CERT_FILE": str(bus.ca_file)},
                capture_output=True,
                text=True,
                timeout=ENDS_S,
                check=False,
            )

            assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[:2_000]
            counted = administration.get_queue_runtime_properties
            eventually(lambda: counted("target").active_message_count == 1)
            assert [counted(name).total_message_count for name in ("queue", "sessions")] == [0, 0]
    finally:
        bus.end()
