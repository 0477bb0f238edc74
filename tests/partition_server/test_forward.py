"""Forwarding inside one partition: each message once, in order, with what it is."""

from collections.abc import Callable
from typing import Any

import pytest

from bendybus.domain import errors, limits, sequence_number
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state.answers import AskRefused, Failed
from bendybus.partition_server.state.commands import (
    Ask,
    FenceIdle,
    ReceiveDeferred,
    StreamEnded,
)
from bendybus.partition_server.store.errors import NotCommitted
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.forwarding_driver import bodies, held, locked, send
from tests.partition_server.memory_store import MemoryStore


@pytest.fixture
def pair(driver: Driver) -> Driver:
    """Return a partition where `orders` forwards to `audit`."""
    driver.create("audit")
    driver.create("orders", forward_to="audit")
    return driver


@pytest.mark.requirement("R140")
def test_messages_go_on_in_order_with_what_they_are(pair: Driver) -> None:
    columns = {"message_ids": ["a", "b"], "partition_keys": ["k", "k"]}

    send(pair, "orders", b"one", b"two", **columns)
    pair.sweep()

    assert bodies(pair, "orders") == []
    assert [(row.payload, row.message_id, row.partition_key) for row in held(pair, "audit")] == [
        (b"one", "a", "k"),
        (b"two", "b", "k"),
    ]
    counts = pair.counts_of("orders")
    assert (counts.active, counts.size_bytes) == (0, 0)
    assert pair.counts_of("audit").active == 2


@pytest.mark.requirement("R140")
def test_a_message_keeps_its_first_number_and_gets_one_of_its_destination(pair: Driver) -> None:
    pair.create("last")
    send(pair, "audit", b"other")
    commit(pair, EntityAction.UPDATE, "audit", changes={"forward_to": "last"})
    send(pair, "last", b"another")

    pair.advance(5_000, wall_only=True)
    send(pair, "orders", b"one", b"two")
    pair.sweep()

    # In each queue other numbers than in the one before.
    rows = held(pair, "last")[2:]
    assert [row.counter for row in rows] == [3, 4]
    assert [sequence_number.counter_of(row.enqueued_sequence_number) for row in rows] == [1, 2]
    assert [row.hops for row in rows] == [2, 2]
    assert rows[0].enqueued_ms == pair.wall_ms


@pytest.mark.requirement("R140")
def test_a_session_and_changed_properties_go_along(driver: Driver) -> None:
    driver.create("by-session", requires_session=True)
    driver.create("orders")
    send(driver, "orders", b"one", session_ids=["s"], session_present=[True])
    [token] = [locked(driver, "orders", 1)]
    driver.settle(Disposition.ABANDON, token, changed_properties=b"\x0a\x00")

    commit(driver, EntityAction.UPDATE, changes={"forward_to": "by-session"})
    driver.sweep()

    [row] = held(driver, "by-session")
    assert (row.session_id, row.changed_properties, row.delivery_count) == ("s", b"\x0a\x00", 0)
    assert driver.counts_of("by-session").size_bytes == row.size()


@pytest.mark.requirement("R141")
def test_what_is_left_of_the_time_to_live_is_left_at_the_destination(pair: Driver) -> None:
    pair.create("held")
    send(pair, "held", b"one", time_to_live_ms=[60_000])
    expires_ms = held(pair, "held")[0].expires_ms
    pair.advance(20_000)

    commit(pair, EntityAction.UPDATE, "held", changes={"forward_to": "audit"})
    pair.sweep()

    [row] = held(pair, "audit")
    assert row.expires_ms == expires_ms
    pair.advance(40_001)
    assert held(pair, "audit") == []


@pytest.mark.requirement("R141")
def test_scheduled_messages_go_on_when_they_are_due(pair: Driver) -> None:
    send(pair, "orders", b"later", scheduled_ms=[pair.wall_ms + 10_000])
    pair.sweep()
    assert bodies(pair, "orders") == [b"later"]

    pair.advance(10_000)

    assert (bodies(pair, "orders"), bodies(pair, "audit")) == ([], [b"later"])


@pytest.mark.requirement("R141")
def test_a_locked_message_goes_on_when_its_lock_is_over(driver: Driver) -> None:
    driver.create("audit")
    driver.create("orders")
    send(driver, "orders", b"one", b"two", b"three")
    tokens = locked(driver, "orders", 2)

    commit(driver, EntityAction.UPDATE, changes={"forward_to": "audit"})
    driver.sweep()
    assert bodies(driver, "audit") == [b"three"]
    assert not driver.settle(Disposition.COMPLETE, tokens[:16]).failures
    driver.advance(60_001)

    assert (bodies(driver, "orders"), bodies(driver, "audit")) == ([], [b"three", b"two"])


@pytest.mark.requirement("R141")
def test_a_message_that_was_only_reserved_goes_on_when_the_stream_ends(driver: Driver) -> None:
    driver.create("audit")
    driver.create("orders")
    send(driver, "orders", b"one")
    driver.run(Ask("s", 1, driver.ref("orders"), False, 1, 1 << 20))
    commit(driver, EntityAction.UPDATE, changes={"forward_to": "audit"})

    driver.run(StreamEnded("s"))
    driver.sweep()

    assert bodies(driver, "audit") == [b"one"]


@pytest.mark.requirement("R140")
def test_what_waited_goes_on_when_forwarding_is_set_and_stays_when_it_is_not(
    driver: Driver,
) -> None:
    driver.create("audit")
    driver.create("orders")
    send(driver, "orders", b"one")
    commit(driver, EntityAction.UPDATE, changes={"forward_to": "audit"})
    driver.sweep()

    commit(driver, EntityAction.UPDATE, changes={"forward_to": ""})
    send(driver, "orders", b"two")
    driver.sweep()

    assert (bodies(driver, "orders"), bodies(driver, "audit")) == ([b"two"], [b"one"])
    assert [row.payload for row, _ in driver.receive(2)] == [b"two"]


@pytest.mark.requirement("R140")
def test_a_duplicate_at_the_destination_is_dropped(driver: Driver) -> None:
    driver.create("audit", requires_duplicate_detection=True)
    driver.create("orders", requires_duplicate_detection=True, forward_to="audit")
    send(driver, "audit", b"first", message_ids=["a"], partition_keys=["k"])

    send(driver, "orders", b"again", b"new", message_ids=["a", "b"], partition_keys=["k", "k"])
    driver.sweep()

    assert bodies(driver, "orders") == []
    assert bodies(driver, "audit") == [b"first", b"new"]


@pytest.mark.requirement("R143")
def test_dead_letters_go_on_and_say_where_they_are_from(driver: Driver) -> None:
    driver.create("failed")
    driver.create("orders", forward_dead_lettered_messages_to="failed")
    send(driver, "orders", b"one", b"kept", time_to_live_ms=[60_000, 0])
    tokens = locked(driver, "orders", 1)

    driver.settle(Disposition.DEAD_LETTER, tokens, dead_letter_reason="Bad")
    driver.sweep()

    assert bodies(driver, "orders") == [b"kept"]
    assert bodies(driver, "orders", SubQueue.DEAD_LETTER) == []
    [row] = held(driver, "failed")
    assert (row.dead_letter_reason, row.dead_letter_source) == ("Bad", "orders")
    assert (row.expires_ms, sequence_number.counter_of(row.enqueued_sequence_number)) == (None, 1)
    assert driver.counts_of("failed").size_bytes == row.size()


@pytest.mark.requirement("R142")
def test_the_fifth_hop_is_a_dead_letter(driver: Driver) -> None:
    driver.create("q0")
    for i in range(1, 6):
        driver.create(f"q{i}", forward_to=f"q{i - 1}")
    send(driver, "q4", b"four hops")
    send(driver, "q5", b"five hops")

    driver.sweep()

    assert bodies(driver, "q0") == [b"four hops"]
    [row] = held(driver, "q1", SubQueue.DEAD_LETTER)
    assert row.payload == b"five hops"
    assert row.dead_letter_reason == "MaxTransferHopCountExceeded"
    assert driver.counts_of("q1").dead_letter == 1


@pytest.mark.requirement("R142")
def test_a_cycle_through_dead_letters_ends_after_four_hops(driver: Driver) -> None:
    driver.create("a")
    driver.create("b", forward_dead_lettered_messages_to="a", max_delivery_count=1)
    commit(
        driver,
        EntityAction.UPDATE,
        "a",
        changes={"forward_dead_lettered_messages_to": "b", "max_delivery_count": 1},
    )
    send(driver, "a", b"bad")

    for name in "abab" + "a":
        driver.settle(Disposition.ABANDON, locked(driver, name, 1))
        driver.sweep()

    [row] = held(driver, "a", SubQueue.TRANSFER_DEAD_LETTER)
    assert (row.hops, row.dead_letter_reason) == (4, "MaxTransferHopCountExceeded")


@pytest.mark.requirement("R144")
@pytest.mark.parametrize(("field", "dead"), [("forward_to", False), (None, True)])
def test_a_source_is_not_received_from(driver: Driver, field: str | None, dead: bool) -> None:
    driver.create("audit")
    name = field or "forward_dead_lettered_messages_to"
    commit(driver, EntityAction.CREATE, changes={name: "audit"})
    ref = driver.ref("orders", dead_letter=dead)

    [asked] = driver.run(Ask("s", 1, ref, False, 1, 1 << 20))
    [deferred] = driver.run(ReceiveDeferred("t", ref, False, [1]))

    assert isinstance(asked, AskRefused)
    assert isinstance(deferred, Failed)
    for error in (asked.error, deferred.error):
        assert isinstance(error, errors.InvalidOperation)
        assert "auto-forwarding enabled" in error.message
    other = driver.ref("orders", dead_letter=not dead)
    assert driver.run(Ask("s", 2, other, False, 1, 1 << 20)) == []


@pytest.mark.requirement("R140")
def test_many_messages_go_on_in_bounded_turns(pair: Driver) -> None:
    for first in range(0, 3_000, 500):
        send(pair, "orders", *[b"%d" % i for i in range(first, first + 500)])

    stage = pair.partition.sweep(pair.now)
    assert stage is not None
    assert 0 < len(stage.changes.deletes) <= 1_000
    pair.store.commit(stage.changes)
    pair.partition.apply(stage, pair.now)
    pair.sweep()

    assert pair.counts_of("audit").active == 3_000
    assert [row.payload for row in held(pair, "audit")] == [b"%d" % i for i in range(1_000)]


@pytest.mark.requirement("R145")
def test_a_restart_goes_on_where_it_was(make_store: Callable[..., Any]) -> None:
    store = make_store()
    driver = Driver(store, make_store if not isinstance(store, MemoryStore) else None)
    driver.create("audit")
    driver.create("orders", forward_to="audit")
    send(driver, "orders", b"one")

    if not isinstance(store, MemoryStore):
        store.close()
    driver.restart()
    driver.sweep()

    assert (bodies(driver, "orders"), bodies(driver, "audit")) == ([], [b"one"])


@pytest.mark.requirement("R145")
def test_a_commit_that_fails_moves_nothing_and_is_repeated() -> None:
    store = MemoryStore(fingerprint())
    driver = Driver(store)
    driver.create("audit")
    driver.create("orders", forward_to="audit")
    send(driver, "orders", b"one", b"two")

    stage = driver.partition.sweep(driver.now)
    assert stage is not None
    driver.partition.abandon(stage, NotCommitted("no"), driver.now)  # type: ignore[arg-type]

    assert (driver.counts_of("orders").active, driver.counts_of("audit").active) == (2, 0)
    driver.sweep()
    assert (bodies(driver, "orders"), bodies(driver, "audit")) == ([], [b"one", b"two"])


@pytest.mark.requirement("R146")
def test_a_queue_that_forwards_or_is_forwarded_to_is_never_idle(driver: Driver) -> None:
    hour = 3_600_000
    driver.create("audit", auto_delete_on_idle_ms=hour)
    driver.create("orders", forward_to="audit", auto_delete_on_idle_ms=hour)
    driver.create("other", auto_delete_on_idle_ms=hour)
    driver.advance(2 * hour)

    fenced = []
    for name in ("audit", "orders", "other"):
        ref = driver.ref(name)
        fenced += driver.run(FenceIdle("t", ref.uid, ref.generation, hour))

    assert fenced == [False, False, True]
    for name in ("audit", "orders"):
        with pytest.raises(errors.InvalidOperation, match="never idle"):
            commit(driver, EntityAction.DELETE_IDLE, name, uid=f"uid-{name}")
    commit(driver, EntityAction.UPDATE, "orders", changes={"forward_to": ""})
    ref = driver.ref("audit")
    assert driver.run(FenceIdle("t", ref.uid, ref.generation, hour)) == [True]


@pytest.mark.requirement("R140")
def test_messages_go_to_a_topic_and_from_a_subscription(driver: Driver) -> None:
    driver.create("archive")
    commit(driver, EntityAction.CREATE, "news", kind=EntityKind.TOPIC)
    for name, changes in {"kept": {}, "on": {"forward_to": "archive"}}.items():
        path = f"news/Subscriptions/{name}"
        commit(driver, EntityAction.CREATE, path, kind=EntityKind.SUBSCRIPTION, changes=changes)
    driver.create("orders", forward_to="news")
    body = b"\x0a\x64" + b"x" * 100

    # So that the numbers at the topic are others than those at the queue.
    send(driver, "news", body, heads=[b""], formats=[1])
    send(driver, "orders", body, heads=[b""], formats=[1])
    driver.sweep()

    assert bodies(driver, "orders") == bodies(driver, "news/Subscriptions/on") == []
    [_, kept] = held(driver, "news/Subscriptions/kept")
    [_, row] = held(driver, "archive")
    assert (kept.payload, row.payload) == (body, body)
    assert (kept.hops, row.hops, row.format) == (1, 2, 1)
    assert sequence_number.counter_of(kept.enqueued_sequence_number) == 1
    assert sequence_number.counter_of(row.enqueued_sequence_number) == 1
    assert driver.counts_of("archive").size_bytes == 2 * row.size()
    driver.advance(1_000)
    assert limits.FORWARD_HOPS_MAX == 4


@pytest.mark.requirement("R223")
@pytest.mark.parametrize("of_topic", [False, True])
def test_forwarding_begins_and_ends_by_an_update(driver: Driver, of_topic: bool) -> None:
    source, kind = "orders", EntityKind.QUEUE
    driver.create("audit")
    if of_topic:
        source, kind = "news/Subscriptions/all", EntityKind.SUBSCRIPTION
        commit(driver, EntityAction.CREATE, "news", kind=EntityKind.TOPIC)
    commit(driver, EntityAction.CREATE, source, kind=kind)
    to = "news" if of_topic else source
    # A topic's messages are read: field 1 of a message, with two bytes.
    before, after = b"\x0a\x02ab", b"\x0a\x02cd"
    send(driver, to, before)
    driver.sweep()
    assert bodies(driver, source) == [before]

    commit(driver, EntityAction.UPDATE, source, kind=kind, changes={"forward_to": "audit"})
    driver.sweep()
    assert (bodies(driver, source), bodies(driver, "audit")) == ([], [before])

    commit(driver, EntityAction.UPDATE, source, kind=kind, changes={"forward_to": ""})
    send(driver, to, after)
    driver.sweep()
    assert (bodies(driver, source), bodies(driver, "audit")) == ([after], [before])
