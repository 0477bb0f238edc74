"""A catalogue that is larger than an answer may be travels in parts."""

import random

import pytest

from bendybus.domain import limits
from bendybus.domain.entity import Entity, Fingerprint, Origin
from bendybus.domain.entity_settings import QueueDescription, TopicDescription
from bendybus.domain.limits import Tier
from bendybus.internal.v1 import entity_pb2
from bendybus.wire import catalogue, entities
from bendybus.wire.contract_versions import FRONT_END

pytestmark = pytest.mark.requirement("R263")
MOST = 1_000
HEADER = Fingerprint("flights", "ns-1", Tier.PREMIUM, 4, 0)
Response = entity_pb2.WatchEntitiesResponse


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have parts of 1,000 bytes."""
    monkeypatch.setattr(limits, "CATALOGUE_PART_BYTES", MOST)


def entries(*sizes: int) -> list[Entity]:
    """Return entries with user metadata of these sizes; every third is a topic."""
    return [
        Entity(
            f"e{number}",
            f"u{number}",
            number + 1,
            Origin.CLIENT,
            (QueueDescription if number % 3 else TopicDescription)(user_metadata="x" * size),
            4,
            0,
            0,
            0,
        )
        for number, size in enumerate(sizes)
    ]


def told(given: list[Entity], *, snapshot: bool = True, part_bytes: int = 0) -> list[Response]:
    """Return the responses that a watcher gets."""
    header = entities.fingerprint_to_proto(HEADER)
    return list(catalogue.watch_responses(header, given, snapshot=snapshot, part_bytes=part_bytes))


def reader() -> catalogue.Parts:
    return catalogue.Parts(FRONT_END, 0, lambda key: None)


def count(part: Response) -> int:
    """Return how many entries a part has."""
    return len(part.entities)


def test_what_fits_into_one_answer_is_one_answer() -> None:
    given = entries(10, 20)

    [part] = told(given)

    assert not part.more
    news = reader().take(part)
    assert news is not None
    assert (news.fingerprint, news.snapshot) == (HEADER, True)
    assert sorted(each.name for each in news.entries) == ["e0", "e1"]


@pytest.mark.parametrize("seed", range(20))
def test_parts_are_small_and_together_what_they_were(seed: int) -> None:
    chooser = random.Random(seed)
    sizes = [chooser.choice([1, 100, 400, 900, 2_500]) for _ in range(chooser.randrange(2, 60))]
    given, later = entries(5_000, *sizes), entries(7)

    divided, following = told(given), told(later, snapshot=False)

    # An entry alone may be larger; what surrounds the entries is not counted.
    assert all(part.ByteSize() <= MOST + 200 or count(part) == 1 for part in divided)
    assert [part.snapshot for part in divided] == [True] + [False] * (len(divided) - 1)
    assert [part.more for part in divided] == [True] * (len(divided) - 1) + [False]
    parts = reader()
    read = [news for part in (*divided, *following) if (news := parts.take(part)) is not None]
    assert [news.snapshot for news in read] == [True, False]
    assert sorted(read[0].entries, key=lambda each: each.generation) == given
    assert read[1].entries == later


def test_the_watcher_says_how_large_a_part_may_be() -> None:
    given = entries(*[100] * 10)

    assert len(told(given, part_bytes=300)) > len(told(given))
    assert len(told(given, part_bytes=1 << 30)) == len(told(given))


def test_a_part_has_a_bounded_number_of_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Converting all of them at once would keep the loops of both ends for half a second."""
    monkeypatch.setattr(limits, "CATALOGUE_PART_BYTES", 1 << 24)
    most = catalogue.PART_ENTRIES_MAX

    divided = told(entries(*[1] * (2 * most + 1)))

    assert [count(part) for part in divided] == [most, most, 1]


def test_a_change_of_many_entries_is_several_changes_in_their_order() -> None:
    given = entries(*[300] * 30)

    divided = told(given, snapshot=False)

    assert len(divided) > 5
    assert not any(part.more or part.snapshot for part in divided)
    queues_first = [
        each.name
        for kind in (QueueDescription, TopicDescription)
        for each in given
        if type(each.description) is kind
    ]
    assert [each.name for part in divided for each in part.entities] == queues_first
