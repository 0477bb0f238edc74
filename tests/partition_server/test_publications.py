"""Whatever way messages come to a topic: matching them with its rules stops nobody else."""

import itertools
from typing import Any

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.disposition import Disposition
from bendybus.domain.filters.conditions import CompiledFilter
from bendybus.domain.filters.rule import Rule, SqlFilter
from bendybus.partition_server.state import publications
from bendybus.partition_server.state.answers import Appended, Failed, ForwardedTaken, Transacted
from bendybus.partition_server.state.commands import (
    Settle,
    TakeForwarded,
    Transact,
)
from tests.partition_server.driver import Driver
from tests.partition_server.publishing import rows, set_rules
from tests.partition_server.topic_changes import DELETE, make_news, subscription, topic
from tests.partition_server.transacting import sending
from tests.partition_server.ways_into_topics import (
    RULES,
    SEQUENCES,
    SOURCE,
    WAYS,
    News,
    Way,
    bodies,
    columns,
    forwarded,
    from_afar,
    other,
    plain,
    scheduled,
    stored,
    transaction,
)


@pytest.fixture
def news(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> News:
    """Return a partition with `news`, whose subscription `a` has many filters and `b` none."""
    make_news(driver)
    driver.create("other")
    set_rules(driver, "a", *(Rule(f"r{i}", SqlFilter(f"text LIKE '%_y{i}'")) for i in range(RULES)))
    looked: list[int] = []
    real = CompiledFilter.rest_matches

    def counted(self: CompiledFilter, view: Any) -> bool:
        looked.append(1)
        return real(self, view)

    monkeypatch.setattr(CompiledFilter, "rest_matches", counted)
    driver.partition.state.clock_ms = itertools.count(0, 20).__next__
    return News(driver, looked)


@pytest.mark.requirement("R351")
@pytest.mark.parametrize("way", WAYS)
def test_matching_is_divided_over_turns_and_others_get_on(news: News, way: Way) -> None:
    commands, most, turns = way(news.driver, [1, 2, 3]), 0, 0

    while len(stored(news.driver)) < 3:
        looked, answers = news.turn(*commands, other(news.driver))
        commands, most, turns = [], max(most, looked), turns + 1
        assert "other" in [to for to, _ in answers]
        assert turns < 1_000

    assert stored(news.driver) == [1, 2, 3]
    assert most <= RULES
    assert turns > 3


@pytest.mark.requirement("R351")
@pytest.mark.parametrize("way", WAYS)
def test_what_was_matched_is_not_matched_again(news: News, way: Way) -> None:
    commands, looked = way(news.driver, [1, 2, 3]), 0
    while len(stored(news.driver)) < 3:
        looked += news.turn(*commands)[0]
        commands = []

    # The one of `b` has nothing to evaluate.
    assert looked == 3 * RULES


@pytest.mark.requirement("R351")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("behind", [plain, transaction, from_afar])
def test_nothing_that_comes_later_overtakes(news: News, way: Way, behind: Way) -> None:
    news.turn(*way(news.driver, [1, 2]))
    if way is forwarded:
        news.turn()

    news.turn(*behind(news.driver, [3, 4]))
    for _ in range(1_000):
        if len(stored(news.driver)) == 4:
            break
        news.turn()

    assert stored(news.driver) == [1, 2, 3, 4]


@pytest.mark.requirement("R351")
@pytest.mark.parametrize("behind", [plain, transaction, from_afar])
def test_what_one_turn_has_time_for_waits_behind_the_others_too(news: News, behind: Way) -> None:
    news.turn(*transaction(news.driver, [1, 2]))
    news.driver.partition.state.clock_ms = lambda: 0

    news.driver.run(*behind(news.driver, [3]))
    assert stored(news.driver) == []
    news.turns()

    assert stored(news.driver) == [1, 2, 3]


@pytest.mark.requirement("R351")
def test_frames_of_one_source_that_wait_see_each_other(news: News) -> None:
    [frame] = from_afar(news.driver, [3, 4])
    assert isinstance(frame, TakeForwarded)
    again = TakeForwarded("again", frame.entity, SOURCE, 1, next(SEQUENCES), [3, 4], frame.batch)
    news.turn(frame)
    news.driver.run(again)
    news.driver.partition.state.clock_ms = lambda: 0

    news.turns()

    assert stored(news.driver) == [3, 4]


@pytest.mark.requirement("R183")
def test_a_topic_takes_as_much_of_a_forwarded_frame_as_one_turn_may_copy(
    news: News, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FORWARDED_COPIES_A_TURN", 2 * (RULES + 1))

    [(_, taken)] = news.turns(*from_afar(news.driver, [1, 2, 3]))

    assert taken == ForwardedTaken(2, {})
    assert stored(news.driver) == [1, 2]


@pytest.mark.requirement("R351")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("first", [plain, transaction, from_afar])
def test_what_waits_in_a_line_comes_in_its_turn(news: News, first: Way, way: Way) -> None:
    news.turn(*first(news.driver, [1, 2]))
    if way is scheduled:
        # It is stored at the topic behind what waits there.
        news.turns()
        news.turn(*first(news.driver, [5]))
    news.turn(*way(news.driver, [3, 4]))
    for _ in range(1_000):
        if len(stored(news.driver)) == (5 if way is scheduled else 4):
            break
        news.turn()

    assert stored(news.driver) == ([1, 2, 5, 3, 4] if way is scheduled else [1, 2, 3, 4])


@pytest.mark.requirement("R351")
@pytest.mark.parametrize("way", WAYS)
def test_messages_are_decided_by_the_rules_of_one_generation(news: News, way: Way) -> None:
    news.turn(*way(news.driver, [1, 2]))
    while not news.driver.partition.state.publications:
        news.turn()
    assert stored(news.driver) == []

    set_rules(news.driver, "a", Rule("now", SqlFilter("text LIKE '%x'")))
    answers = news.turns()
    if way in (transaction, from_afar):
        # They name a generation: the front end, or the source, repeats them with the one of now.
        assert [type(value.error) for _, value in answers] == [errors.GenerationMismatch]
        news.turns(*way(news.driver, [1, 2]))
    while len(stored(news.driver)) < 2:
        news.turn()

    assert [int(row.payload) for row in rows(news.driver, "a")] == [1, 2]
    assert stored(news.driver) == [1, 2]


@pytest.mark.requirement("R351")
def test_each_is_answered_once_with_its_outcome(news: News) -> None:
    numbers = itertools.count(1)
    commands = [
        command
        for way in (plain, transaction, from_afar)
        for command in way(news.driver, [next(numbers), next(numbers)])
    ]

    answers = dict(news.turns(*commands))

    assert isinstance(answers["plain"], Appended)
    assert isinstance(answers["transaction"], Transacted)
    assert answers["transaction"].error is None
    assert answers["afar"] == ForwardedTaken(2, {})
    assert len(stored(news.driver)) == 6


@pytest.mark.requirement("R351")
def test_a_repeat_of_what_waits_stores_nothing_twice(news: News) -> None:
    [first] = transaction(news.driver, [1, 2])
    [frame] = from_afar(news.driver, [3, 4])
    assert isinstance(frame, TakeForwarded)
    again = TakeForwarded("again", frame.entity, SOURCE, 1, next(SEQUENCES), [3, 4], frame.batch)

    answers = news.turns(first, *transaction(news.driver, [1, 2]), frame, again)

    outcomes = [value for to, value in answers if to == "transaction"]
    assert len(outcomes) == 2
    assert list(outcomes[0].parts[0].numbers) == list(outcomes[1].parts[0].numbers)
    assert [value for to, value in answers if to == "again"] == [ForwardedTaken(2, {})]
    assert stored(news.driver) == [1, 2, 3, 4]


@pytest.mark.requirement("R351")
def test_what_is_refused_meanwhile_is_told_and_leaves_nothing(news: News) -> None:
    commands = [*transaction(news.driver, [1]), *from_afar(news.driver, [2])]
    news.turn(*commands)
    topic(news.driver, action=DELETE)

    answers = dict(news.turns())

    assert isinstance(answers["transaction"], Failed)
    assert isinstance(answers["transaction"].error, errors.EntityNotFound)
    assert isinstance(answers["afar"], Failed)


@pytest.mark.requirement("R351")
@pytest.mark.parametrize("way", [transaction, from_afar])
def test_a_step_that_finds_no_room_on_the_disk_refuses_it(news: News, way: Way) -> None:
    news.turn(*way(news.driver, [1, 2]))
    partition, answers = news.driver.partition, list[Any]()
    full = errors.PartitionUnavailable("full")
    while not answers:
        stage = partition.sweep(news.driver.now)
        assert stage is not None
        if stage.changes.stored():
            answers = partition.abandon(stage, full, news.driver.now)
        else:
            news.driver.store.commit(stage.changes)
            answers = partition.apply(stage, news.driver.now)

    assert [type(each.value) for each in answers] == [Failed]
    assert stored(news.driver) == []
    assert not partition.state.publications


@pytest.mark.requirement("R351")
@pytest.mark.parametrize("way", [scheduled, forwarded])
def test_work_of_a_sweep_whose_commit_fails_comes_later(news: News, way: Way) -> None:
    news.turn(*way(news.driver, [1, 2]))
    partition, failed = news.driver.partition, 0
    full = errors.PartitionUnavailable("full")
    for _ in range(2_000):
        stage = partition.sweep(news.driver.now)
        if stage is None:
            news.driver.mono_ms += 1_000
            news.driver.wall_ms += 1_000
            if len(stored(news.driver)) == 2:
                break
        elif failed < 20:
            failed += 1
            assert partition.abandon(stage, full, news.driver.now) == []
        else:
            news.driver.store.commit(stage.changes)
            partition.apply(stage, news.driver.now)

    assert stored(news.driver) == [1, 2]


@pytest.mark.requirement("R351")
def test_a_deadline_that_passes_in_the_line_refuses_a_transaction(news: News) -> None:
    [command] = transaction(news.driver, [1])
    assert isinstance(command, Transact)
    command.deadline_mono_ms = news.driver.mono_ms + 5
    [frame] = from_afar(news.driver, [2])
    assert isinstance(frame, TakeForwarded)
    frame.deadline_mono_ms = news.driver.mono_ms + 5
    news.turn(command, frame)

    news.driver.mono_ms += 10
    answers = dict(news.turns())

    assert isinstance(answers["transaction"].error, errors.ServiceTimeout)
    # What another partition forwards is known when it comes again.
    assert answers["afar"] == ForwardedTaken(1, {})
    assert stored(news.driver) == [2]


@pytest.mark.requirement("R351")
def test_what_waits_of_a_topic_is_bounded(news: News, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publications, "BYTES_MAX", 200_000)
    commands = [each for n in range(9) for each in transaction(news.driver, [n])]

    answers = news.turns(*commands)

    refused = [value.error for _, value in answers if isinstance(value, Failed)]
    assert refused
    assert {type(error) for error in refused} == {errors.ServerBusy}
    assert len(stored(news.driver)) == 9 - len(refused)


@pytest.mark.requirement("R438")
def test_what_waits_of_many_topics_is_bounded_and_the_first_of_a_topic_has_room_for_long(
    news: News, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, most = news.driver, 20
    [one] = transaction(driver, [0])
    assert isinstance(one, Transact)
    size_bytes = publications.Held(lambda turn: None, one).size_bytes()
    monkeypatch.setattr(publications, "BYTES_MAX", 2 * size_bytes)
    monkeypatch.setattr(publications, "FIRST_BYTES_MAX", (most - 1) * size_bytes)
    refs = []
    for n in range(2 * most):
        topic(driver, f"topic{n}")
        subscription(driver, f"topic{n}/Subscriptions/a")
        refs.append(driver.ref(f"topic{n}"))
    parts = [sending(ref, *bodies([1]), **columns([1])) for ref in refs]
    # Each comes when its turn has no time left.
    driver.partition.state.clock_ms = itertools.count(0, 60).__next__
    commands = [
        Transact(n, ref, b"transaction-%04d" % n, [part])
        for n, (ref, part) in enumerate(zip(refs, parts, strict=True))
    ]

    stage = driver.partition.decide(commands, driver.now)

    refused = [each.value.error for each in stage.answers if isinstance(each.value, Failed)]
    assert {type(error) for error in refused} == {errors.ServerBusy}
    assert len(refused) == len(stage.answers) == len(commands) - most


@pytest.mark.requirement("R351")
def test_a_transaction_that_waits_settles_with_it(news: News) -> None:
    [command] = transaction(news.driver, [1])
    assert isinstance(command, Transact)
    lost = Settle(None, 0, Disposition.COMPLETE, b"\0" * 16, entity_uid="uid-news")
    command.parts = [*command.parts, lost]

    answers = dict(news.turns(command))

    outcome = answers["transaction"]
    assert isinstance(outcome, Transacted)
    assert isinstance(outcome.error, errors.BusError)
    assert stored(news.driver) == []
    [counts] = [news.driver.counts_of("news/Subscriptions/b")]
    assert counts.size_bytes == 0


@pytest.mark.requirement("R351")
def test_a_topic_that_is_full_is_not_told_from_one_that_is_busy(
    news: News, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscription(news.driver, "news/Subscriptions/c")
    scheduled(news.driver, [1, 2])
    awaiting = news.driver.partition.state.awaiting
    while not news.driver.partition.state.publications:
        news.turn()
    assert awaiting.count() == 0

    monkeypatch.setattr(limits, "MB", 1)
    for _ in range(200):
        news.turn()
    assert awaiting.count() == 2
    assert not news.driver.partition.state.publications

    monkeypatch.undo()
    news.driver.advance(1_000)
    assert stored(news.driver) == [1, 2]
    assert awaiting.count() == 0
