"""Descriptions, entries and fingerprints ↔ protobuf: what goes in comes out."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.domain import entity_settings, limits
from bendybus.domain.entity import Entity, Fingerprint, Origin
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import EntityStatus, QueueDescription
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.limits import Tier
from bendybus.v1 import management_pb2
from bendybus.wire import entities

LONG = st.integers(0, limits.TIME_TO_LIVE_MS_MAX - 1)
DESCRIPTIONS = st.builds(
    QueueDescription,
    enable_partitioning=st.booleans(),
    lock_duration_ms=st.integers(0, 2**31),
    max_size_in_megabytes=st.integers(0, 2**31 - 1),
    max_message_size_in_kilobytes=st.integers(0, 2**31 - 1),
    requires_duplicate_detection=st.booleans(),
    duplicate_detection_history_time_window_ms=LONG,
    requires_session=st.booleans(),
    default_message_time_to_live_ms=st.none() | LONG,
    dead_lettering_on_message_expiration=st.booleans(),
    max_delivery_count=st.integers(0, 2**31 - 1),
    auto_delete_on_idle_ms=st.none() | LONG,
    status=st.sampled_from(EntityStatus),
    forward_to=st.text(max_size=5),
    forward_dead_lettered_messages_to=st.text(max_size=5),
    user_metadata=st.text(max_size=5),
)
ENTITIES = st.builds(
    Entity,
    name=st.text(max_size=5),
    uid=st.text(max_size=5),
    generation=st.integers(0, 2**63 - 1),
    origin=st.sampled_from(Origin),
    description=DESCRIPTIONS,
    partition_count=st.integers(1, 16),
    home_partition=st.integers(0, 15),
    created_at_ms=LONG,
    updated_at_ms=LONG,
    deleted=st.booleans(),
    orphaned=st.booleans(),
    manifest_uid=st.text(min_size=1, max_size=5),
    auto_deleted=st.booleans(),
    manifest_rules=st.booleans(),
    plain_numbers=st.booleans(),
)


@pytest.mark.parametrize("kind", EntityKind)
def test_the_contract_has_the_settings_of_each_kind(kind: EntityKind) -> None:
    fields = entities.changes_to_proto({}, kind).DESCRIPTOR.fields

    assert {each.name for each in fields} == {each.name for each in entity_settings.BY_KIND[kind]}
    # What an older client does not know, it does not set, and an update leaves it as it is.
    assert all(each.has_presence for each in fields)


@given(DESCRIPTIONS)
def test_a_description_comes_back(description: QueueDescription) -> None:
    sent = entities.description_to_proto(description)
    received = management_pb2.QueueDescription.FromString(sent.SerializeToString())

    assert entities.description_from_proto(received) == description


@pytest.mark.requirement("R260")
@pytest.mark.requirement("R649")
@given(ENTITIES)
def test_an_entry_comes_back(entity: Entity) -> None:
    assert entities.entity_from_proto(entities.entity_to_proto(entity)) == entity


@pytest.mark.parametrize(("origin", "manifest"), [(Origin.MANIFEST, "uid"), (Origin.CLIENT, "")])
def test_an_entry_of_an_older_server_belongs_to_the_manifest_that_made_it(
    origin: Origin, manifest: str
) -> None:
    old = Entity("orders", "uid", 4, origin, QueueDescription(), 1, 9, 0, 0)

    assert entities.entity_from_proto(entities.entity_to_proto(old)).manifest_uid == manifest


@pytest.mark.parametrize("tier", list(Tier))
def test_a_fingerprint_comes_back(tier: Tier) -> None:
    fingerprint = Fingerprint("flights", "uid", tier, 16, 3)

    assert entities.fingerprint_from_proto(entities.fingerprint_to_proto(fingerprint)) == (
        fingerprint
    )


@pytest.mark.parametrize(
    ("given_fields", "changes"),
    [
        ({}, {}),
        ({"max_delivery_count": 0}, {"max_delivery_count": 0}),
        ({"enable_partitioning": False}, {"enable_partitioning": False}),
        ({"user_metadata": ""}, {"user_metadata": ""}),
        ({"auto_delete_on_idle_ms": -1}, {"auto_delete_on_idle_ms": None}),
    ],
)
def test_what_is_not_set_is_told_from_what_is_zero(
    given_fields: dict[str, Any], changes: dict[str, Any]
) -> None:
    proto = management_pb2.QueueDescription(**given_fields)

    assert entities.description_changes(proto) == changes


def test_a_status_that_is_none_is_refused_by_its_field() -> None:
    proto = management_pb2.QueueDescription()
    proto.status = 99  # type: ignore[assignment]

    with pytest.raises(InvalidArgument) as caught:
        entities.description_changes(proto)

    assert caught.value.field == "status"


def test_clients_see_where_a_queue_lives() -> None:
    entity = Entity("Orders", "uid", 4, Origin.MANIFEST, QueueDescription(), 1, 9, 0, 0)

    seen = entities.queue_to_proto(entity)

    assert (seen.name, seen.partition_count, seen.home_partition) == ("Orders", 1, 9)
    assert seen.origin == management_pb2.ENTITY_ORIGIN_MANIFEST
