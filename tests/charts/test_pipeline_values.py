"""Values of pipelines: what is refused, where they run, what their pods may do and be asked."""

import json
from typing import Any

import pytest
import yaml

from bendybus.spark.jobs import runtime
from tests import pipeline_commands
from tests.charts.rendering import CHART, NAMESPACE, Body, of_kind, only, render
from tests.charts.test_pipelines import CAPTURE, REPORT, container, pipeline

EXECUTORS = {"executors": {"instances": 2}}
NEEDED = {
    "capture": ["--source", "orders", "--out", "/data"],
    "sessions": ["--source", "orders", "--out", "/data"],
    "export": ["--source", "orders", "--out", "/data"],
    "replay": ["--in", "/data", "--to", "orders"],
    "load": ["--in", "/data", "--format", "csv", "--to", "orders"],
    "usage": ["--source", "orders"],
    "dlq report": ["--source", "orders"],
    "dlq redrive": ["--source", "orders"],
}


def schema() -> Body:
    found = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    items: Body = found["properties"]["pipelines"]["items"]
    return items


def executor(found: dict[str, Body]) -> Body:
    """Return the template of a pipeline's executors."""
    template: Body = yaml.safe_load(found["ConfigMap"]["data"]["executor.yaml"])
    return template


def policies(**values: Any) -> dict[str, Body]:
    """Return the NetworkPolicies of one pipeline, by name."""
    found = of_kind(render({"pipelines": [values]}), "NetworkPolicy")
    return {
        each["metadata"]["name"].removeprefix("bendybus-pipeline-"): each["spec"]
        for each in found
        if "pipeline" in each["metadata"]["name"]
    }


# Commands


def test_the_chart_knows_every_job_and_no_other() -> None:
    assert set(schema()["properties"]["job"]["enum"]) == pipeline_commands.jobs() == set(NEEDED)


STREAMS = ("capture", "sessions")
ENDS = {"schedule": "@hourly"}


@pytest.mark.requirement("R301")
@pytest.mark.parametrize("executors", [{}, EXECUTORS], ids=["one pod", "executors"])
@pytest.mark.parametrize(
    ("job", "schedule"), [*((job, ENDS) for job in NEEDED), *((job, {}) for job in STREAMS)]
)
def test_every_job_takes_the_arguments_that_the_chart_adds(
    job: str, schedule: dict[str, Any], executors: dict[str, Any]
) -> None:
    checkpoint = {"checkpoint": {"accessMode": "ReadWriteMany"}} if job in STREAMS else {}
    values = {"name": "one", "job": job, "secret": "key", "args": NEEDED[job]}

    found = pipeline(**values, **checkpoint, **schedule, **executors)
    taken = pipeline_commands.take(container(found)[1]["args"])

    assert taken["master"] == ("k8s" if executors else "local[2]")
    if job in STREAMS:
        assert taken["now"] is bool(schedule)
        assert bool(taken["metrics_port"]) is not bool(schedule)


@pytest.mark.requirement("R301")
@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ("--checkpoint=/elsewhere", r"args: --checkpoint is set by the chart; set checkpoint"),
        ("--master", r"args: --master is set by the chart; set cores or executors"),
        ("--now", r"args: --now is set by the chart; set schedule"),
        ("--metrics-port=1", r"args: --metrics-port is set by the chart"),
    ],
)
def test_an_argument_that_the_chart_sets_is_refused(argument: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        render({"pipelines": [{**CAPTURE, "args": [*CAPTURE["args"], argument]}]})


def test_a_job_that_does_not_take_an_argument_is_noticed_here() -> None:
    with pytest.raises(pipeline_commands.UsageError, match="--checkpoint"):
        pipeline_commands.take(["bendybus", "pipeline", "usage", "--checkpoint=/x"])


# Refusals


@pytest.mark.requirement("R301")
@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({**REPORT, "checkpoint": {"size": "1Gi"}}, r"letters: checkpoint: dlq report has none"),
        (
            {**CAPTURE, **EXECUTORS, "job": "sessions"},
            r"checkpoint.accessMode must be ReadWriteMany",
        ),
        ({**CAPTURE, "checkpoint": {"accessMode": "Any"}}, r"/checkpoint/accessMode'"),
        ({**CAPTURE, "namespace": "Shop"}, r"/pipelines/0/namespace'"),
        ({**CAPTURE, "secretKey": "a b"}, r"/pipelines/0/secretKey'"),
        ({**CAPTURE, "deadlineSeconds": 1}, r"/pipelines/0/deadlineSeconds'"),
        ({**CAPTURE, "serviceAccount": {"annotation": {}}}, r"/0/serviceAccount'"),
        ({**CAPTURE, "nodeSelector": {"disk": 1}}, r"/nodeSelector/disk'"),
    ],
)
def test_a_pipeline_that_cannot_work_is_refused(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        render({"pipelines": [changed]})


@pytest.mark.requirement("R301")
def test_two_pipelines_have_two_names() -> None:
    with pytest.raises(ValueError, match="pipelines: orders: the name is there twice"):
        render({"pipelines": [CAPTURE, {**REPORT, "name": "orders"}]})


@pytest.mark.requirement("R301")
def test_two_pipelines_of_a_namespace_have_two_checkpoints() -> None:
    # All of them have the same folder on their volumes.
    kept = {**CAPTURE, "checkpoint": {"existingClaim": "lake"}}
    with pytest.raises(ValueError, match="pipelines: two: the checkpoint's claim lake is there tw"):
        render({"pipelines": [kept, {**kept, "name": "two"}]})
    other = {"existingClaim": "bendybus-pipeline-orders"}
    with pytest.raises(ValueError, match="the checkpoint's claim bendybus-pipeline-orders is"):
        render({"pipelines": [CAPTURE, {**kept, "name": "two", "checkpoint": other}]})

    assert render({"pipelines": [kept, {**kept, "name": "two", "namespace": "elsewhere"}]})


@pytest.mark.requirement("R301")
def test_names_that_are_shortened_differ_and_fit_a_cron_job() -> None:
    names = ("orders-of-the-first-warehouse", "orders-of-the-first-warehousf")
    values = {"fullnameOverride": "b" * 40}

    found = of_kind(
        render({**values, "pipelines": [{**REPORT, "name": name} for name in names]}), "CronJob"
    )

    made = {each["metadata"]["name"] for each in found}
    assert len(made) == 2
    assert all(len(name) <= 52 for name in made)


# Pods


@pytest.mark.requirement("R301")
def test_a_pipeline_runs_in_the_namespace_of_its_bus() -> None:
    values = {**CAPTURE, **EXECUTORS, "namespace": "shop"}
    bodies = [each for each in render({"pipelines": [values]}) if "pipeline" in str(each)]

    mine = [each for each in bodies if each["metadata"]["name"].startswith("bendybus-pipeline")]
    assert {each["kind"] for each in mine} == {
        "ServiceAccount", "Role", "RoleBinding", "ConfigMap", "PersistentVolumeClaim",
        "Deployment", "NetworkPolicy",
    }  # fmt: skip
    assert {each["metadata"]["namespace"] for each in mine} == {"shop"}
    assert of_kind(mine, "RoleBinding")[0]["subjects"][0]["namespace"] == "shop"
    assert {each["metadata"]["namespace"] for each in pipeline(**CAPTURE).values()} == {NAMESPACE}


def test_a_connection_string_may_be_under_another_key() -> None:
    found = pipeline(**CAPTURE, **EXECUTORS, secretKey="secondaryConnectionString")

    keys = [
        each["env"][0]["valueFrom"]["secretKeyRef"]["key"]
        for each in (container(found)[1], executor(found)["spec"]["containers"][0])
    ]

    assert keys == ["secondaryConnectionString"] * 2


@pytest.mark.requirement("R301")
def test_executors_run_where_their_driver_may_and_have_its_identity_without_its_token() -> None:
    where = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"operator": "Exists"}],
        "serviceAccount": {"annotations": {"role": "lake"}},
    }
    values = {"imagePullSecrets": [{"name": "registry"}], "spark": {"image": {"tag": "9"}}}
    named = "bendybus-pipeline-orders"
    bodies = render({**values, "pipelines": [{**CAPTURE, **EXECUTORS, **where}]})
    found = {each["kind"]: each for each in bodies if each["metadata"]["name"] == named}
    driver, one = container(found)
    template = executor(found)["spec"]

    for pod in (driver, template):
        assert pod["serviceAccountName"] == named
        assert pod["imagePullSecrets"] == [{"name": "registry"}]
        assert pod["nodeSelector"] == {"disk": "ssd"}
        assert pod["tolerations"] == [{"operator": "Exists"}]
    assert template["automountServiceAccountToken"] is False
    assert found["ServiceAccount"]["metadata"]["annotations"] == {"role": "lake"}
    assert "--conf=spark.kubernetes.container.image.pullPolicy=IfNotPresent" in one["args"]
    image = next(each for each in one["env"] if each["name"] == "BENDYBUS_SPARK_IMAGE")
    assert image["value"] == one["image"] == "localhost/bendybus-spark:9"


@pytest.mark.requirement("R303")
def test_a_driver_may_not_touch_volumes_services_or_secrets() -> None:
    rules = pipeline(**CAPTURE, **EXECUTORS)["Role"]["rules"]

    assert {name for rule in rules for name in rule["resources"]} == {"pods", "configmaps"}
    assert not {verb for rule in rules for verb in rule["verbs"]} & {"*", "patch", "update"}


@pytest.mark.requirement("R301")
def test_executors_that_keep_state_share_the_checkpoint() -> None:
    values = {**CAPTURE, **EXECUTORS, "job": "sessions"}

    made = pipeline(**{**values, "checkpoint": {"accessMode": "ReadWriteMany"}})
    given = pipeline(**{**values, "checkpoint": {"existingClaim": "shared"}})

    assert made["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteMany"]
    assert "PersistentVolumeClaim" not in given
    for found, claim in ((made, "bendybus-pipeline-orders"), (given, "shared")):
        for pod in (container(found)[0], executor(found)["spec"]):
            volumes = {each["name"]: each for each in pod["volumes"]}
            mounts = {each["name"]: each for each in pod["containers"][0]["volumeMounts"]}
            assert volumes["checkpoint"]["persistentVolumeClaim"]["claimName"] == claim
            assert mounts["checkpoint"]["mountPath"] == "/var/lib/bendybus"


def test_only_executors_that_keep_state_have_the_checkpoint() -> None:
    template = executor(pipeline(**CAPTURE, **EXECUTORS))["spec"]

    assert "checkpoint" not in {each["name"] for each in template["volumes"]}


@pytest.mark.requirement("R301")
def test_a_job_with_wrong_options_is_not_repeated_and_may_have_a_deadline() -> None:
    found = pipeline(**REPORT, deadlineSeconds=900, timeZone="Europe/Berlin")
    cron = found["CronJob"]["spec"]
    job = cron["jobTemplate"]["spec"]

    assert cron["timeZone"] == "Europe/Berlin"
    assert job["activeDeadlineSeconds"] == 900
    wrong, drained = job["podFailurePolicy"]["rules"]
    assert (wrong["action"], wrong["onExitCodes"]["values"]) == ("FailJob", [2])
    assert drained["action"] == "Ignore"


# Network and metrics


@pytest.mark.requirement("R304")
def test_only_executors_reach_their_driver_and_each_other() -> None:
    found = policies(**CAPTURE, **EXECUTORS)
    bodies = pipeline(**CAPTURE, **EXECUTORS)
    driver = bodies["Deployment"]["spec"]["template"]["metadata"]["labels"]
    labels = executor(bodies)["metadata"]["labels"]
    to_driver = found["orders"]["ingress"][1]
    [to_executors] = found["orders-executors"]["ingress"]

    assert found["orders"]["podSelector"]["matchLabels"].items() <= driver.items()
    assert found["orders-executors"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert not found["orders"]["podSelector"]["matchLabels"].items() <= labels.items()
    [peer] = to_driver["from"]
    assert peer["podSelector"]["matchLabels"].items() <= labels.items()
    assert [each["port"] for each in to_driver["ports"]] == [
        runtime.DRIVER_PORT, runtime.BLOCK_MANAGER_PORT,
    ]  # fmt: skip
    assert [each["port"] for each in to_executors["ports"]] == [runtime.BLOCK_MANAGER_PORT]
    assert len(to_executors["from"]) == 2


@pytest.mark.requirement("R304")
def test_metrics_of_pipelines_are_for_those_that_may_read_the_others() -> None:
    [rule] = policies(**CAPTURE)["orders"]["ingress"]

    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"bendybus.io/metrics": "true"}}}]
    assert rule["ports"] == [{"port": "metrics"}]


@pytest.mark.requirement("R304")
def test_into_a_job_that_ends_and_has_no_executors_nothing_connects() -> None:
    found = policies(**REPORT)

    assert found["letters"]["policyTypes"] == ["Ingress"]
    assert "ingress" not in found["letters"]


def test_without_network_policies_there_are_none_of_pipelines() -> None:
    found = render({"pipelines": [CAPTURE], "networkPolicy": {"enabled": False}})

    assert of_kind(found, "NetworkPolicy") == []


@pytest.mark.requirement("R304")
def test_streams_are_scraped_where_they_run() -> None:
    pipelines = [
        CAPTURE,
        {**CAPTURE, "name": "shop", "namespace": "shop"},
        {**REPORT, "namespace": "letters"},
    ]
    enabled = {"metrics": {"podMonitor": {"enabled": True}}}
    bodies = render({"pipelines": pipelines, **enabled})
    monitors = {each["metadata"]["name"]: each["spec"] for each in of_kind(bodies, "PodMonitor")}
    found = monitors["bendybus-pipelines"]
    labels = pipeline(**CAPTURE)["Deployment"]["spec"]["template"]["metadata"]["labels"]

    assert found["selector"]["matchLabels"].items() <= labels.items()
    assert found["namespaceSelector"] == {"matchNames": ["bus-system", "shop"]}
    assert found["podMetricsEndpoints"][0]["port"] == "metrics"
    assert container(pipeline(**CAPTURE))[1]["ports"] == [
        {"name": "metrics", "containerPort": 8084}
    ]
    alone = render({"pipelines": [REPORT], **enabled})
    assert only(alone, "PodMonitor")["metadata"]["name"] == "bendybus-buses"
