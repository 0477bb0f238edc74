"""What the webhooks refuse, and with which sentence."""

import copy
from typing import Any

import pytest

from bendybus.operator.decisions import plan, validation
from bendybus.operator.decisions.plan import Step
from bendybus.operator.decisions.validation import Held
from bendybus.operator.kubernetes import names
from tests.operator.manifests import bus, bus_body, changed, queue, queue_body

STANDARD: dict[str, Any] = {"sku": {"tier": "Standard"}}


def one(sentences: list[str]) -> str:
    assert len(sentences) == 1, sentences
    return sentences[0]


def test_good_manifests_are_taken() -> None:
    assert validation.check_bus(bus_body(), None) == []
    assert validation.check_entity(queue_body(), None, bus()) == []


def test_a_queue_may_come_before_its_bus() -> None:
    body = queue_body()

    assert validation.check_entity(body, None, None) == []
    assert "shop/orders" in one(validation.notes(body, None))
    assert validation.notes(body, bus()) == []


@pytest.mark.parametrize("name", ["1st", "a" * 41, "with.dot", "-x", "x-"])
def test_a_name_that_pods_cannot_carry_is_refused(name: str) -> None:
    assert "metadata.name" in one(validation.check_bus(bus_body(name), None))


@pytest.mark.parametrize("name", ["a", "a" * 40, "a-1"])
def test_names_that_pods_can_carry_are_taken(name: str) -> None:
    assert validation.check_bus(bus_body(name), None) == []


@pytest.mark.parametrize(
    "rules",
    [
        ["rootmanagesharedaccesskey"],
        ["App", "app"],
        ["Frontend-TLS"],
        ["partition-tls"],
        ["access-policies"],
    ],
)
def test_policies_whose_secrets_would_collide_are_refused(rules: list[str]) -> None:
    wanted = [{"name": name, "rights": ["Send"]} for name in rules]

    refused = one(validation.check_bus(bus_body(authorizationRules=wanted), None))

    assert refused.startswith("spec.authorizationRules: ")


@pytest.mark.requirement("R07")
@pytest.mark.parametrize(
    ("new", "field"),
    [
        ({"sku": {"tier": "Standard"}, "premiumMessagingPartitions": None}, "sku.tier"),
        ({"premiumMessagingPartitions": 4}, "premiumMessagingPartitions"),
        ({"storage": {"size": "10Gi", "storageClassName": "fast"}}, "storageClassName"),
        ({"storage": {"size": "9.5Gi"}}, "storage.size"),
    ],
)
def test_what_is_fixed_on_a_bus_is_refused(new: dict[str, Any], field: str) -> None:
    old = bus_body()

    refused = validation.check_bus(changed(old, **new), old)

    assert field in refused[0]


def test_a_volume_may_grow() -> None:
    old = bus_body(storage={"size": "1.5Gi"})

    assert validation.check_bus(changed(old, storage={"size": "1537Mi"}), old) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {"namespaceRef": {"name": "hub"}}),
        ({}, {"entityName": "other"}),
        ({}, {"enablePartitioning": True}),
        ({"enablePartitioning": True}, {"enablePartitioning": False}),
        ({}, {"requiresDuplicateDetection": True}),
    ],
)
def test_what_is_fixed_on_a_queue_is_refused(old: dict[str, Any], new: dict[str, Any]) -> None:
    before = queue_body(**old)

    refused = one(validation.check_entity(changed(before, **new), before, None))

    assert next(iter(new)) in refused


def test_to_write_a_default_out_is_no_change() -> None:
    before = queue_body()
    after = changed(before, entityName="paid", enablePartitioning=False)

    assert validation.check_entity(after, before, bus()) == []


def test_who_may_not_use_a_bus_is_refused_with_the_way_out() -> None:
    guest = queue_body(namespace="guest", namespaceRef={"name": "orders", "namespace": "shop"})

    assert "spec.allowedNamespaces" in one(validation.check_entity(guest, None, bus()))


def test_an_update_that_leaves_the_spec_alone_is_never_refused() -> None:
    """Else an object that was taken before cannot even be annotated or released."""
    guest = queue_body(namespace="guest", namespaceRef={"name": "orders", "namespace": "shop"})
    wrong = bus_body("x" * 60)

    for old, check in (
        (guest, lambda body, old: validation.check_entity(body, old, bus())),
        (wrong, validation.check_bus),
    ):
        new = copy.deepcopy(old)
        new["metadata"]["annotations"] = {names.ALLOW_DELETION_ANNOTATION: "true"}
        assert check(new, old) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"lockDuration": "PT1S"},
        {"lockDuration": "soon"},
        {"maxSizeInMegabytes": 3},
        {"maxDeliveryCount": 0},
        {"autoDeleteOnIdle": "PT1M"},
        {"forwardTo": "x", "requiresSession": True},
        {"entityName": "a//b"},
        {"nonsense": 1},
        {"maxMessageSizeInKilobytes": 2048},
        {"duplicateDetectionHistoryTimeWindow": "PT1S"},
        {"namespaceRef": {"name": "orders", "namespace": "elsewhere"}},
        {},
        {"enablePartitioning": True},
        {"requiresSession": True},
        {"status": "SendDisabled"},
    ],
    ids=str,
)
def test_webhook_and_reconciler_say_the_same(spec: dict[str, Any]) -> None:
    """A manifest that gets past a webhook that is off must not be made."""
    body, standard = queue_body(**spec), bus(**STANDARD)
    if "namespaceRef" in spec:
        standard = bus(namespace="elsewhere", **STANDARD)

    refused = validation.check_entity(body, None, standard)
    decision = plan.decide(queue(**spec), standard, None)

    assert bool(refused) == (decision.step is Step.REFUSE)
    if refused:
        assert decision.message in refused[0]


def test_only_a_deletion_that_deletes_messages_is_looked_at() -> None:
    allowed = {names.ALLOW_DELETION_ANNOTATION: "true"}

    assert validation.guards(queue_body(deletionPolicy="Delete"))
    assert not validation.guards(queue_body())
    assert not validation.guards(queue_body(deletionPolicy="Retain"))
    assert not validation.guards(queue_body(deletionPolicy="Delete", annotations=allowed))


def test_what_holds_messages_is_not_deleted() -> None:
    refused = one(validation.check_deletion("Queue 'paid'", Held(messages=3, unknown=(1,))))

    assert refused.startswith("Queue 'paid' holds 3 message(s)")
    assert names.ALLOW_DELETION_ANNOTATION in refused


def test_what_cannot_be_asked_is_not_deleted() -> None:
    refused = one(validation.check_deletion("Queue 'paid'", Held(unknown=(1, 3))))

    assert "partition(s) 1, 3 cannot say" in refused


def test_what_is_empty_is_deleted() -> None:
    assert validation.check_deletion("Queue 'paid'", Held()) == []


@pytest.mark.parametrize(
    "image", ["Upper", "UPPER CASE/x", "bus:", "bus:tag!", "-x", "bus@sha256:1"]
)
def test_what_cannot_be_an_image_is_refused_before_it_takes_a_pod_down(image: str) -> None:
    changed_to = changed(bus_body(), image=image)

    assert "spec.image" in one(validation.check_bus(changed_to, bus_body()))
    # What was taken by an older version can still be changed in other respects.
    later = changed(changed_to, deletionPolicy="Delete")
    assert validation.check_bus(later, changed_to) == []


@pytest.mark.parametrize(
    "image",
    [
        "bendybus",
        "localhost:5000/team/bendybus:0.3.0-rc.1",
        "Registry.example.org/a__b/c-d.e@sha256:" + "0" * 64,
        "bendybus:dev@sha256:" + "f" * 64,
    ],
)
def test_names_of_images_are_taken(image: str) -> None:
    assert validation.check_bus(bus_body(image=image), None) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (names.PAUSE_ANNOTATION, "yes"),
        (names.ALLOW_DELETION_ANNOTATION, "True"),
        (names.RETAINED_ANNOTATION, "keep"),
    ],
)
def test_an_annotation_without_effect_is_warned_of(name: str, value: str) -> None:
    """A bus that its owner takes for paused would be changed."""
    on_bus, on_queue = bus_body(annotations={name: value}), queue_body(annotations={name: value})

    for found in (validation.annotation_notes(on_bus), validation.notes(on_queue, bus())):
        assert f"{name}: {value!r} has no effect" in one(found)


def test_annotations_that_have_an_effect_are_not_warned_of() -> None:
    annotations = {
        names.PAUSE_ANNOTATION: "true",
        names.ALLOW_DELETION_ANNOTATION: "false",
        names.RETAINED_ANNOTATION: plan.ADOPT,
        "other": "yes",
    }

    assert validation.annotation_notes(bus_body(annotations=annotations)) == []
