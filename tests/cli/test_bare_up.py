"""`up` without manifests, blank lines of `send`, and what is told of a full volume."""

import subprocess
import sys
from pathlib import Path

import pytest

import bendybus.client
from bendybus.cli import __main__ as command
from bendybus.cli.bus import management, manifests
from bendybus.cli.commands.send_command import _outgoing
from bendybus.cli.output.json_lines import Fields
from bendybus.crds.errors import ManifestError
from bendybus.v1 import management_pb2 as pb


def test_a_bus_without_manifests_has_the_queues_that_are_named() -> None:
    empty, two = manifests.of_queues([]), manifests.of_queues(["orders", "Big/Ones"])

    assert (empty.implicit, empty.namespace.name, empty.entities) == (True, "default", ())
    assert [each.name for each in two.entities] == ["orders", "Big/Ones"]


def test_a_queue_that_cannot_be_is_named() -> None:
    with pytest.raises(ManifestError, match="--queue bad name"):
        manifests.of_queues(["bad name"])


def test_queues_of_manifests_are_in_manifests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = command.main(["up", "--file", str(tmp_path), "--queue", "orders"])

    said = "--queue: is for a bus without manifests; add a Queue to those instead."
    assert (code, capsys.readouterr().err) == (2, f"bendybus: {said}\n")


def test_blank_lines_are_messages(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("a\n\n  \nb\n")

    found = list(_outgoing(None, path, Fields()))

    assert [each and each.body for each in found] == ["a", "", "  ", "b"]


def test_a_partition_whose_volume_is_full_is_told_of() -> None:
    low = pb.NamespacePartition(partition=2, available=True, conditions=["DiskLow"])

    [said] = management.say_unavailable([low], {})

    assert said.startswith("Partition 2 takes no messages: its volume has less room")


def test_the_module_is_the_command_and_the_client_has_the_version() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "bendybus", "--version"], capture_output=True, text=True, check=True
    )

    assert bendybus.client.__version__ in shown.stdout
    with pytest.raises(AttributeError, match="nothing_like_it"):
        bendybus.client.nothing_like_it  # noqa: B018
