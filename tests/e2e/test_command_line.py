"""`bendybus --kube …` from this machine, and the chart before the API server's eyes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts import rendering
from tests.e2e.cluster import eventually
from tests.e2e.conftest import SYSTEM, Installation, Space, fresh_space
from tests.test_tidy import ROOT


def bendybus(
    space: Space, *arguments: str, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the CLI on the bus in the test's namespace."""
    return subprocess.run(
        [sys.executable, "-m", "bendybus.cli", "--namespace", space.name, *arguments],
        input=stdin, capture_output=True, text=True, timeout=150, env=space.cluster.env,
        check=False,
    )  # fmt: skip


def written(tmp_path: Path, *documents: Any) -> str:
    """Return the path of a file with manifests."""
    file = tmp_path / "manifests.yaml"
    file.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return str(file)


@dataclass(frozen=True, slots=True)
class Shop:
    """A bus of 2 partitions with the queue `orders`, and what `apply` said when it made them."""

    space: Space
    applied: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def shop(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with fresh_space(installation, "command-line") as space:
        documents = (space.bus("shop", 2), space.queue("orders", "shop"))
        file = written(tmp_path_factory.mktemp("shop"), *documents)
        yield Shop(space, bendybus(space, "apply", "-f", file))


@pytest.mark.core
def test_the_command_line_applies_sends_and_receives(shop: Shop) -> None:
    space, applied = shop.space, shop.applied

    sent = bendybus(space, "send", "orders", stdin="one\ntwo\nthree\n")
    listed = bendybus(space, "get", "queues", "-o", "json")
    received = bendybus(space, "receive", "orders", "--max", "3", "--json")

    assert applied.returncode == 0, applied.stderr
    assert f"Queue {space.name}/orders: Ready" in applied.stdout
    assert sent.stdout == "3 sent to 'orders'\n", sent.stderr
    assert json.loads(listed.stdout)["runtime"]["countDetails"]["activeMessageCount"] == 3
    bodies = {json.loads(line)["body"] for line in received.stdout.splitlines()}
    assert bodies == {"one", "two", "three"}
    key = space.cluster.get("secret", "shop-rootmanagesharedaccesskey", space.name)["data"]
    for done in (applied, sent, listed, received):
        assert key["primaryKey"] not in done.stdout + done.stderr


@pytest.mark.core
def test_a_file_of_azure_is_applied_to_the_bus_and_written_again(shop: Shop) -> None:
    space, file = shop.space, ROOT / "examples" / "azure" / "operator.yaml"

    applied = bendybus(space, "apply", "--from", str(file))
    written = bendybus(space, "convert", "--as", "arm")

    assert applied.returncode == 0, applied.stderr
    assert f"Queue {space.name}/returns: Ready" in applied.stdout
    assert written.returncode == 0, written.stderr
    names = [each["name"] for each in json.loads(written.stdout)["resources"]]
    assert "[format('{0}/{1}', parameters('namespaceName'), 'returns')]" in names


def test_receiving_goes_on_when_the_front_end_behind_the_port_ends(shop: Shop) -> None:
    space = shop.space
    receiving = subprocess.Popen(
        [sys.executable, "-m", "bendybus.cli", "-n", space.name, "receive", "orders",
         "--max", "5", "--wait", "60", "--json"],
        stdout=subprocess.PIPE, text=True, env=space.cluster.env,
    )  # fmt: skip
    try:
        assert receiving.stdout is not None
        bendybus(space, "send", "orders", "first")
        first = receiving.stdout.readline()
        space.cluster.kubectl("delete", "pod", "-n", space.name, "-l", "bendybus.io/role=frontend")
        space.cluster.await_ready("BusNamespace", "shop", space.name)
        eventually(
            lambda: bendybus(space, "send", "orders", stdin="2\n3\n4\n5\n").returncode == 0,
            within_s=60,
            what="the new front end takes messages",
        )
        rest, _ = receiving.communicate(timeout=90)
    finally:
        receiving.kill()

    bodies = [json.loads(line)["body"] for line in (first + rest).splitlines()]
    assert len(bodies) == 5
    assert bodies[0] == "first"
    assert receiving.returncode == 0


def test_apply_says_what_is_not_ready_and_why(space: Space, tmp_path: Path) -> None:
    file = written(tmp_path, space.queue("orders", "nowhere"))

    done = bendybus(space, "apply", "-f", file, "--wait", "5")

    assert done.returncode == 1
    assert f"Queue {space.name}/orders: NamespaceNotFound" in done.stderr


@pytest.mark.parametrize("values", [{}, {"watchNamespaces": ["default"]}], ids=["cluster", "some"])
def test_the_api_server_takes_everything_in_the_chart(
    installation: Installation, values: dict[str, Any]
) -> None:
    said = rendering.server_side_dry_run(
        values, namespace=SYSTEM, environment=installation.cluster.env
    )

    assert any("deployment" in line for line in said)
    assert any("validatingwebhookconfiguration" in line for line in said)
