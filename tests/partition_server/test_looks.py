"""Lists, counts, scans and looks at messages: a turn does little of them, however much there is."""

from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.partition_server.broker import inbox, partition_thread
from bendybus.partition_server.broker.inbox import Inbox
from bendybus.partition_server.broker.partition_thread import PartitionThread
from bendybus.partition_server.broker.rule_table import COMMANDS, Phase
from bendybus.partition_server.rules import counts, session_counts
from bendybus.partition_server.service import counting
from bendybus.partition_server.settings import Settings
from bendybus.partition_server.state import budget, ready_set
from bendybus.partition_server.state.answers import Reserved, SessionOffered
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    Ask,
    Counts,
    CountSessions,
    EntityRef,
    ListSessions,
    Peek,
    Withdraw,
)
from bendybus.partition_server.store.errors import StoreFailed
from bendybus.partition_server.store.records import (
    Changes,
    Row,
    SessionState,
    SlotState,
    row_id,
)
from bendybus.partition_server.store.sqlite_store import SqliteStore
from bendybus.partition_server.store.store import SESSION_LOOKS, Head
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.running_partition import Runner
from tests.partition_server.session_driver import Sessions
from tests.partition_server.test_inbox import append

pytestmark = pytest.mark.requirement("R620")
LATER_MS = 3_600_000
SCHEDULED = 2


def peek(uid: str) -> Peek:
    return Peek("t", EntityRef(uid, 1), 0, 1, 0)


def scheduled_before(driver: Driver, count: int) -> None:
    """Send messages that cannot be received yet, and one that can."""
    for _ in range(0, count, 5_000):
        driver.send(*[b"later"] * 5_000, scheduled_ms=[driver.wall_ms + LATER_MS] * 5_000)
    driver.send(b"now")
    # Not in the window: from the store, as after a restart.
    driver.restart()


def passed_in_each_turn(driver: Driver) -> list[int]:
    """Let asks go on; return how many numbers each turn passed over."""
    state, found = driver.partition.state, [driver.partition.state.serve_budget.passed]
    while state.unserved:
        driver.partition.go_on(driver.now)
        found.append(state.serve_budget.passed)
    return found


def test_messages_that_cannot_be_received_are_passed_over_in_turns(queue: Driver) -> None:
    scheduled_before(queue, 20_000)

    queue.partition.state.begin_turn()
    queue.turn(Ask("s", 1, queue.ref(), False, 1, 1 << 20))
    passed = passed_in_each_turn(queue)

    most = budget.SERVE_PASSED + ready_set.TAKE_PAGES * ready_set.PAGE_COUNTERS
    assert sum(passed) >= 10_000
    assert max(passed) <= most


def test_receivers_of_many_queues_do_not_add_up_in_a_turn(queue: Driver) -> None:
    names = [f"q{number}" for number in range(5)]
    for name in names:
        queue.create(name)
        ref = queue.ref(name)
        due = [queue.wall_ms + LATER_MS] * 5_000
        queue.run(Append("t", ref, Batch([b"later"] * 5_000, scheduled_ms=due)))
        queue.run(Append("t", ref, Batch([b"now"])))
    queue.restart()

    state = queue.partition.state
    state.begin_turn()
    asks = [Ask("s", n, queue.ref(name), False, 1, 1 << 20) for n, name in enumerate(names)]
    queue.partition.apply(queue.partition.decide(asks, queue.now), queue.now)
    passed = passed_in_each_turn(queue)

    most = budget.SERVE_PASSED + ready_set.TAKE_PAGES * ready_set.PAGE_COUNTERS
    assert max(passed) <= most
    assert all(queue.counts_of(name).locked == 1 for name in names)


def test_a_gap_of_deleted_messages_is_not_looked_through(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = queue.partition.state.queues.at(0)
    assert state is not None
    queue.send(b"first")
    slot = state.state
    slot.counter = 10_000_000
    queue.store.commit(Changes(deletes=[row_id(0, 1)], slots={0: slot}))
    queue.restart()
    queue.send(b"now")
    queue.restart()
    looked: list[Any] = []
    active = queue.store.active

    def look(*args: Any) -> list[Row]:
        looked.append(args)
        return active(*args)

    monkeypatch.setattr(queue.store, "active", look)

    [answer] = [each for each in queue.reserve() if isinstance(each, Reserved)]

    assert [row.payload for row in answer.delivery.rows] == [b"now"]
    assert len(looked) <= 3


def test_a_session_whose_first_messages_are_past_their_time_is_offered(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, count = sessions.driver, 5 * SESSION_LOOKS + 1
    sessions.send(*[("a", b"over")] * count, time_to_live_ms=[1_000] * count)
    sessions.send(("a", b"alive"))
    driver.restart()
    # Expiry waits: the clock jumped.
    driver.wall_ms += 3_600_000
    driver.partition.state.clock.observe(driver.now)
    looked: list[Head | None] = []
    reads = driver.store.sessions
    head = reads.head

    def note(*args: Any) -> Head | None:
        looked.append(head(*args))
        return looked[-1]

    monkeypatch.setattr(reads, "head", note)
    [offer] = sessions.ask_accept()
    assert isinstance(offer, SessionOffered)
    sessions.confirm(offer)
    received = sessions.receive(offer.session_token, 1)

    assert [row.payload for row, _ in received] == [b"alive"]
    if isinstance(driver.store, SqliteStore):
        assert [each.alive for each in looked if each is not None].count(False) >= 4


def test_one_look_at_a_session_passes_over_a_bounded_number(store: SqliteStore) -> None:
    store.open()
    slot = SlotState(1, "uid")
    slot.by_session = True
    count = 3 * SESSION_LOOKS
    rows = [Row(row_id(1, n), 0, 1, 10, 0, 0, 0, "", "", "a", b"x") for n in range(1, count)]
    rows.append(rows[0]._replace(id=row_id(1, count), expires_ms=None))
    store.commit(Changes(inserts=rows, slots={1: slot}))
    reads = store.sessions

    found = []
    after = 0
    while (head := reads.head(1, "a", after, 20)) is not None and not head.alive:
        found.append(head.counter - after)
        after = head.counter

    assert head == Head(count, alive=True)
    assert found == [SESSION_LOOKS] * 2
    first, following = reads.rows(1, "a", 0, 10, 1 << 20, 20)
    assert (first, following) == ([], 10 + SESSION_LOOKS)


@pytest.mark.parametrize("states", [False, True])
def test_a_page_of_sessions_is_one_query(store: SqliteStore, states: bool) -> None:
    store.open()
    slot = SlotState(1, "uid")
    slot.by_session = True
    rows = [
        Row(row_id(1, n), 0, 1, None, 0, 0, 0, "", "", f"s{n:04}", b"x") for n in range(1, 1_001)
    ]
    kept = [SessionState(1, f"s{n:04}x", b"s", 1) for n in range(1, 1_001)] if states else []
    store.commit(Changes(inserts=rows, session_states=kept, slots={1: slot}))
    asked: list[str] = []
    read = store.sessions._read

    def note(name: str, values: Any) -> Any:
        asked.append(name)
        return read(name, values)

    store.sessions._read = note

    names, following = store.sessions.listed(1, None, 1_000)

    assert asked == ["session_listed"]
    assert len(names) == 1_000
    assert following == names[-1]


def test_what_reads_many_rows_is_a_look() -> None:
    looks = {kind for kind, rule in COMMANDS.items() if rule.phase is Phase.LOOK}

    assert looks >= {Peek, ListSessions, CountSessions, Counts}


def test_a_commit_takes_one_look_and_entities_come_in_turn() -> None:
    waiting = Inbox()
    for _ in range(3):
        waiting.put(peek("busy"))
    waiting.put(peek("quiet"))
    waiting.put(append("busy"))
    waiting.put(Withdraw("s", 1))

    first = waiting.take(0)

    assert [type(each) for each in first] == [Withdraw, Append, Peek]
    further = [waiting.take_look() for _ in range(4)]
    uids = [each.entity.uid for each in further if isinstance(each, Peek)]
    assert uids == ["quiet", "busy", "busy"]
    assert further[-1] is None


def test_looks_that_wait_are_taken_at_once() -> None:
    waiting = Inbox()
    waiting.put(peek("a"))
    waiting.put(peek("a"))

    assert len(waiting.take(10)) == 1
    # Would sleep ten seconds.
    assert len(waiting.take(10)) == 1


def test_looks_have_a_share_for_each_entity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "LOOKS_MAX", 100)
    waiting = Inbox()

    taken = sum(waiting.put(peek("greedy")) for _ in range(200))

    assert taken < 100
    assert waiting.put(peek("other"))


def test_a_turn_that_has_no_time_left_leaves_looks_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_thread, "LOOK_S", 0.0)
    runner = Runner(tmp_path)
    ref = runner.create()
    before = sum(runner.thread.figures.turn_buckets)

    for _ in range(20):
        assert runner.thread.submit(Peek("t", ref, 0, 1, 0))
    answers = [runner.next_answer() for _ in range(20)]

    assert len(answers) == 20
    # The last one may not have been counted yet.
    assert sum(runner.thread.figures.turn_buckets) - before >= 19
    runner.thread.stop()


@pytest.mark.parametrize("asked", [0, 1, 250, 251, 600])
def test_many_entities_are_counted_in_steps(driver: Driver, asked: int) -> None:
    for number in range(601):
        driver.create(f"q{number:03}")

    found, steps = run(driver, counting.of_all(entities_max=asked))

    uids = sorted(f"uid-q{number:03}" for number in range(601))
    assert [each.uid for each in found] == uids[: asked or 601]
    assert max(steps) <= counts.ENTITIES_A_LOOK
    named, steps = run(driver, counting.of_entities(uids))
    assert [each.uid for each in named] == uids
    assert max(steps) <= counts.ENTITIES_A_LOOK


def run(driver: Driver, steps: counting.Counting) -> tuple[list[Any], list[int]]:
    """Return all counts, and how many each step gave."""
    sizes: list[int] = []
    try:
        make = next(steps)
        while True:
            [found] = driver.run(make("t"))
            sizes.append(len(found))
            make = steps.send(found)
    except StopIteration as end:
        return end.value, sizes


def test_one_command_counts_a_few_sessions_and_says_where_to_go_on(sessions: Sessions) -> None:
    names = [f"s{number:03}" for number in range(300)]
    sessions.send(*((name, b"x") for name in names))

    [first] = sessions.driver.run(CountSessions("t", sessions.ref(), 1_000))
    [rest] = sessions.driver.run(CountSessions("t", sessions.ref(), 1_000, first.following))

    assert len(first.sessions) <= session_counts.SESSIONS_MAX
    assert [each.session_id for each in (*first.sessions, *rest.sessions)] == names
    assert rest.following is None


def test_looks_are_refused_together_while_the_file_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path, fingerprint())
    tries: list[int] = []

    def fail() -> None:
        tries.append(1)
        raise StoreFailed("it is a folder")

    monkeypatch.setattr(store, "open", fail)
    monkeypatch.setattr(partition_thread, "REOPEN_S", 0.0)
    answers: SimpleQueue[Any] = SimpleQueue()
    settings = Settings(data=tmp_path, namespace_uid="u", free_space_min_bytes=0)

    def deliver(given: Any) -> None:
        for each in given:
            answers.put(each)

    thread = PartitionThread(settings, store, deliver)
    for _ in range(20):
        assert thread.submit(Counts("t"))

    thread.start()
    refused = [answers.get(timeout=10).value for _ in range(20)]
    tried = len(tries)
    thread.stop()

    assert all(isinstance(each.error, errors.PartitionUnavailable) for each in refused)
    # At the start, and after the turn that refused them; one more may have begun.
    assert tried <= 3
