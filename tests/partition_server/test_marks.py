"""Marks inside a stage: what follows a mark is taken back alone, whatever it was."""

from dataclasses import fields, is_dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bendybus.domain import errors, sequence_number
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Origin
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.message_state import MessageState
from bendybus.partition_server.broker import partition as broker
from bendybus.partition_server.broker.rule_table import COMMANDS
from bendybus.partition_server.state import budget, producer_memory
from bendybus.partition_server.state.answers import Delivery, Reserved
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    CancelScheduled,
    Command,
    CommitEntity,
    DeleteMessages,
    Deliver,
    ReceiveDeferred,
    Release,
    Settle,
)
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.ready_set import ReadyWindow
from bendybus.partition_server.state.stage import Stage
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server.driver import START_MS, Driver, fingerprint
from tests.partition_server.due_picture import due_times
from tests.partition_server.memory_store import MemoryStore

QUEUES = ("plain", "other", "detecting")
MESSAGE_IDS = ("", "m", "n", "too long" * 17)
SETTLERS = (b"", b"r" * 16)


class Bus:
    """A partition with messages in every state, the same at every making."""

    def __init__(self, store: Any) -> None:
        self.driver = driver = Driver(store)
        driver.create("plain")
        driver.create("other", max_delivery_count=2)
        driver.create(
            "detecting",
            requires_duplicate_detection=True,
            dead_lettering_on_message_expiration=True,
            lock_duration_ms=5_000,
        )
        # Locked: delivered, only reserved, to be deleted, deferred and received by number.
        self.tokens: list[bytes] = [b"\0" * 16]
        self.deferred: list[int] = []
        self.scheduled: list[int] = []
        for name in QUEUES:
            self._fill(name)
        # Expiry passes over what is locked; then the clock is corrected.
        driver.advance(2_000)
        driver.wall_ms -= 1_500

    def _fill(self, name: str) -> None:
        driver, lives = self.driver, [0, 0, 0, 0, 0, 0, 0, 1_000, 60_000]
        due = [0] * 8 + [START_MS + 60_000]
        numbers = self._send(name, *b"abcdefghi", time_to_live_ms=lives, scheduled_ms=due)
        self.scheduled.append(numbers[-1])
        taken = self._reserve(name, 6, "s")
        driver.run(Deliver("s", 1, b"".join(taken[:4])))
        driver.settle(Disposition.ABANDON, taken[0], changed_properties=b"\x0a\x00")
        driver.settle(Disposition.DEFER, taken[1], taken[2])
        self.deferred += numbers[1:3]
        received = ReceiveDeferred("t", driver.ref(name), False, numbers[2:3])
        [delivery] = driver.run(received)
        assert isinstance(delivery, Delivery)
        self.tokens += [token for _, token in driver.tokens(Reserved(0, delivery, 0, 0, False))]
        self.tokens += taken[3:]
        self.tokens += self._reserve(name, 2, "d", delete=True)
        driver.run(frame(driver, name, [b"known"], producer_sequence=1))

    def _send(self, name: str, *payloads: int, **columns: Any) -> list[int]:
        batch = Batch([bytes([each]) for each in payloads], **columns)
        [appended] = self.driver.run(Append("t", self.driver.ref(name), batch))
        return [sequence_number.counter_of(number) for number in appended.numbers]

    def _reserve(self, name: str, count: int, stream: str, *, delete: bool = False) -> list[bytes]:
        from bendybus.partition_server.state.commands import Ask

        answers = self.driver.run(
            Ask(stream, len(self.tokens), self.driver.ref(name), delete, count, 1 << 20)
        )
        given = [answer for answer in answers if isinstance(answer, Reserved)]
        return [token for answer in given for _, token in self.driver.tokens(answer)]

    def turn(self) -> Turn:
        """Begin a stage."""
        state = self.driver.partition.state
        state.begin_turn()
        return Turn(state, state.begin_stage(), self.driver.now, False)

    def finish(self, stage: Stage) -> list[Any]:
        """Commit a stage and let time do all that is due."""
        if stage.changes:
            self.driver.store.commit(stage.changes)
        answers = [value for _, value in self.driver.partition.apply(stage, self.driver.now)]
        return [*answers, *self.driver.advance(20_000)]


def frame(driver: Driver, name: str, payloads: list[bytes], **options: Any) -> Append:
    """Return a named frame."""
    columns = {key: options.pop(key) for key in list(options) if key in Batch.__slots__}
    batch = Batch(payloads, **columns)
    return Append("t", driver.ref(name), batch, producer_id=b"p" * 16, **options)


def decide(turn: Turn, commands: list[Command]) -> None:
    """Let the rules decide, as `Partition.decide` does."""
    for command in commands:
        broker._handle(COMMANDS[type(command)], turn, command)


def sends(bus: Bus) -> st.SearchStrategy[Command]:
    """Sends: new ones, repeats, duplicates, scheduled, too large."""

    @st.composite
    def make(draw: st.DrawFn) -> Command:
        count = draw(st.integers(1, 3))
        payloads = draw(st.lists(st.sampled_from([b"", b"x", b"yy"]), min_size=count))
        count = len(payloads)
        return frame(
            bus.driver,
            draw(st.sampled_from(QUEUES)),
            payloads,
            group_sizes=draw(st.sampled_from([[], [1] * count])),
            message_ids=draw(
                st.lists(
                    st.sampled_from(["", "m", "n", "too long" * 17]), min_size=count, max_size=count
                )
            ),
            time_to_live_ms=[draw(st.sampled_from([0, 500]))] * count,
            scheduled_ms=[draw(st.sampled_from([0, START_MS + 3_000]))] * count,
            producer_sequence=draw(st.integers(1, 4)),
        )

    return make()


def settlements(bus: Bus) -> st.SearchStrategy[Command]:
    """Settlements of any kind, also of what is not locked (any more)."""
    tokens = st.lists(st.sampled_from(bus.tokens), min_size=1, max_size=8).map(b"".join)
    settling = st.builds(
        Settle,
        st.just("s"),
        st.just(1),
        st.sampled_from(list(Disposition)),
        tokens,
        changed_properties=st.sampled_from([None, b"\x0a\x00"]),
        settler_id=st.sampled_from(SETTLERS),
        repeat=st.booleans(),
    )
    return settling | st.builds(Release, st.just("s"), tokens)


def deliveries(bus: Bus) -> st.SearchStrategy[Command]:
    """Deliveries, which are never taken back: see `NOT_UNDONE`."""
    tokens = st.lists(st.sampled_from(bus.tokens), min_size=1, max_size=8).map(b"".join)
    return st.builds(Deliver, st.just("s"), st.just(1), tokens)


def alone(bus: Bus) -> st.SearchStrategy[Command]:
    """Commands that have a stage of their own."""
    refs = st.sampled_from(QUEUES).map(bus.driver.ref)
    deferred = st.lists(st.sampled_from(bus.deferred), min_size=1, max_size=2)
    scheduled = st.lists(st.sampled_from(bus.scheduled), min_size=1, max_size=2)
    name = st.sampled_from([b"", b"operation"])
    states = st.frozensets(st.sampled_from(MessageState), min_size=1)
    catalogue = st.builds(
        CommitEntity,
        st.just("t"),
        st.sampled_from([EntityAction.UPDATE, EntityAction.DELETE]),
        st.sampled_from(QUEUES),
        st.just(Origin.CLIENT),
        st.just({"max_delivery_count": 7}),
    )
    return (
        st.builds(ReceiveDeferred, st.just("t"), refs, st.booleans(), deferred, operation_id=name)
        | st.builds(CancelScheduled, st.just("t"), refs, scheduled, operation_id=name)
        | st.builds(DeleteMessages, st.just("t"), refs, st.integers(1, 9), st.just(0), states)
        | catalogue
    )


@st.composite
def plans(draw: st.DrawFn, bus: Bus) -> tuple[list[Command], list[Command]]:
    """Return (what is kept, what is taken back)."""
    if draw(st.booleans()):
        return [], [draw(alone(bus))]
    undone = sends(bus) | settlements(bus)
    return draw(st.lists(undone | deliveries(bus), max_size=5)), draw(st.lists(undone, max_size=5))


def contents(store: Any) -> Any:
    """Return everything that a store holds."""
    if isinstance(store, MemoryStore):
        held = ("_rows", "_entities", "_slots", "_history", "_producers", "_seen")
        return {name: picture(getattr(store, name)) for name in held}
    with apsw.Connection(str(store.path), flags=apsw.SQLITE_OPEN_READONLY) as db:
        names = [
            name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type='table'")
        ]
        columns = {
            name: [c for _, c, *_ in db.execute(f"PRAGMA table_info({name})") if c != "incarnation"]
            for name in names
        }
        return {
            name: sorted(db.execute(f"SELECT {','.join(columns[name])} FROM {name}"), key=repr)
            for name in names
        }


def picture(value: Any) -> Any:
    """Return a comparable image of what a stage, a store or an answer holds."""
    if isinstance(value, MessageQueue):
        return value.slot
    if is_dataclass(value) and not isinstance(value, type):
        names = [
            each.name for each in fields(value) if each.name not in ("journal", "due", "marked")
        ]
        return [(name, picture(getattr(value, name))) for name in names]
    if isinstance(value, dict):
        return {key: picture(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [picture(each) for each in value]
    if isinstance(value, errors.BusError):
        return str(value)
    return id(value) if callable(value) else value


def partition_picture(bus: Bus) -> Any:
    """Return what of the partition's memory means something."""
    state = bus.driver.partition.state
    queues = {}
    for queue in state.queues:
        # When each lock is looked at; notes may outlive what they were made for.
        looked: dict[int, int] = {}
        for until_ms, entries in sorted(queue.lock_ends):
            for counter, generation in entries:
                if counter in queue.locks and queue.locks[counter].generation == generation:
                    looked.setdefault(counter, until_ms)
        ready = queue.ready
        assert isinstance(ready, ReadyWindow)
        queues[queue.slot] = (
            queue.state.figures(),
            picture(queue.locks),
            looked,
            [row.counter for row in ready.window],
            sorted(ready.returned),
            (ready.loaded, ready.gone, ready.window_bytes, list(queue.asks)),
        )
    producers = state.producers
    return {
        "queues": queues,
        "held": (state.held.total, dict(state.held._by_slot)),
        "due": due_times(state),
        "producers": {
            "windows": producers._windows._windows,
            "size": (producers._windows.count, producers._windows.size_bytes),
            "parts": {k: dict(each.parts) for k, each in producers._windows._producers.items()},
            "unknown": dict(producers._unknown),
        },
        "settled": state.settlers.used(),
        "unfinished": (len(state.unfinished), state.unfinished._sizes.total, len(state.deletions)),
        "catalogue": state.catalogue.all(),
    }


def check_equal(found: Any, expected: Any) -> None:
    """Compare two pictures, part by part."""
    for part, value in expected.items():
        if isinstance(value, dict):
            check_equal(found[part], value)
        else:
            assert found[part] == value, part
    assert found == expected


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let settlements go on in later turns, and producers forget, after a few."""
    monkeypatch.setattr(budget, "TURN_ROWS", 4)
    monkeypatch.setattr(producer_memory, "FORGET_STEP", 2)
    monkeypatch.setattr(producer_memory, "ENTRIES_MAX", 3)


@pytest.fixture(params=["memory", "sqlite"])
def buses(request: pytest.FixtureRequest) -> Any:
    """Return a function that makes two partitions that hold the same."""

    def make(directory: str) -> list[Bus]:
        if request.param == "memory":
            return [Bus(MemoryStore(fingerprint())) for _ in range(2)]
        paths = [Path(directory, name) for name in ("one", "two")]
        for path in paths:
            path.mkdir()
        return [Bus(SqliteStore(path, fingerprint())) for path in paths]

    return make


def close(buses: list[Bus]) -> None:
    for bus in buses:
        if isinstance(bus.driver.store, SqliteStore):
            bus.driver.store.close()


@pytest.mark.requirement("R90")
@given(data=st.data())
@settings(
    max_examples=30,
    # A failing plan is short enough to be read; making it shorter takes minutes.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_what_follows_a_mark_is_taken_back_alone(buses: Any, data: st.DataObject) -> None:
    with TemporaryDirectory() as directory:
        marked, plain = made = buses(directory)
        try:
            kept, taken_back = data.draw(plans(marked))
            turn, other = marked.turn(), plain.turn()
            decide(turn, kept)
            decide(other, kept)
            before = picture(turn.stage), partition_picture(marked)

            mark = turn.mark()
            decide(turn, taken_back)
            turn.take_back_to(mark)

            assert picture(turn.stage) == before[0]
            check_equal(partition_picture(marked), before[1])
            assert picture(marked.finish(turn.stage)) == picture(plain.finish(other.stage))
            assert contents(marked.driver.store) == contents(plain.driver.store)
            check_equal(partition_picture(marked), partition_picture(plain))
        finally:
            close(made)


@pytest.mark.requirement("R90")
@given(data=st.data())
@settings(
    max_examples=30,
    # A failing plan is short enough to be read; making it shorter takes minutes.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_what_follows_a_mark_and_is_kept_is_as_if_there_had_been_none(
    buses: Any, data: st.DataObject
) -> None:
    with TemporaryDirectory() as directory:
        marked, plain = made = buses(directory)
        try:
            first, second = data.draw(plans(marked))
            turn, other = marked.turn(), plain.turn()
            decide(turn, first)
            decide(other, first)

            turn.mark()
            turn.mark()
            decide(turn, second)
            decide(other, second)

            assert picture(marked.finish(turn.stage)) == picture(plain.finish(other.stage))
            assert contents(marked.driver.store) == contents(plain.driver.store)
            check_equal(partition_picture(marked), partition_picture(plain))
        finally:
            close(made)
