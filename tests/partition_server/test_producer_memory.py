"""Safe repeats of frames."""

from typing import Any

import pytest

from bendybus.domain import errors, limits
from bendybus.partition_server.state import producer_memory
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append
from bendybus.partition_server.store.records import Changes, ProducerEntry
from tests.partition_server.driver import Driver

PRODUCER: dict[str, Any] = {"producer_id": b"p" * 16, "producer_sequence": 5}


def test_a_repeated_frame_is_answered_like_the_first_and_stored_once(queue: Driver) -> None:
    first = queue.send(b"a", b"b", **PRODUCER)

    again = queue.send(b"a", b"b", **PRODUCER, age_ms=1_000)

    assert list(again.numbers) == list(first.numbers)
    assert queue.counts().active == 2


def test_a_repeat_is_known_after_a_restart(queue: Driver) -> None:
    first = queue.send(b"a", **PRODUCER)

    queue.restart()
    again = queue.send(b"a", **PRODUCER, age_ms=1_000)

    assert list(again.numbers) == list(first.numbers)
    assert queue.counts().active == 1


@pytest.mark.requirement("R02")
def test_another_part_of_the_same_frame_is_not_a_repeat(queue: Driver) -> None:
    queue.send(b"a", spans=[0, 1], **PRODUCER)

    queue.send(b"b", spans=[1, 1], **PRODUCER)

    assert queue.counts().active == 2


def test_the_same_name_at_another_queue_is_not_a_repeat(queue: Driver) -> None:
    queue.create("other")
    frames = [
        Append("t", queue.ref(name), Batch([b"a", b"b"]), groups, **PRODUCER)
        for groups in ((), (1, 1))
        for name in ("orders", "other")
    ]
    frames += [
        Append(
            "t", frame.entity, Batch([b"a"], partition_keys=["k" * 200]), **PRODUCER, spans=[9, 1]
        )
        for frame in frames[:2]
    ]

    answers = [queue.run(frame)[0] for frame in frames]
    queue.restart()
    answers += [queue.run(frame)[0] for frame in frames]

    assert [list(answer.numbers) for answer in answers[:4]] == [[1, 2]] * 4
    assert [len(answer.failures) for answer in answers] == [0, 0, 0, 0, 1, 1] * 2
    assert queue.counts_of("orders").active == queue.counts_of("other").active == 2


@pytest.mark.parametrize("outcome", ["1+2", '{"first": 1, "count": 2, "numbers": [1, 2]}'])
def test_an_entry_without_an_entity_is_one_of_any(queue: Driver, outcome: str) -> None:
    # As 0.3 wrote it.
    entry = ProducerEntry(PRODUCER["producer_id"], PRODUCER["producer_sequence"], 0, outcome, 1)
    queue.store.commit(Changes(producers=[entry]))
    queue.restart()

    again = queue.send(b"a", b"b", **PRODUCER)

    assert list(again.numbers) == [1, 2]
    assert queue.counts().active == 0


def test_an_earlier_frame_that_comes_late_is_not_taken_for_a_repeat(queue: Driver) -> None:
    queue.send(b"later", **(PRODUCER | {"producer_sequence": 9}))

    queue.send(b"earlier", **(PRODUCER | {"producer_sequence": 1}))

    assert queue.counts().active == 2


def test_a_repeat_repeats_its_failures_too(queue: Driver) -> None:
    frame = {"groups": (1, 1), "partition_keys": ["k" * 200, "k"], **PRODUCER}
    queue.send(b"bad", b"good", **frame)

    again = queue.send(b"bad", b"good", **frame)

    [(group, error)] = again.failures
    assert (group, type(error)) == (0, errors.InvalidArgument)
    assert error.metadata == {"field": "PartitionKey"}
    assert queue.counts().active == 1


def test_a_repeat_that_is_not_exact_is_refused(queue: Driver) -> None:
    queue.send(b"a", b"b", **PRODUCER)

    with pytest.raises(errors.InvalidOperation, match="must be exact"):
        queue.send(b"a", b"b", b"c", **PRODUCER)


def test_a_repeat_of_some_units_finds_them_and_stores_the_others_once(queue: Driver) -> None:
    frame = {"groups": (1, 2, 1), **PRODUCER}
    first = queue.send(b"a", b"b", b"c", b"d", spans=[4, 3, 9, 1], **frame)

    again = queue.send(
        b"d", b"new", b"b", b"c", groups=(1, 1, 2), age_ms=9, **PRODUCER, spans=[9, 1, 20, 1, 5, 2]
    )
    third = queue.send(b"new", spans=[20, 1], age_ms=10, **PRODUCER)

    assert list(first.numbers) == [1, 2, 3, 4]
    assert list(again.numbers) == [4, 5, 2, 3]
    assert list(third.numbers) == [5]
    assert queue.counts().active == 5


def test_after_a_restart_it_is_known_that_something_is_no_longer_known(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_memory, "ENTRIES_MAX", 10)
    monkeypatch.setattr(producer_memory, "FORGET_STEP", 5)
    for sequence in range(40):
        queue.advance(1_000)
        queue.send(b"a", **(PRODUCER | {"producer_sequence": sequence}))

    queue.restart()

    with pytest.raises(errors.OutcomeUnknown):
        queue.send(b"a", **(PRODUCER | {"producer_sequence": 0, "age_ms": 40_000}))
    # What was first tried later than anything that is forgotten is new.
    queue.send(b"b", **(PRODUCER | {"producer_sequence": 99, "age_ms": 10}))
    assert queue.counts().active == 41


def test_a_forgotten_frame_of_a_wrong_clock_does_not_hold_up_repeats_for_ever(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_memory, "ENTRIES_MAX", 10)
    monkeypatch.setattr(producer_memory, "FORGET_STEP", 5)
    queue.wall_ms += 30 * 86_400_000
    for sequence in range(40):
        queue.advance(1_000)
        queue.send(b"a", **(PRODUCER | {"producer_sequence": sequence}))
    queue.wall_ms -= 30 * 86_400_000
    queue.restart()
    queue.advance(1_000)

    queue.send(b"b", **(PRODUCER | {"producer_sequence": 99, "age_ms": 10}))

    assert queue.counts().active == 41


def test_what_is_remembered_has_a_bound_in_bytes(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_memory, "FORGET_STEP", 2)
    monkeypatch.setattr(producer_memory, "BYTES_MAX", 5_000)

    for sequence in range(30):
        queue.advance(1)
        frame: dict[str, Any] = {"groups": (1,) * 20, "partition_keys": ["k" * 200, "k"] * 10}
        queue.send(*[b"a"] * 20, **frame, **(PRODUCER | {"producer_sequence": sequence}))

    held = queue.store.open().producers
    assert sum(len(entry.outcome) + producer_memory.ENTRY_BYTES for entry in held) < 7_500


def test_what_a_failed_commit_would_have_forgotten_is_still_known(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_memory, "ENTRIES_MAX", 3)
    monkeypatch.setattr(producer_memory, "FORGET_STEP", 2)
    for sequence in range(5):
        queue.send(b"a", **(PRODUCER | {"producer_sequence": sequence}))
    command = Append("t", queue.ref(), Batch([b"a"]), (), b"p" * 16, 5)
    stage = queue.partition.decide([command], queue.now)
    assert stage.changes.producers_forgotten

    queue.partition.abandon(stage, errors.PartitionUnavailable("disk"), queue.now)

    again = queue.send(b"a", **(PRODUCER | {"producer_sequence": 0, "age_ms": 10}))
    assert list(again.numbers) == [1]


def test_a_repeat_that_is_too_old_is_an_error_not_a_second_message(queue: Driver) -> None:
    with pytest.raises(errors.OutcomeUnknown, match="no longer known"):
        queue.send(b"a", **PRODUCER, age_ms=producer_memory.AGE_MS_MAX + 1)

    assert queue.counts().active == 0


def test_a_repeat_of_a_frame_whose_commit_failed_is_stored(queue: Driver) -> None:
    command = Append("t", queue.ref(), Batch([b"a"]), **PRODUCER)
    stage = queue.partition.decide([command], queue.now)
    queue.partition.abandon(stage, errors.PartitionUnavailable("disk"), queue.now)

    queue.send(b"a", **PRODUCER, age_ms=10)

    assert queue.counts().active == 1


def test_what_is_remembered_has_a_bound(queue: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_memory, "ENTRIES_MAX", 10)
    monkeypatch.setattr(producer_memory, "FORGET_STEP", 5)

    for sequence in range(40):
        queue.advance(1_000)
        queue.send(b"a", **(PRODUCER | {"producer_sequence": sequence}))

    assert len(queue.store.open().producers) <= 15
    with pytest.raises(errors.OutcomeUnknown):
        queue.send(b"a", **(PRODUCER | {"producer_sequence": 0, "age_ms": 40_000}))


def test_a_large_commit_that_failed_is_taken_back_in_few_steps(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sequence in range(2_000):
        queue.send(b"a", **(PRODUCER | {"producer_sequence": sequence}))
    commands = [
        Append("t", queue.ref(), Batch([b"a"]), (), b"q" * 16, sequence) for sequence in range(500)
    ]
    memory = queue.partition.state.producers
    before = list(memory._windows.entries())
    steps: list[object] = []
    restore = memory._windows._restore

    def counted(*before: Any) -> None:
        steps.append(None)
        restore(*before)

    monkeypatch.setattr(memory._windows, "_restore", counted)
    stage = queue.partition.decide(commands, queue.now)

    queue.partition.take_back(stage)

    assert list(memory._windows.entries()) == before
    assert len(steps) == 500


def test_a_few_large_outcomes_have_a_bound_in_bytes_too(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_memory, "BYTES_MAX", 100_000)

    for sequence in range(100):
        queue.advance(1)
        frame: dict[str, Any] = {"groups": (1,) * 200, "partition_keys": ["k" * 200, "k"] * 100}
        queue.send(*[b"a"] * 200, **frame, **(PRODUCER | {"producer_sequence": sequence}))

    held = queue.store.open().producers
    assert sum(len(entry.outcome) + producer_memory.ENTRY_BYTES for entry in held) < 120_000


def test_a_clock_that_jumps_over_a_restart_makes_no_repeat_new(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_memory, "FORGET_STEP", 2)
    for sequence in range(6):
        queue.send(b"a", **(PRODUCER | {"producer_sequence": sequence}))

    queue.wall_ms += 3_600_000
    queue.restart()
    for sequence in range(6, 9):
        queue.send(b"a", **(PRODUCER | {"producer_sequence": sequence}))
    again = queue.send(b"a", **(PRODUCER | {"producer_sequence": 3, "age_ms": 2_000}))

    assert list(again.numbers) == [4]
    assert queue.counts().active == 9


def test_what_was_forgotten_is_not_new_after_a_clock_that_jumped_over_a_restart(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_memory, "ENTRIES_MAX", 10)
    monkeypatch.setattr(producer_memory, "FORGET_STEP", 5)
    for sequence in range(20):
        queue.advance(10)
        queue.send(b"a", **(PRODUCER | {"producer_sequence": sequence}))

    queue.wall_ms += 3_600_000
    queue.restart()
    queue.mono_ms += 1_000

    with pytest.raises(errors.OutcomeUnknown):
        queue.send(b"a", **(PRODUCER | {"producer_sequence": 0, "age_ms": 2_000}))
    assert queue.counts().active == 20


def test_a_repeat_of_which_a_part_is_stored_never_says_that_nothing_is(queue: Driver) -> None:
    first = queue.send(b"a", spans=[0, 1], **PRODUCER)
    queue.partition.state.sends_refused = "the volume is full"

    again = queue.send(b"a", b"b", groups=(1, 1), spans=[0, 1, 1, 1], age_ms=9, **PRODUCER)

    assert list(again.numbers) == [first.numbers[0], 0]
    [(unit, error)] = again.failures
    assert (unit, type(error)) == (1, errors.DiskLow)


def test_a_position_that_no_frame_has_is_refused(queue: Driver) -> None:
    queue.send(b"a", spans=[limits.FRAME_MESSAGES_MAX - 1, 1], **PRODUCER)

    with pytest.raises(errors.InvalidArgument, match="spans"):
        queue.send(b"b", spans=[limits.FRAME_MESSAGES_MAX, 1], **PRODUCER)


def test_a_frame_has_a_bounded_number_of_parts(queue: Driver) -> None:
    most = producer_memory.PARTS_MAX
    for position in range(most):
        queue.send(b"a", **PRODUCER, spans=[position, 1])

    with pytest.raises(errors.InvalidOperation, match="256 parts already"):
        queue.send(b"a", **PRODUCER, spans=[most, 1])

    # What is stored is still answered, and other frames are not concerned.
    assert list(queue.send(b"a", **PRODUCER, spans=[most - 1, 1]).numbers) == [most]
    queue.send(b"a", **(PRODUCER | {"producer_sequence": 6}), spans=[most, 1])
    assert queue.counts().active == most + 1
