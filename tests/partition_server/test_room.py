"""Whatever makes an entity larger asks for room: nothing goes round its quota, or a full disk."""

import re
from pathlib import Path
from typing import Any

import pytest

import bendybus.partition_server.rules as rules
from bendybus.domain import errors, limits
from bendybus.domain.disposition import Disposition as D
from bendybus.partition_server.state.answers import Transacted
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    Append,
    Settle,
    Transact,
)
from bendybus.v1 import message_pb2
from tests.partition_server import topic_changes
from tests.partition_server.driver import Driver
from tests.partition_server.publishing import head, publish, receive

# What a scheduled message takes at its topic, about; a copy of it, as much again.
LARGE = head(text="x" * 400)


def changes(text: str, name: str = "note") -> bytes:
    """Return changed properties."""
    value = message_pb2.Value(string_value=text)
    return message_pb2.ValueMap(entries={name: value}).SerializeToString()


def capacity(monkeypatch: pytest.MonkeyPatch, size_bytes: int) -> None:
    """Let entities have so many bytes, a multiple of their megabytes."""
    monkeypatch.setattr(limits, "MB", -(-size_bytes // limits.QUEUE_SIZE_MB_DEFAULT))


@pytest.fixture
def news(driver: Driver) -> Driver:
    """Return a partition with the topic `news` and its subscriptions `a` and `b`."""
    return topic_changes.make_news(driver)


# Settlements


@pytest.fixture
def full(queue: Driver, monkeypatch: pytest.MonkeyPatch) -> tuple[Driver, list[bytes]]:
    """Return a queue with less room than a kilobyte, and the tokens of its messages."""
    queue.send(*[b"x" * 100] * 6)
    tokens = [token for _, token in queue.receive(6)]
    capacity(monkeypatch, 1_024)
    return queue, tokens


@pytest.mark.requirement("R344")
@pytest.mark.parametrize("disposition", [D.ABANDON, D.DEFER, D.DEAD_LETTER])
@pytest.mark.parametrize("refused", ["", "the volume is full"])
def test_changed_properties_without_room_are_refused_and_nothing_changes(
    full: tuple[Driver, list[bytes]], disposition: D, refused: str
) -> None:
    driver, tokens = full
    driver.partition.state.sends_refused = refused
    before = driver.counts()

    settled = driver.settle(disposition, tokens[0], changed_properties=changes("x" * 1_000))

    [(_, error)] = settled.failures
    kind = errors.PartitionUnavailable if refused else errors.QuotaExceeded
    assert isinstance(error, kind), error
    assert driver.counts() == before
    # Its receiver has it still, and may do without.
    assert not driver.settle(disposition, tokens[0]).failures


@pytest.mark.requirement("R344")
@pytest.mark.parametrize("refused", ["", "the volume is full"])
def test_what_makes_no_message_larger_is_never_refused(
    full: tuple[Driver, list[bytes]], refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, tokens = full
    monkeypatch.setattr(limits, "MB", 0)
    driver.partition.state.sends_refused = refused
    texts = {"dead_letter_reason": "r" * 4_000, "dead_letter_error_description": "d" * 4_000}

    answers = [
        driver.settle(D.RENEW_LOCK, tokens[0]),
        driver.settle(D.COMPLETE, tokens[0]),
        driver.settle(D.ABANDON, tokens[1]),
        driver.settle(D.DEFER, tokens[2]),
        driver.settle(D.RELEASE, tokens[3]),
        driver.settle(D.DEAD_LETTER, tokens[4], **texts),
    ]

    assert [each.failures for each in answers] == [[]] * 6
    # The last one's lock ends.
    driver.advance(120_000)
    assert driver.counts().locked == 0


@pytest.mark.requirement("R344")
def test_properties_that_replace_others_take_no_more_room(
    queue: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.send(b"x")
    [(_, token)] = queue.receive()
    queue.settle(D.ABANDON, token, changed_properties=changes("1" * 200))
    size_bytes = queue.counts().size_bytes
    monkeypatch.setattr(limits, "MB", 0)

    for n in "234":
        [(row, token)] = queue.receive()
        assert not queue.settle(D.ABANDON, token, changed_properties=changes(n * 200)).failures

    assert queue.counts().size_bytes == size_bytes
    [(row, token)] = queue.receive()
    assert row.changed_properties == changes("4" * 200)
    [(_, error)] = queue.settle(
        D.ABANDON, token, changed_properties=changes("more", "other")
    ).failures
    assert isinstance(error, errors.QuotaExceeded)


@pytest.mark.requirement("R344")
def test_a_transaction_that_grows_beyond_the_quota_does_nothing(
    full: tuple[Driver, list[bytes]],
) -> None:
    driver, tokens = full
    uid = driver.ref().uid
    parts = [
        Settle(None, 0, D.COMPLETE, tokens[0], entity_uid=uid),
        Settle(None, 0, D.DEFER, tokens[1], changes("x" * 1_000), entity_uid=uid),
    ]
    before = driver.counts()

    [outcome] = driver.run(Transact("t", driver.ref(), b"transaction-0001", parts))

    assert isinstance(outcome, Transacted)
    assert isinstance(outcome.error, errors.QuotaExceeded)
    assert driver.counts() == before


@pytest.mark.requirement("R344")
def test_a_subscription_asks_its_topic_for_room(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bendybus.partition_server.state.commands import Ask

    batch = Batch([b"x" * 100] * 2, formats=[1] * 2, heads=[LARGE] * 2)
    news.run(Append("t", news.ref("news"), batch, [1] * 2))
    answers = news.run(Ask("s", 1, news.ref("news/Subscriptions/a"), False, 2, 1 << 20))
    tokens = [token for _, token in news.tokens(answers[0])]
    capacity(monkeypatch, 4_096)

    def settle(token: bytes, size_bytes: int) -> Any:
        return news.settle(D.ABANDON, token, changed_properties=changes("x" * size_bytes)).failures

    assert not settle(tokens[0], 1_000)
    # What it has taken counts at once; what is taken back does not.
    [(_, error)] = settle(tokens[1], 1_000)
    assert "topic 'news'" in str(error)
    news.advance(2_000)
    assert not settle(tokens[1], 300)


@pytest.mark.requirement("R344")
def test_room_that_is_taken_back_is_free_again(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = news.partition.state.topics.of(
        news.partition.state.queues.main_of(news.ref("news").uid).entity
    )
    command = Append("t", news.ref("news"), Batch([b"x" * 100]))
    news.run(command)
    before = topic.size_bytes

    stage = news.partition.decide([command], news.now)
    assert topic.size_bytes > before
    news.partition.take_back(stage)

    assert topic.size_bytes == before


# All of it


@pytest.mark.requirement("R344")
def test_nothing_else_makes_a_queue_larger() -> None:
    """Each place that adds to the size of a queue is known, with what asks for its room."""
    places = {
        "stage.py": 4,  # append_row, insert_row, append_copies, move: see those that call them
        "send.py": 1,  # Appender: room.left
        "duplicates.py": 1,  # with what Appender stores
        "publish.py": 1,  # Publisher: room.left; activate: room.refusal
        "redeliver.py": 1,  # changed properties: application_properties.merged
        "sessions.py": 1,  # room.take
    }
    folder = Path(next(iter(rules.__path__))).parent
    found: dict[str, int] = {}
    for path in (*folder.glob("rules/*.py"), *folder.glob("state/stage.py")):
        count = len(re.findall(r"state\.size_bytes \+=", path.read_text("utf-8")))
        if count:
            found[path.name] = count

    assert found == places


@pytest.mark.requirement("R344")
def test_a_full_topic_has_room_as_soon_as_something_is_received_from_it(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(news, LARGE)
    size_bytes = news.counts_of("news").size_bytes
    capacity(monkeypatch, size_bytes + size_bytes // 2)
    with pytest.raises(errors.QuotaExceeded):
        publish(news, LARGE)
    for name in "ab":
        [(_, token)] = receive(news, name)
        news.settle(D.COMPLETE, token)

    news.advance(1)

    publish(news, LARGE)
