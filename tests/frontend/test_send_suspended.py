"""Attempts of sends while the front end is suspended."""

import pytest

from bendybus.frontend.core import send_failover
from bendybus.frontend.core.routing import Keys
from tests.frontend.test_send_failover import Board


@pytest.mark.requirement("R420")
def test_time_in_which_no_answer_could_be_read_does_not_count() -> None:
    board = Board()
    board.submit(Keys(1))
    board.pass_time(500)

    for gap_ms in (5_000, 30_000):
        board.now += gap_ms
        board.rules.suspended(gap_ms, board.now)
        board.pass_time(send_failover.GRACE_MS + 100)
        assert len(board.sent) == 1
    board.submit(Keys(1), lane=2)
    board.now += 100
    board.rules.suspended(5_000, board.now)
    # Nobody gets more than a whole share, also who came in the gap.
    board.pass_time(send_failover.ATTEMPT_MS_MAX + send_failover.GRACE_MS)

    assert [attempt.partition for attempt in board.sent[:2]] == [1, 2]
    assert board.missed == [1, 2]
