"""Names of subscriptions, and which names of entities are theirs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.domain import entity as entities
from bendybus.domain import subscription_name
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import InvalidArgument

TOPICS = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,8}[A-Za-z0-9]\Z")
NAMES = st.from_regex(r"\A[A-Za-z0-9_][A-Za-z0-9._-]{0,8}[A-Za-z0-9_]\Z")


@given(TOPICS, NAMES)
def test_a_name_that_is_composed_is_split_again(topic: str, name: str) -> None:
    whole = subscription_name.compose(topic, name)

    entities.check_new_name(whole, EntityKind.SUBSCRIPTION)
    for spelled in (whole, whole.lower(), whole.upper()):
        split = subscription_name.split(spelled)
        assert split is not None
        assert tuple(part.lower() for part in split) == (topic.lower(), name.lower())
    assert subscription_name.family(whole.lower()) == topic.lower()
    assert whole.lower().startswith(subscription_name.keys_of(topic.lower()))


@pytest.mark.requirement("R81")
@pytest.mark.parametrize("name", ["a", "A-1_b.c", "9" * 50, "_", "_a", "a_", "__dapr__"])
def test_names_that_subscriptions_can_have(name: str) -> None:
    subscription_name.check(name)


@pytest.mark.requirement("R81")
@pytest.mark.parametrize(
    "name", ["", "a" * 51, "-a", "a-", "a/b", "a b", "$Default", "a\n", "é", ".a", "a."]
)
def test_names_that_subscriptions_cannot_have_are_refused_by_field(name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        entities.check_new_name(f"t/Subscriptions/{name}", EntityKind.SUBSCRIPTION)

    assert caught.value.field == "subscriptionName"


@pytest.mark.parametrize("name", ["t", "t/Subscriptions", "t/subscription/a"])
def test_a_subscription_names_its_topic(name: str) -> None:
    with pytest.raises(InvalidArgument, match="TOPIC/Subscriptions/NAME"):
        entities.check_new_name(name, EntityKind.SUBSCRIPTION)


def test_no_topic_has_a_name_that_would_give_its_subscriptions_to_another() -> None:
    for name in ("a/Subscriptions", "a/SUBSCRIPTIONS/b"):
        with pytest.raises(InvalidArgument, match="subscriptions of topics"):
            entities.check_new_name(name, EntityKind.TOPIC)
    entities.check_new_name("a/Subscriptions", EntityKind.QUEUE)
    entities.check_new_name("Subscriptions/a", EntityKind.TOPIC)
