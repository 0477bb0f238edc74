"""A catalogue that is larger than an answer may be travels in parts."""

import random

import pytest

from bendybus.domain import limits
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import InvalidArgument
from bendybus.internal.v1 import entity_pb2
from bendybus.wire import catalogue, entities

MOST = 1_000


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have parts of 1,000 bytes."""
    monkeypatch.setattr(limits, "CATALOGUE_PART_BYTES", MOST)


def answer(*sizes: int, snapshot: bool = True) -> entity_pb2.WatchEntitiesResponse:
    """Return a catalogue whose entries have names of these sizes; every third is a topic."""
    made = entity_pb2.WatchEntitiesResponse(
        snapshot=snapshot,
        knows_sessions=True,
        knows_delays=True,
        kinds=[entities.kind_to_proto(kind) for kind in EntityKind],
    )
    made.fingerprint.namespace_name = "flights"
    for number, size in enumerate(sizes):
        into = made.entities if number % 3 else made.others
        into.add(name=f"{number}-{'x' * size}")
    return made


@pytest.mark.requirement("R263")
def test_what_fits_into_one_answer_is_that_answer() -> None:
    whole = answer(10, 20)

    [part] = catalogue.parts(whole)

    assert part is whole
    assert catalogue.Parts().whole(part) is whole
    assert not part.more


@pytest.mark.requirement("R263")
@pytest.mark.parametrize("seed", range(20))
def test_parts_are_small_and_together_what_they_were(seed: int) -> None:
    chooser = random.Random(seed)
    sizes = [chooser.choice([1, 100, 400, 900, 2_500]) for _ in range(chooser.randrange(2, 60))]
    whole, following = answer(5_000, *sizes), answer(7, snapshot=False)

    divided = list(catalogue.parts(whole))
    # An entry alone may be larger; what surrounds the entries is not counted.
    assert all(
        part.ByteSize() <= MOST + 200 or len(part.entities) + len(part.others) == 1
        for part in divided
    )
    assert [part.snapshot for part in divided] == [True] + [False] * (len(divided) - 1)
    assert [part.more for part in divided] == [True] * (len(divided) - 1) + [False]
    reader = catalogue.Parts()
    read = [reader.whole(part) for part in (*divided, following)]

    assert [found for found in read if found is not None] == [whole, following]


@pytest.mark.requirement("R263")
def test_a_change_of_many_entries_is_several_changes_in_their_order() -> None:
    whole = answer(*[300] * 30, snapshot=False)

    divided = list(catalogue.parts(whole))

    assert len(divided) > 5
    assert not any(part.more or part.snapshot for part in divided)
    assert [e.name for part in divided for e in part.others] == [e.name for e in whole.others]
    assert [e.name for part in divided for e in part.entities] == [e.name for e in whole.entities]


@pytest.mark.requirement("R263")
def test_a_reader_takes_no_more_bytes_than_it_has_room_for() -> None:
    divided = list(catalogue.parts(answer(*[400] * 20)))
    reader = catalogue.Parts(4_000)

    assert [reader.whole(part) for part in divided[:4]] == [None] * 4
    with pytest.raises(InvalidArgument, match="at most 4000 bytes"):
        reader.whole(divided[4])
