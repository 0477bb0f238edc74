"""`apply` on a cluster: kubectl's lines, then Ready or the reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from bendybus.cli.__main__ import main
from bendybus.cli.bus.kubectl import Kubectl
from bendybus.cli.commands import apply_command
from bendybus.cli.commands.apply_command import Standing
from bendybus.cli.errors import CliError, UsageError
from tests.cli.conftest import FakeKubectl


def queue(name: str, *, status: str = "", reason: str = "", generation: int = 1) -> dict[str, Any]:
    condition = {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": f"{reason} it is.",
        "observedGeneration": 1,
    }
    return {
        "apiVersion": "bendybus.io/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": name, "namespace": "shop", "generation": generation},
        "status": {"conditions": [condition]} if status else {},
    }


def listed(*bodies: dict[str, Any]) -> dict[str, str]:
    return {"out": json.dumps({"items": list(bodies)})}


READY = queue("orders", status="True", reason="Available")


def test_what_is_ready_and_what_is_not_is_read_from_the_condition() -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}
    found = apply_command.standings(
        {"items": [READY, queue("a"), queue("b", status="False", reason="NameTaken"), config_map]}
    )

    assert [str(each) for each in found] == [
        "Queue shop/orders: Ready",
        "Queue shop/a: Unseen: no operator has reconciled it yet",
        "Queue shop/b: NameTaken: NameTaken it is",
    ]


def test_a_condition_of_an_older_generation_is_no_answer() -> None:
    (found,) = apply_command.standings(queue("a", status="True", reason="Available", generation=2))

    assert found == Standing("Queue", "shop", "a", False, "Unseen", "not reconciled yet.")


def test_apply_waits_until_all_are_ready(
    kubectl: FakeKubectl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = tmp_path / "queue.yaml"
    manifest.touch()
    starting = queue("orders", status="False", reason="Progressing")
    kubectl.answers(
        apply={"out": "queue.bendybus.io/orders created\n"},
        get=[listed(starting), listed(READY)],
    )

    code = main(["--kube", "apply", "-f", str(manifest)])

    assert code == 0
    assert capsys.readouterr().out.splitlines() == [
        "queue.bendybus.io/orders created",
        "Queue shop/orders: Ready",
    ]
    assert kubectl.calls()[0]["arguments"] == ["apply", f"--filename={manifest}"]


def test_what_needs_a_person_ends_the_wait_at_once(
    kubectl: FakeKubectl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.answers(
        apply={"out": "queue.bendybus.io/orders created\n"},
        get=listed(READY, queue("old", status="False", reason="RetainedData")),
    )

    code = main(["--kube", "apply", "-f", str(tmp_path)])

    assert code == 1
    assert (
        "Applied, but not Ready: Queue shop/old: RetainedData: RetainedData it is.\n"
        in capsys.readouterr().err
    )


def test_when_time_is_over_the_reason_is_said(kubectl: FakeKubectl, tmp_path: Path) -> None:
    kubectl.answers(get=listed(queue("a", status="False", reason="Progressing")))
    times = iter([0.0, 1.0, 5.0])

    found = apply_command.wait(
        Kubectl(), [tmp_path], 4, monotonic=lambda: next(times), sleep=lambda _: None
    )

    with pytest.raises(CliError, match=r"shop/a: Progressing"):
        apply_command.check_options(found)
    assert len(kubectl.calls()) == 2


def test_a_refused_manifest_says_what_the_webhook_said(
    kubectl: FakeKubectl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = "spec.entityName: 'a b' must have only letters."
    kubectl.answers(apply={"err": f"Error from server: {refused}\n", "code": 1})

    code = main(["--kube", "apply", "-f", str(tmp_path)])

    assert code == 1
    assert refused in capsys.readouterr().err


def test_a_file_that_is_not_there_is_said_before_kubectl_runs() -> None:
    with pytest.raises(UsageError, match=r"nope\.yaml does not exist"):
        apply_command.apply_on_cluster(Kubectl(), [Path("nope.yaml")])
