"""How a partition is brought up to date: what goes together, in which order, and past what."""

from collections.abc import Sequence

import pytest

from bendybus.domain import directory, errors, limits
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_settings import (
    Description,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)

MOST = limits.ENTRIES_A_COPY_MAX


def entry(name: str, generation: int, description: Description) -> Entity:
    """Return an entry."""
    return Entity(name, f"uid-{name}", generation, Origin.CLIENT, description, 4, 0, 0, 0)


def topic(name: str, generation: int) -> Entity:
    """Return a topic's entry."""
    return entry(name, generation, TopicDescription())


def subscriptions(of: str, count: int, first: int) -> list[Entity]:
    """Return entries of subscriptions, with generations from `first` on."""
    names = (f"{of}/Subscriptions/s{number}" for number in range(count))
    return [entry(name, first + n, SubscriptionDescription()) for n, name in enumerate(names)]


class Partition:
    """Takes entries, but nothing of what it refuses."""

    def __init__(self, refuses: Sequence[str] = (), error: type[errors.BusError] | None = None):
        self.calls: list[list[str]] = []
        self._refuses, self._error = refuses, error or errors.InvalidOperation

    async def take(self, entries: Sequence[Entity]) -> None:
        """Take all, or none."""
        self.calls.append([each.name for each in entries])
        if any((each.topic_key or each.key) in self._refuses for each in entries):
            raise self._error("no.")


@pytest.mark.requirement("R264")
async def test_a_queue_goes_alone_and_topics_together_in_their_order() -> None:
    partition = Partition()
    queues = [entry(name, at, QueueDescription()) for at, name in enumerate(("a", "b"))]
    sales = [topic("sales", 3), *subscriptions("sales", 2, 4)]

    refused = await directory.copy([queues[0], *sales, queues[1]], partition.take)

    assert not refused
    assert partition.calls == [["a"], ["b"], [each.name for each in sales]]


@pytest.mark.requirement("R264")
async def test_what_follows_a_refused_change_of_a_topic_waits_also_in_later_calls() -> None:
    partition = Partition(refuses=("sales",))
    sales = [topic("sales", 1), *subscriptions("sales", MOST, 2)]
    news = [topic("news", 9_000), *subscriptions("news", 3, 9_001)]

    [refused] = await directory.copy([*sales, *news], partition.take)

    assert refused.metadata["entity"] == "sales"
    whole, family, rest = partition.calls
    assert whole == family == [each.name for each in sales[:MOST]]
    assert rest == [each.name for each in news]


@pytest.mark.requirement("R264")
async def test_a_refused_queue_keeps_nothing_else_from_being_taken() -> None:
    partition = Partition(refuses=("a",))
    entries = [*(entry(n, at, QueueDescription()) for at, n in enumerate("ab")), topic("t", 3)]

    [refused] = await directory.copy(entries, partition.take)

    assert refused.metadata["entity"] == "a"
    assert partition.calls == [["a"], ["b"], ["t"]]


@pytest.mark.requirement("R264")
async def test_what_may_be_taken_later_ends_the_attempt() -> None:
    partition = Partition(refuses=("a",), error=errors.PartitionUnavailable)
    entries = [entry(name, at, QueueDescription()) for at, name in enumerate("ab")]

    with pytest.raises(errors.PartitionUnavailable) as caught:
        await directory.copy(entries, partition.take)

    assert caught.value.metadata["entity"] == "a"
    assert partition.calls == [["a"]]
