"""The objects of a bus: made, grown, pruned, adopted, refused."""

import base64
from pathlib import Path
from typing import Any

import pytest

from bendybus.operator.certificates import certificate_authority
from bendybus.operator.certificates.operator_issuer import now_utc
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.api import ApiError
from tests.certificates import mount
from tests.operator.cluster import Cluster, eventually
from tests.operator.manifests import BUS, bus_body, changed, queue_body

pytestmark = pytest.mark.integration
ROOT_SECRET = "orders-rootmanagesharedaccesskey"


async def standing(cluster: Cluster, **spec: Any) -> None:
    """Have an operator and a bus that is Ready."""
    cluster.operator()
    cluster.apply(bus_body(**spec))
    await cluster.says("BusNamespace", "orders", "Available")


def change(cluster: Cluster, **spec: Any) -> int:
    """Change the bus; return the generation that it has then."""
    body = cluster.apply(changed(cluster.api.one("BusNamespace", "orders"), **spec))
    generation: int = body["metadata"]["generation"]
    return generation


async def seen(cluster: Cluster, generation: int) -> None:
    """Wait until the bus's status tells of a generation."""
    await eventually(
        lambda: (
            cluster.api.one("BusNamespace", "orders")["status"]["observedGeneration"] == generation
        )
    )


def values(secret: dict[str, Any]) -> dict[str, str]:
    return {name: base64.b64decode(text).decode() for name, text in secret["data"].items()}


async def test_all_objects_of_a_bus_are_made(cluster: Cluster) -> None:
    await standing(cluster)

    assert cluster.api.of_kind("Secret") == {
        "bendybus-ca",
        "orders.authority",
        "orders-partition-tls",
        "orders-frontend-tls",
        "orders-access-policies",
        ROOT_SECRET,
    }
    assert cluster.api.of_kind("Service") == {"orders-partition", "orders-frontend"}
    assert cluster.api.of_kind("PersistentVolumeClaim") == {
        "data-orders-partition-0",
        "data-orders-partition-1",
    }
    trust = values(cluster.api.one("Secret", ROOT_SECRET))["ca.crt"]
    assert trust == values(cluster.api.one("Secret", "orders-frontend-tls"))["ca.crt"]


async def test_what_somebody_else_changed_is_put_right(cluster: Cluster) -> None:
    await standing(cluster)
    body = cluster.api.one("Deployment", "orders-frontend")
    body["spec"]["replicas"] = 7

    cluster.api.put(body)
    cluster.api.remove("Service", "shop", "orders-frontend")

    await eventually(
        lambda: cluster.api.one("Deployment", "orders-frontend")["spec"]["replicas"] == 2
    )
    await eventually(lambda: "orders-frontend" in cluster.api.of_kind("Service"))


async def test_what_is_no_longer_wanted_is_removed(cluster: Cluster) -> None:
    rules = [{"name": "App", "rights": ["Send"]}]
    await standing(cluster, frontend={"autoscaling": {}}, authorizationRules=rules)
    assert cluster.api.of_kind("HorizontalPodAutoscaler") == {"orders-frontend"}
    assert cluster.api.of_kind("PodDisruptionBudget") == {"orders-partition", "orders-frontend"}
    assert "orders-app" in cluster.api.of_kind("Secret")
    theirs = {"name": "theirs", "namespace": "shop", "labels": {names.BUS_LABEL: "orders"}}
    cluster.api.put({"kind": "PodDisruptionBudget", "metadata": theirs, "spec": {}})

    await seen(cluster, change(cluster, frontend={"replicas": 1}, authorizationRules=[]))

    assert cluster.api.of_kind("HorizontalPodAutoscaler") == set()
    assert cluster.api.of_kind("PodDisruptionBudget") == {"orders-partition", "theirs"}
    assert "orders-app" not in cluster.api.of_kind("Secret")
    assert cluster.api.one("Deployment", "orders-frontend")["spec"]["replicas"] == 1


async def test_an_autoscaler_is_not_argued_with(cluster: Cluster) -> None:
    await standing(cluster)
    await seen(cluster, change(cluster, frontend={"autoscaling": {"maxReplicas": 5}}))
    body = cluster.api.one("Deployment", "orders-frontend")
    body["spec"]["replicas"] = 5
    cluster.api.put(body)

    await seen(cluster, change(cluster, allowedNamespaces=["guest"]))

    assert cluster.api.one("Deployment", "orders-frontend")["spec"]["replicas"] == 5


# Volumes


async def test_an_autoscaler_that_comes_later_finds_as_many_pods_as_there_were(
    cluster: Cluster,
) -> None:
    """Taking the field away would take the pods away, all but one."""
    await standing(cluster)
    change(cluster, frontend={"replicas": 6})
    await eventually(
        lambda: cluster.api.one("Deployment", "orders-frontend")["spec"].get("replicas") == 6
    )
    seen: list[int | None] = []

    def watch(_: str, body: Any) -> None:
        if body["kind"] == "Deployment":
            seen.append(body["spec"].get("replicas"))

    cluster.api.watchers.append(watch)
    change(cluster, frontend={"autoscaling": {"minReplicas": 3, "maxReplicas": 5}})
    await eventually(lambda: cluster.api.of_kind("HorizontalPodAutoscaler"))

    assert set(seen) == {5}, "clamped to what the autoscaler may choose, never 1 or none"


async def test_volumes_grow_and_the_stateful_set_is_made_anew_around_its_pods(
    cluster: Cluster,
) -> None:
    await standing(cluster)
    before = dict(cluster.partitions)
    cluster.api.lingers = 2

    await seen(cluster, change(cluster, storage={"size": "20Gi"}))

    def size(body: dict[str, Any]) -> str:
        return str(body["spec"]["resources"]["requests"]["storage"])

    for index in (0, 1):
        claim = cluster.api.one("PersistentVolumeClaim", names.volume_claim(BUS, index))
        assert size(claim) == "20Gi"
    (template,) = cluster.api.one("StatefulSet", "orders-partition")["spec"][
        "volumeClaimTemplates"
    ]  # fmt: skip
    assert size(template) == "20Gi"
    assert cluster.partitions == before
    await cluster.says("BusNamespace", "orders", "Available")


async def test_volumes_that_cannot_grow_are_said_and_the_bus_runs_on(cluster: Cluster) -> None:
    await standing(cluster)
    cluster.api.expandable = False
    old = cluster.api.one("StatefulSet", "orders-partition")

    change(cluster, storage={"size": "20Gi"})
    status = await cluster.says("BusNamespace", "orders", "StorageNotExpandable")

    assert "allowVolumeExpansion" in status["conditions"][0]["message"]
    assert cluster.api.one("StatefulSet", "orders-partition")["spec"] == old["spec"]
    cluster.apply(queue_body())
    await cluster.says("Queue", "paid", "Available")


# A bus that goes and comes


async def test_keys_are_kept_when_a_bus_is_made_again(cluster: Cluster) -> None:
    await standing(cluster)
    keys = values(cluster.api.one("Secret", ROOT_SECRET))
    cluster.api.remove("BusNamespace", "shop", "orders")
    assert cluster.api.of_kind("Secret") == {"bendybus-ca", "orders.authority", ROOT_SECRET}

    cluster.apply(bus_body(uid="bus-2", annotations={names.RETAINED_ANNOTATION: "adopt"}))
    await cluster.says("BusNamespace", "orders", "Available")

    assert values(cluster.api.one("Secret", ROOT_SECRET))["primaryKey"] == keys["primaryKey"]


async def test_a_removed_key_is_made_anew_everywhere(cluster: Cluster) -> None:
    await standing(cluster)
    secret = cluster.api.one("Secret", ROOT_SECRET)
    old = values(secret)
    del secret["data"]["primaryKey"]

    cluster.api.put(secret)
    await eventually(lambda: "primaryKey" in cluster.api.one("Secret", ROOT_SECRET)["data"])

    new = values(cluster.api.one("Secret", ROOT_SECRET))
    assert new["primaryKey"] != old["primaryKey"]
    assert new["secondaryKey"] == old["secondaryKey"]
    assert new["primaryKey"] in new["primaryConnectionString"]
    await eventually(
        lambda: (
            new["primaryKey"]
            in values(cluster.api.one("Secret", "orders-access-policies"))["policies.json"]
        )
    )


@pytest.mark.parametrize(("choice", "uid"), [("adopt", "paid-1"), ("purge", "paid-1")])
async def test_a_bus_made_again_wants_a_word_about_the_volumes(
    cluster: Cluster, choice: str, uid: str
) -> None:
    await standing(cluster)
    cluster.apply(queue_body())
    await cluster.says("Queue", "paid", "Available")
    cluster.api.remove("BusNamespace", "shop", "orders")
    await cluster.says("Queue", "paid", "NamespaceNotFound")
    assert len(cluster.api.of_kind("PersistentVolumeClaim")) == 2
    cluster.apply(bus_body(uid="bus-2"))
    await cluster.says("BusNamespace", "orders", "RetainedData")
    assert cluster.api.of_kind("StatefulSet") == set()
    await cluster.says("Queue", "paid", "NamespaceNotReady")

    cluster.annotate("BusNamespace", "orders", retained_data=choice)

    await cluster.says("BusNamespace", "orders", "Available")
    status = await cluster.says("Queue", "paid", "Available")
    assert status["entityUid"] == uid
    assert cluster.identities[BUS][0] == {"adopt": "bus-1", "purge": "bus-2"}[choice]


async def test_a_bus_with_the_policy_delete_takes_its_volumes_along(cluster: Cluster) -> None:
    await standing(cluster, deletionPolicy="Delete")

    cluster.api.remove("BusNamespace", "shop", "orders")

    await eventually(lambda: cluster.api.of_kind("PersistentVolumeClaim") == set())
    assert cluster.api.of_kind("Secret") == {"bendybus-ca"}


async def test_a_bus_that_was_only_refused_takes_no_volumes_along(cluster: Cluster) -> None:
    await standing(cluster)
    cluster.api.remove("BusNamespace", "shop", "orders")
    cluster.apply(bus_body(uid="bus-2", deletionPolicy="Delete"))
    await cluster.says("BusNamespace", "orders", "RetainedData")

    cluster.api.remove("BusNamespace", "shop", "orders")
    cluster.apply(bus_body(uid="bus-3"))
    await cluster.says("BusNamespace", "orders", "RetainedData")

    assert len(cluster.api.of_kind("PersistentVolumeClaim")) == 2


async def test_the_operator_lives_on_when_buses_go_while_they_are_counted(
    cluster: Cluster,
) -> None:
    cluster.operator(counts_every_s=0.001)
    annotations = {names.RETAINED_ANNOTATION: "adopt"}
    for number in range(5):
        cluster.apply(bus_body(uid=f"bus-{number}", annotations=annotations))
        await cluster.says("BusNamespace", "orders", "Available")
        cluster.api.remove("BusNamespace", "shop", "orders")

    assert not cluster.operators[0].task.done()


# What cannot be made


@pytest.mark.parametrize("kind", ["StatefulSet", "PodDisruptionBudget", "Secret"])
async def test_a_refusal_of_the_api_server_is_said(cluster: Cluster, kind: str) -> None:
    cluster.api.refusals["apply", kind] = ApiError(403, "exceeded quota: tight")
    cluster.operator()
    cluster.apply(bus_body())

    status = await cluster.says("BusNamespace", "orders", "Refused")
    cluster.api.refusals.clear()
    change(cluster, allowedNamespaces=["guest"])

    assert "exceeded quota: tight" in status["conditions"][0]["message"]
    await cluster.says("BusNamespace", "orders", "Available")


@pytest.mark.parametrize("kind", ["Service", "Deployment", "Secret"])
async def test_an_object_of_somebody_else_is_not_taken_over(cluster: Cluster, kind: str) -> None:
    name = "orders-frontend-tls" if kind == "Secret" else "orders-frontend"
    theirs = {"kind": kind, "metadata": {"name": name, "namespace": "shop"}, "status": {}}
    cluster.api.put({**theirs, "spec": {"mine": True}})
    cluster.operator()
    cluster.apply(bus_body())

    status = await cluster.says("BusNamespace", "orders", "Refused")

    assert f"{kind} '{name}' already exists" in status["conditions"][0]["message"]
    assert cluster.api.one(kind, name)["spec"] == {"mine": True}


async def test_keys_of_another_bus_are_not_taken_over(cluster: Cluster) -> None:
    cluster.operator()
    cluster.apply(bus_body("orders-x", uid="other"))
    await cluster.says("BusNamespace", "orders-x", "Available")
    theirs = cluster.api.one("Secret", "orders-x-rootmanagesharedaccesskey")
    rule = {"name": "x-RootManageSharedAccessKey", "rights": ["Listen"]}

    cluster.apply(bus_body("orders", authorizationRules=[rule]))

    await cluster.says("BusNamespace", "orders", "Refused")
    assert cluster.api.one("Secret", "orders-x-rootmanagesharedaccesskey") == theirs


async def test_a_broken_authority_is_said_and_mended_by_deleting_it(cluster: Cluster) -> None:
    secret = {"name": "bendybus-ca", "namespace": "bendybus-system"}
    nonsense = base64.b64encode(b"\xff\x00").decode()
    cluster.api.put(
        {"kind": "Secret", "metadata": secret, "type": "Opaque", "data": {"tls.crt": nonsense}}
    )
    cluster.operator()
    cluster.apply(bus_body())

    status = await cluster.says("BusNamespace", "orders", "Refused")
    cluster.api.remove("Secret", "bendybus-system", "bendybus-ca")
    change(cluster, allowedNamespaces=["guest"])

    assert (
        "bendybus-system/bendybus-ca does not hold a certificate authority"
        in (status["conditions"][0]["message"])
    )
    await cluster.says("BusNamespace", "orders", "Available")


async def test_a_certificate_that_somebody_spoiled_is_issued_anew(cluster: Cluster) -> None:
    await standing(cluster)
    secret = cluster.api.one("Secret", "orders-frontend-tls")
    secret["data"]["tls.key"] = base64.b64encode(b"\xff\xfe").decode()

    cluster.api.put(secret)

    await eventually(
        lambda: (
            values(cluster.api.one("Secret", "orders-frontend-tls"))["tls.key"].startswith(
                "-----BEGIN PRIVATE KEY-----"
            )
            if cluster.api.one("Secret", "orders-frontend-tls")["data"]["tls.key"] != "//4="
            else False
        )
    )
    await cluster.says("BusNamespace", "orders", "Available")


async def test_with_cert_manager_applications_get_no_secret_without_whom_to_trust(
    cluster: Cluster, tmp_path: Path
) -> None:
    """A pod that mounts it is started as soon as it is there, with what is in it then."""
    own = certificate_authority.new_authority(now_utc())
    files = {name: text.encode() for name, text in own.to_files().items()}
    tls = mount(tmp_path / "operator-tls", files["tls.crt"], files["tls.key"], files["ca.crt"])
    cluster.operator(cert_manager=True, client_tls_directory=tls)
    cluster.apply(bus_body())
    await eventually(lambda: "orders-frontend" in cluster.api.of_kind("Deployment"))
    before = cluster.api.of_kind("Secret")

    root = certificate_authority.new_authority(now_utc())
    data = {
        name: base64.b64encode(text.encode()).decode() for name, text in root.to_files().items()
    }
    made = cluster.api.one("Certificate", "orders.root")["spec"]
    metadata = {"name": made["secretName"], "namespace": "shop", **made["secretTemplate"]}
    cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})

    assert before == set()
    await eventually(lambda: ROOT_SECRET in cluster.api.of_kind("Secret"))
    assert values(cluster.api.one("Secret", ROOT_SECRET))["ca.crt"] == root.bundle
    await eventually(lambda: "orders-access-policies" in cluster.api.of_kind("Secret"))


async def test_a_bus_of_cert_managers_is_left_as_it_is_by_an_operator_that_is_to_sign(
    cluster: Cluster,
) -> None:
    """Its pods trust what cert-manager issued: new certificates would end it at once."""
    await standing(cluster)
    before = cluster.api.one("StatefulSet", "orders-partition")
    metadata = {"name": "orders.trust", "namespace": "shop"}
    cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})

    change(cluster, image="localhost/bendybus:other")

    status = await cluster.says("BusNamespace", "orders", "Refused")
    assert "certManager.enabled=true" in status["conditions"][0]["message"]
    assert cluster.api.one("StatefulSet", "orders-partition") == before
