"""Data pipelines of the chart: what they become, and what is refused."""

from typing import Any

import pytest
import yaml

from tests.charts.rendering import Body, render

CAPTURE = {
    "name": "orders",
    "job": "capture",
    "args": ["--source", "orders", "--out", "/data"],
    "secret": "bus-key",
    "checkpoint": {"size": "2Gi"},
}
REPORT = {"name": "letters", "job": "dlq report", "secret": "bus-key", "schedule": "0 3 * * *"}


def pipeline(**values: Any) -> dict[str, Body]:
    """Return the objects of one pipeline, by kind."""
    found = render({"pipelines": [values]})
    name = f"bendybus-pipeline-{values['name']}"
    return {each["kind"]: each for each in found if each["metadata"]["name"] == name}


def container(found: dict[str, Body]) -> tuple[Body, Body]:
    """Return the pod's spec of a pipeline, and its container."""
    spec = (
        found["CronJob"]["spec"]["jobTemplate"]["spec"]
        if "CronJob" in found
        else found["Deployment"]["spec"]
    )
    pod = spec["template"]["spec"]
    return pod, pod["containers"][0]


def test_without_pipelines_there_is_nothing_of_spark() -> None:
    assert not [each for each in render() if "pipeline" in each["metadata"]["name"]]


@pytest.mark.requirement("R303")
def test_a_stream_is_a_deployment_of_one_pod_with_its_checkpoint() -> None:
    found = pipeline(**CAPTURE)
    pod, one = container(found)

    assert set(found) == {"ServiceAccount", "PersistentVolumeClaim", "Deployment", "NetworkPolicy"}
    assert found["Deployment"]["spec"]["replicas"] == 1
    assert found["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}
    assert one["args"][:7] == [
        "bendybus", "pipeline", "capture", "--source", "orders", "--out", "/data",
    ]  # fmt: skip
    assert "--checkpoint=/var/lib/bendybus/checkpoint" in one["args"]
    assert "--master=local[2]" in one["args"]
    assert "--now" not in one["args"]
    assert pod["automountServiceAccountToken"] is False
    assert found["PersistentVolumeClaim"]["spec"]["resources"]["requests"]["storage"] == "2Gi"
    keep = found["PersistentVolumeClaim"]["metadata"]["annotations"]
    assert keep == {"helm.sh/resource-policy": "keep"}
    assert one["livenessProbe"]["exec"]["command"][-2:] == ["/tmp/alive", "600"]


@pytest.mark.requirement("R303")
def test_with_a_schedule_it_is_a_cron_job_that_ends() -> None:
    found = pipeline(**CAPTURE, schedule="*/10 * * * *")
    pod, one = container(found)

    assert found["CronJob"]["spec"]["concurrencyPolicy"] == "Forbid"
    assert pod["restartPolicy"] == "Never"
    assert "--now" in one["args"]
    assert "livenessProbe" not in one


@pytest.mark.requirement("R303")
def test_executors_are_pods_that_its_driver_alone_makes() -> None:
    found = pipeline(**CAPTURE, executors={"instances": 3, "memory": "1g"})
    pod, one = container(found)

    assert {"Role", "RoleBinding", "ConfigMap"} <= set(found)
    assert pod["automountServiceAccountToken"] is True
    assert {"--master=k8s", "--executors=3", "--conf=spark.executor.memory=1g"} <= set(one["args"])
    verbs = {
        resource: set(rule["verbs"])
        for rule in found["Role"]["rules"]
        for resource in rule["resources"]
    }
    assert "deletecollection" in verbs["pods"]
    assert set(verbs) == {"pods", "configmaps"}
    executor = yaml.safe_load(found["ConfigMap"]["data"]["executor.yaml"])["spec"]
    assert executor["automountServiceAccountToken"] is False
    [made] = executor["containers"]
    # Executors reach the bus as the driver does.
    assert made["env"] == one["env"][: len(made["env"])]
    assert made["env"][0]["valueFrom"]["secretKeyRef"]["name"] == "bus-key"


@pytest.mark.parametrize("executors", [{}, {"executors": {"instances": 2}}])
def test_all_pods_are_restricted(executors: dict[str, Any]) -> None:
    found = pipeline(**CAPTURE, **executors)
    pods = [container(found)[0]]
    if executors:
        pods.append(yaml.safe_load(found["ConfigMap"]["data"]["executor.yaml"])["spec"])

    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for one in pod["containers"]:
            assert one["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_a_job_of_two_words_is_two_arguments() -> None:
    _, one = container(pipeline(**REPORT))

    assert one["args"][:4] == ["bendybus", "pipeline", "dlq", "report"]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"job": "captur"}, r"/pipelines/0/job'"),
        ({"name": "Orders"}, r"/pipelines/0/name'"),
        ({"secret": None}, r"/pipelines/0/secret'"),
        ({"schedule": "hourly"}, r"/pipelines/0/schedule'"),
        ({"checkpoint": None}, r"checkpoint is needed by capture"),
        ({"timeZone": "Europe/Berlin"}, r"timeZone: is of a schedule"),
        ({"deadlineSeconds": 60}, r"deadlineSeconds: is of a schedule"),
        (
            {"checkpoint": {"existingClaim": "mine", "size": "1Gi"}},
            r"checkpoint.size: is of a new claim",
        ),
        ({"checkpoint": {"sizes": "1Gi"}}, r"/pipelines/0/checkpoint'"),
        ({"job": "export", "checkpoint": None}, r"schedule is needed by export"),
        ({"executors": {"instances": 0}}, r"/executors/instances'"),
        ({"driverMemory": "512Mi"}, r"/driverMemory'"),
        ({"replicas": 2}, r"/pipelines/0'.*'replicas'"),
    ],
)
def test_a_wrong_pipeline_is_refused_by_its_name(changed: dict[str, Any], named: str) -> None:
    given = {name: value for name, value in {**CAPTURE, **changed}.items() if value is not None}
    if changed.get("secret", "") is None:
        named = r"/pipelines/0'.*secret"

    with pytest.raises(ValueError, match=named):
        render({"pipelines": [given]})
