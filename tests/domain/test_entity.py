"""How an entity may be named, where it lives, and how large its messages may be."""

import pytest

from bendybus.domain import entity as entities
from bendybus.domain import limits
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_settings import QueueDescription
from bendybus.domain.errors import InvalidArgument, InvalidOperation
from bendybus.domain.limits import Tier
from bendybus.domain.sub_queue import SubQueue


def entity(description: QueueDescription | None = None, count: int = 16) -> Entity:
    description = description or QueueDescription()
    return Entity("Orders", "uid", 1, Origin.CLIENT, description, count, 3, 0, 0)


# Names


@pytest.mark.parametrize("name", ["a/Subscriptions/b", "a/b/SUBSCRIPTIONS/c/d"])
def test_names_of_subscriptions_cannot_be_made_as_entities(name: str) -> None:
    with pytest.raises(InvalidArgument, match="subscriptions of topics"):
        entities.check_new_name(name)

    entities.check_name(name)  # one that is there already can be changed and deleted
    entities.check_new_name("a/Subscriptions")
    entities.check_new_name("Subscriptions/a")


@pytest.mark.parametrize(
    "name",
    [
        "q",
        "Orders",
        "a/b/c",
        "x.y-z_1",
        "q_",
        "0",
        "-",
        "q-",
        ".q",
        "_/a.",
        "Fault--X--/A",
        "a" * 260,
    ],
)
def test_names_that_can_be(name: str) -> None:
    entities.check_name(name)


@pytest.mark.parametrize(
    "name", ["", "/q", "q/", ".", "..", "a/../b", "a//b", "a b", "q$", "ü", "q\n", "a" * 261]
)
def test_names_that_cannot_be_are_refused_by_field(name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        entities.check_name(name)

    assert caught.value.field == "entityName"


# Where it lives


@pytest.mark.requirement("R01", "R05")
def test_a_partitioned_queue_is_in_all_partitions_a_plain_one_at_home() -> None:
    spread, plain = entity(), entity(count=1)

    assert list(spread.partitions()) == list(range(16))
    assert list(plain.partitions()) == [3]
    assert (spread.partitioned, plain.partitioned) == (True, False)


@pytest.mark.requirement("R40")
def test_messages_of_partitioned_premium_queues_are_at_most_a_megabyte() -> None:
    large = QueueDescription(max_message_size_in_kilobytes=102_400)

    assert entity(large).message_bytes_max(Tier.PREMIUM) == limits.MB
    assert entity(large, count=1).message_bytes_max(Tier.PREMIUM) == 100 * limits.MB
    assert entity().message_bytes_max(Tier.STANDARD) == 256 * limits.KB
    assert limits.batch_bytes_max(Tier.PREMIUM) == limits.MB


# Paths


def test_the_dead_letter_queue_is_found_by_its_path() -> None:
    assert entities.split_path("a/b") == ("a/b", SubQueue.MAIN)
    assert entities.split_path("q/$DeadLetterQueue") == ("q", SubQueue.DEAD_LETTER)
    assert entities.split_path("q/$deadletterqueue") == ("q", SubQueue.DEAD_LETTER)
    transfer = ("q", SubQueue.TRANSFER_DEAD_LETTER)
    assert entities.split_path("q/$Transfer/$DeadLetterQueue") == transfer
    assert entities.split_path("q/$transfer/$deadletterqueue") == transfer
    with pytest.raises(InvalidOperation, match="the sub-queues are"):
        entities.split_path("q/$Other")
