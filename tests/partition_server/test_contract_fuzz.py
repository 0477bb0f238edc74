"""Whatever a message of the contract says: the partition goes on, its file opens and serves."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bendybus.domain import bounds, errors
from bendybus.domain.disposition import Disposition
from bendybus.domain.errors import BusError
from bendybus.domain.sub_queue import SubQueue
from bendybus.internal.v1 import entity_pb2, partition_pb2
from bendybus.partition_server.broker.partition import Partition
from bendybus.partition_server.service import conversions, counting, frames
from bendybus.partition_server.state import answers, commands
from bendybus.partition_server.store.records import Changes, Row, SlotState, row_id
from bendybus.partition_server.store.sqlite_store import SqliteStore
from bendybus.v1 import message_pb2
from bendybus.wire import batch_deletes, catalogue
from tests.contract_messages import batches, messages
from tests.partition_server.driver import Driver, fingerprint

DAY_MS = 86_400_000
FUZZ = settings(max_examples=80, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    """A partition on a file, which is opened anew after every example."""
    # In memory where that is possible: hundreds of openings wait for the disk otherwise.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with TemporaryDirectory(dir=memory) as folder:
        store = SqliteStore(Path(folder), fingerprint())
        made = Driver(store)
        made.create()
        made.create(
            "detecting",
            requires_duplicate_detection=True,
            duplicate_detection_history_time_window_ms=20_000,
        )
        yield made
        store.close()


def still_serves(driver: Driver) -> None:
    """Let a day pass, open the file anew, and use the queue; all of it is converted to frames."""
    driver.advance(DAY_MS)
    driver.restart()
    driver.sweep()
    number = driver.send(b"sentinel").numbers[0]
    found = []
    while pairs := driver.receive(100, size_bytes=1 << 30):
        driver.settle(Disposition.COMPLETE, *[token for _, token in pairs])
        found += [row.payload for row, _ in pairs]
        delivery = answers.Delivery(0, 0, [row for row, _ in pairs])
        conversions.delivery_to_proto(delivery, partition=0)
    assert b"sentinel" in found, number
    conversions.delivery_to_proto(answers.Delivery(0, 0, driver.peek(count=1_000)), partition=0)


def run(driver: Driver, make: Any) -> None:
    """Run the command that `make` returns; only errors of the domain may come of it."""
    try:
        command = make()
    except BusError:
        return
    driver.run(command)


@FUZZ
@given(
    st.lists(
        st.tuples(
            messages(partition_pb2.SendFramesRequest, depth=0), batches(message_pb2.MessageBatch)
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["orders", "detecting"]),
)
def test_no_send_stops_a_partition(driver: Driver, requests: list[Any], name: str) -> None:
    ref = driver.ref(name)
    for request, batch in requests:
        request.batch.CopyFrom(batch)
        request.entity.CopyFrom(partition_pb2.EntityRef(uid=ref.uid, generation=ref.generation))
        if request.HasField("batch") and not request.group_sizes:
            request.group_sizes.extend([1] * len(batch.messages))
        run(driver, lambda request=request: frames.send_command(request, "t"))  # type: ignore[arg-type]

    still_serves(driver)


@FUZZ
@given(
    st.lists(messages(partition_pb2.DeliverFramesRequest), min_size=1, max_size=4),
    st.lists(messages(message_pb2.ValueMap), min_size=1, max_size=1),
)
def test_no_ask_and_no_settlement_stops_a_partition(
    driver: Driver, requests: list[Any], maps: list[Any]
) -> None:
    driver.send(*[b"x"] * 4)
    tokens = [token for _, token in driver.receive(4)]
    ref = driver.ref()
    for request, token in zip(requests, tokens, strict=False):
        kind = request.WhichOneof("kind")
        if kind == "ask":
            request.ask.entity.CopyFrom(
                partition_pb2.EntityRef(uid=ref.uid, generation=ref.generation)
            )
        if kind == "settle":
            request.settle.changed_properties.CopyFrom(maps[0])
            if len(request.settle.lock_tokens) == 16:
                request.settle.lock_tokens = token
        run(driver, lambda request=request: frames._command(request, "s"))  # type: ignore[arg-type]
    driver.run(commands.StreamEnded("s"))

    still_serves(driver)


@FUZZ
@given(
    messages(partition_pb2.PeekRequest),
    messages(partition_pb2.ReceiveDeferredRequest),
    messages(partition_pb2.CancelScheduledMessagesRequest),
    messages(partition_pb2.DeleteMessagesRequest),
)
def test_no_call_by_number_stops_a_partition(
    driver: Driver, peek: Any, deferred: Any, cancel: Any, delete: Any
) -> None:
    from bendybus.domain import sequence_number

    ref = driver.ref()
    counters = [sequence_number.counter_of(number) for number in deferred.sequence_numbers]
    cancelled = list(cancel.sequence_numbers)
    run(
        driver,
        lambda: commands.Peek(
            "t", ref, peek.from_sequence_number, peek.max_messages, peek.max_bytes
        ),
    )
    run(driver, lambda: commands.ReceiveDeferred("t", ref, False, counters))
    run(driver, lambda: commands.CancelScheduled("t", ref, cancelled))
    run(
        driver,
        lambda: commands.DeleteMessages(
            "t",
            ref,
            delete.max_messages,
            batch_deletes.before_ms(delete),
            batch_deletes.states(delete),
        ),
    )

    still_serves(driver)


@FUZZ
@given(messages(entity_pb2.ApplyEntityRequest), messages(entity_pb2.FenceIdleEntityRequest))
def test_no_entry_of_the_catalogue_stops_a_partition(
    driver: Driver, apply: Any, fence: Any
) -> None:
    for entry in apply.others:
        entry.name = entry.name or "another"

    def make() -> commands.Command:
        return commands.ApplyEntity("t", catalogue.applied(apply))

    run(driver, make)
    run(driver, lambda: commands.FenceIdle("t", fence.uid, fence.generation, fence.idle_ms))

    still_serves(driver)


# What v0.2.1 let in


def poisoned(folder: Path) -> SqliteStore:
    """Return the file of a partition that holds what must no longer come in."""
    store = SqliteStore(folder, fingerprint())
    driver = Driver(store)
    driver.create()
    life, due_ms = 2**63 - 1, driver.wall_ms + 1_000
    row = Row(row_id(0, 1), 2, driver.wall_ms, None, due_ms, life, 0, "m\0", "k\0", None, b"p")
    never = row._replace(id=row_id(0, 2), scheduled_ms=2**63 - 1)
    late = row._replace(id=row_id(0, 3), state=0, scheduled_ms=0, expires_ms=2**63 - 1)
    rows = [row, never, late]
    figures = SlotState(
        0, "uid-orders", SubQueue.MAIN, 3, 1, 0, 2, sum(map(Row.size, rows)), driver.wall_ms
    )
    store.commit(Changes(inserts=rows, slots={0: figures}))
    return store


def test_a_file_that_holds_a_poison_row_opens_and_serves(tmp_path: Path) -> None:
    store = poisoned(tmp_path)
    driver = Driver(store)

    driver.advance(DAY_MS)
    received = driver.receive(5)

    assert [row.payload for row, _ in received] == [b"p", b"p"]
    assert {row.time_to_live_ms for row, _ in received} == {2**63 - 1}
    driver.settle(Disposition.COMPLETE, *[token for _, token in received])
    still_serves(driver)
    assert driver.counts_of("orders").scheduled == 1
    store.close()


def test_what_a_partition_refuses_it_never_began(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, fingerprint())
    driver = Driver(store)
    driver.create()
    from bendybus.domain import errors

    for bad in (
        {"time_to_live_ms": [2**63 - 1]},
        {"scheduled_ms": [2**63 - 1], "time_to_live_ms": [1_000]},
        {"message_ids": ["a\0b"]},
        {"producer_id": b"p" * 16, "producer_sequence": 2**64 - 1},
        {"producer_id": b"p" * 65},
    ):
        with pytest.raises(errors.InvalidArgument):
            driver.send(b"x", **bad)

    assert driver.counts().active == 0
    reopened = Partition(store.open(), store, driver.now, new_id=uuid4)
    assert reopened.state.boot == 2
    store.close()


def test_a_faulty_message_refuses_its_own_unit(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, fingerprint())
    driver = Driver(store)
    driver.create()

    outcome = driver.send(b"a", b"b", b"c", groups=(1, 1, 1), time_to_live_ms=[0, 2**63 - 1, 1_000])

    assert [group for group, _ in outcome.failures] == [1]
    assert [row.payload for row in driver.peek()] == [b"a", b"c"]
    store.close()


def test_a_number_with_more_bits_than_a_counter_names_no_message_of_another_queue(
    tmp_path: Path,
) -> None:
    from bendybus.domain import errors, sequence_number

    store = SqliteStore(tmp_path, fingerprint())
    driver = Driver(store)
    driver.create()
    driver.create("other")
    ref = driver.ref("other")
    batch = commands.Batch([b"theirs"], scheduled_ms=[driver.wall_ms + 1_000])
    [appended] = driver.run(commands.Append("t", ref, batch))
    counter = sequence_number.counter_of(appended.numbers[0])

    # Slot 2 is that of the other queue.
    [answer] = driver.run(commands.CancelScheduled("t", driver.ref(), [2 << 44 | counter]))

    assert isinstance(answer, answers.Failed)
    assert isinstance(answer.error, errors.MessageNotFound)
    assert [c.scheduled for c in driver.run(commands.Counts("t", [ref.uid]))[0]] == [1]
    store.close()


def test_counts_are_asked_of_no_more_entities_than_a_namespace_has() -> None:
    next(counting.of_entities(["a"] * bounds.UIDS_A_CALL_MAX))

    with pytest.raises(errors.InvalidArgument) as refused:
        next(counting.of_entities(["a"] * (bounds.UIDS_A_CALL_MAX + 1)))

    assert refused.value.metadata["field"] == "uids"
