"""When no partition has room on its disk, a send says so; when one may have, it does not."""

import pytest

from bendybus.domain import errors
from bendybus.frontend.core.routing import Keys
from tests.frontend.test_send_failover import Board


@pytest.fixture
def board() -> Board:
    return Board()


@pytest.mark.requirement("R328")
def test_disk_low_is_said_only_when_no_partition_has_room(board: Board) -> None:
    low = board.submit(Keys(1))
    for i in range(4):
        board.refuse(board.sent[i], errors.DiskLow("low"))
    assert type(low.failures[0]) is errors.DiskLow

    mixed = board.submit(Keys(1))
    board.refuse(board.sent[4], errors.PartitionUnavailable("reopening"))
    for i in range(5, 8):
        board.refuse(board.sent[i], errors.DiskLow("low"))
    assert type(mixed.failures[0]) is errors.PartitionUnavailable


@pytest.mark.requirement("R328")
def test_a_partition_that_is_away_may_have_room(board: Board) -> None:
    board.down.add(2)
    frame = board.submit(Keys(1))

    for i in range(3):
        board.refuse(board.sent[i], errors.DiskLow("low"))

    assert type(frame.failures[0]) is errors.PartitionUnavailable


@pytest.mark.requirement("R328")
def test_what_is_pinned_asks_its_own_partition_for_room(board: Board) -> None:
    frame = board.submit(Keys(1, partition_keys=["k"]))

    board.refuse(board.sent[0], errors.DiskLow("low"))

    assert type(frame.failures[0]) is errors.DiskLow
    assert len(board.sent) == 1


@pytest.mark.requirement("R328")
def test_an_entity_that_is_full_in_one_partition_is_not_out_of_disk_there(board: Board) -> None:
    full = board.submit(Keys(1))
    failures = [(0, errors.QuotaExceeded("full"))]
    board.take(board.rules.answered(board.sent[0].attempt_id, [], (), failures, board.now))
    for i in range(1, 4):
        board.refuse(board.sent[i], errors.DiskLow("low"))
    assert type(full.failures[0]) is errors.PartitionUnavailable
