"""examples/kubernetes/pipeline-*.yaml: commands that the jobs take, pods that are restricted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests import pipeline_commands
from tests.charts.rendering import Body

ROOT: Final = Path(__file__).parents[2]
EXAMPLES: Final = sorted((ROOT / "examples" / "kubernetes").glob("pipeline-*.yaml"))
IMAGE: Final = "localhost/bendybus-spark:dev"
SCRIPT: Final = "local:///usr/local/share/bendybus/pipeline.py"


def bodies(example: Path) -> list[Body]:
    return list(yaml.safe_load_all(example.read_text(encoding="utf-8")))


def pods(body: Body) -> Iterator[Body]:
    """Yield the specs of all pods in a manifest, those in the texts of a ConfigMap too."""
    if body["kind"] == "ConfigMap":
        for text in body["data"].values():
            yield yaml.safe_load(text)["spec"]
    elif body["kind"] == "SparkApplication":
        yield from (body["spec"][role]["template"]["spec"] for role in ("driver", "executor"))
    elif body["kind"] in ("Deployment", "Job"):
        yield body["spec"]["template"]["spec"]
    elif body["kind"] == "CronJob":
        yield body["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def of(example: Path) -> list[Body]:
    return [pod for body in bodies(example) for pod in pods(body)]


def commands(example: Path) -> list[list[str]]:
    """Return the `bendybus pipeline …` that an example runs."""
    found: list[list[str]] = []
    for body in bodies(example):
        if body["kind"] == "SparkApplication":
            assert body["spec"]["mainApplicationFile"] == SCRIPT
            found.append(["bendybus", "pipeline", *body["spec"]["arguments"]])
        for container in (one for pod in pods(body) for one in pod["containers"]):
            arguments: list[Any] = container.get("args", [])
            if SCRIPT in arguments:
                rest = arguments[arguments.index(SCRIPT) + 1 :]
                found.append(["bendybus", "pipeline", *rest])
            elif arguments:
                found.append(arguments)
    return found


def test_there_is_one_for_each_way_to_run_spark() -> None:
    kinds = {body["kind"] for example in EXAMPLES for body in bodies(example)}

    assert {"Deployment", "CronJob", "Job", "SparkApplication"} <= kinds


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_a_job_with_options_that_it_takes(example: Path) -> None:
    assert [pipeline_commands.take(each)["source"] for each in commands(example)] in (
        ["orders"],
        [["orders"]],
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_restricted_and_runs_our_image(example: Path) -> None:
    found = of(example)

    assert found
    for pod in found:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        mine = {each["name"] for each in pod["volumes"]}
        for one in pod["containers"]:
            assert one.get("image", IMAGE) == IMAGE
            assert one["securityContext"]["readOnlyRootFilesystem"] is True
            assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert {each["name"] for each in one["volumeMounts"]} == mine


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_names_what_the_examples_have(example: Path) -> None:
    shop = bodies(ROOT / "examples" / "kubernetes" / "shop.yaml")
    submit = bodies(ROOT / "examples" / "kubernetes" / "pipeline-submit.yaml")
    queues = {each["metadata"]["name"] for each in shop if each["kind"] == "Queue"}
    accounts = {each["metadata"]["name"] for each in submit if each["kind"] == "ServiceAccount"}
    secrets = [
        variable["valueFrom"]["secretKeyRef"]["name"]
        for pod in of(example)
        for one in pod["containers"]
        for variable in one["env"]
        if "secretKeyRef" in variable.get("valueFrom", {})
    ]

    assert "orders" in queues
    assert set(secrets) == {"shop-kitchen"}
    assert any("kitchen" in str(each) for each in shop)
    for pod in of(example):
        assert pod.get("serviceAccountName", "spark-driver") in accounts
