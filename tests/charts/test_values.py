"""Values: what is refused and how, what is documented, what is generated."""

import json
import re
from typing import Any

import pytest
import yaml

from bendybus.operator.kubernetes import names
from charts import generate
from tests.charts import rendering
from tests.charts.rendering import CHART, render


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"operator": {"replica": 3}}, r"/operator'.*'replica'"),
        ({"imagee": {}}, r"'imagee'"),
        ({"operator": {"replicas": "two"}}, r"/operator/replicas'"),
        ({"logLevel": "chatty"}, r"/logLevel'"),
        ({"image": {"tag": "latest"}}, r"image\.tag: must not be latest"),
        ({"image": {"digest": "abc"}}, r"/image/digest'"),
        ({"image": {"pullPolicy": "Sometimes"}}, r"/image/pullPolicy'"),
        ({"watchNamespaces": ["Shop"]}, r"/watchNamespaces/0'"),
        ({"watchNamespaces": ["shop", "shop"]}, r"/watchNamespaces'"),
        ({"webhooks": {"failurePolicy": "fail"}}, r"/webhooks/failurePolicy'"),
        ({"webhooks": {"timeoutSeconds": 60}}, r"/webhooks/timeoutSeconds'"),
        ({"certManager": {"issuerRef": {"kind": "Issuer"}}}, r"/certManager/issuerRef/name'"),
        ({"certManager": {"issuerRef": {"kind": "Vault"}}}, r"/certManager/issuerRef/kind'"),
        ({"operator": {"resyncSeconds": 0}}, r"/operator/resyncSeconds'"),
        ({"operator": {"replicas": 0}}, r"/operator/replicas'"),
        ({"operator": {"resources": {"limits": {"memory": "abc"}}}}, r"/limits/memory'"),
        ({"operator": {"resources": {"requests": {"cpu": "-1"}}}}, r"/requests/cpu'"),
        ({"fullnameOverride": "a.b"}, r"/fullnameOverride'"),
        ({"nameOverride": "9lives"}, r"/nameOverride'"),
        ({"serviceAccount": {"name": "a..b"}}, r"/serviceAccount/name'"),
        ({"serviceAccount": {"create": False}}, r"serviceAccount\.name: needed with"),
        ({"test": {"storage": "lots"}}, r"/test/storage'"),
        ({"metrics": {"serviceMonitor": {"interval": "often"}}}, r"/serviceMonitor/interval'"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(values: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        render(values)


@pytest.mark.parametrize(
    "values",
    [
        {"operator": {"replicas": 0}, "webhooks": {"failurePolicy": "Ignore"}},
        {"operator": {"replicas": 0}, "webhooks": {"enabled": False}},
        {"operator": {"resources": {"limits": {"cpu": 2, "memory": "1.5Gi"}}}},
        {"serviceAccount": {"create": False, "name": "mine"}},
        {"serviceAccount": {"create": False}, "rbac": {"create": False}},
    ],
)
def test_values_that_can_be_are_taken(values: dict[str, Any]) -> None:
    assert render(values)


def test_the_schema_knows_every_value_and_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    defaults = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))

    assert paths_of_schema(schema) - {"global"} == paths_of(defaults, schema)


def paths_of_schema(schema: dict[str, Any], prefix: str = "") -> set[str]:
    found = set()
    for name, node in schema.get("properties", {}).items():
        inner = node.get("additionalProperties") is False and not is_free(f"{prefix}{name}")
        found |= paths_of_schema(node, f"{prefix}{name}.") if inner else {f"{prefix}{name}"}
    return found


def is_free(path: str) -> bool:
    """Whether what is inside is Kubernetes's own."""
    return path in ("operator.resources", "operator.affinity", "spark.resources")


def paths_of(values: dict[str, Any], schema: dict[str, Any], prefix: str = "") -> set[str]:
    found = set()
    for name, value in values.items():
        node = schema["properties"][name]
        inner = node.get("additionalProperties") is False and not is_free(f"{prefix}{name}")
        found |= paths_of(value, node, f"{prefix}{name}.") if inner else {f"{prefix}{name}"}
    return found


def test_what_is_generated_is_up_to_date() -> None:
    for path, text in generate.files().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run make chart"


def test_a_value_without_a_comment_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"values\.yaml: a\.b has no comment above it"):
        list(generate.values("a:\n  b: 1\n"))


def test_a_crd_that_a_template_would_evaluate_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"Helm would evaluate"):
        generate.crd_template("metadata:\n  name: a\ndescription: '{{ x }}'\n")


def test_the_version_of_the_image_is_that_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = (CHART.parents[1] / "pyproject.toml").read_text(encoding="utf-8")

    assert f'\nversion = "{chart["appVersion"]}"\n' in project


def test_the_chart_names_the_kinds_that_it_brings() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    named = yaml.safe_load(chart["annotations"]["artifacthub.io/crds"])
    made = [
        yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in (CHART.parents[1] / "crds" / "generated").glob("*.yaml")
    ]

    assert {(crd["name"], crd["kind"], crd["version"]) for crd in named} == {
        (crd["metadata"]["name"], crd["spec"]["names"]["kind"], crd["spec"]["versions"][0]["name"])
        for crd in made
    }


def test_notes_name_commands_and_files_that_there_are() -> None:
    notes = (CHART / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    files = re.findall(r"-f (\S+\.yaml)", notes)

    assert "helm test" in notes
    assert files
    assert all((CHART.parents[1] / file).exists() for file in files)


# Monitoring


def known_metrics() -> set[str]:
    """Return the names that the documents, and the operator itself, know."""
    from bendybus.operator.metrics import Metrics

    page = (CHART.parents[1] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    known = set(re.findall(r"`(bendybus_\w+)", page))
    for family in Metrics().registry.collect():
        suffix = {"counter": "_total"}.get(family.type, "")
        known.add(family.name + suffix)
    return known | {f"{name}_bucket" for name in known if name.endswith("_seconds")}


def test_alerts_and_dashboard_ask_for_metrics_that_there_are() -> None:
    rules = render({"metrics": {"prometheusRule": {"enabled": True}}})
    (rule,) = rendering.of_kind(rules, "PrometheusRule")
    alerts = rule["spec"]["groups"][0]["rules"]
    asked = " ".join(alert["expr"] for alert in alerts)
    dashboard = (CHART / "dashboards" / "bendybus.json").read_text(encoding="utf-8")
    for panel in json.loads(dashboard)["panels"]:
        asked += " ".join(target["expr"] for target in panel["targets"])

    used = set(re.findall(r"\bbendybus_\w+", asked))

    assert used - known_metrics() == set()
    assert {alert["alert"] for alert in alerts} == {
        "BendybusPartitionUnreachable",
        "BendybusFrontendDown",
        "BendybusOrphanedEntities",
        "BendybusDeadLettersGrowing",
        "BendybusForwardingStandsStill",
        "BendybusInternalErrors",
        "BendybusOperatorWithoutLeader",
        "BendybusBusCertificateEndsSoon",
        "BendybusCertificateEndsSoon",
    }
    assert all({"summary", "description"} == alert["annotations"].keys() for alert in alerts)


def test_reasons_that_alerts_ask_for_are_reasons() -> None:
    from bendybus.operator.decisions.reasons import Reason

    text = (CHART / "templates" / "prometheusrule.yaml").read_text(encoding="utf-8")

    assert set(re.findall(r'reason="(\w+)"', text)) <= {reason.value for reason in Reason}


def test_the_dashboard_reaches_grafana_as_json() -> None:
    bodies = render({"metrics": {"dashboard": {"enabled": True}}})
    (found,) = [b for b in rendering.of_kind(bodies, "ConfigMap") if "dashboard" in str(b)]

    assert json.loads(found["data"]["bendybus.json"])["title"] == "Bendybus"


# The test that Helm runs


def test_helm_test_removes_what_it_makes_and_waits_for_the_secret() -> None:
    hooks = [b for b in render() if "helm.sh/hook" in (b["metadata"].get("annotations") or {})]
    by_kind = {body["kind"]: body for body in hooks}
    weights = {
        kind: int(body["metadata"]["annotations"]["helm.sh/hook-weight"])
        for kind, body in by_kind.items()
    }

    assert set(by_kind) == {"ConfigMap", "BusNamespace", "Queue", "Pod"}
    assert weights["ConfigMap"] < weights["BusNamespace"] < weights["Queue"] < weights["Pod"]
    # After one that failed, whatever is left must not keep the next from beginning.
    for kind in ("BusNamespace", "Queue"):
        assert by_kind[kind]["metadata"]["annotations"][names.ALLOW_DELETION_ANNOTATION] == "true"
    for body in hooks:
        policy = body["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
        assert policy == "before-hook-creation,hook-succeeded"
    for kind in ("BusNamespace", "Queue"):
        assert by_kind[kind]["spec"]["deletionPolicy"] == "Delete"
    volumes = {volume["name"]: volume for volume in by_kind["Pod"]["spec"]["volumes"]}
    assert volumes["access"]["secret"]["secretName"] == "bendybus-test-rootmanagesharedaccesskey"
    compile(by_kind["ConfigMap"]["data"]["test.py"], "test.py", "exec")


@pytest.mark.parametrize(
    ("values", "namespace"),
    [
        ({}, "bus-system"),
        ({"watchNamespaces": ["shop"]}, "shop"),
        ({"test": {"namespace": "till"}}, "till"),
    ],
)
def test_helm_test_runs_where_the_operator_serves(values: dict[str, Any], namespace: str) -> None:
    assert rendering.only(render(values), "Pod")["metadata"]["namespace"] == namespace


def test_helm_test_uses_a_bus_that_is_named() -> None:
    bodies = render({"test": {"bus": "flights"}})

    assert rendering.of_kind(bodies, "BusNamespace") == []
    assert rendering.only(bodies, "Queue")["spec"]["namespaceRef"] == {"name": "flights"}
