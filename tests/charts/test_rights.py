"""The operator's rights: no more and no less than it uses."""

from typing import Any

import pytest

from bendybus.operator.certificates import operator_issuer
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.api import KINDS
from tests.charts.rendering import NAMESPACE, Body, of_kind, only, render
from tests.charts.test_objects import CERT_MANAGER, COMBINATIONS, NAMESPACED, deployment

# Rights


def rights(bodies: list[Body], kind: str) -> dict[tuple[str, str], set[str]]:
    """Return (API group, resource) → verbs, of all roles of a kind."""
    found: dict[tuple[str, str], set[str]] = {}
    for role in of_kind(bodies, kind):
        if any("aggregate-to" in label for label in role["metadata"]["labels"]):
            continue
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    found.setdefault((group, resource), set()).update(rule["verbs"])
    return found


def resource_of(kind: str) -> tuple[str, str]:
    path, plural, _ = KINDS[kind]
    group = path.removeprefix("/apis/").rpartition("/")[0] if path.startswith("/apis/") else ""
    return group, plural


USED = {
    "BusNamespace": {"get", "list", "watch", "patch"},
    "Queue": {"get", "list", "watch", "patch"},
    "Topic": {"get", "list", "watch", "patch"},
    "Subscription": {"get", "list", "watch", "patch"},
    "Namespace": {"get", "list", "watch"},
    "Secret": {"get", "list", "watch", "create", "patch", "delete"},
    "Service": {"get", "list", "watch", "create", "patch"},
    "Pod": {"list"},
    "Event": {"create", "patch"},
    "PersistentVolumeClaim": {"get", "list", "patch", "delete"},
    "StatefulSet": {"get", "list", "watch", "create", "patch", "delete"},
    "Deployment": {"get", "list", "watch", "create", "patch"},
    "PodDisruptionBudget": {"get", "list", "create", "patch", "delete"},
    "HorizontalPodAutoscaler": {"get", "list", "create", "patch", "delete"},
    "NetworkPolicy": {"get", "create", "patch"},
    "Certificate": {"create", "patch"},
    "Issuer": {"create", "patch"},
    "ValidatingWebhookConfiguration": {"get", "patch"},
    "ClusterKopfPeering": {"get", "list", "watch", "patch"},
    "KopfPeering": {"get", "list", "watch", "patch"},
}


def test_what_the_operator_uses_of_a_kind_is_written_down_here() -> None:
    assert USED.keys() == KINDS.keys()


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_operator_may_do_what_it_does(kind: str) -> None:
    values: dict[str, Any] = {"KopfPeering": NAMESPACED}
    values |= dict.fromkeys(("Certificate", "Issuer"), CERT_MANAGER)
    bodies = render(values.get(kind))

    found = rights(bodies, "ClusterRole")
    for resource, verbs in rights(bodies, "Role").items():
        found.setdefault(resource, set()).update(verbs)

    assert USED[kind] == found[resource_of(kind)]


@pytest.mark.parametrize("plural", ["busnamespaces", "queues", "topics", "subscriptions"])
def test_the_operator_may_write_status(plural: str) -> None:
    assert rights(render(), "ClusterRole")[names.GROUP, f"{plural}/status"] == {"patch"}


@pytest.mark.parametrize("values", COMBINATIONS.values(), ids=COMBINATIONS.keys())
def test_no_right_is_more_than_is_named(values: dict[str, Any]) -> None:
    bodies = render(values)
    found = [rights(bodies, kind) for kind in ("Role", "ClusterRole")]

    for resource, verbs in [pair for each in found for pair in each.items()]:
        assert "*" not in (*resource, *verbs)
        assert not verbs & {"deletecollection", "escalate", "bind", "impersonate", "update"}


def test_an_operator_of_some_namespaces_reads_no_secret_elsewhere() -> None:
    bodies = render(NAMESPACED)

    assert set(rights(bodies, "ClusterRole")) == {
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("", "namespaces"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    }
    assert {role["metadata"]["namespace"] for role in of_kind(bodies, "Role")} == {
        "shop", "till", NAMESPACE,
    }  # fmt: skip


def test_only_its_own_configuration_and_authority_may_be_written() -> None:
    bodies = render(NAMESPACED)
    rules = [rule for role in of_kind(bodies, "ClusterRole") for rule in role["rules"]]
    (webhooks,) = [r for r in rules if "validatingwebhookconfigurations" in r["resources"]]
    (own,) = [
        role for role in of_kind(bodies, "Role") if role["metadata"]["namespace"] == NAMESPACE
    ]

    assert webhooks["resourceNames"] == [
        only(bodies, "ValidatingWebhookConfiguration")["metadata"]["name"]
    ]
    assert own["rules"][0]["resourceNames"] == [operator_issuer.SECRET]
    assert [set(rule["verbs"]) for rule in own["rules"]] == [{"get", "patch"}, {"create"}]


@pytest.mark.parametrize("values", COMBINATIONS.values(), ids=COMBINATIONS.keys())
def test_every_binding_names_a_role_that_is_there_and_the_operators_account(
    values: dict[str, Any],
) -> None:
    bodies = render(values)
    account = deployment(values)["spec"]["template"]["spec"]["serviceAccountName"]

    for binding in of_kind(bodies, "RoleBinding") + of_kind(bodies, "ClusterRoleBinding"):
        roles = {
            (role["metadata"].get("namespace"), role["metadata"]["name"])
            for role in of_kind(bodies, binding["roleRef"]["kind"])
        }
        (subject,) = binding["subjects"]
        assert (binding["metadata"].get("namespace"), binding["roleRef"]["name"]) in roles
        assert (subject["namespace"], subject["name"]) == (NAMESPACE, account)


# Of people


AGGREGATED = "rbac.authorization.k8s.io/aggregate-to-"


def aggregated(bodies: list[Body], to: str) -> dict[str, set[str]]:
    """Return resource → verbs that the chart adds to a role of the cluster."""
    found: dict[str, set[str]] = {}
    for role in of_kind(bodies, "ClusterRole"):
        if role["metadata"]["labels"].get(AGGREGATED + to) == "true":
            for rule in role["rules"]:
                assert rule["apiGroups"] == [names.GROUP]
                for resource in rule["resources"]:
                    found.setdefault(resource, set()).update(rule["verbs"])
    return found


@pytest.mark.requirement("R387")
@pytest.mark.parametrize("values", [{}, NAMESPACED])
def test_who_may_edit_a_namespace_may_have_queues_there_and_who_may_view_it_sees_them(
    values: dict[str, Any],
) -> None:
    kinds = {"busnamespaces", "queues", "topics", "subscriptions"}
    bodies = render(values)

    seen = {"get", "list", "watch"}
    written = {"create", "update", "patch", "delete", "deletecollection"}
    assert aggregated(bodies, "view") == dict.fromkeys(kinds, seen)
    for role in ("edit", "admin"):
        assert aggregated(bodies, role) == dict.fromkeys(kinds, written)


@pytest.mark.requirement("R387")
@pytest.mark.parametrize("field", ["create", "aggregate"])
def test_rights_of_people_can_be_left_out(field: str) -> None:
    bodies = render({"rbac": {field: False}})

    assert aggregated(bodies, "view") == aggregated(bodies, "edit") == {}
