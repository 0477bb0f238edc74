"""Copies of a batch go into each subscription as a run: the same rows, in order, however stored."""

import pytest

from bendybus.domain.filters.rule import CorrelationFilter, Rule, SqlRuleAction, TrueFilter
from bendybus.partition_server.store.records import Changes, Copies, Row, SlotState, row_id
from tests.partition_server.conftest import MakeStore
from tests.partition_server.driver import Driver
from tests.partition_server.publishing import head, properties_of, publish, receive, rows, set_rules
from tests.partition_server.topic_changes import UPDATE, make_news, subscription

SLOTS = range(5)


def run(start: int, count: int, *, times_ms: dict[int, int] | None = None) -> Copies:
    """Return copies of messages in all slots, with numbers from `start` on."""
    made = Copies()
    for n in range(start, start + count):
        row = Row(0, 0, 9, 5_000 + n, 0, 7, 0, f"m{n}", "key", "s", b"%d" % n, 1, b"h" * n)
        if n % 2:
            row = row._replace(changed_properties=b"c", dead_letter_reason="r", extra_bytes=2)
        made.add(row, 70 + n, None)
    times_ms = times_ms or {}
    made.places += [(row_id(slot, start), times_ms.get(slot, 1_000)) for slot in SLOTS]
    return made


@pytest.mark.requirement("R114")
def test_the_file_has_all_columns_in_each_queue(make_store: MakeStore) -> None:
    runs = [run(1, 3), run(4, 1), run(5, 30, times_ms={2: 2_000, 4: 3_000}), run(40, 2)]
    sessions = {slot: SlotState(slot, "u", by_session=slot == 3) for slot in SLOTS}
    store = make_store()
    store.open()

    store.commit(Changes(copies=runs, slots=sessions))

    for index, slot in enumerate(SLOTS):
        expected = [row for each in runs for row in each.stored(*each.places[index])]
        assert store.browse(slot, 0, 100, 1 << 30) == expected
        assert [row.counter for row in expected] == [*range(1, 35), 40, 41]
    assert [row.counter for row in store.sessions.rows(3, "s", 0, 100, 1 << 30, 0)[0]] == [
        *range(1, 35), 40, 41]  # fmt: skip


@pytest.mark.requirement("R114")
def test_messages_keep_their_order_beside_others_that_go_elsewhere(driver: Driver) -> None:
    make_news(driver)
    set_rules(driver, "b", Rule("odd", CorrelationFilter(properties={"odd": 1})))
    numbers = [0, 2, 1, 3, 4, 5, 7, 6, 8]

    publish(driver, *(head(n=n, odd=n % 2) for n in numbers))

    assert [properties_of(row)["n"] for row in rows(driver, "a")] == numbers
    assert [properties_of(row)["n"] for row in rows(driver, "b")] == [1, 3, 5, 7]
    assert [properties_of(row)["n"] for row, _ in receive(driver, "b", 9)] == [1, 3, 5, 7]


@pytest.mark.requirement("R114")
def test_copies_of_several_rules_stay_together_for_each_message(driver: Driver) -> None:
    make_news(driver)
    changed = Rule("changed", TrueFilter(), SqlRuleAction("SET by = 'rule'"))
    set_rules(driver, "a", changed, Rule("plain"))

    publish(driver, head(n=1), head(n=2))

    found = [(found["n"], "by" in found) for found in map(properties_of, rows(driver, "a"))]
    assert found == [(1, True), (1, False), (2, True), (2, False)]


@pytest.mark.requirement("R114")
def test_what_a_subscription_is_now_counts_also_after_the_same_messages(driver: Driver) -> None:
    make_news(driver)
    publish(driver, head(n=1))
    ceiling = {"default_message_time_to_live_ms": 5_000}
    subscription(driver, "news/Subscriptions/b", UPDATE, changes=ceiling)

    publish(driver, head(n=1))
    set_rules(driver, "a", Rule("none", CorrelationFilter(label="other")))
    publish(driver, head(n=1))

    assert len(rows(driver, "a")) == 2
    assert [row.time_to_live_ms for row in rows(driver, "b")] == [0, 5_000, 5_000]
