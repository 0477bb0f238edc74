"""Attempts, deadlines and failover of sends."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.entity import Entity
from bendybus.frontend.core import routing, send_failover
from bendybus.frontend.core.routing import Keys
from bendybus.frontend.core.send_failover import (
    Attempt,
    Finished,
    Frame,
    PartitionLate,
    SendFailover,
    Transmit,
)
from tests.frontend.entities import queue


@dataclass
class Board:
    """A send board with four partitions and a clock."""

    down: set[int] = field(default_factory=set)
    now: int = 1_000
    finished: list[Frame] = field(default_factory=list)
    sent: list[Attempt] = field(default_factory=list)
    missed: list[int] = field(default_factory=list)
    # Age of what is submitted; above 0 it is a repeat.
    repeat_age_ms: int = 0

    def __post_init__(self) -> None:
        self.rules = SendFailover(lambda partition: partition not in self.down)

    def take(self, actions: list[Any]) -> None:
        """Note what is to be done."""
        for action in actions:
            if isinstance(action, Transmit):
                self.sent.append(action.attempt)
            elif isinstance(action, Finished):
                self.finished.append(action.frame)
            else:
                assert isinstance(action, PartitionLate)
                self.missed.append(action.partition)

    def submit(
        self,
        keys: Keys,
        sizes: tuple[int, ...] = (),
        *,
        entity: Entity | None = None,
        lane: int = 1,
        timeout_ms: int = 60_000,
    ) -> Frame:
        """Start a frame."""
        entity = entity or queue()
        opaque: Any = None
        frame = Frame(
            opaque, entity, opaque, keys.count, self.now + timeout_ms, self.repeat_age_ms, b"p", 1
        )
        routed = routing.route(entity, keys, sizes, lane=lane, split=False)
        self.take(self.rules.submit(frame, routed, self.now))
        return frame

    def store(self, attempt: Attempt, numbers: list[int]) -> None:
        """Answer an attempt: stored."""
        self.take(self.rules.answered(attempt.attempt_id, numbers, (), (), self.now))

    def refuse(self, attempt: Attempt, error: errors.BusError) -> None:
        """Answer an attempt: refused whole."""
        self.take(self.rules.refused(attempt.attempt_id, error, self.now))

    def pass_time(self, milliseconds: int) -> None:
        """Move the clock."""
        self.now += milliseconds
        self.take(self.rules.due(self.now))


@pytest.fixture
def board() -> Board:
    """Return a fresh board."""
    return Board()


def test_a_frame_is_stored_at_its_first_choice(board: Board) -> None:
    frame = board.submit(Keys(2))

    board.store(board.sent[0], [11, 12])

    assert board.sent[0].partition == 1
    assert (frame.numbers, frame.failures) == ([11, 12], {})
    assert board.finished == [frame]


@pytest.mark.requirement("R02")
@pytest.mark.requirement("R30")
def test_a_partition_that_is_known_to_be_down_is_skipped(board: Board) -> None:
    board.down = {1, 2}

    board.submit(Keys(1))

    assert [attempt.partition for attempt in board.sent] == [3]


@pytest.mark.requirement("R30")
def test_a_send_that_is_not_answered_goes_elsewhere(board: Board) -> None:
    board.submit(Keys(1))

    board.pass_time(send_failover.ATTEMPT_MS_MAX + send_failover.GRACE_MS)

    assert [attempt.partition for attempt in board.sent] == [1, 2]
    assert board.missed == [1]


@pytest.mark.requirement("R31")
def test_an_attempt_takes_two_seconds_or_a_quarter_of_what_is_left(board: Board) -> None:
    board.submit(Keys(1), timeout_ms=60_000)
    board.submit(Keys(1), timeout_ms=4_000)

    assert [attempt.deadline_ms - board.now for attempt in board.sent] == [2_000, 1_000]


def test_an_attempt_is_given_up_only_after_the_partition_must_refuse_it(board: Board) -> None:
    board.submit(Keys(1))

    board.pass_time(send_failover.ATTEMPT_MS_MAX + send_failover.GRACE_MS - 1)

    assert len(board.sent) == 1


@pytest.mark.requirement("R30")
def test_what_a_broken_stream_may_have_stored_goes_elsewhere_after_a_wait(board: Board) -> None:
    frame = board.submit(Keys(1))

    board.down = {1}
    board.take(board.rules.lost(1, "gone", board.now))
    board.pass_time(send_failover.RETURN_MS - 1)
    assert len(board.sent) == 1
    board.pass_time(send_failover.RETRY_MS)
    board.store(board.sent[1], [5])

    assert board.sent[1].partition == 2
    assert board.finished == [frame]
    assert not frame.failures
    # The first partition may have stored it, too: that is counted and said.
    assert frame.possible_duplicates == {0}


def test_a_partition_that_is_back_is_asked_again_before_another_one(board: Board) -> None:
    frame = board.submit(Keys(1))
    board.take(board.rules.lost(1, "gone", board.now))

    board.pass_time(send_failover.RETRY_MS)
    again = board.sent[1]
    board.store(again, [5])

    assert again.partition == 1
    # It knows what it has, and nobody else was asked.
    assert (frame.numbers, frame.possible_duplicates) == ([5], set())


def test_a_repeat_may_also_be_stored_where_another_front_end_took_it(board: Board) -> None:
    """A front end that wakes up goes on with what its client has repeated elsewhere."""
    board.repeat_age_ms = 500

    keyless = board.submit(Keys(2), (1, 1))
    board.store(board.sent[0], [5, 6])
    keyed = board.submit(Keys(1, partition_keys=["k"]))
    board.store(board.sent[1], [7])
    plain = board.submit(Keys(1), entity=queue(partitions=1))
    board.store(board.sent[2], [8])

    assert keyless.possible_duplicates == {0, 1}
    assert keyless.messages_twice == 2
    assert keyed.possible_duplicates == plain.possible_duplicates == set()


def test_an_unknown_outcome_at_the_partition_is_asked_again_there(board: Board) -> None:
    frame = board.submit(Keys(1))

    board.refuse(board.sent[0], errors.OutcomeUnknown("the sync failed"))
    board.pass_time(send_failover.RETRY_MS)
    board.refuse(board.sent[1], errors.OutcomeUnknown("no longer known"))
    board.store(board.sent[2], [5])

    assert [attempt.partition for attempt in board.sent] == [1, 1, 2]
    assert frame.possible_duplicates == {0}


def test_a_refusal_of_a_repeat_does_not_make_an_unknown_outcome_a_no(board: Board) -> None:
    board.repeat_age_ms = 500
    frame = board.submit(Keys(1, partition_keys=["k"]))

    board.refuse(board.sent[0], errors.PartitionUnavailable("reopening"))
    board.down = {0, 1, 2, 3}
    down = board.submit(Keys(1, partition_keys=["k"]))

    assert isinstance(frame.failures[0], errors.OutcomeUnknown)
    assert isinstance(down.failures[0], errors.OutcomeUnknown)


def test_what_the_memory_of_its_partition_says_of_a_repeat_is_definite(board: Board) -> None:
    board.repeat_age_ms = 500
    frame = board.submit(Keys(1, partition_keys=["k"]))

    too_large = [(0, errors.MessageSizeExceeded("large"))]
    board.take(board.rules.answered(board.sent[0].attempt_id, [0], (), too_large, board.now))

    assert isinstance(frame.failures[0], errors.MessageSizeExceeded)


def test_a_keyless_repeat_waits_for_its_first_choice(board: Board) -> None:
    board.repeat_age_ms = 500
    board.down = {1}
    board.submit(Keys(1))

    board.pass_time(send_failover.RETRY_MS)
    assert board.sent == []
    board.down = set()
    board.pass_time(send_failover.RETRY_MS)

    assert [attempt.partition for attempt in board.sent] == [1]


@pytest.mark.requirement("R21")
def test_a_keyed_send_to_a_partition_that_is_down_is_an_error(board: Board) -> None:
    entity = queue(partitions=4)
    board.down = {0, 1, 2, 3}

    frame = board.submit(Keys(1, partition_keys=["k"]), entity=entity)

    assert isinstance(frame.failures[0], errors.PartitionUnavailable)
    assert not board.sent
    assert board.finished == [frame]


@pytest.mark.requirement("R21")
def test_a_keyed_send_whose_partition_breaks_is_an_error_not_a_failover(board: Board) -> None:
    frame = board.submit(Keys(1, partition_keys=["k"]))
    partition = board.sent[0].partition

    board.take(board.rules.lost(partition, "gone", board.now))

    assert isinstance(frame.failures[0], errors.OutcomeUnknown)
    assert frame.failures[0].metadata["partition"] == str(partition)
    assert len(board.sent) == 1


@pytest.mark.requirement("R21")
def test_a_stalled_partition_fails_keyed_sends_now_and_others_at_their_deadline(
    board: Board,
) -> None:
    keyed = board.submit(Keys(1, partition_keys=["k"]))
    partition = board.sent[0].partition
    board.submit(Keys(1), lane=partition)

    board.take(board.rules.stalled(partition, "its echo is late", board.now))

    assert board.finished == [keyed]
    assert len(board.sent) == 2


@pytest.mark.requirement("R42")
def test_only_what_is_pinned_to_the_partition_in_trouble_fails(board: Board) -> None:
    entity = queue(partitions=16)
    keys = Keys(3, partition_keys=["a", "b", ""])
    frame = board.submit(keys, (1, 1, 1), entity=entity, lane=15)
    of_a = next(a for a in board.sent if a.part.units[0].start == 0)

    board.take(board.rules.lost(of_a.partition, "gone", board.now))
    for attempt in board.sent:
        if attempt is not of_a:
            board.store(attempt, [7] * attempt.part.count)

    assert list(frame.failures) == [0]
    assert frame.numbers == [0, 7, 7]


def test_numbers_of_parts_are_put_together_in_the_order_of_the_frame(board: Board) -> None:
    keys = Keys(4, partition_keys=["a", "b", "a", "b"])
    frame = board.submit(keys, (1, 1, 1, 1), entity=queue(partitions=16))
    first = next(a for a in board.sent if a.part.units[0].start == 0)
    second = next(a for a in board.sent if a.part.units[0].start == 1)

    board.store(second, [21, 22])
    board.store(first, [11, 12])

    assert frame.numbers == [11, 21, 12, 22]


@pytest.mark.requirement("R30")
def test_a_full_partition_is_skipped(board: Board) -> None:
    frame = board.submit(Keys(1))

    board.refuse(board.sent[0], errors.QuotaExceeded("full"))
    board.store(board.sent[1], [5])

    assert not frame.failures


def test_quota_exceeded_is_said_only_when_all_partitions_are_full(board: Board) -> None:
    frame = board.submit(Keys(1))

    for i in range(4):
        board.refuse(board.sent[i], errors.QuotaExceeded("full"))

    assert isinstance(frame.failures[0], errors.QuotaExceeded)
    assert sorted(attempt.partition for attempt in board.sent) == [0, 1, 2, 3]


def test_some_full_and_some_away_is_unavailable_not_full(board: Board) -> None:
    frame = board.submit(Keys(1))
    board.refuse(board.sent[0], errors.PartitionUnavailable("reopening"))

    for i in range(1, 4):
        board.refuse(board.sent[i], errors.QuotaExceeded("full"))

    assert isinstance(frame.failures[0], errors.PartitionUnavailable)


def test_only_the_groups_that_did_not_fit_go_elsewhere(board: Board) -> None:
    frame = board.submit(Keys(2), (1, 1))

    full = [(1, errors.QuotaExceeded("full"))]
    board.take(board.rules.answered(board.sent[0].attempt_id, [11, 0], (), full, board.now))
    [unit] = board.sent[1].part.units
    board.store(board.sent[1], [22])

    assert (unit.start, unit.end) == (1, 2)
    assert (frame.numbers, frame.failures) == ([11, 22], {})


def test_a_message_that_is_too_large_is_too_large_everywhere(board: Board) -> None:
    frame = board.submit(Keys(1))

    board.refuse(board.sent[0], errors.MessageSizeExceeded("large"))

    assert isinstance(frame.failures[0], errors.MessageSizeExceeded)
    assert len(board.sent) == 1


def test_another_generation_is_tried_again_at_the_same_partition(board: Board) -> None:
    board.submit(Keys(1, partition_keys=["k"]))

    board.refuse(board.sent[0], errors.GenerationMismatch("newer"))
    assert len(board.sent) == 1
    board.pass_time(send_failover.RETRY_MS)

    assert board.sent[1].partition == board.sent[0].partition


def test_nothing_is_tried_after_the_time_is_over(board: Board) -> None:
    frame = board.submit(Keys(1), timeout_ms=100)

    board.pass_time(1_000)

    assert isinstance(frame.failures[0], errors.OutcomeUnknown)
    assert len(board.sent) == 1
    assert len(board.rules) == 0


def test_no_partition_at_all_is_an_error_at_once(board: Board) -> None:
    board.down = {0, 1, 2, 3}

    frame = board.submit(Keys(1))

    assert isinstance(frame.failures[0], errors.PartitionUnavailable)


def test_a_late_answer_of_an_attempt_that_was_given_up_is_ignored(board: Board) -> None:
    frame = board.submit(Keys(1))
    board.pass_time(send_failover.ATTEMPT_MS_MAX + send_failover.GRACE_MS)

    board.store(board.sent[0], [1])
    board.store(board.sent[1], [2])

    assert frame.numbers == [2]
    assert board.finished == [frame]


def test_the_lane_stays_with_a_part_wherever_it_goes(board: Board) -> None:
    board.submit(Keys(1))

    board.down = {1}
    board.take(board.rules.lost(1, "gone", board.now))
    board.pass_time(send_failover.RETURN_MS)

    assert [(attempt.partition, attempt.part.lane) for attempt in board.sent] == [(1, 1), (2, 1)]
