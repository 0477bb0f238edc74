"""Entries of the catalogue on their way, between this version and 0.12, too."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    [made] = catalogue.watch_responses(entity_pb2.Fingerprint(), told, snapshot=True)
    response = sent(made)

    found = catalogue.entries_of(response, lambda key: None)

    # Queues first.
    assert found == sorted(told, key=lambda each: each.kind is not EntityKind.QUEUE)


@given(OTHERS | QUEUES)
def test_a_copy_and_a_commit_come_back(description: Description) -> None:
    entity = entry(description)

    assert catalogue.applied(sent(catalogue.apply_request(3, [entity]))) == [entity]
    assert catalogue.committed(sent(catalogue.commit_response(entity))) == entity
    changes = entities.description_changes(entities.description_to_proto(description))
    request = sent(catalogue.commit_request(entity.kind, entity.name, changes, uid="uid"))
    assert catalogue.commit_asked(request) == (entity.kind, entity.name, changes)


def test_entries_of_a_later_kind_are_left_out() -> None:
    response = entity_pb2.WatchEntitiesResponse()
    response.entities.add(name="y", kind=99)

    assert catalogue.entries_of(response, lambda key: None) == []


def test_a_copy_of_too_many_entries_is_refused() -> None:
    entity = entities.entity_to_proto(entry(TopicDescription()))
    request = entity_pb2.ApplyEntityRequest(others=[entity] * (limits.ENTRIES_A_COPY_MAX + 1))

    with pytest.raises(InvalidArgument, match="others"):
        catalogue.applied(request)
