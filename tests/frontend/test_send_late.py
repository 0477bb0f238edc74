"""A partition is late, and its breaker opens for all clients, when it answers no send at all."""

import pytest

from bendybus.frontend.core import send_failover
from bendybus.frontend.core.routing import Keys
from tests.frontend.test_send_failover import Board

pytestmark = pytest.mark.requirement("R645")
# So long a partition answers nothing before it is late.
SILENT_MS = send_failover.ATTEMPT_MS_MAX + send_failover.GRACE_MS


def test_a_send_with_little_time_says_nothing_about_its_partition() -> None:
    board = Board()

    frame = board.submit(Keys(1), timeout_ms=1)
    board.pass_time(1 + send_failover.GRACE_MS)

    assert board.finished == [frame]
    assert board.missed == []


def test_a_partition_that_answers_others_is_not_late() -> None:
    # The first one waits there behind much of its own entity.
    board = Board()
    board.submit(Keys(1))
    board.pass_time(SILENT_MS - 100)

    board.rules.heard(1, board.now)
    board.pass_time(100)

    assert [attempt.partition for attempt in board.sent] == [1, 2]
    assert board.missed == []


def test_a_partition_that_answers_nothing_is_late_even_if_all_sends_have_little_time() -> None:
    board = Board()

    for _ in range(SILENT_MS // 250 - 1):
        board.submit(Keys(1), timeout_ms=1)
        board.pass_time(250)
    assert board.missed == []
    board.submit(Keys(1), timeout_ms=1)
    board.pass_time(1 + send_failover.GRACE_MS)

    assert 1 in board.missed


def test_time_in_which_nothing_was_asked_does_not_count() -> None:
    board = Board()
    board.submit(Keys(1))
    board.rules.heard(1, board.now)
    board.store(board.sent[0], [1])
    board.pass_time(60_000)

    board.submit(Keys(1), timeout_ms=1)
    board.pass_time(1 + send_failover.GRACE_MS)

    assert board.missed == []


def test_the_next_stream_does_not_answer_for_the_one_that_ended() -> None:
    board = Board()
    board.submit(Keys(1), timeout_ms=1)
    board.pass_time(100)
    board.take(board.rules.lost(1, "gone", board.now))
    board.pass_time(SILENT_MS)

    board.submit(Keys(1), timeout_ms=1)
    board.pass_time(1 + send_failover.GRACE_MS)

    assert board.missed == []
