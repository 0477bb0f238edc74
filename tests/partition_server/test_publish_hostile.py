"""Messages, names and rules that no honest client sends: none of them may stop a partition."""

import pytest

from bendybus.domain import limits
from bendybus.domain.filters.rule import Rule, SqlFilter, SqlRuleAction
from bendybus.partition_server.state.commands import ApplyEntity
from bendybus.v1 import message_pb2
from tests.partition_server.conftest import MakeStore
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.memory_store import MemoryStore
from tests.partition_server.publishing import publish, rows, set_rules
from tests.partition_server.topic_changes import UPDATE, make_news, subscription
from tests.partition_server.transacting import KEY, sending, transact


@pytest.fixture
def news(driver: Driver) -> Driver:
    """Return a partition with the topic `news` and its subscriptions `a` and `b`."""
    return make_news(driver)


@pytest.mark.requirement("R182")
@pytest.mark.parametrize(
    "rule",
    [
        Rule("copy", action=SqlRuleAction("SET b = a")),
        Rule("label", action=SqlRuleAction("SET sys.Label = a")),
        Rule("name", filter=SqlFilter("property('sys.' + a) = 1")),
    ],
)
@pytest.mark.parametrize("code", [0xD800, 0xDFFF, 0x110000])
def test_a_character_that_is_none_fails_the_rule_and_nothing_else(
    news: Driver, rule: Rule, code: int
) -> None:
    options = {"dead_lettering_on_filter_evaluation_exceptions": True, "rules": (rule,)}
    subscription(news, "news/Subscriptions/a", UPDATE, changes=options)
    made = message_pb2.Message()
    made.application_properties["a"].char_value = code

    publish(news, made.SerializeToString())
    news.restart()

    [failed] = rows(news, "a", dead_letter=True)
    assert failed.dead_letter_reason == "FilterException"
    assert len(rows(news, "b")) == 1


@pytest.mark.requirement("R184")
def test_rules_are_taken_over_in_whatever_order_subscriptions_change(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SQL_FILTERS_PER_TOPIC", 2)
    registrar = make_news(Driver(MemoryStore(fingerprint(0))))
    other = Driver(make_store(fingerprint(1)))
    most = (Rule("x", filter=SqlFilter("x > 1")), Rule("y", filter=SqlFilter("x > 2")))
    set_rules(registrar, "a", *most)
    other.run(ApplyEntity("t", registrar.partition.state.catalogue.existing()))

    # While the other partition is away: a gives its rules up, b gets them, a changes again.
    set_rules(registrar, "a", Rule("all"))
    set_rules(registrar, "b", *most)
    subscription(registrar, "news/Subscriptions/a", UPDATE, changes={"max_delivery_count": 3})
    known = other.partition.state.catalogue
    missed = [entry for entry in registrar.partition.state.catalogue.all() if known.accept(entry)]
    for entry in sorted(missed, key=lambda each: each.generation):
        other.run(ApplyEntity("t", [entry]))
        other.restart()

    found = other.partition.state.topics.of(known.by_key("news") or missed[0]).index
    assert found.sql_filter_count == 2


@pytest.mark.requirement("R185")
@pytest.mark.parametrize("transaction_first", [False, True])
def test_a_transaction_and_a_frame_of_one_name_are_two(
    driver: Driver, transaction_first: bool
) -> None:
    driver.create()
    name = b"x" * 16

    def send() -> None:
        sent = driver.send(b"sent", producer_id=name, producer_sequence=0, partition_keys=[KEY])
        assert sent.numbers

    def commit() -> None:
        assert transact(driver, sending(driver.ref(), b"in one"), id_=name).error is None

    steps = [commit, send] if transaction_first else [send, commit]
    for step in (*steps, driver.restart, *steps, *reversed(steps)):
        step()

    assert sorted(row.payload for row in driver.peek()) == [b"in one", b"sent"]
