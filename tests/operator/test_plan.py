"""Decisions for one queue: manifest, bus and entry in, one step or refusal out."""

from dataclasses import replace
from typing import Any

import pytest

from bendybus.crds.manifest import DeletionPolicy
from bendybus.domain import errors
from bendybus.domain.entity import Origin
from bendybus.domain.entity_settings import QueueDescription
from bendybus.operator.decisions import plan
from bendybus.operator.decisions.manifests import EntityView
from bendybus.operator.decisions.plan import ManifestDeletion, Step
from bendybus.operator.decisions.reasons import Reason
from bendybus.operator.kubernetes import names
from tests.operator import manifests
from tests.operator.manifests import bus, entry, queue, subscription, topic

ADOPT = {names.RETAINED_ANNOTATION: "adopt"}
PURGE = {names.RETAINED_ANNOTATION: "purge"}
STANDARD: dict[str, Any] = {"sku": {"tier": "Standard"}}


def test_a_queue_without_an_entry_is_created_as_its_bus_keeps_it() -> None:
    decision = plan.decide(queue(), bus(), None)

    assert decision.step is Step.CREATE
    assert isinstance(decision.wanted, QueueDescription)
    # Premium of two partitions: every entity is spread over them.
    assert decision.wanted.enable_partitioning


def test_a_queue_that_is_as_asked_needs_nothing() -> None:
    decision = plan.decide(queue(), bus(), entry(queue()))

    assert decision.step is Step.NOTHING


def test_a_changed_field_is_an_update() -> None:
    wanted = queue(maxDeliveryCount=3)

    decision = plan.decide(wanted, bus(), entry(queue()))

    assert decision.step is Step.UPDATE
    assert decision.wanted is not None
    assert decision.wanted.max_delivery_count == 3


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"enablePartitioning": True}, Reason.PARTITIONING_IMMUTABLE),
        ({"requiresDuplicateDetection": True}, Reason.FIELD_IMMUTABLE),
    ],
)
def test_what_is_fixed_is_never_updated(fields: dict[str, Any], reason: Reason) -> None:
    standard = bus(**STANDARD)

    decision = plan.decide(queue(**fields), standard, entry(queue(), standard))

    assert (decision.step, decision.reason) == (Step.REFUSE, reason)
    assert next(iter(fields)) in decision.message


def test_a_queue_waits_for_its_bus() -> None:
    decision = plan.decide(queue(), None, None)

    assert (decision.step, decision.reason) == (Step.REFUSE, Reason.NAMESPACE_NOT_FOUND)
    assert "'orders'" in decision.message


def test_a_queue_of_another_namespace_needs_the_buss_leave() -> None:
    guest = queue(namespace="guest", namespaceRef={"name": "orders", "namespace": "shop"})

    refused = plan.decide(guest, bus(), None)
    allowed = plan.decide(guest, bus(allowedNamespaces=["guest"]), None)

    assert refused.reason is Reason.NAMESPACE_NOT_ALLOWED
    assert "allowedNamespaces" in refused.message
    assert allowed.step is Step.CREATE


def test_a_queue_of_a_bus_that_is_no_valid_manifest_waits() -> None:
    broken = bus(sku={"tier": "Gold"})

    assert plan.decide(queue(), broken, None).reason is Reason.NAMESPACE_NOT_READY


def test_a_manifest_with_a_problem_is_refused_with_its_sentence() -> None:
    decision = plan.decide(queue(lockDuration="soon"), bus(), None)

    assert decision.reason is Reason.INVALID_SPEC
    assert decision.message.startswith("spec.lockDuration: ")


WITH_SESSIONS = {"forwardTo": "x", "requiresSession": True}


@pytest.mark.parametrize(
    "fields",
    [{"lockDuration": "PT1S"}, {"entityName": "a//b"}, {"forwardTo": "a b"}, WITH_SESSIONS],
)
def test_a_value_that_the_domain_refuses_is_refused(fields: dict[str, Any]) -> None:
    decision = plan.decide(queue(**fields), bus(), None)

    assert (decision.step, decision.reason) == (Step.REFUSE, Reason.INVALID_SPEC)
    assert next(iter(fields)) in decision.message


def test_the_tier_decides_which_sizes_there_are() -> None:
    wanted = queue(maxSizeInMegabytes=40_960)

    assert plan.decide(wanted, bus(), None).step is Step.CREATE
    assert plan.decide(wanted, bus(**STANDARD), None).reason is Reason.INVALID_SPEC


def test_a_name_that_another_manifest_has_is_taken() -> None:
    first, second = queue("first", entityName="Paid"), queue("second", entityName="paid")

    decision = plan.decide(second, bus(), entry(first), rival=first)

    assert decision.reason is Reason.NAME_TAKEN
    assert "by the queue of manifest shop/first" in decision.message


def test_a_name_that_a_client_made_is_taken() -> None:
    made = entry(queue(), origin=Origin.CLIENT, manifest_uid="", uid="x")

    decision = plan.decide(queue(), bus(), made)

    assert decision.reason is Reason.NAME_TAKEN
    assert "by a queue that an administration call created" in decision.message


@pytest.mark.requirement("R262")
def test_a_name_that_is_taken_names_the_kind_that_has_it() -> None:
    mine, theirs = topic("sales"), queue("other", entityName="Sales")

    by_manifest = plan.decide(mine, bus(), entry(theirs), rival=theirs)
    by_client = plan.decide(
        queue("sales"), bus(), entry(mine, origin=Origin.CLIENT, manifest_uid="", uid="x")
    )

    assert by_manifest.message == (
        "the name 'sales' is taken on this bus by the queue of manifest shop/other. Choose another "
        "spec.entityName, or delete that queue first."
    )
    assert by_client.message == (
        "the name 'sales' is taken on this bus by a topic that an administration call created. "
        "Choose another spec.entityName, or delete that topic first."
    )


@pytest.mark.requirement("R262")
@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (
            queue(entityName="a"),
            queue(entityName="b"),
            "spec.entityName cannot be changed after creation: the manifest is that of queue 'a', "
            "not of 'b'.",
        ),
        (topic(entityName="a"), topic(), "spec.entityName cannot be changed after creation"),
        (
            subscription(),
            subscription(topicName="other"),
            "spec.topicName cannot be changed after creation: the manifest is that of "
            "subscription 'sales/Subscriptions/audit', not of 'other/Subscriptions/audit'.",
        ),
        (subscription(), subscription(entityName="b"), "spec.entityName cannot be changed"),
    ],
)
@pytest.mark.parametrize("facts", [{}, {"deleted": True}, {"orphaned": True}])
def test_a_name_that_changes_is_refused_by_its_field(
    before: EntityView, after: EntityView, sentence: str, facts: dict[str, Any]
) -> None:
    decision = plan.decide(after, bus(), None, own=entry(before, **facts), topic=None)

    assert (decision.step, decision.reason) == (Step.REFUSE, Reason.FIELD_IMMUTABLE)
    assert sentence in decision.message


def test_a_name_that_differs_in_case_only_is_the_same() -> None:
    made = entry(queue(entityName="Paid"))

    assert plan.decide(queue(entityName="paid"), bus(), made, own=made).step is Step.NOTHING


def test_a_subscription_that_went_with_its_topic_is_made_again_with_the_next_one() -> None:
    view = subscription()
    gone = entry(view, deleted=True, updated_at_ms=5)

    without = plan.decide(view, bus(), gone, own=gone)
    again = plan.decide(view, bus(), gone, own=gone, topic=entry(topic(), created_at_ms=6))

    assert without.reason is Reason.TOPIC_NOT_FOUND
    assert again.step is Step.CREATE


def test_a_name_whose_manifest_is_gone_is_on_its_way_to_be_released() -> None:
    decision = plan.decide(queue(uid="paid-2"), bus(), entry(queue()))

    assert (decision.step, decision.reason) == (Step.REFUSE, Reason.PROGRESSING)


def test_the_tombstone_of_another_manifest_does_not_matter() -> None:
    decision = plan.decide(queue(uid="paid-2"), bus(), entry(queue(), deleted=True))

    assert decision.step is Step.CREATE


def test_what_autodelete_took_is_not_made_again_by_the_same_manifest() -> None:
    tombstone = entry(queue(), deleted=True, auto_deleted=True)

    same = plan.decide(queue(), bus(), tombstone)
    new = plan.decide(queue(uid="paid-2"), bus(), tombstone)

    assert (same.step, same.reason) == (Step.REFUSE, Reason.AUTO_DELETED)
    assert new.step is Step.CREATE


def test_what_an_administrator_deleted_is_not_made_again_by_the_same_manifest() -> None:
    decision = plan.decide(queue(), bus(), entry(queue(), deleted=True))

    assert (decision.step, decision.reason) == (Step.REFUSE, Reason.REFUSED)


def test_an_orphan_of_another_manifest_wants_a_word() -> None:
    orphan = entry(queue(), orphaned=True)

    silent = plan.decide(queue(uid="paid-2"), bus(), orphan)
    adopting = plan.decide(queue(uid="paid-2", annotations=ADOPT), bus(), orphan)
    purging = plan.decide(queue(uid="paid-2", annotations=PURGE), bus(), orphan)

    assert silent.reason is Reason.RETAINED_DATA
    assert f"{names.RETAINED_ANNOTATION}=adopt" in silent.message
    assert adopting.step is Step.ADOPT
    assert purging.step is Step.PURGE


def test_a_purged_name_is_created_anew() -> None:
    again = queue(uid="paid-2", annotations=PURGE)

    decision = plan.decide(again, bus(), entry(queue(), deleted=True))

    assert decision.step is Step.CREATE


def test_an_orphan_whose_own_manifest_is_back_continues() -> None:
    decision = plan.decide(queue(), bus(), entry(queue(), orphaned=True))

    assert decision.step is Step.ADOPT


def test_an_orphan_of_another_partitioning_is_not_adopted() -> None:
    standard = bus(**STANDARD)
    orphan = entry(queue(enablePartitioning=True), standard, orphaned=True)

    decision = plan.decide(queue(uid="paid-2", annotations=ADOPT), standard, orphan)

    assert decision.reason is Reason.PARTITIONING_IMMUTABLE


def test_names_of_entities_are_compared_without_case() -> None:
    loud = queue("loud", entityName="PAID")

    decision = plan.decide(loud, bus(), entry(queue()), rival=queue())

    assert decision.reason is Reason.NAME_TAKEN


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errors.PartitioningImmutable("x"), Reason.PARTITIONING_IMMUTABLE),
        (errors.InvalidArgument("a", "b"), Reason.INVALID_SPEC),
        (errors.RetainedData("x"), Reason.RETAINED_DATA),
        (errors.PartitionUnavailable("x"), Reason.PARTITION_UNAVAILABLE),
        (errors.ServerBusy("x"), Reason.PARTITION_UNAVAILABLE),
        (errors.ManagedByManifest("x"), Reason.REFUSED),
    ],
)
def test_every_refusal_of_the_registrar_has_a_reason(
    error: errors.BusError, reason: Reason
) -> None:
    assert plan.reason_of(error) is reason


def test_orphans_are_what_has_no_manifest_and_did_not_just_leave() -> None:
    entries = [
        entry(queue("kept")),
        entry(queue("lost")),
        entry(queue("leaving")),
        entry(queue("known-orphan"), orphaned=True),
        entry(queue("gone"), deleted=True),
        entry(queue("clients"), origin=Origin.CLIENT, manifest_uid=""),
    ]

    found = plan.orphans(entries, {"kept-1"}, {"leaving-1"})

    assert found == ["lost"]


def test_a_departure_can_be_made_to_keep_the_data() -> None:
    deletion = ManifestDeletion("paid-1", "paid", "shop", DeletionPolicy.DELETE)

    assert deletion.retained() == replace(deletion, policy=DeletionPolicy.RETAIN)


def test_an_entry_is_as_the_manifest_asks_whatever_the_tier() -> None:
    for spec in ({}, STANDARD, {"sku": {"tier": "Basic"}}, {"premiumMessagingPartitions": 1}):
        view = manifests.bus(**spec)

        assert plan.decide(queue(), view, entry(queue(), view)).step is Step.NOTHING


@pytest.mark.parametrize("choice", ["adopt", "purge"])
def test_what_another_namespace_left_is_had_only_with_a_word_of_the_bus(choice: str) -> None:
    reference = {"name": "orders", "namespace": "shop"}
    annotations = {names.RETAINED_ANNOTATION: choice}
    thief = queue(namespace="guest", uid="g-1", namespaceRef=reference, annotations=annotations)
    left = entry(queue(), orphaned=True)
    closed, open_ = (
        bus(allowedNamespaces=["guest", "other"]),
        bus(
            allowedNamespaces=["guest", "other"],
            annotations={names.RETAINED_TO_ANNOTATION: "other, guest"},
        ),
    )

    refused = plan.decide(thief, closed, left)
    taken = plan.decide(thief, open_, left)
    own = plan.decide(queue(uid="paid-2", annotations=annotations), closed, left)

    assert (refused.step, refused.reason) == (Step.REFUSE, Reason.RETAINED_DATA)
    assert f"{names.RETAINED_TO_ANNOTATION}=guest" in refused.message
    assert taken.step is own.step is {"adopt": Step.ADOPT, "purge": Step.PURGE}[choice]


def test_a_manifest_of_another_namespace_that_came_back_continues_what_is_its_own() -> None:
    reference = {"name": "orders", "namespace": "shop"}
    guest = queue(namespace="guest", namespaceRef=reference)

    decision = plan.decide(guest, bus(allowedNamespaces=["guest"]), entry(guest, orphaned=True))

    assert decision.step is Step.ADOPT


# Tiers


@pytest.mark.requirement("R200")
def test_what_a_basic_bus_lacks_is_refused_of_a_new_queue_and_goes_on_of_an_old_one() -> None:
    basic = bus(sku={"tier": "Basic"})
    view = queue(requiresDuplicateDetection=True)

    new = plan.decide(view, basic, None)
    old = plan.decide(view, basic, entry(view, basic))
    topic_there = plan.decide(topic(), basic, None)

    assert (new.step, new.reason) == (Step.REFUSE, Reason.INVALID_SPEC)
    assert "requiresDuplicateDetection: needs a namespace of tier Standard" in new.message
    assert old.step is Step.NOTHING
    assert topic_there.reason is Reason.INVALID_SPEC
