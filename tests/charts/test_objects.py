"""What the chart makes, under the values that change it."""

import dataclasses
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from bendybus.operator.handlers import admit_bus, admit_entity
from bendybus.operator.kubernetes import names
from bendybus.operator.settings import PREFIX, Settings
from tests.charts import rendering
from tests.charts.rendering import CHART, NAMESPACE, Body, of_kind, only, render
from tests.charts.test_pipelines import CAPTURE

ROOT = CHART.parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
CERT_MANAGER = {"certManager": {"enabled": True}}
NAMESPACED = {"watchNamespaces": ["shop", "till"]}
EVERYTHING = {
    **CERT_MANAGER,
    "networkPolicy": {"restrictEgress": True},
    "imagePullSecrets": [{"name": "registry"}],
    "busImagePullSecrets": [{"name": "registry"}, {"name": "other"}],
    "serviceAccount": {"annotations": {"a": "b"}},
    "operator": {
        "priorityClassName": "high",
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"operator": "Exists"}],
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
    },
    "metrics": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "podMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboard": {"enabled": True},
    },
}
COMBINATIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "namespaced": NAMESPACED,
    "cert-manager": CERT_MANAGER,
    "issuer": {"certManager": {"enabled": True, "issuerRef": {"kind": "Issuer", "name": "ours"}}},
    "everything": EVERYTHING,
    "everything, namespaced": EVERYTHING | NAMESPACED,
    "nothing": {
        "rbac": {"create": False},
        "serviceAccount": {"create": False, "name": "mine"},
        "crds": {"enabled": False},
        "webhooks": {"enabled": False},
        "podDisruptionBudget": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "metrics": {"service": {"enabled": False}},
        "test": {"enabled": False},
    },
}


def deployment(values: dict[str, Any]) -> Body:
    return only(render(values), "Deployment")


def container(values: dict[str, Any]) -> Body:
    (found,) = deployment(values)["spec"]["template"]["spec"]["containers"]
    return dict(found)


def environment(values: dict[str, Any]) -> dict[str, Any]:
    """Return what the operator is told, as its pod gets it."""
    return {each["name"]: each.get("value", "from the API") for each in container(values)["env"]}


@pytest.mark.parametrize("values", COMBINATIONS.values(), ids=COMBINATIONS.keys())
def test_every_combination_lints_and_renders_objects_once(
    values: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(values))

    linted = rendering.helm(
        "lint", "--strict", CHART, "--values", file, "--kube-version", rendering.KUBERNETES
    )
    bodies = render(values)

    marks = [
        (body["kind"], body["metadata"].get("namespace"), body["metadata"]["name"])
        for body in bodies
    ]
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert len(set(marks)) == len(marks)


@pytest.mark.parametrize("values", COMBINATIONS.values(), ids=COMBINATIONS.keys())
def test_every_setting_of_the_operator_is_said_and_no_other(values: dict[str, Any]) -> None:
    told = environment(values)

    settings = Settings.from_env(told)

    assert set(told) == {PREFIX + field.name.upper() for field in dataclasses.fields(Settings)}
    assert settings.watch_namespaces == tuple(values.get("watchNamespaces", ()))
    wanted = values.get("certManager", {})
    assert settings.cert_manager == bool(wanted)
    # Named: for all buses; else the operator makes one for each.
    assert settings.issuer_name == wanted.get("issuerRef", {}).get("name", "")


def test_the_defaults_of_the_chart_are_those_of_the_operator() -> None:
    said, own = Settings.from_env(environment({})), Settings()

    differing = {
        field.name
        for field in dataclasses.fields(Settings)
        if getattr(said, field.name) != getattr(own, field.name)
    }

    assert differing == {"namespace", "identity"}


def test_the_pods_pass_the_restricted_standard() -> None:
    pods = [deployment({})["spec"]["template"]["spec"], only(render(), "Pod")["spec"]]

    for pod in pods:
        (inner,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert inner["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert inner["resources"]["requests"].keys() == {"cpu", "memory"}


def test_an_operator_leaves_only_when_another_answers() -> None:
    bodies = render()
    spec = only(bodies, "Deployment")["spec"]
    (inner,) = spec["template"]["spec"]["containers"]

    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert only(bodies, "PodDisruptionBudget")["spec"]["minAvailable"] == 1
    assert inner["readinessProbe"]["tcpSocket"] == {"port": "webhook"}
    assert inner["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "probe"}
    assert {port["name"]: port["containerPort"] for port in inner["ports"]} == {
        "webhook": Settings().webhook_port,
        "probe": Settings().probe_port,
        "metrics": Settings().metrics_port,
    }


def test_one_replica_has_no_budget_that_would_hold_up_drains() -> None:
    assert of_kind(render({"operator": {"replicas": 1}}), "PodDisruptionBudget") == []


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, "localhost/bendybus:dev"),
        ({"repository": "host:5000/bus", "tag": "1"}, "host:5000/bus:1"),
        ({"tag": ""}, f"localhost/bendybus:{VERSION}"),
        ({"digest": "sha256:" + "a" * 64}, "localhost/bendybus@sha256:" + "a" * 64),
    ],
)
def test_the_image_is_that_of_the_values_everywhere(image: dict[str, str], expected: str) -> None:
    values = {"image": image}

    assert container(values)["image"] == expected
    assert environment(values)[f"{PREFIX}IMAGE"] == expected
    assert only(render(values), "Pod")["spec"]["containers"][0]["image"] == expected


# Webhooks


def test_the_paths_of_webhooks_are_the_ids_of_handlers() -> None:
    # Kopf allows whatever comes to a path that it does not know.
    source = Path(ROOT / "operator/bendybus/operator/handlers.py").read_text(encoding="utf-8")
    ids = set(re.findall(r'@kopf\.on\.validate\([^)]*?id="([^"]+)"', source))

    hooks = only(render(), "ValidatingWebhookConfiguration")["webhooks"]

    assert admit_bus is not None
    assert admit_entity is not None
    assert {hook["clientConfig"]["service"]["path"] for hook in hooks} == {f"/{i}" for i in ids}
    for hook in hooks:
        (rule,) = hook["rules"]
        assert rule["resources"] == [hook["clientConfig"]["service"]["path"].strip("/")]
        assert rule["operations"] == ["CREATE", "UPDATE", "DELETE"]
        assert rule["apiGroups"] == [names.GROUP]


def test_webhooks_refuse_while_nobody_answers_and_leave_the_authority_to_the_operator() -> None:
    for hook in only(render(), "ValidatingWebhookConfiguration")["webhooks"]:
        assert hook["failurePolicy"] == "Fail"
        assert 5 <= hook["timeoutSeconds"] <= 10
        assert hook["matchPolicy"] == "Equivalent"
        assert hook["sideEffects"] == "None"
        assert "caBundle" not in hook["clientConfig"]
        (selector,) = hook["namespaceSelector"]["matchExpressions"]
        assert selector["operator"] == "NotIn"
        assert "kube-system" in selector["values"]


def test_webhooks_of_a_namespaced_operator_judge_its_namespaces_only() -> None:
    for hook in only(render(NAMESPACED), "ValidatingWebhookConfiguration")["webhooks"]:
        (selector,) = hook["namespaceSelector"]["matchExpressions"]
        assert (selector["operator"], selector["values"]) == ("In", ["shop", "till"])


@pytest.mark.parametrize("values", [{}, NAMESPACED, {"fullnameOverride": "other"}])
def test_webhooks_lead_to_the_operator_under_the_name_of_its_certificate(
    values: dict[str, Any],
) -> None:
    bodies = render(values)
    told = environment(values)
    configuration = only(bodies, "ValidatingWebhookConfiguration")
    service = configuration["webhooks"][0]["clientConfig"]["service"]
    (found,) = [
        body for body in of_kind(bodies, "Service") if body["metadata"]["name"] == service["name"]
    ]

    assert told[f"{PREFIX}SERVICE"] == service["name"]
    assert told[f"{PREFIX}WEBHOOK_CONFIGURATION"] == configuration["metadata"]["name"]
    assert service["namespace"] == found["metadata"]["namespace"] == NAMESPACE
    assert found["spec"]["ports"] == [{"name": "webhook", "port": 443, "targetPort": "webhook"}]
    labels = only(bodies, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert found["spec"]["selector"].items() <= labels.items()


def test_without_webhooks_the_operator_keeps_no_configuration() -> None:
    values = {"webhooks": {"enabled": False}}

    assert of_kind(render(values), "ValidatingWebhookConfiguration") == []
    assert environment(values)[f"{PREFIX}WEBHOOK_CONFIGURATION"] == ""


# Certificates


def test_cert_manager_makes_the_operators_root_and_both_certificates() -> None:
    bodies = render(CERT_MANAGER)
    told = environment(CERT_MANAGER)
    certificates = {body["metadata"]["name"]: body for body in of_kind(bodies, "Certificate")}
    configuration = only(bodies, "ValidatingWebhookConfiguration")
    operator = certificates["bendybus-operator-tls"]["spec"]

    assert set(certificates) == {
        "bendybus-operator-ca", "bendybus-operator-tls", "bendybus-operator-webhook-tls",
    }  # fmt: skip
    assert operator["uris"] == [names.OPERATOR_IDENTITY]
    assert operator["issuerRef"]["name"] == "bendybus-operator-ca"
    assert certificates["bendybus-operator-webhook-tls"]["spec"]["dnsNames"][0] == (
        f"{told[f'{PREFIX}SERVICE']}.{NAMESPACE}.svc"
    )
    assert configuration["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": f"{NAMESPACE}/bendybus-operator-webhook-tls"
    }
    mounts = {each["name"]: each["mountPath"] for each in container(CERT_MANAGER)["volumeMounts"]}
    assert mounts["webhook-tls"] == told[f"{PREFIX}TLS_DIRECTORY"]
    assert mounts["tls"] == told[f"{PREFIX}CLIENT_TLS_DIRECTORY"]


@pytest.mark.parametrize("name", ["cert-manager", "everything", "everything, namespaced"])
def test_who_signs_for_the_operator_signs_in_its_namespace_only(name: str) -> None:
    """An issuer that others may use, too, would sign the operator's identity for them."""
    bodies = render(COMBINATIONS[name])
    issuers = {body["metadata"]["name"] for body in of_kind(bodies, "Issuer")}

    assert of_kind(bodies, "ClusterIssuer") == []
    for body in of_kind(bodies, "Issuer") + of_kind(bodies, "Certificate"):
        assert body["metadata"]["namespace"] == NAMESPACE
    for body in of_kind(bodies, "Certificate"):
        assert body["spec"]["issuerRef"]["kind"] == "Issuer"
        assert body["spec"]["issuerRef"]["name"] in issuers


def test_a_given_issuer_makes_no_authority() -> None:
    bodies = render(COMBINATIONS["issuer"])

    assert of_kind(bodies, "ClusterIssuer") == []
    assert of_kind(bodies, "Issuer") == []
    assert {body["spec"]["issuerRef"]["name"] for body in of_kind(bodies, "Certificate")} == {
        "ours"
    }


# CRDs and peering


def test_crds_are_kept_unless_told_otherwise() -> None:
    kept = of_kind(render(), "CustomResourceDefinition")
    given_up = of_kind(render({"crds": {"keep": False}}), "CustomResourceDefinition")

    assert {crd["metadata"]["name"] for crd in kept} == {
        "busnamespaces.bendybus.io", "queues.bendybus.io",
        "topics.bendybus.io", "subscriptions.bendybus.io",
    }  # fmt: skip
    for crd in kept:
        assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    for crd in given_up:
        assert "annotations" not in crd["metadata"]
    assert of_kind(render({"crds": {"enabled": False}}), "CustomResourceDefinition") == []


def test_kopfs_crds_are_installed_if_absent_and_are_no_part_of_the_release() -> None:
    released = of_kind(render(), "CustomResourceDefinition")
    installed = of_kind(render({}, "--include-crds"), "CustomResourceDefinition")
    added = {crd["metadata"]["name"]: crd for crd in installed if crd not in released}

    assert set(added) == {"clusterkopfpeerings.kopf.dev", "kopfpeerings.kopf.dev"}


def test_the_peering_is_the_one_that_the_operator_looks_at() -> None:
    cluster = only(render(), "ClusterKopfPeering")
    spaces = of_kind(render(NAMESPACED), "KopfPeering")

    assert cluster["metadata"]["name"] == environment({})[f"{PREFIX}PEERING"]
    assert [body["metadata"]["namespace"] for body in spaces] == NAMESPACED["watchNamespaces"]
    assert of_kind(render(NAMESPACED), "ClusterKopfPeering") == []


def test_partitions_let_in_the_operator_by_the_labels_of_its_pods() -> None:
    text = (ROOT / "operator/bendybus/operator/builders/children.py").read_text()
    labels = only(render(), "Deployment")["spec"]["template"]["metadata"]["labels"]

    wanted = re.findall(r'"(app\.kubernetes\.io/component)": "(\w+)"', text)

    assert wanted == [("app.kubernetes.io/component", "operator")]
    assert dict(wanted).items() <= labels.items()


def test_an_operator_answers_webhooks_until_its_endpoint_is_gone() -> None:
    pod = deployment({})["spec"]["template"]["spec"]

    sleeps_s = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]

    assert 0 < sleeps_s < pod["terminationGracePeriodSeconds"]


def test_the_end_of_a_namespace_and_unguarded_deletions_need_no_operator() -> None:
    (configuration,) = [
        each for each in render({}) if each["kind"] == "ValidatingWebhookConfiguration"
    ]

    for hook in configuration["webhooks"]:
        conditions = {each["name"]: each["expression"] for each in hook["matchConditions"]}
        assert "namespace-controller" in conditions["not-the-end-of-a-namespace"]
        assert "deletionPolicy == 'Delete'" in conditions["not-a-deletion-that-is-not-guarded"]


@pytest.mark.parametrize("named", [True, False])
def test_metrics_are_for_whoever_is_let_in(named: bool) -> None:
    peers = [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]
    values = {"networkPolicy": {"metricsFrom": peers}} if named else {}
    (policy,) = [each for each in render(values) if each["kind"] == "NetworkPolicy"]

    by_port = {
        port["port"]: rule.get("from")
        for rule in policy["spec"]["ingress"]
        for port in rule["ports"]
    }

    labelled = [{"namespaceSelector": {"matchLabels": {"bendybus.io/metrics": "true"}}}]
    assert by_port == {"webhook": None, "probe": None, "metrics": peers if named else labelled}


@pytest.mark.requirement("R387")
def test_pods_of_buses_get_their_pull_secrets_and_user_from_values() -> None:
    values = {"busImagePullSecrets": [{"name": "a"}, {"name": "b"}], "runAsUser": 4711}

    made = environment(values)

    assert made[f"{PREFIX}IMAGE_PULL_SECRETS"] == "a,b"
    assert made[f"{PREFIX}RUN_AS_USER"] == "4711"
    assert environment({})[f"{PREFIX}IMAGE_PULL_SECRETS"] == ""
    assert environment({"runAsUser": None})[f"{PREFIX}RUN_AS_USER"] == "0"


@pytest.mark.requirement("R387")
def test_the_user_of_all_pods_can_be_left_to_the_cluster() -> None:
    def users(values: dict[str, Any]) -> list[Any]:
        bodies = render({"pipelines": [CAPTURE], **values})
        specs = [body["spec"] for body in bodies if body["kind"] == "Pod"]
        specs += [body["spec"]["template"]["spec"] for body in of_kind(bodies, "Deployment")]
        assert len(specs) == 3
        found = [each["securityContext"] for each in specs]
        assert all(each["runAsNonRoot"] is True for each in found)
        return [{each.get(f) for f in ("runAsUser", "runAsGroup", "fsGroup")} for each in found]

    assert {10001} == set.union(*users({}))
    assert {4711} == set.union(*users({"runAsUser": 4711}))
    assert {None} == set.union(*users({"runAsUser": None}))
