"""Secrets of a bus and its certificates."""

import base64
import json
from dataclasses import replace

import pytest

from bendybus.operator.builders import certificates, children, secret_files
from bendybus.operator.builders.secret_files import Policy
from tests.operator.manifests import context
from tests.operator.test_builders import LARGEST, Body


def decoded(secret: Body) -> dict[str, str]:
    return {name: base64.b64decode(text).decode() for name, text in secret["data"].items()}


def test_front_ends_get_every_policy_in_one_file() -> None:
    policy = Policy("App", ("Send",), "paid", "one", "two")

    document = json.loads(decoded(secret_files.policies(context(), [policy]))["policies.json"])

    assert document == {
        "policies": [{"name": "App", "rights": ["Send"], "entity": "paid", "keys": ["one", "two"]}]
    }


def test_an_application_gets_its_keys_as_service_bus_users_know_them() -> None:
    of = context()
    whole = secret_files.Policy("App", ("Send",), "", "one", "two")
    single = secret_files.Policy("App", ("Send",), "paid", "one", "two")
    endpoint = "sb://orders-frontend.shop.svc:7480"

    secret = secret_files.access(of, whole, "bundle")

    assert secret["metadata"]["name"] == "orders-app"
    assert decoded(secret) == {
        "primaryKey": "one",
        "secondaryKey": "two",
        "endpoint": endpoint,
        "ca.crt": "bundle",
        "primaryConnectionString": f"Endpoint={endpoint};SharedAccessKeyName=App;"
        "SharedAccessKey=one",
        "secondaryConnectionString": f"Endpoint={endpoint};SharedAccessKeyName=App;"
        "SharedAccessKey=two",
        "amqpPrimaryConnectionString": "Endpoint=sb://orders-frontend.shop.svc;"
        "SharedAccessKeyName=App;SharedAccessKey=one",
        "amqpSecondaryConnectionString": "Endpoint=sb://orders-frontend.shop.svc;"
        "SharedAccessKeyName=App;SharedAccessKey=two",
    }
    entity_string = decoded(secret_files.access(of, single, ""))["primaryConnectionString"]
    assert entity_string.endswith(";EntityPath=paid")


def test_certificates_hold_the_names_by_which_pods_are_called() -> None:
    of = context(frontend={"hostNames": ["bus.example.org"]})
    of_partitions, of_frontends = certificates.wanted(of)

    assert of_partitions.dns_names == (
        "*.orders-partition.shop.svc",
        "*.orders-partition.shop.svc.cluster.local",
    )
    assert of_partitions.uri == "spiffe://bendybus/ns/shop/bus/orders/partition"
    assert {"orders-frontend.shop.svc", "localhost", "bus.example.org"} <= set(
        of_frontends.dns_names
    )
    assert of_frontends.ip_addresses == ("127.0.0.1",)
    assert of_frontends.uri == "spiffe://bendybus/ns/shop/bus/orders/frontend"


def test_cert_manager_is_asked_for_the_same_certificates() -> None:
    of = context()

    for wanted in certificates.wanted(of):
        spec = certificates.cert_manager(of, wanted)["spec"]
        assert spec["secretName"] == wanted.secret
        assert spec["dnsNames"] == list(wanted.dns_names)
        assert spec["uris"] == [wanted.uri]
        assert spec["issuerRef"]["name"] == "ours"
        assert set(spec["usages"]) >= {"server auth", "client auth"}


def test_without_a_named_issuer_each_bus_has_one_of_its_own_in_its_namespace() -> None:
    of = replace(context(), issuer_kind="", issuer_name="", cert_manager=True)
    made = {(body["kind"], body["metadata"]["name"]): body for body in certificates.root(of)}
    root = made["Certificate", "orders.root"]["spec"]

    assert {body["metadata"]["namespace"] for body in made.values()} == {"shop"}
    assert made["Issuer", "orders.self-signed"]["spec"] == {"selfSigned": {}}
    assert root["issuerRef"]["name"] == "orders.self-signed"
    assert root["isCA"]
    assert root["privateKey"]["rotationPolicy"] == "Never"
    assert made["Issuer", "orders.root"]["spec"] == {"ca": {"secretName": root["secretName"]}}
    for wanted in certificates.wanted(of):
        spec = certificates.cert_manager(of, wanted)["spec"]
        assert spec["issuerRef"] == {
            "group": "cert-manager.io", "kind": "Issuer", "name": "orders.root",
        }  # fmt: skip


def test_the_common_name_of_a_root_is_never_too_long() -> None:
    of = replace(context(**LARGEST), issuer_name="")

    (root,) = [each for each in certificates.root(of) if each["kind"] == "Certificate"]

    assert len(root["spec"]["commonName"]) <= 64


@pytest.mark.parametrize("role", ["partition", "frontend"])
def test_with_cert_manager_pods_trust_what_the_operator_says(role: str) -> None:
    of = replace(context(), cert_manager=True)
    kind = {"partition": "StatefulSet", "frontend": "Deployment"}[role]
    (workload,) = [body for body in children.all_of(of) if body["kind"] == kind]

    (volume,) = [
        each for each in workload["spec"]["template"]["spec"]["volumes"] if each["name"] == "tls"
    ]

    certificate, trust = (each["secret"] for each in volume["projected"]["sources"])
    assert certificate["name"] == f"orders-{role}-tls"
    assert [item["path"] for item in certificate["items"]] == ["tls.crt", "tls.key"]
    assert trust == {
        "name": "orders.trust", "items": [{"key": f"{role}.crt", "path": "ca.crt"}],
    }  # fmt: skip
