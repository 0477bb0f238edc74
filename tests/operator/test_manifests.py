"""What is known of the cluster's manifests."""

import pytest

from bendybus.crds.manifest import DeletionPolicy
from bendybus.operator.decisions import manifests
from bendybus.operator.decisions.manifests import ManifestCache
from bendybus.operator.kubernetes.names import ObjectKey
from tests.operator.manifests import BUS, bus, bus_body, queue, queue_body


def test_a_queue_names_its_bus_in_its_own_namespace_unless_it_says_another() -> None:
    own = queue()
    other = queue(namespaceRef={"name": "hub", "namespace": "infra"})
    default = manifests.entity_view({**queue_body(), "spec": {}})

    assert own.bus == BUS
    assert other.bus == ObjectKey("infra", "hub")
    assert default.bus == ObjectKey("shop", "default")


def test_a_manifest_that_cannot_be_read_is_a_view_with_problems() -> None:
    view = queue(lockDuration="soon", nonsense=1)

    assert view.manifest is None
    assert len(view.problems) == 2
    assert view.entity_name == "paid"
    assert view.deletion_policy is DeletionPolicy.RETAIN


@pytest.mark.parametrize("body", [bus_body(), queue_body()])
def test_a_status_of_a_later_version_is_no_problem(body: dict[str, object]) -> None:
    body = {**body, "status": {"invented": {"later": 1}}}

    view = (
        manifests.bus_view(body) if body["kind"] == "BusNamespace" else manifests.entity_view(body)
    )

    assert view.problems == ()
    assert view.status == {"invented": {"later": 1}}


def test_queues_are_found_by_bus_name_and_uid() -> None:
    known = ManifestCache()
    first, second = queue("a", entityName="Paid"), queue("b", entityName="paid")

    known.put_entity(first)
    known.put_entity(second)

    assert set(known.entities_of(BUS)) == {first.id, second.id}
    assert known.named(BUS, "paid") == [first, second]
    assert known.by_uid("b-1") == second
    assert known.bus_keys() == {BUS}


def test_a_queue_that_is_put_again_leaves_no_trace_of_its_former_self() -> None:
    known = ManifestCache()
    known.put_entity(queue(uid="1", entityName="old"))

    before = known.put_entity(queue(uid="2", entityName="new", namespaceRef={"name": "hub"}))

    assert before is not None
    assert before.uid == "1"
    assert known.named(BUS, "old") == []
    assert known.by_uid("1") is None
    assert known.bus_keys() == {ObjectKey("shop", "hub")}


def test_a_dropped_queue_is_nowhere() -> None:
    known = ManifestCache()
    known.put_entity(queue())

    known.drop_entity(queue().id)

    assert known.entity(queue().id) is None
    assert known.bus_keys() == set()
    assert known.drop_entity(queue().id) is None


def test_complete_lists_replace_all() -> None:
    known = ManifestCache()
    known.put_bus(bus())
    for each in (queue("stays"), queue("goes"), queue("anew", uid="1")):
        known.put_entity(each)

    known.replace([bus()], [queue("stays"), queue("anew", uid="2"), queue("comes")])

    assert known.by_uid("1") is None
    assert known.by_uid("2") is not None
    assert {known_as.key.name for known_as in known.entities_of(BUS)} == {"stays", "anew", "comes"}
    assert set(known.buses) == {BUS}
