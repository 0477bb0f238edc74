"""The REST clients of Service Bus, unmodified: for Python before AMQP, and the crate for Rust."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from bendybus.domain.limits import Tier
from tests.azure_sdk.live_bus import HTTPS_PORT
from tests.integration.secured import ROOT_KEY, ROOT_POLICY, SecuredBus
from tests.ports import HOST, free_port, loopback_address

pytestmark = pytest.mark.requirement("R652")
FOLDER: Final = Path(__file__).parent
# An environment of its own: `make sdks` makes it.
PYTHON: Final = str(Path(sys.prefix) / "rest/bin/python")
BUILD_S: Final = 400.0
RUN_S: Final = 60.0
# The host that the crate puts together.
RUST_HOST: Final = "bendybus.servicebus.windows.net"
NAMES: Final = ("a-queue", "a-topic", "all")


class RestBus:
    """A bus on the port that these clients use, and on another one."""

    def __init__(self, folder: Path, *, partitioned: bool) -> None:
        self.address = loopback_address(HTTPS_PORT)
        self.other = f"{HOST}:{free_port()}"
        self.bus = SecuredBus(
            folder,
            addresses=(HOST, self.address),
            names=("localhost", RUST_HOST),
            partitions=4,
            tier=Tier.PREMIUM if partitioned else Tier.STANDARD,
            front_end_options=(
                f"--http-listen={self.address}:{HTTPS_PORT}",
                f"--shared-listen={self.other}",
            ),
        )
        with self.bus.administration() as administration:
            administration.create_queue("a-queue")
            administration.create_topic("a-topic")
            administration.create_subscription("a-topic", "all")

    def run(self, *command: str) -> Any:
        """Run a program on the bus; return what it printed."""
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
            env={**os.environ, "REQUESTS_CA_BUNDLE": str(self.bus.ca_file)},
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout)


@pytest.fixture(scope="module", params=["plain", "partitioned"])
def bus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    kind = str(request.param)
    made = RestBus(tmp_path_factory.mktemp(kind), partitioned=kind == "partitioned")
    yield made
    made.bus.end()


@pytest.fixture(scope="module")
def rust() -> str:
    """Build the program for Rust; return its file."""
    # rustup's is not on the PATH of every shell.
    cargo = shutil.which("cargo", path=f"{os.environ['PATH']}:{Path.home() / '.cargo/bin'}")
    assert cargo, "cargo is not installed, see CONTRIBUTING.md"
    folder = FOLDER / "rust"
    done = subprocess.run(
        [cargo, "build", "--quiet"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return str(folder / "target/debug/rest")


def test_the_client_for_python(bus: RestBus) -> None:
    program = str(FOLDER / "rest/client.py")

    found = bus.run(PYTHON, program, bus.address, ROOT_POLICY, ROOT_KEY, *NAMES)

    first, again, *batch, none, copy = found
    assert (first["body"], first["id"], first["label"]) == ("first", "one", "l")
    assert [first["count"], again["count"]] == [1, 2]
    assert first["custom"] == {
        "color": 'a "red" one',
        "weight": "12",
        "half": "0.5",
        "fresh": "True",
        "day": "2026-12-04 10:00:00",
    }
    assert again["number"] == first["number"]
    assert sorted(each["body"] for each in batch) == ["second", "third"]
    assert none["body"] is None
    assert copy["body"] == "published"


def test_the_crate_for_rust(bus: RestBus, rust: str) -> None:
    found = bus.run(rust, bus.other, str(bus.bus.ca_file), ROOT_POLICY, ROOT_KEY, *NAMES)

    first, second, lost, taken, nothing, copy = found
    assert (first["status"], first["body"], first["id"]) == (201, "first", "one")
    assert (first["color"], first["lives_s"]) == ('"red"', 600.5)
    assert [first["count"], second["count"]] == [1, 2]
    assert (lost["lost"], taken["taken"], nothing["nothing"]) == (True, "second", 204)
    assert (copy["status"], copy["body"]) == (201, "published")
