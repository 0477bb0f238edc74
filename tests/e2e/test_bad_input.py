"""What is refused at kubectl apply, and with which sentence."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.cluster import Cluster, CommandFailed
from tests.e2e.conftest import Installation, Space, fresh_space
from tests.operator import bad_manifests

Changes = dict[str, Any]


def refused(cluster: Cluster, *documents: Changes) -> str:
    """Return what kubectl says when it is refused."""
    with pytest.raises(CommandFailed) as found:
        cluster.apply(*documents)
    return str(found.value)


@pytest.fixture
def standard(space: Space) -> Space:
    """A namespace with a BusNamespace object; its pods do not matter here."""
    space.cluster.apply(space.manifest("BusNamespace", "bus", sku={"tier": "Standard"}))
    return space


@pytest.mark.core
def test_every_invalid_queue_is_refused_with_a_sentence_that_names_the_field(
    standard: Space,
) -> None:
    for spec, sentence in bad_manifests.QUEUES:
        said = refused(standard.cluster, standard.queue("bad", "bus", **spec))

        assert sentence in said, spec
    assert standard.cluster.list("queue", standard.name) == []


BAD_BUSES: list[tuple[str, Changes, str]] = [
    ("bad", {"sku": {"tier": "Gold"}}, "spec.sku.tier"),
    ("bad", {"premiumMessagingPartitions": 4}, "can be set only with sku.tier Premium"),
    (
        "bad",
        {"sku": {"tier": "Premium"}, "premiumMessagingPartitions": 3},
        "spec.premiumMessagingPartitions",
    ),
    ("1bad", {}, "must start with a letter"),
    ("b" * 41, {}, "no more than 40 characters"),
    ("bad", {"storage": {"size": "much"}}, "spec.storage.size"),
    (
        "bad",
        {"partitions": {"resources": {"limits": {"memory": "abc"}}}},
        "spec.partitions.resources.limits.memory",
    ),
    (
        "bad",
        {"frontend": {"hostNames": ["other-frontend.rival.svc"]}},
        "is a name inside a cluster",
    ),
    (
        "bad",
        {"frontend": {"autoscaling": {"minReplicas": 5, "maxReplicas": 2}}},
        "minReplicas 5 is more than maxReplicas 2",
    ),
    (
        "bad",
        {"authorizationRules": [{"name": "app", "rights": ["Fly"]}]},
        "spec.authorizationRules[0].rights[0]",
    ),
]


def test_every_invalid_bus_is_refused_with_a_sentence_that_names_the_field(space: Space) -> None:
    for name, spec, sentence in BAD_BUSES:
        said = refused(space.cluster, space.manifest("BusNamespace", name, **spec))

        assert sentence in said, (name, spec)
    assert space.cluster.list("busnamespace", space.name) == []


@pytest.mark.core
def test_a_path_that_no_webhook_has_would_let_all_through_so_the_paths_are_tried(
    space: Space,
) -> None:
    """Kopf allows what it does not know: only a refusal shows that a path is right."""
    space.cluster.apply(space.bus("bus", 1))

    queue = refused(space.cluster, space.queue("bad", "bus", lockDuration="PT10M"))
    bus = refused(space.cluster, space.manifest("BusNamespace", "x" * 41))

    assert 'admission webhook "queues.bendybus.io" denied' in queue
    assert 'admission webhook "busnamespaces.bendybus.io" denied' in bus


@pytest.fixture(scope="module")
def shared(installation: Installation) -> Iterator[Space]:
    """A bus of one partition, for tests that leave it as it is."""
    with fresh_space(installation, "bad-input") as space:
        space.start(space.bus("bus", 1))
        yield space


def test_a_namespace_that_may_not_use_the_bus_is_refused(shared: Space) -> None:
    space, cluster = shared, shared.cluster
    foreign = space.queue("guest", "bus")
    foreign["metadata"]["namespace"] = "default"
    foreign["spec"]["namespaceRef"]["namespace"] = space.name

    said = refused(cluster, foreign)

    assert f"namespace 'default' may not use BusNamespace {space.name}/bus" in said
    cluster.apply(space.bus("bus", 1, allowedNamespaces=["default"]))
    try:
        cluster.apply(foreign)
        cluster.await_ready("Queue", "guest", "default")
    finally:
        cluster.kubectl("delete", "queue", "guest", "-n", "default")
        cluster.apply(space.bus("bus", 1))


@pytest.mark.core
def test_a_queue_waits_for_its_bus_and_becomes_ready_when_it_appears(space: Space) -> None:
    space.cluster.apply(space.queue("early", "late"))
    waiting = space.cluster.await_reason("Queue", "early", space.name, "NamespaceNotFound")

    space.cluster.apply(space.bus("late", 1))

    assert "The queue is created when that exists" in waiting["message"]
    space.cluster.await_ready("Queue", "early", space.name)


def test_two_manifests_that_want_one_name_the_first_keeps_it(shared: Space) -> None:
    space = shared
    space.start(space.queue("first", "bus", entityName="orders"))

    space.cluster.apply(space.queue("second", "bus", entityName="ORDERS"))

    taken = space.cluster.await_reason("Queue", "second", space.name, "NameTaken")
    assert f"by the queue of manifest {space.name}/first" in taken["message"]
    space.cluster.kubectl("delete", "queue", "first", "-n", space.name)
    kept = space.cluster.await_reason("Queue", "second", space.name, "RetainedData")
    assert "bendybus.io/retained-data=adopt" in kept["message"]
    space.cluster.kubectl(
        "annotate", "queue", "second", "-n", space.name, "bendybus.io/retained-data=adopt"
    )
    space.cluster.await_ready("Queue", "second", space.name)
