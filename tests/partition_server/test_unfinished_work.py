"""Settlements of large or many messages: bounded turns, one answer, nothing lost on the way."""

from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.disposition import Disposition
from bendybus.partition_server.state import budget, unfinished_work
from bendybus.partition_server.state.answers import Settled
from bendybus.partition_server.state.commands import Release, Settle, StreamEnded, Withdraw
from bendybus.partition_server.state.stage import Stage
from tests.partition_server.driver import Driver
from tests.partition_server.test_due_times import Reads

ME = b"m" * 16
LATE_MS = 1_000
# Large beside the budget of these tests.
LARGE = 10_000


@pytest.fixture(autouse=True)
def small_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let eight large messages be what a turn may write."""
    monkeypatch.setattr(budget, "TURN_BYTES", 8 * LARGE)


def locked(driver: Driver, count: int, size_bytes: int = LARGE, **columns: Any) -> list[bytes]:
    """Send and receive messages; return their tokens, oldest first."""
    for n in range(count):
        driver.send(b"%05d" % n + b"x" * (size_bytes - 5), **columns)
    tokens: list[bytes] = []
    while len(tokens) < count:
        tokens += [token for _, token in driver.receive(count)]
    return tokens


def settle(disposition: Disposition, tokens: list[bytes], **options: Any) -> Settle:
    return Settle("s", 7, disposition, b"".join(tokens), **options)


def turn(driver: Driver, *commands: Any) -> tuple[list[Stage], list[Any]]:
    """Do one turn; return its stages and the values answered."""
    stages, answers = driver.turn(*commands)
    return stages, [value for _, value in answers]


def turns(driver: Driver, *commands: Any) -> tuple[list[Stage], list[Any]]:
    """Do turns until nothing is left to do."""
    stages, answers = turn(driver, *commands)
    while driver.partition.state.unfinished:
        more, values = turn(driver)
        assert more, "something waits and nothing is done"
        assert len(stages) < 1_000, "it does not come to an end"
        stages += more
        answers += values
    return stages, answers


def written_bytes(stage: Stage) -> int:
    return LARGE * (len(stage.changes.moves) + len(stage.changes.updates))


@pytest.mark.parametrize("how", ["dead-letter", "abandon", "last abandon", "defer"])
def test_settling_large_messages_writes_a_bounded_number_of_bytes_a_turn_and_reads_none(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    driver.create(max_delivery_count=1 if how == "last abandon" else 10)
    tokens = locked(driver, 30)
    disposition = {"dead-letter": Disposition.DEAD_LETTER, "defer": Disposition.DEFER}.get(
        how, Disposition.ABANDON
    )
    reads = Reads(driver.store, monkeypatch)

    stages, answers = turns(driver, settle(disposition, tokens))

    assert answers == [Settled(7, 30, [], begun=answers[0].begun)]
    assert max(map(written_bytes, stages)) <= budget.TURN_BYTES + LARGE
    assert sum(map(written_bytes, stages)) == 30 * LARGE
    assert reads.payload_bytes == 0
    assert sum(len(row.payload) for stage in stages for row in stage.changes.inserts) == 0


def test_what_was_moved_within_the_file_is_received_whole_and_in_order(queue: Driver) -> None:
    tokens = locked(queue, 20)
    turns(
        queue,
        settle(
            Disposition.DEAD_LETTER,
            tokens,
            changed_properties=b"\x0a\x00",
            dead_letter_reason="why",
            dead_letter_error_description="how",
        ),
    )

    rows: list[Any] = []
    while len(rows) < 20:
        rows += [row for row, _ in queue.receive(20, dead_letter=True)]

    assert [row.payload[:5] for row in rows] == [b"%05d" % n for n in range(20)]
    assert {len(row.payload) for row in rows} == {LARGE}
    assert [row.enqueued_sequence_number for row in rows] == list(range(1, 21))
    assert {(row.dead_letter_reason, row.dead_letter_error_description) for row in rows} == {
        ("why", "how")
    }
    assert {row.changed_properties for row in rows} == {b"\x0a\x00"}
    assert queue.counts().size_bytes == sum(row.size() for row in rows)


def test_many_settlements_in_one_turn_share_its_budget(queue: Driver) -> None:
    tokens = locked(queue, 30)
    commands = [settle(Disposition.DEAD_LETTER, [token]) for token in tokens]

    stages, answers = turns(queue, *commands)

    assert max(map(written_bytes, stages)) <= budget.TURN_BYTES + LARGE
    assert [(a.count, a.failures) for a in answers] == [(1, [])] * 30


def test_settling_stops_when_the_time_of_the_turn_is_over(queue: Driver) -> None:
    tokens = locked(queue, 20, 10)
    ticks = iter(range(0, 10_000_000, 20))
    queue.partition.state.clock_ms = lambda: next(ticks)

    stages, answers = turns(queue, settle(Disposition.DEAD_LETTER, tokens))

    assert max(len(stage.changes.moves) for stage in stages) <= 3
    assert [(a.count, a.failures) for a in answers] == [(20, [])]


def test_a_clock_that_runs_away_does_not_keep_a_settlement_from_ending(queue: Driver) -> None:
    tokens = locked(queue, 5, 10)
    ticks = iter(range(0, 10_000_000, 1_000))
    queue.partition.state.clock_ms = lambda: next(ticks)

    _, answers = turns(queue, settle(Disposition.DEAD_LETTER, tokens))

    assert [(a.count, a.failures) for a in answers] == [(5, [])]


def test_a_settlement_over_several_turns_is_answered_once_and_token_by_token(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 3)
    tokens = locked(queue, 10, 10)
    for lost in (1, 8):
        queue.settle(Disposition.COMPLETE, tokens[lost])

    stages, [settled] = turns(queue, settle(Disposition.DEAD_LETTER, tokens))

    assert len([stage for stage in stages if stage.changes.moves]) > 2
    assert settled.count == 10
    assert [index for index, _ in settled.failures] == [1, 8]
    assert all(isinstance(error, errors.MessageLockLost) for _, error in settled.failures)
    assert queue.counts().dead_letter == 8


def test_a_settlement_is_not_answered_before_all_of_it_is_committed(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 3)
    tokens = locked(queue, 10, 10)
    answers: list[Any] = []
    stages, answers = turn(queue, settle(Disposition.DEAD_LETTER, tokens))
    moved = sum(len(stage.changes.moves) for stage in stages)
    while not answers:
        assert moved < 10
        stages, answers = turn(queue)
        moved += sum(len(stage.changes.moves) for stage in stages)

    assert moved == 10


def test_a_kill_in_the_middle_of_a_settlement_loses_and_doubles_nothing(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 3)
    tokens = locked(queue, 10, 10)
    turn(queue, settle(Disposition.DEAD_LETTER, tokens))
    half = queue.counts().dead_letter
    assert 0 < half < 10

    queue.restart()

    dead = [row.payload[:5] for row in queue.peek(dead_letter=True)]
    left = [row.payload[:5] for row, _ in queue.receive(20)]
    assert dead + left == [b"%05d" % n for n in range(10)]
    counts = queue.counts()
    assert (counts.active, counts.dead_letter) == (10 - half, half)


def test_a_step_that_cannot_be_written_fails_only_what_is_not_yet_done(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 3)
    tokens = locked(queue, 10, 10)
    queue.settle(Disposition.COMPLETE, tokens[0])
    turn(queue, settle(Disposition.DEAD_LETTER, tokens))
    done = 1 + queue.counts().dead_letter
    stage = queue.partition.sweep(queue.now)
    assert stage is not None

    full = errors.PartitionUnavailable("no room")
    [(to, settled)] = queue.partition.abandon(stage, full, queue.now)

    assert (to, settled.settle_id, settled.count) == ("s", 7, 10)
    assert [index for index, _ in settled.failures] == [0, *range(done, 10)]
    assert [error is full for _, error in settled.failures] == [False] + [True] * (10 - done)
    # What failed is still locked, and nothing goes on behind the receiver's back.
    assert queue.sweep() == []
    assert queue.settle(Disposition.COMPLETE, *tokens[done:]).failures == []


def test_the_last_step_that_cannot_be_written_fails_only_what_is_not_yet_done(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 3)
    tokens = locked(queue, 5, 10)
    first = queue.partition.decide([settle(Disposition.DEAD_LETTER, tokens)], queue.now)
    queue.store.commit(first.changes)
    assert queue.partition.apply(first, queue.now) == []
    last = queue.partition.sweep(queue.now)
    assert last is not None

    full = errors.PartitionUnavailable("no room")
    [(_, settled)] = queue.partition.abandon(last, full, queue.now)

    assert [index for index, _ in settled.failures] == [3, 4]
    assert not queue.partition.state.unfinished


def test_a_first_step_that_is_taken_back_can_be_decided_again(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 3)
    tokens = locked(queue, 10, 10)
    command = settle(Disposition.DEAD_LETTER, tokens)
    stage = queue.partition.decide([command], queue.now)
    queue.partition.take_back(stage)

    _, [settled] = turns(queue, command)

    assert (settled.count, settled.failures) == (10, [])
    assert queue.counts().dead_letter == 10


def test_a_repeat_while_the_first_try_is_under_way_succeeds_and_so_does_the_first(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 3)
    tokens = locked(queue, 20, 10)
    turn(queue, settle(Disposition.DEAD_LETTER, tokens, settler_id=ME))

    again = settle(Disposition.DEAD_LETTER, tokens, settler_id=ME, repeat=True)
    _, answers = turns(queue, again)

    assert [(a.count, a.failures) for a in answers] == [(20, []), (20, [])]
    assert queue.counts().dead_letter == 20


def test_locks_do_not_end_while_their_settlement_waits_for_its_turn(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 3)
    driver.create(lock_duration_ms=10_000)
    tokens = locked(driver, 10, 10)
    driver.wall_ms += 9_000
    driver.mono_ms += 9_000
    turn(driver, settle(Disposition.DEAD_LETTER, tokens))

    driver.wall_ms += 2_000
    driver.mono_ms += 2_000
    _, [settled] = turns(driver)

    assert settled.failures == []


def test_more_settlements_than_may_wait_are_refused_as_busy(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 3)
    tokens = locked(queue, 20, 10)
    commands = [
        settle(Disposition.DEAD_LETTER, tokens[:10]),
        settle(Disposition.DEAD_LETTER, tokens[10:]),
    ]
    monkeypatch.setattr(unfinished_work, "BYTES_MAX", unfinished_work.size_bytes(commands[0]))

    _, [refused, settled] = turns(queue, *commands)

    assert [type(error) for _, error in refused.failures] == [errors.ServerBusy] * 10
    assert settled.failures == []
    assert queue.settle(Disposition.COMPLETE, *tokens[10:]).failures == []
    # Room for the next one.
    assert queue.partition.state.unfinished._sizes.total == 0


@pytest.mark.parametrize(
    "options",
    [
        {"changed_properties": b"p" * 60_000},
        {"dead_letter_error_description": "d" * 4_096},
        {},
    ],
)
def test_what_waits_is_bounded_in_bytes_whatever_they_are_of(
    queue: Driver, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 3)
    tokens = locked(queue, 20, 10)
    commands = [settle(Disposition.ABANDON, [token], **options) for token in tokens]
    monkeypatch.setattr(unfinished_work, "BYTES_MAX", 5 * unfinished_work.size_bytes(commands[0]))

    turn(queue, *commands)

    assert 0 < len(queue.partition.state.unfinished) <= 5


def test_other_commands_come_between_the_turns_of_a_settlement(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 3)
    tokens = locked(queue, 20, 10)
    other = settle(Disposition.COMPLETE, tokens[-1:])

    turn(queue, settle(Disposition.DEAD_LETTER, tokens[:-1]))
    _, [answer] = turn(queue, other)

    assert (answer.count, answer.failures) == (1, [])


# Expired messages that come back


@pytest.mark.parametrize("how", ["release", "end of stream", "settled as released"])
def test_expired_messages_that_come_back_are_moved_a_bounded_number_of_bytes_a_turn(
    driver: Driver, how: str
) -> None:
    driver.create(dead_lettering_on_message_expiration=True)
    for _ in range(30):
        driver.send(b"x" * LARGE, time_to_live_ms=[LATE_MS])
    tokens: list[bytes] = []
    while len(tokens) < 30:
        for reserved in driver.reserve(30):
            tokens += [token for _, token in driver.tokens(reserved)]
        driver.run(Withdraw("s", driver._ids))
    driver.wall_ms += LATE_MS + 1
    driver.sweep()
    assert driver.counts().dead_letter == 0
    command = {
        "release": Release("s", b"".join(tokens)),
        "end of stream": StreamEnded("s"),
        "settled as released": settle(Disposition.RELEASE, tokens),
    }[how]

    stages, _ = turns(driver, command)

    assert max(map(written_bytes, stages)) <= budget.TURN_BYTES + LARGE
    counts = driver.counts()
    assert (counts.active, counts.dead_letter, counts.locked) == (0, 30, 0)
    assert driver.receive(5) == []


def test_an_expired_message_that_came_back_is_not_expired_under_a_corrected_clock(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TURN_ROWS", 0)
    driver.create(dead_lettering_on_message_expiration=True)
    driver.send(b"a", time_to_live_ms=[LATE_MS])
    [reserved] = driver.reserve(1)
    [(_, token)] = driver.tokens(reserved)
    driver.wall_ms += LATE_MS + 1
    driver.mono_ms += LATE_MS + 1
    stage = driver.partition.decide([Release("s", token)], driver.now)
    driver.partition.apply(stage, driver.now)
    assert len(driver.partition.state.unfinished) == 1

    monkeypatch.setattr(budget, "TURN_ROWS", 10)
    driver.wall_ms -= 120_000
    driver.advance(0)

    assert [row.payload for row, _ in driver.receive(5)] == [b"a"]
    assert driver.receive(5) == []
    assert not driver.partition.state.unfinished
