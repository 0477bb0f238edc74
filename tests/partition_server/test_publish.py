"""Publishing in one partition: rules, and the copies that they make."""

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity_settings import EntityStatus, Setting
from bendybus.domain.filters.rule import (
    CorrelationFilter,
    FalseFilter,
    Rule,
    SqlFilter,
    SqlRuleAction,
)
from bendybus.domain.lifecycle import EntityAction
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, Ask, CancelScheduled, Transact
from bendybus.partition_server.store.records import body_size
from tests.partition_server.driver import Driver
from tests.partition_server.publishing import (
    BODY,
    collect,
    head,
    properties_of,
    publish,
    receive,
    ref,
    rows,
    set_rules,
    set_status,
    topic_bytes,
)
from tests.partition_server.topic_changes import CREATE, make_news, subscription, topic
from tests.partition_server.transacting import sending

RED = Rule("red", SqlFilter("color = 'red'"))


@pytest.fixture
def news(driver: Driver) -> Driver:
    """Return a partition with the topic `news` and its subscriptions `a` and `b`."""
    return make_news(driver)


@pytest.mark.requirement("R114")
def test_every_subscription_whose_rules_fit_gets_a_copy(news: Driver) -> None:
    set_rules(news, "a", RED)

    publish(news, head(color="red"), head(color="blue"))

    assert [properties_of(row) for row in rows(news, "a")] == [{"color": "red"}]
    assert [properties_of(row)["color"] for row in rows(news, "b")] == ["red", "blue"]


@pytest.mark.requirement("R114")
def test_a_copy_has_a_number_of_its_own_and_keeps_the_one_at_the_topic(news: Driver) -> None:
    set_rules(news, "a", RED)

    published = publish(news, head(color="blue"), head(color="red"))

    [copy] = rows(news, "a")
    assert copy.counter == 1
    assert copy.enqueued_sequence_number == published.numbers[1] == 2
    assert [row.enqueued_sequence_number for row in rows(news, "b")] == [1, 2]


@pytest.mark.requirement("R114")
def test_rules_without_an_action_make_one_copy_and_each_with_one_another(news: Driver) -> None:
    rules = [
        RED,
        Rule("any"),
        Rule("tag1", RED.filter, SqlRuleAction("SET tag = 1")),
        Rule("tag2", CorrelationFilter(label="x"), SqlRuleAction("SET tag = 2")),
        Rule("tag3", SqlFilter("EXISTS(color)"), SqlRuleAction("REMOVE color")),
    ]
    set_rules(news, "a", *rules)

    publish(news, head(color="red"))

    assert [properties_of(row) for row in rows(news, "a")] == [
        {"color": "red"},
        {"color": "red", "tag": 1, "RuleName": "tag1"},
        {"RuleName": "tag3"},
    ]
    assert {row.payload for row in rows(news, "a")} == {BODY}


@pytest.mark.requirement("R114")
def test_a_message_that_no_rule_takes_is_accepted_and_dropped(news: Driver) -> None:
    set_rules(news, "a")
    set_rules(news, "b", Rule("none", FalseFilter()))

    published = publish(news, head())

    assert published.numbers == [1]
    assert rows(news, "a") == rows(news, "b") == []
    assert publish(news, head()).numbers == [2]


@pytest.mark.requirement("R115")
def test_a_filter_that_fails_dead_letters_where_that_is_set_so(news: Driver) -> None:
    failing = Rule("failing", SqlFilter("price / 0 = 1"))
    set_rules(news, "a", failing, RED)
    changes = {"dead_lettering_on_filter_evaluation_exceptions": False, "rules": (failing, RED)}
    subscription(news, "news/Subscriptions/b", EntityAction.UPDATE, changes=changes)

    publish(news, head(price=3, color="red"))

    [dead] = rows(news, "a", dead_letter=True)
    assert dead.dead_letter_reason == "FilterException"
    assert "zero" in (dead.dead_letter_error_description or "")
    assert rows(news, "b", dead_letter=True) == []
    # The other rules are not affected.
    assert len(rows(news, "a")) == len(rows(news, "b")) == 1


@pytest.mark.requirement("R115")
def test_a_copy_that_becomes_too_large_is_dead_lettered(news: Driver) -> None:
    text = "x" * limits.PROPERTY_BYTES_MAX
    double = SqlRuleAction("SET b = a; SET c = a")
    set_rules(news, "a", Rule("grow", action=double))

    publish(news, head(a=text))

    [dead] = rows(news, "a", dead_letter=True)
    assert "at most" in (dead.dead_letter_error_description or "")


@pytest.mark.requirement("R115")
def test_a_message_without_a_session_is_dead_lettered_where_one_is_required(news: Driver) -> None:
    subscription(news, "news/Subscriptions/c", changes={"requires_session": True})

    publish(news, head(n=1), head(n=2), session_ids=["", "s"], session_present=[False, True])

    [dead] = rows(news, "c", dead_letter=True)
    assert dead.dead_letter_reason == "Session ID is null."
    assert properties_of(dead) == {"n": 1}
    assert [properties_of(row) for row in rows(news, "c")] == [{"n": 2}]
    assert len(rows(news, "a")) == 2


@pytest.mark.requirement("R117")
def test_a_scheduled_message_waits_at_the_topic_and_meets_the_rules_of_then(news: Driver) -> None:
    due_ms = news.wall_ms + 60_000
    publish(news, head(color="blue"), scheduled_ms=[due_ms])
    assert rows(news, "a") == rows(news, "b") == []
    assert news.counts_of("news").scheduled == 1
    set_rules(news, "a", RED)
    subscription(news, "news/Subscriptions/c", CREATE)
    news.restart()

    news.advance(60_000)

    assert rows(news, "a") == []
    assert [row.enqueued_sequence_number for row in rows(news, "b")] == [2]
    assert rows(news, "c")[0].payload == BODY
    assert news.counts_of("news").scheduled == 0


@pytest.mark.requirement("R117")
def test_a_scheduled_message_can_be_cancelled(news: Driver) -> None:
    publish(news, head(), scheduled_ms=[news.wall_ms + 60_000])

    news.run(CancelScheduled("t", news.ref("news"), [1]))
    news.advance(60_000)

    assert rows(news, "a") == []
    assert news.counts_of("news").size_bytes == 0


@pytest.mark.requirement("R114", "R116")
def test_what_a_transaction_publishes_is_done_whole_or_not_at_all(news: Driver) -> None:
    good = sending(news.ref("news"), BODY, heads=[head(color="red")], formats=[1])
    bad = sending(news.ref("news"), BODY, heads=[b"\xff"], formats=[1])

    [refused] = news.run(Transact("t", news.ref("news"), b"transaction-0001", [good, bad]))
    assert refused.error is not None
    assert rows(news, "a") == []
    assert news.counts_of("news").size_bytes == 0
    [done] = news.run(Transact("t", news.ref("news"), b"transaction-0002", [good, good]))

    assert done.error is None
    assert len(rows(news, "a")) == len(rows(news, "b")) == 2
    assert topic_bytes(news) == 2 * body_size(len(BODY))


@pytest.mark.requirement("R118")
def test_duplicates_are_found_at_the_topic(driver: Driver) -> None:
    topic(driver, changes={"requires_duplicate_detection": True})
    subscription(driver)

    first = publish(driver, head(), head(), message_ids=["1", "2"])
    again = publish(driver, head(), head(), message_ids=["2", "3"])

    assert list(again.duplicates) == [True, False]
    assert again.numbers == [first.numbers[1], 3]
    assert [row.message_id for row in rows(driver, "a")] == ["1", "2", "3"]


@pytest.mark.requirement("R118")
def test_the_shorter_time_to_live_counts(driver: Driver) -> None:
    topic(driver, changes={"default_message_time_to_live_ms": 50_000})
    subscription(driver, changes={"default_message_time_to_live_ms": 20_000})
    subscription(driver, "news/Subscriptions/b")

    publish(driver, head(), head(), time_to_live_ms=[0, 10_000])

    lives = {name: [row.expires_ms for row in rows(driver, name)] for name in "ab"}
    now_ms = driver.wall_ms
    assert lives == {
        "a": [now_ms + 20_000, now_ms + 10_000],
        "b": [now_ms + 50_000, now_ms + 10_000],
    }


@pytest.mark.requirement("R119")
def test_a_disabled_subscription_takes_and_gives_nothing_and_keeps_what_it_has(
    news: Driver,
) -> None:
    publish(news, head(n=1))
    set_status(news, "a", EntityStatus.DISABLED)

    publish(news, head(n=2))
    assert receive(news, "a") == []
    set_status(news, "a", EntityStatus.ACTIVE)
    publish(news, head(n=3))

    assert [properties_of(row)["n"] for row in rows(news, "a")] == [1, 3]
    assert [properties_of(row)["n"] for row in rows(news, "b")] == [1, 2, 3]


@pytest.mark.requirement("R119")
def test_a_disabled_topic_takes_nothing(news: Driver) -> None:
    topic(news, action=EntityAction.UPDATE, changes={"status": EntityStatus.DISABLED})

    with pytest.raises(errors.EntityDisabled, match="topic 'news' is Disabled"):
        publish(news, head())


@pytest.mark.requirement("R113")
def test_a_publish_with_an_older_generation_of_the_rules_is_refused(news: Driver) -> None:
    old = news.ref("news")
    set_rules(news, "a", RED)

    [answer] = news.run(Append("t", old, Batch([b"x"])))

    assert isinstance(answer.error, errors.GenerationMismatch)
    assert rows(news, "a") == []


@pytest.mark.requirement("R88")
def test_messages_cannot_be_sent_to_a_subscription_or_received_from_a_topic(news: Driver) -> None:
    [sent] = news.run(Append("t", ref(news, "a"), Batch([b"x"])))
    [asked] = news.run(Ask("s", 1, news.ref("news"), False, 1, 1_000))

    assert "Send to topic 'news'" in sent.error.message
    assert "from one of its subscriptions" in asked.error.message


def test_a_message_that_cannot_be_decoded_is_refused_whole(news: Driver) -> None:
    with pytest.raises(errors.InvalidArgument, match="decoded"):
        publish(news, head(), b"\xff")

    assert rows(news, "a") == []
    assert news.counts_of("news").size_bytes == 0


def test_a_full_topic_takes_nothing_until_there_is_room(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As an entity of an earlier version, which had any size.
    monkeypatch.setattr(Setting, "check_new", lambda *_: None)
    topic(driver, changes={"max_size_in_megabytes": 1})
    subscription(driver)
    subscription(driver, "news/Subscriptions/b")
    large = b"x" * 200_000
    for _ in range(5):
        publish(driver, head(), body=large)

    with pytest.raises(errors.QuotaExceeded, match="topic 'news': partition 0 is full"):
        publish(driver, head(), body=large)
    for name in "ab":
        driver.settle(Disposition.COMPLETE, *[token for _, token in receive(driver, name, 5)])
    collect(driver)
    publish(driver, head(), body=large)


def test_a_batch_that_makes_too_many_copies_is_refused_whole(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PUBLISHED_COPIES_MAX", 5)

    publish(news, head(), head())
    with pytest.raises(errors.InvalidOperation, match="makes 6 copies"):
        publish(news, head(), head(), head())

    assert len(rows(news, "a")) == 2


@pytest.mark.requirement("R114")
def test_a_batch_whose_copies_are_too_large_is_refused_whole(
    news: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PUBLISHED_BYTES_MAX", 1_000)
    set_rules(news, "a", *(Rule(f"r{i}", action=SqlRuleAction("SET x = 1")) for i in range(5)))

    with pytest.raises(errors.InvalidOperation, match="more than 1000 bytes"):
        publish(news, head(text="t" * 300))

    assert rows(news, "a") == rows(news, "b") == []
    publish(news, head())
