"""Frames for topics that take more than a turn: answered once, in order, each message once."""

import itertools
from typing import Any

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.entity_settings import EntityStatus
from bendybus.domain.errors import BusError
from bendybus.domain.filters.rule import Rule, SqlFilter
from bendybus.partition_server.rules import publications as publication_rules
from bendybus.partition_server.rules import room
from bendybus.partition_server.state import publications
from bendybus.partition_server.state.answers import Appended, Failed
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, Command
from bendybus.partition_server.state.stage import Stage
from tests.partition_server.driver import Driver
from tests.partition_server.publishing import head, publish, rows, set_rules
from tests.partition_server.topic_changes import DELETE, UPDATE, make_news, subscription, topic

NAME = b"producer"


@pytest.fixture
def news(driver: Driver) -> Driver:
    """Return a partition with `news`, its subscriptions `a` and `b`, and a clock that goes on."""
    make_news(driver)
    slow(driver)
    return driver


def slow(driver: Driver) -> None:
    """Let each look at the clock take 20 ms: three are a turn."""
    driver.partition.state.clock_ms = itertools.count(0, 20).__next__


def frame(driver: Driver, count: int, *, group: int = 1, first: int = 0, **options: Any) -> Append:
    """Return a frame of numbered messages in groups."""
    batch = Batch(
        [b"%d" % (first + i) for i in range(count)], heads=[head()] * count, formats=[1] * count
    )
    sizes = [group] * (count // group)
    return Append(f"f{first}", driver.ref("news"), batch, sizes, **options)


def turns(driver: Driver, *commands: Command, most: int = 10_000) -> tuple[list[Stage], list[Any]]:
    """Do turns until nothing waits; return all stages and answers."""
    stages, answers = driver.turn(*commands)
    for _ in range(most):
        if not driver.partition.state.publications:
            break
        more, answered = driver.turn()
        stages += more
        answers += answered
    return stages, answers


def payloads(driver: Driver, name: str = "a") -> list[int]:
    """Return the messages of a subscription, in order."""
    return [int(row.payload) for row in rows(driver, name)]


def copies(stage: Stage) -> int:
    """Return how many copies a stage stores."""
    return stage.changes.stored()


@pytest.mark.requirement("R183")
def test_a_frame_takes_as_many_turns_as_it_needs_and_is_answered_once(news: Driver) -> None:
    stages, answers = turns(news, frame(news, 60))

    assert max(map(copies, stages)) <= 2 * 5
    [(to, outcome)] = answers
    assert (to, outcome.failures, len(set(outcome.numbers))) == ("f0", [], 60)
    assert payloads(news) == payloads(news, "b") == list(range(60))


@pytest.mark.requirement("R183")
def test_filters_that_take_longer_than_a_turn_are_evaluated_in_several(news: Driver) -> None:
    set_rules(news, "a", *(Rule(f"r{i}", SqlFilter(f"n > {i}")) for i in range(200)))
    looked: list[int] = []
    entity = news.partition.state.catalogue.by_key("news")
    assert entity is not None
    for found in news.partition.state.topics.of(entity).index.rules("uid-news/Subscriptions/a"):
        rest = found.filter.rest
        assert rest is not None

        def count(view: Any, rest: Any = rest) -> Any:
            looked.append(1)
            return rest(view)

        object.__setattr__(found.filter, "rest", count)

    most = before = 0
    commands = [frame(news, 6, group=6)]
    answers: list[Any] = []
    while not answers:
        assert payloads(news, "b") == [], "a group is stored whole"
        _, answers = news.turn(*commands)
        commands = []
        most, before = max(most, len(looked) - before), len(looked)

    assert len(looked) == 6 * 200
    assert most < 200
    assert payloads(news, "b") == list(range(6))


@pytest.mark.requirement("R183")
def test_what_comes_to_the_topic_meanwhile_waits_behind_it(news: Driver) -> None:
    _, answers = turns(news, frame(news, 20), frame(news, 1, first=20), frame(news, 30, first=21))

    assert [to for to, _ in answers] == ["f0", "f20", "f21"]
    assert payloads(news) == list(range(51))


@pytest.mark.requirement("R183")
def test_topics_take_turns(news: Driver) -> None:
    topic(news, "other")
    subscription(news, "other/Subscriptions/a")
    news.turn(frame(news, 500))
    batch = Batch([b"x"], heads=[head()], formats=[1])

    _, answers = news.turn(Append("o", news.ref("other"), batch))
    _, more = news.turn()

    assert [to for to, _ in answers + more] == ["o"]
    many = Batch([b"1"] * 500, heads=[head()] * 500, formats=[1] * 500)
    news.turn(Append("o", news.ref("other"), many, [1] * 500))
    before = len(payloads(news))
    for _ in range(4):
        news.turn()
    assert len(payloads(news)) > before
    [counts] = [news.counts_of("other/Subscriptions/a")]
    assert counts.active > 1


@pytest.mark.requirement("R183")
def test_a_repeat_of_a_frame_on_its_way_stores_nothing_twice(news: Driver) -> None:
    name: dict[str, Any] = {"producer_id": NAME, "producer_sequence": 3, "spans": [0, 30]}
    news.turn(frame(news, 30, **name))
    assert 0 < len(payloads(news)) < 30

    _, answers = turns(news, frame(news, 30, age_ms=5, **name))

    [(_, first), (_, again)] = answers
    assert list(first.numbers) == list(again.numbers)
    assert payloads(news) == list(range(30))


@pytest.mark.requirement("R183")
def test_a_kill_in_the_middle_of_a_frame_loses_and_doubles_nothing(news: Driver) -> None:
    name: dict[str, Any] = {"producer_id": NAME, "producer_sequence": 3, "spans": [0, 30]}
    news.turn(frame(news, 30, **name))
    news.turn()
    stored = len(payloads(news))

    news.restart()
    slow(news)
    _, [(_, again)] = turns(news, frame(news, 30, age_ms=5, **name))

    assert 0 < stored < 30
    assert (len(set(again.numbers)), again.failures) == (30, [])
    assert payloads(news) == list(range(30))


@pytest.mark.requirement("R183")
def test_a_frame_has_a_bounded_number_of_parts(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publication_rules, "STEPS_MAX", 4)

    turns(news, frame(news, 50, producer_id=NAME, spans=[0, 50]))

    assert len(news.partition.state.producers._windows.named(NAME, 0)) <= 4
    assert payloads(news) == list(range(50))


@pytest.mark.requirement("R183")
@pytest.mark.parametrize("deadline", [True, False])
def test_what_is_refused_in_the_middle_leaves_what_is_stored(news: Driver, deadline: bool) -> None:
    until_ms = news.now.mono_ms + 5 if deadline else 0
    news.turn(frame(news, 40, deadline_mono_ms=until_ms))
    stored = len(payloads(news))
    if deadline:
        news.mono_ms += 10
    else:
        topic(news, action=UPDATE, changes={"status": EntityStatus.DISABLED})

    _, [(_, outcome)] = turns(news)

    expected = errors.ServiceTimeout if deadline else errors.EntityDisabled
    assert 0 < stored < 40
    assert [unit for unit, _ in outcome.failures] == list(range(stored, 40))
    assert {type(error) for _, error in outcome.failures} == {expected}
    assert [bool(number) for number in outcome.numbers] == [True] * stored + [False] * (40 - stored)
    assert payloads(news) == list(range(stored))


@pytest.mark.requirement("R183")
def test_a_deleted_topic_refuses_what_is_left(news: Driver) -> None:
    news.turn(frame(news, 40), frame(news, 1, first=40))
    topic(news, action=DELETE)

    _, answers = turns(news)

    [(_, outcome), (_, behind)] = answers
    assert isinstance(outcome, Appended)
    assert isinstance(outcome.failures[-1][1], errors.EntityNotFound)
    assert isinstance(behind, Failed)


@pytest.mark.requirement("R183")
def test_a_step_that_finds_no_room_refuses_all_that_waits(news: Driver) -> None:
    news.turn(frame(news, 40), frame(news, 1, first=40))
    stored = len(payloads(news))
    full: BusError = errors.PartitionUnavailable("full")
    partition = news.partition

    stage = partition.sweep(news.now)
    assert stage is not None
    answers = partition.abandon(stage, full, news.now)

    [(_, outcome), (_, behind)] = answers
    assert [unit for unit, _ in outcome.failures] == list(range(stored, 40))
    assert isinstance(behind, Failed)
    assert not partition.state.publications
    assert payloads(news) == list(range(stored))


@pytest.mark.requirement("R183")
def test_a_first_step_that_finds_no_room_is_refused_whole(news: Driver) -> None:
    command, full = frame(news, 40), errors.PartitionUnavailable("full")
    partition = news.partition
    stage = partition.decide([command], news.now)
    assert stage.changes.stored()

    partition.take_back(stage)
    [(_, refused)] = partition.refuse_sends([command], full, news.now)

    assert isinstance(refused, Failed)
    assert not partition.state.publications
    assert payloads(news) == []
    news.partition.state.clock_ms = lambda: 0
    publish(news, head())


@pytest.mark.requirement("R183")
def test_rules_that_change_meanwhile_apply_to_what_is_not_stored(news: Driver) -> None:
    news.turn(frame(news, 40))
    stored = len(payloads(news))

    set_rules(news, "a", Rule("none", SqlFilter("1 = 2")))
    _, [(_, outcome)] = turns(news)

    assert outcome.failures == []
    assert payloads(news) == list(range(stored))
    assert payloads(news, "b") == list(range(40))


@pytest.mark.requirement("R183")
def test_a_group_that_has_met_some_rules_begins_again_when_they_change(news: Driver) -> None:
    set_rules(news, "a", *(Rule(f"r{i}", SqlFilter(f"n > {i}")) for i in range(200)))
    news.turn(frame(news, 6, group=6))
    assert payloads(news, "b") == []

    set_rules(news, "a", Rule("all", SqlFilter("n IS NULL")))
    _, [(_, outcome)] = turns(news)

    assert outcome.failures == []
    assert payloads(news) == payloads(news, "b") == list(range(6))


@pytest.mark.requirement("R183")
def test_what_waits_is_bounded(news: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publications, "BYTES_MAX", 5_000)

    _, answers = turns(news, frame(news, 40), frame(news, 40, first=40), *([frame(news, 1)] * 9))

    refused = [value for _, value in answers if isinstance(value, Failed)]
    assert refused
    assert all(isinstance(each.error, errors.ServerBusy) for each in refused)
    stored = sum(len(value.numbers) for _, value in answers if isinstance(value, Appended))
    assert len(payloads(news)) == stored


@pytest.mark.requirement("R183")
def test_what_is_forwarded_to_a_topic_is_divided_too(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FORWARDED_COPIES_A_TURN", 8)
    news.create("orders", forward_to="news")
    batch = Batch([b"%d" % i for i in range(30)], heads=[head()] * 30, formats=[1] * 30)
    stages, _ = news.turn(Append("t", news.ref("orders"), batch, [1] * 30))
    while len(payloads(news)) < 30:
        more, _ = news.turn()
        assert more, "nothing is forwarded any more"
        stages += more

    assert max(copies(stage) for stage in stages[1:]) == 8
    assert payloads(news) == payloads(news, "b") == list(range(30))
    assert news.counts_of("orders").active == 0


@pytest.mark.requirement("R183")
def test_a_full_topic_is_measured_once_a_turn(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[int] = []
    measure = room.measured

    def count(*given: Any) -> int:
        measured.append(1)
        return measure(*given)

    monkeypatch.setattr(limits, "MB", 0)
    monkeypatch.setattr(room, "measured", count)
    news.partition.state.clock_ms = lambda: 0

    [(_, outcome)] = turns(news, frame(news, 100))[1]

    assert {type(error) for _, error in outcome.failures} == {errors.QuotaExceeded}
    assert len(outcome.failures) == 100
    assert len(measured) == 1
