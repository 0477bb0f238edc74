"""examples/kubernetes/pipeline-*.yaml on a real cluster, on the bus of shop.yaml."""

from collections.abc import Iterator

import pytest
import yaml

from tests.e2e import images
from tests.e2e.cluster import ROOT, Body, Cluster, eventually
from tests.e2e.conftest import Installation, Space, fresh_space

EXAMPLES = ROOT / "examples" / "kubernetes"
COUNT = 20


@pytest.fixture(scope="module")
def shop(installation: Installation) -> Iterator[Space]:
    """The bus and the queue of shop.yaml, with messages in it."""
    with fresh_space(installation, "examples") as space:
        text = (EXAMPLES / "shop.yaml").read_text(encoding="utf-8")
        wanted = [
            each
            for each in yaml.safe_load_all(text)
            if each["kind"] in ("BusNamespace", "Queue")
        ]  # fmt: skip
        for each in wanted:
            each["metadata"]["namespace"] = space.name
        space.start(*wanted)
        space.say(f"bendybus send orders hello --count {COUNT}", secret="shop-till")
        yield space


def apply(space: Space, name: str) -> None:
    """Apply an example in a namespace and with an image of the test's own."""
    image = images.spark(space.cluster)
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    documents: list[Body] = list(
        yaml.safe_load_all(text.replace("localhost/bendybus-spark:dev", image))
    )
    for each in documents:
        each["metadata"]["namespace"] = space.name
        for subject in each.get("subjects", []):
            subject["namespace"] = space.name
    space.cluster.apply(*documents)


def logs(cluster: Cluster, space: Space, *of: str) -> str:
    return cluster.kubectl("logs", "-n", space.name, *of, "--tail=200")


def test_a_job_submits_a_driver_that_makes_its_executors(cluster: Cluster, shop: Space) -> None:
    apply(shop, "pipeline-submit.yaml")

    def look() -> bool | None:
        status = cluster.get("job", "submit-usage", shop.name).get("status", {})
        assert not status.get("failed"), logs(cluster, shop, "job/submit-usage")
        return bool(status.get("succeeded")) or None

    eventually(look, within_s=240, what="the submitted job is done")
    [driver] = cluster.list("pod", shop.name, "spark-role=driver")
    printed = logs(cluster, shop, driver["metadata"]["name"])
    assert driver["status"]["phase"] == "Succeeded", printed
    assert [line.split()[-2:] for line in printed.splitlines() if "orders" in line]
    assert f" {COUNT} " in printed
    assert "Executor" in logs(cluster, shop, "job/submit-usage") or printed


def test_a_deployment_captures_into_its_volume(cluster: Cluster, shop: Space) -> None:
    apply(shop, "pipeline-capture.yaml")

    def look() -> bool | None:
        found = cluster.list("pod", shop.name, "app=lake")
        ready = [each for each in found if each["status"]["phase"] == "Running"]
        return (
            (f'"rows": {COUNT}' in logs(cluster, shop, "deployment/lake") or None)
            if ready
            else None
        )

    eventually(look, within_s=180, what="a batch is logged")
    files = cluster.kubectl(
        *("exec", "-n", shop.name, "deployment/lake", "--"),
        *("find", "/lake/orders", "-name", "*.parquet"),
    )
    assert files.splitlines()
