"""What a bus is made of: the facts about each object that must not change by accident."""

from dataclasses import replace
from typing import Any

import pytest

from bendybus.domain.limits import Tier
from bendybus.frontend import __main__ as frontend_command
from bendybus.frontend.settings import Settings as FrontendSettings
from bendybus.operator.builders import certificates, children, frontend, partitions, secret_files
from bendybus.operator.builders.context import Context
from bendybus.operator.builders.secret_files import Policy
from bendybus.operator.decisions import validation
from bendybus.operator.decisions.storage import Identity
from bendybus.operator.kubernetes import names
from bendybus.partition_server import arguments
from tests.operator.manifests import context

Body = dict[str, Any]
PEERS = "BENDYBUS_PARTITION_PEER"
HOST_NAMES = "BENDYBUS_HOST_NAMES"


def find(made: list[Body], kind: str, name: str) -> Body:
    (found,) = [b for b in made if b["kind"] == kind and b["metadata"]["name"] == name]
    return found


def everything(of: Context) -> list[Body]:
    """Return every object that the operator may apply for a bus."""
    policy = Policy("App", ("Send",), "", "one", "two")
    return [
        *children.all_of(of),
        secret_files.tls(of, "partition", {}),
        secret_files.tls(of, "frontend", {}),
        secret_files.policies(of, [policy]),
        secret_files.access(of, policy, ""),
        secret_files.trust(of, {}),
        *certificates.root(of),
        *(certificates.cert_manager(of, each) for each in certificates.wanted(of)),
    ]


def pods(of: Context) -> list[Body]:
    made = children.all_of(of)
    return [b["spec"]["template"]["spec"] for b in made if b["kind"] in KINDS_WITH_PODS]


KINDS_WITH_PODS = ("StatefulSet", "Deployment")
SCALED = {"frontend": {"autoscaling": {"minReplicas": 3}}}
LARGEST = {"name": "b" * validation.BUS_NAME_CHARS_MAX, "sku": {"tier": "Standard"}}


def test_pods_are_restricted_and_hold_no_token() -> None:
    for pod in pods(context()):
        (container,) = pod["containers"]
        security = pod["securityContext"]

        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert security["runAsNonRoot"] is True
        assert security["runAsUser"] == security["runAsGroup"] == security["fsGroup"] == 10001
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        kinds = {kind for volume in pod["volumes"] for kind in volume if kind != "name"}
        assert kinds <= {"secret", "emptyDir"}
        assert "hostNetwork" not in pod


@pytest.mark.requirement("R387")
def test_the_user_can_be_left_to_the_cluster() -> None:
    for pod in pods(replace(context(), run_as_user=0)):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert not {"runAsUser", "runAsGroup", "fsGroup"} & pod["securityContext"].keys()


@pytest.mark.requirement("R387")
def test_pods_pull_their_image_with_the_secrets_that_are_named() -> None:
    assert all("imagePullSecrets" not in pod for pod in pods(context()))
    for pod in pods(replace(context(), image_pull_secrets=("a", "b"))):
        assert pod["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]


def test_probes_speak_grpc_to_the_plain_health_port() -> None:
    for pod in pods(context()):
        (container,) = pod["containers"]
        port = {each["name"]: each["containerPort"] for each in container["ports"]}["health"]

        assert container["livenessProbe"]["grpc"] == {"port": port, "service": "live"}
        assert container["startupProbe"]["grpc"] == {"port": port, "service": "live"}
        assert container["readinessProbe"]["grpc"] == {"port": port}


def test_a_pod_has_time_to_drain() -> None:
    for pod in pods(context()):
        (container,) = pod["containers"]
        drain_s = float(option(container, "drain-s"))
        pre_stop_s = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {})

        assert pod["terminationGracePeriodSeconds"] > drain_s + pre_stop_s.get("seconds", 0)


def option(container: Body, name: str) -> str:
    (found,) = [each for each in container["args"] if each.startswith(f"--{name}=")]
    return found.partition("=")[2]


def test_secrets_are_in_files_never_in_arguments_or_the_environment() -> None:
    for pod in pods(context()):
        (container,) = pod["containers"]

        for each in container.get("env", []):
            # Their values are not confidential: addresses and names.
            known = (PEERS, "BENDYBUS_AMQPS_LISTEN", "BENDYBUS_HTTP_LISTEN", HOST_NAMES)
            assert "fieldRef" in each.get("valueFrom", {}) or each["name"] in known, each
        for mount in container["volumeMounts"]:
            assert mount.get("readOnly") or mount["name"] in ("tmp", "data")


@pytest.mark.parametrize(
    ("spec", "count"),
    [({}, 2), ({"premiumMessagingPartitions": 16}, 16), ({"sku": {"tier": "Basic"}}, 16)],
)
def test_there_is_a_pod_for_every_partition(spec: dict[str, Any], count: int) -> None:
    made = partitions.stateful_set(context(**spec))

    assert made["spec"]["replicas"] == count
    assert made["spec"]["podManagementPolicy"] == "Parallel"
    assert made["spec"]["serviceName"] == "orders-partition"


def test_replicas_follow_the_volumes_not_the_manifest() -> None:
    of = context()
    foreign = Context(**{**_fields(of), "identity": Identity("x", Tier.PREMIUM, 8)})

    assert partitions.stateful_set(foreign)["spec"]["replicas"] == 8


def _fields(of: Context) -> dict[str, Any]:
    return {name: getattr(of, name) for name in Context.__slots__}


def test_volumes_are_retained_and_belong_to_nobody() -> None:
    made = partitions.stateful_set(context(storage={"size": "3Gi", "storageClassName": "fast"}))
    (claim,) = made["spec"]["volumeClaimTemplates"]

    assert made["spec"]["persistentVolumeClaimRetentionPolicy"] == {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    }
    assert "ownerReferences" not in claim["metadata"]
    assert claim["metadata"]["annotations"] == {
        "bendybus.io/namespace-uid": "data-1",
        "bendybus.io/tier": "Premium",
        "bendybus.io/partition-count": "2",
    }
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"]["requests"] == {"storage": "3Gi"}


def test_without_a_storage_class_the_cluster_chooses() -> None:
    (claim,) = partitions.stateful_set(context())["spec"]["volumeClaimTemplates"]

    assert "storageClassName" not in claim["spec"]


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_all_goes_with_the_bus_but_volumes_and_the_keys_of_kept_data(policy: str) -> None:
    for body in everything(context(deletionPolicy=policy)):
        owners = body["metadata"].get("ownerReferences", [])
        is_access = body["metadata"]["labels"].get(names.ROLE_LABEL) == "access"

        assert bool(owners) == (not is_access or policy == "Delete"), body["metadata"]["name"]
        for owner in owners:
            assert (owner["kind"], owner["uid"], owner["controller"]) == (
                "BusNamespace", "bus-1", True,
            )  # fmt: skip


@pytest.mark.requirement("R214")
def test_partition_servers_understand_their_arguments() -> None:
    (container,) = pods(context())[0]["containers"]
    given = [each.replace("$(BENDYBUS_POD_INDEX)", "1") for each in container["args"]]

    parsed = arguments.parser().parse_args([*container["command"][3:], *given])
    variables = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    settings = arguments.settings(parsed, variables)

    assert container["command"][:3] == ["python3", "-m", "bendybus.partition_server"]
    assert settings.namespace_uid == "data-1"
    assert (settings.partition_count, settings.partitions) == (2, (1,))
    assert settings.tier is Tier.PREMIUM
    assert settings.bus_identity == "spiffe://bendybus/ns/shop/bus/orders"
    assert settings.peer == {
        0: "orders-partition-0.orders-partition.shop.svc:7490",
        1: "orders-partition-1.orders-partition.shop.svc:7490",
    }
    assert settings.listen.endswith(":7490")
    assert settings.health_listen.endswith(":7491")


def test_partition_servers_of_the_last_version_understand_their_arguments() -> None:
    """A bus may pin an image of the version before the operator's."""
    (container,) = pods(context())[0]["containers"]

    options = {each.partition("=")[0] for each in container["args"]}

    assert options == {
        *("--data", "--namespace-name", "--namespace-uid", "--tier", "--partition-count"),
        *("--partitions", "--listen", "--health-listen", "--metrics-port", "--tls-directory"),
        *("--bus-identity", "--drain-s"),
    }


def test_addresses_of_peers_that_cannot_be_read_are_refused() -> None:
    parsed = arguments.parser().parse_args(
        ["serve", "--data=/d", "--partitions=0", "--namespace-uid=u"]
    )

    with pytest.raises(ValueError, match=f"{PEERS}: 'a:1' is not INDEX=HOST:PORT"):
        arguments.settings(parsed, {PEERS: "a:1"})


def test_front_ends_understand_their_arguments() -> None:
    (container,) = pods(context())[1]["containers"]

    options = vars(
        frontend_command._parser().parse_args([*container["command"][3:], *container["args"]])
    )
    del options["command"]
    settings = FrontendSettings(partitions=dict(options.pop("partition")), **options)
    settings.validate()

    assert container["command"][:3] == ["python3", "-m", "bendybus.frontend"]
    assert settings.partitions == {
        0: "orders-partition-0.orders-partition.shop.svc:7490",
        1: "orders-partition-1.orders-partition.shop.svc:7490",
    }
    assert settings.max_connection_age_s > 0
    assert str(settings.access_policies) == "/etc/bendybus/access/policies.json"


def test_the_index_of_a_pod_is_its_partition() -> None:
    (container,) = pods(context())[0]["containers"]
    variable = container["env"][0]
    path = variable["valueFrom"]["fieldRef"]["fieldPath"]

    assert path == "metadata.labels['apps.kubernetes.io/pod-index']"
    assert option(container, "partitions") == f"$({variable['name']})"


def test_the_autoscaler_alone_says_how_many_front_ends_there_are() -> None:
    plain, scaled = children.all_of(context()), children.all_of(context(**SCALED))

    assert find(plain, "Deployment", "orders-frontend")["spec"]["replicas"] == 2
    assert "replicas" not in find(scaled, "Deployment", "orders-frontend")["spec"]
    scaler = find(scaled, "HorizontalPodAutoscaler", "orders-frontend")["spec"]
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (3, 10)
    assert scaler["scaleTargetRef"]["name"] == "orders-frontend"
    assert "HorizontalPodAutoscaler" not in {body["kind"] for body in plain}


@pytest.mark.parametrize(
    ("spec", "budgets"),
    [
        ({}, {"orders-partition", "orders-frontend"}),
        ({"frontend": {"replicas": 1}}, {"orders-partition"}),
        ({"premiumMessagingPartitions": 1}, {"orders-frontend"}),
        ({"frontend": {"autoscaling": {"minReplicas": 1}}}, {"orders-partition"}),
    ],
)
def test_a_budget_is_only_where_a_pod_can_be_spared(
    spec: dict[str, Any], budgets: set[str]
) -> None:
    made = children.all_of(context(**spec))

    found = {b["metadata"]["name"]: b for b in made if b["kind"] == "PodDisruptionBudget"}

    assert set(found) == budgets
    assert all(body["spec"]["maxUnavailable"] == 1 for body in found.values())


def test_partitions_are_named_before_they_are_ready() -> None:
    made = partitions.service(context())["spec"]

    assert made["clusterIP"] == "None"
    assert made["publishNotReadyAddresses"] is True


def test_a_rollout_of_front_ends_takes_no_ready_pod_away() -> None:
    strategy = frontend.deployment(context())["spec"]["strategy"]

    assert strategy["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}


def test_selectors_and_pods_have_the_same_labels() -> None:
    for of in (context(), context(**LARGEST)):
        made = children.all_of(of)
        for kind, name in (
            ("StatefulSet", names.partition_set(of.bus)),
            ("Deployment", names.frontend(of.bus)),
        ):
            template = find(made, kind, name)["spec"]["template"]["metadata"]["labels"]
            assert find(made, kind, name)["spec"]["selector"]["matchLabels"] == template
            assert find(made, "Service", name)["spec"]["selector"] == template
            assert find(made, "NetworkPolicy", name)["spec"]["podSelector"]["matchLabels"] == (
                template
            )


def test_every_name_of_the_longest_bus_is_one_that_kubernetes_takes() -> None:
    for body in everything(context(**LARGEST, **SCALED)):
        limit = 253 if body["kind"] in ("Secret", "Certificate") else 52
        assert len(body["metadata"]["name"]) <= limit
        for value in body["metadata"]["labels"].values():
            assert len(value) <= 63


def test_only_the_bus_and_the_operator_may_call_partitions() -> None:
    policy = children.partition_policy(context())["spec"]
    calls, probes, _metrics = policy["ingress"]

    assert policy["policyTypes"] == ["Ingress"]
    assert calls["ports"] == [{"protocol": "TCP", "port": 7490}]
    bus_roles = [peer["podSelector"]["matchLabels"].get(names.ROLE_LABEL) for peer in calls["from"]]
    assert bus_roles == ["frontend", "partition", None]
    assert calls["from"][2] == {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "bendybus-system"}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/component": "operator"}},
    }
    assert [port["port"] for port in probes["ports"]] == [7491]


def test_clients_reach_front_ends_from_anywhere() -> None:
    rule, _metrics = children.frontend_policy(context())["spec"]["ingress"]

    assert "from" not in rule
    assert {port["port"] for port in rule["ports"]} == {7480, 5671, 8443, 7481}


def test_resources_of_the_manifest_stand_over_modest_requests() -> None:
    of = context(partitions={"resources": {"requests": {"cpu": 2}, "limits": {"memory": "1Gi"}}})
    (container,) = pods(of)[0]["containers"]

    assert container["resources"] == {
        "requests": {"cpu": 2, "memory": "128Mi"},
        "limits": {"memory": "1Gi"},
    }


def test_budgets_let_pods_go_that_serve_nobody() -> None:
    for budget in (
        partitions.disruption_budget(context()),
        frontend.disruption_budget(context()),
    ):
        assert budget is not None
        assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


@pytest.mark.requirement("R390")
def test_metrics_of_a_bus_are_for_labelled_namespaces_or_who_is_named() -> None:
    prometheus = {"podSelector": {"matchLabels": {"app": "prometheus"}}}
    labelled = {"namespaceSelector": {"matchLabels": {names.METRICS_LABEL: "true"}}}

    for made, expected in (
        (context(), [labelled]),
        (replace(context(), metrics_from=(prometheus,)), [prometheus]),
    ):
        for policy, port in (
            (children.partition_policy(made), names.PARTITION_METRICS_PORT),
            (children.frontend_policy(made), names.FRONTEND_METRICS_PORT),
        ):
            (rule,) = [
                each
                for each in policy["spec"]["ingress"]
                if port in [asked["port"] for asked in each["ports"]]
            ]
            assert rule["from"] == expected
            assert len(rule["ports"]) == 1
