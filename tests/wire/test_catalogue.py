"""Entries of topics and subscriptions never reach a peer of 0.4 as queues."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.domain import entity as domain_entity
from bendybus.domain import limits
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import (
    Description,
    EntityStatus,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from bendybus.domain.errors import InvalidArgument
from bendybus.internal.v1 import entity_pb2
from bendybus.wire import catalogue, entities
from tests.domain.filters.rule_strategies import RULES

LONG = st.none() | st.integers(0, limits.TIME_TO_LIVE_MS_MAX - 1)
OTHERS = st.builds(
    TopicDescription,
    enable_partitioning=st.booleans(),
    default_message_time_to_live_ms=LONG,
    auto_delete_on_idle_ms=LONG,
    status=st.sampled_from(TopicDescription.statuses),
    user_metadata=st.text(max_size=5),
) | st.builds(
    SubscriptionDescription,
    default_message_time_to_live_ms=LONG,
    dead_lettering_on_filter_evaluation_exceptions=st.booleans(),
    status=st.sampled_from(SubscriptionDescription.statuses),
    forward_to=st.text(max_size=5),
    rules=st.lists(RULES, max_size=3).map(tuple),
)
QUEUES = st.builds(QueueDescription, status=st.sampled_from(EntityStatus))


def entry(description: Description) -> Entity:
    """Return an entry of the description's kind."""
    name = "t/Subscriptions/s" if description.kind is EntityKind.SUBSCRIPTION else "t"
    return Entity(name, "uid", 7, Origin.CLIENT, description, 4, 1, 0, 0)


def sent(message: Any) -> Any:
    """Return a message as the other end reads it."""
    return type(message).FromString(message.SerializeToString())


@given(st.lists(OTHERS | QUEUES))
def test_a_catalogue_comes_back(descriptions: list[Description]) -> None:
    told = [entry(each) for each in descriptions]
    response = sent(catalogue.watch_response(entity_pb2.Fingerprint(), told, snapshot=True))

    found = catalogue.entries_of(response)

    # Queues first: where peers of 0.4 look for entries.
    assert found == sorted(told, key=lambda each: each.kind is not EntityKind.QUEUE)
    assert catalogue.kinds_of(response) == frozenset(EntityKind)


@given(OTHERS | QUEUES)
def test_a_copy_and_a_commit_come_back(description: Description) -> None:
    entity = entry(description)

    assert catalogue.applied(sent(catalogue.apply_request(3, [entity]))) == [entity]
    assert catalogue.committed(sent(catalogue.commit_response(entity))) == entity
    changes = entities.description_changes(entities.description_to_proto(description))
    request = sent(catalogue.commit_request(entity.kind, entity.name, changes, uid="uid"))
    assert catalogue.commit_asked(request) == (entity.kind, entity.name, changes)


# A peer of 0.4 reads `entities`, `entity`, `name` and `queue`.


@pytest.mark.requirement("R87")
@given(OTHERS)
def test_a_watcher_of_0_4_sees_no_topics(description: Description) -> None:
    told = [entry(QueueDescription()), entry(description)]
    response = catalogue.watch_response(entity_pb2.Fingerprint(), told, snapshot=True)

    assert [entities.entity_from_proto(each) for each in response.entities] == told[:1]


@pytest.mark.requirement("R87")
@given(OTHERS)
def test_a_partition_of_0_4_refuses_a_copy_of_a_topic(description: Description) -> None:
    request = catalogue.apply_request(3, [entry(description)])

    with pytest.raises(InvalidArgument, match="entityName"):
        # What it does: take the entry, then check its name.
        domain_entity.check_entry(entities.entity_from_proto(request.entity))


@pytest.mark.requirement("R87")
@given(OTHERS)
def test_a_registrar_of_0_4_refuses_to_make_a_topic(description: Description) -> None:
    changes = entities.description_changes(entities.description_to_proto(description))
    request = catalogue.commit_request(description.kind, "t", changes)

    assert (request.name, request.HasField("queue")) == ("", False)
    with pytest.raises(InvalidArgument, match="entityName"):
        domain_entity.check_name(request.name)


@pytest.mark.requirement("R87")
def test_a_partition_of_0_4_can_keep_queues_only() -> None:
    assert catalogue.kinds_of(entity_pb2.WatchEntitiesResponse()) == {EntityKind.QUEUE}


def test_requests_of_0_4_are_about_queues() -> None:
    commit = entity_pb2.CommitEntityRequest(name="q")
    commit.queue.max_delivery_count = 3
    copy = entity_pb2.ApplyEntityRequest()
    copy.entity.CopyFrom(entities.entity_to_proto(entry(QueueDescription())))
    copy.entity.ClearField("kind")

    assert catalogue.commit_asked(commit) == (EntityKind.QUEUE, "q", {"max_delivery_count": 3})
    assert catalogue.applied(copy) == [entry(QueueDescription())]


def test_entries_of_a_later_kind_are_left_out() -> None:
    response = entity_pb2.WatchEntitiesResponse(kinds=[entity_pb2.ENTITY_KIND_QUEUE, 99])  # type: ignore[list-item]
    response.others.add(name="x", kind=99)

    assert catalogue.entries_of(response) == []
    assert catalogue.kinds_of(response) == {EntityKind.QUEUE}


def test_a_copy_of_too_many_entries_is_refused() -> None:
    entity = entities.entity_to_proto(entry(TopicDescription()))
    request = entity_pb2.ApplyEntityRequest(others=[entity] * (limits.ENTRIES_A_COPY_MAX + 1))

    with pytest.raises(InvalidArgument, match="others"):
        catalogue.applied(request)


@pytest.mark.requirement("R100")
def test_a_queue_with_sessions_is_not_copied_to_a_peer_of_04_as_one_without() -> None:
    queue = entry(QueueDescription(requires_session=True))

    request = sent(catalogue.apply_request(3, [queue]))

    assert not request.HasField("entity")
    assert catalogue.applied(request) == [queue]


@pytest.mark.requirement("R100")
def test_a_front_end_of_04_cannot_create_a_queue_with_sessions() -> None:
    request = catalogue.commit_request(EntityKind.QUEUE, "q", {"requires_session": True})
    assert catalogue.commit_asked(sent(request))[2] == {"requires_session": True}

    request.ClearField("kind")

    with pytest.raises(InvalidArgument, match="Finish the upgrade"):
        catalogue.commit_asked(sent(request))
