"""Names stay within what Kubernetes takes, for the longest bus that admission lets in."""

import re

from bendybus.domain import limits
from bendybus.operator.decisions import validation
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.names import ObjectKey

LONGEST = ObjectKey("n" * 63, "b" * validation.BUS_NAME_CHARS_MAX)
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
PARTITIONS = max(limits.STANDARD_PARTITION_COUNT, *limits.PREMIUM_PARTITION_COUNTS)


def test_names_of_services_and_pods_are_labels_of_dns() -> None:
    pod = f"{names.partition_set(LONGEST)}-{PARTITIONS - 1}"
    # The controller's label on every pod: the set's name and a hash of ten characters.
    revision = f"{names.partition_set(LONGEST)}-{'0' * 10}"

    for name in (names.partition_set(LONGEST), names.frontend(LONGEST), pod, revision):
        assert len(name) <= 63
        assert LABEL.match(name)


def test_labels_have_values_that_kubernetes_takes() -> None:
    for value in names.role_labels(LONGEST, "partition").values():
        assert len(value) <= 63


def test_names_of_secrets_and_claims_are_domain_names() -> None:
    rule = "R" * 50
    made = (
        names.access_secret(LONGEST, rule),
        names.partition_tls(LONGEST),
        names.frontend_tls(LONGEST),
        names.policies(LONGEST),
        names.volume_claim(LONGEST, PARTITIONS - 1),
    )

    for name in made:
        assert len(name) <= 253
        assert LABEL.match(name)


def test_the_address_of_a_partition_is_its_pod_in_the_headless_service() -> None:
    address = names.partition_address(ObjectKey("shop", "orders"), 3)

    assert address == "orders-partition-3.orders-partition.shop.svc:7490"


def test_the_identity_names_the_namespace_and_the_bus() -> None:
    identity = names.bus_identity(ObjectKey("shop", "orders"))

    assert identity == "spiffe://bendybus/ns/shop/bus/orders"
