"""What front ends and the operator know of entities, from what the partitions tell."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.domain import errors, limits
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Entity, Fingerprint, Origin
from bendybus.domain.entity_settings import QueueDescription, SubscriptionDescription
from bendybus.domain.filters import rule_set
from bendybus.domain.filters.rule import CorrelationFilter, Filter, Rule, SqlFilter, TrueFilter
from bendybus.domain.lifecycle import EntityState
from bendybus.domain.limits import Tier
from bendybus.domain.sub_queue import SubQueue
from tests.work import steps

FINGERPRINT = Fingerprint("n", "u", Tier.STANDARD, 4, 0)


def queue(name: str = "orders", generation: int = 1, **fields: Any) -> Entity:
    """Return a queue's entry."""
    entry = Entity(name, f"uid-{name}", generation, Origin.CLIENT, QueueDescription(), 4, 2, 0, 0)
    return replace(entry, **fields)


def test_names_are_found_without_regard_to_case_and_with_sub_queue() -> None:
    directory = Directory()
    directory.update(0, FINGERPRINT, [queue("Orders")], snapshot=True)

    assert directory.lookup("ORDERS")[1] is SubQueue.MAIN
    assert directory.lookup("orders/$deadletterqueue") == (queue("Orders"), SubQueue.DEAD_LETTER)
    with pytest.raises(errors.InvalidOperation):
        directory.lookup("orders/$other")


def test_an_unknown_name_is_not_found_but_only_when_somebody_could_know() -> None:
    directory = Directory()
    with pytest.raises(errors.PartitionUnavailable):
        directory.lookup("orders")

    directory.update(0, FINGERPRINT, [], snapshot=True)

    with pytest.raises(errors.EntityNotFound, match="orders"):
        directory.lookup("orders")


@pytest.mark.requirement("R84")
def test_what_a_partition_lacks_comes_oldest_first() -> None:
    directory = Directory()
    names = "eacbd"
    given = [queue(name, generation) for generation, name in enumerate(names, 1)]
    for entry in reversed(given):
        directory.update(0, FINGERPRINT, [entry], snapshot=False)
    directory.update(1, replace(FINGERPRINT, partition=1), [], snapshot=True)

    assert directory.lagging(1) == given


def test_the_highest_generation_is_the_truth_whoever_brought_it() -> None:
    directory = Directory()
    newer = replace(queue(), generation=5)
    directory.update(0, FINGERPRINT, [newer], snapshot=True)

    directory.update(1, FINGERPRINT, [queue()], snapshot=True)

    assert directory.lookup("orders")[0] == newer
    assert directory.lagging(1) == [newer]
    assert directory.lagging(0) == []


def test_a_partition_that_was_away_cannot_bring_a_deleted_queue_back() -> None:
    directory = Directory()
    tombstone = replace(queue(), generation=5, deleted=True)
    directory.update(0, FINGERPRINT, [tombstone], snapshot=True)

    directory.update(1, FINGERPRINT, [queue()], snapshot=True)

    with pytest.raises(errors.EntityNotFound):
        directory.lookup("orders")
    assert directory.lagging(1) == [tombstone]


def test_a_snapshot_replaces_what_was_known_of_a_partition() -> None:
    directory = Directory()
    directory.update(0, FINGERPRINT, [queue()], snapshot=True)
    directory.update(1, FINGERPRINT, [queue()], snapshot=True)

    directory.update(1, FINGERPRINT, [], snapshot=True)

    assert directory.lagging(1) == [queue()]


def test_nothing_lags_where_nothing_is_known() -> None:
    directory = Directory()
    directory.update(0, FINGERPRINT, [queue()], snapshot=True)
    directory.forget(0)

    assert directory.lagging(0) == directory.lagging(1) == []


def test_an_orphan_exists_but_is_not_among_the_live() -> None:
    directory = Directory()
    orphan = queue(orphaned=True)
    directory.update(0, FINGERPRINT, [orphan, queue("other", 2)], snapshot=True)

    assert directory.lookup("orders") == (orphan, SubQueue.MAIN)
    assert directory.by_uid(orphan.uid) == orphan
    assert [entry.name for entry in directory.live()] == ["other"]
    assert directory.orphaned() == [orphan]
    assert directory.tombstones() == []


def test_an_entity_goes_from_one_list_to_the_other_with_its_state() -> None:
    directory = Directory()
    seen = []

    changes: tuple[dict[str, Any], ...] = ({}, {"orphaned": True}, {"deleted": True}, {})
    for number, change in enumerate(changes, 1):
        entry = queue(generation=number, **change)
        directory.update(0, FINGERPRINT, [entry], snapshot=False)
        lists = (directory.live(), directory.orphaned(), directory.tombstones())
        seen.append([len(each) for each in lists])

    assert seen == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]


def test_only_the_newest_deletions_are_remembered_and_the_others_copied_to_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "TOMBSTONES_MAX", 10)
    directory = Directory()
    directory.update(0, FINGERPRINT, [queue("kept", 1)], snapshot=True)
    directory.update(1, FINGERPRINT, [], snapshot=True)

    for number in range(2, 14):
        gone = queue(f"q{number}", number, deleted=True, manifest_uid=f"m{number}")
        directory.update(0, FINGERPRINT, [gone], snapshot=False)

    assert [each.generation for each in directory.tombstones()] == list(range(4, 14))
    assert directory.lagging(1) == [directory.entry("kept"), *directory.tombstones()]
    assert directory.by_manifest_uid("m3") is None
    assert directory.by_manifest_uid("m4") is not None
    assert directory.entry("q3") is None


def test_pages_are_by_name_and_say_whether_there_is_more() -> None:
    directory = Directory()
    entries = [queue(name, number) for number, name in enumerate("dbca", 1)]
    directory.update(0, FINGERPRINT, [*entries, queue("aa", 9, orphaned=True)], snapshot=True)

    first, more = directory.page("", 3, with_orphaned=False)
    last, no_more = directory.page(first[-1].key, 3, with_orphaned=False)
    everything, _ = directory.page("", 9, with_orphaned=True)

    assert [entry.name for entry in first + last] == ["a", "b", "c", "d"]
    assert (more, no_more) == (True, False)
    assert [entry.name for entry in everything] == ["a", "aa", "b", "c", "d"]


def test_a_page_shows_what_was_made_and_deleted_since_the_last() -> None:
    directory = Directory()
    directory.update(0, FINGERPRINT, [queue("a"), queue("b", 2)], snapshot=True)
    directory.page("", 9, with_orphaned=False)

    directory.update(0, FINGERPRINT, [queue("a", 3, deleted=True), queue("c", 4)], snapshot=False)

    page, _ = directory.page("", 9, with_orphaned=False)
    assert [entry.name for entry in page] == ["b", "c"]


def test_the_entry_of_a_manifest_is_found_in_every_state() -> None:
    directory = Directory()
    changes: tuple[dict[str, Any], ...] = ({}, {"orphaned": True}, {"deleted": True})
    for number, change in enumerate(changes, 1):
        entry = queue(generation=number, manifest_uid="m", **change)
        directory.update(0, FINGERPRINT, [entry], snapshot=False)

        assert directory.by_manifest_uid("m") == entry


def test_after_an_adoption_only_the_new_manifest_has_the_entity() -> None:
    directory = Directory()
    directory.update(0, FINGERPRINT, [queue(manifest_uid="old", orphaned=True)], snapshot=True)
    adopted = queue(generation=2, manifest_uid="new")

    directory.update(0, FINGERPRINT, [adopted], snapshot=False)

    assert directory.by_manifest_uid("old") is None
    assert directory.by_manifest_uid("new") == adopted
    assert directory.by_uid(adopted.uid) == adopted


def test_holders_are_the_partitions_that_are_known_to_have_the_current_entry() -> None:
    directory = Directory()
    newer = queue(generation=2)
    directory.update(0, FINGERPRINT, [newer], snapshot=True)
    directory.update(1, FINGERPRINT, [queue()], snapshot=True)
    directory.update(2, FINGERPRINT, [], snapshot=True)

    assert directory.holders("orders") == [0]
    assert directory.lacking("orders", range(4)) == [1, 2, 3]

    directory.update(1, FINGERPRINT, [newer], snapshot=False)
    directory.forget(0)
    assert directory.holders("orders") == [1]
    assert directory.holders("unknown") == []


@pytest.mark.requirement("R87")
def test_a_change_that_a_partition_took_does_not_say_what_else_it_has() -> None:
    directory = Directory()
    directory.update(1, FINGERPRINT, [queue("audit")], snapshot=True)

    directory.update(0, FINGERPRINT, [queue()], snapshot=False)

    assert directory.lookup("orders")[0] == queue()
    assert not directory.heard(0)
    assert (directory.lagging(0), directory.lagging(1)) == ([], [queue()])


UPDATES = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 6)), max_size=3),
        st.sampled_from(["change", "snapshot", "forget"]),
    ),
    max_size=12,
)


@given(UPDATES)
def test_who_lags_is_what_a_look_at_everything_would_find(
    updates: list[tuple[int, list[tuple[str, int]], str]],
) -> None:
    directory = Directory()
    has: dict[int, dict[str, int]] = {}
    best: dict[str, int] = {}

    for partition, told, what in updates:
        if what == "forget":
            directory.forget(partition)
            has.pop(partition, None)
            continue
        entries = [queue(name, generation) for name, generation in told]
        directory.update(partition, FINGERPRINT, entries, snapshot=what == "snapshot")
        known = {} if what == "snapshot" else has.get(partition, {})
        if what == "snapshot":
            has[partition] = known
        for name, generation in told:
            known[name] = max(generation, known.get(name, 0))
            best[name] = max(generation, best.get(name, 0))

    for partition in range(3):
        known = has.get(partition, best)
        behind = [(best[name], name) for name in best if known.get(name, 0) < best[name]]
        lagging = [(entry.generation, entry.name) for entry in directory.lagging(partition)]
        assert sorted(lagging) == sorted(behind)
        assert lagging == sorted(lagging, key=lambda pair: pair[0])
        for name in best:
            holds = partition in has and known.get(name, 0) == best[name]
            assert (partition in directory.holders(name)) is holds


def test_a_change_costs_the_same_however_many_entities_there_are() -> None:
    directory = Directory()
    for partition in range(16):
        directory.update(partition, FINGERPRINT, [], snapshot=True)

    def fill(numbers: range) -> None:
        for number in numbers:
            for partition in range(16):
                entry = queue(f"q{number}", number + 1, deleted=number % 2 == 0)
                directory.update(partition, FINGERPRINT, [entry], snapshot=False)

    def change() -> int:
        """Return the work of one creation that comes to every partition, one after the other."""
        entry = queue("new", 1_000_000 + len(directory.live()))

        def learn() -> None:
            for partition in range(16):
                directory.update(partition, FINGERPRINT, [entry], snapshot=False)
                assert len(directory.lagging(partition)) == 0
                assert len(directory.holders("new")) == partition + 1
            directory.forget(3)
            directory.by_manifest_uid("m")

        return steps(learn)

    fill(range(20))
    few = change()
    directory.update(3, FINGERPRINT, directory.live() + directory.tombstones(), snapshot=True)
    fill(range(20, 2_000))
    many = change()

    assert EntityState.LIVE is directory.lookup("new")[0].state
    assert few > 500
    assert many <= few * 1.1


def test_a_subscription_that_does_not_exist_is_called_one() -> None:
    directory = Directory()
    directory.update(0, FINGERPRINT, [], snapshot=True)

    with pytest.raises(errors.EntityNotFound, match="there is no subscription 'news/Subs"):
        directory.lookup("news/Subscriptions/a/$DeadLetterQueue")


def subscription(name: str, generation: int, *filters: Filter, **fields: Any) -> Entity:
    """Return the entry of a subscription of the topic `news` with a rule for each filter."""
    rules = tuple(Rule(f"r{number}", each) for number, each in enumerate(filters))
    described = SubscriptionDescription(rules=rule_set.of(rules))
    return queue(
        f"news/Subscriptions/{name}", generation, uid=name, description=described, **fields
    )


def test_the_filters_of_a_topic_are_counted_as_they_change() -> None:
    directory = Directory()
    label = CorrelationFilter(label="l")
    counts = [directory.filter_counts("news")]
    for entry in (
        subscription("a", 1, TrueFilter(), label, label),
        subscription("b", 2, SqlFilter("x = 1")),
        # Two rules less, an orphan, and one that is deleted.
        subscription("a", 3, label),
        subscription("b", 4, SqlFilter("x = 1"), orphaned=True),
        subscription("a", 5, label, deleted=True),
        # What is older than what is known changes nothing.
        subscription("b", 3, label),
        subscription("b", 6, deleted=True),
    ):
        directory.update(0, FINGERPRINT, [entry], snapshot=False)
        counts.append(directory.filter_counts("news"))

    assert counts == [(0, 0), (1, 2), (2, 2), (1, 1), (1, 1), (1, 0), (1, 0), (0, 0)]


def test_a_topic_with_many_rules_is_counted_as_fast_as_one_with_few() -> None:
    """Its listing is written in one turn of an event loop."""

    def counting(rules: int) -> int:
        directory = Directory()
        entry = subscription("a", 1, *[TrueFilter()] * rules)
        directory.update(0, FINGERPRINT, [entry], snapshot=True)
        return steps(lambda: directory.filter_counts("news"))

    assert 0 < counting(2_000) == counting(2)
