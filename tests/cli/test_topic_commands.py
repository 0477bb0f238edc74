"""`get`, `create`, `describe`, `delete` of topics, against a service in memory."""

import json

import pytest
import yaml

from bendybus.v1 import management_pb2 as pb
from tests.cli.fake_management import FakeManagement
from tests.cli.test_entity_commands import run

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def news(bus: FakeManagement, capsys: Capture) -> FakeManagement:
    """Return a bus with the topic `news` and its subscriptions `a` and `b`, and one without any."""
    for arguments in (
        ("topic", "news", "--partitioned"),
        ("subscription", "news", "a", "--set", "lockDuration=PT30S"),
        ("subscription", "news", "b"),
        ("topic", "empty"),
    ):
        assert run(bus, "create", *arguments) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "topic 'news': created"
    assert shown[1] == "subscription 'news/Subscriptions/a': created"
    return bus


@pytest.mark.requirement("R86")
def test_topics_are_listed_with_their_subscriptions_counted(
    news: FakeManagement, capsys: Capture
) -> None:
    codes = [run(news, "get", "topics"), run(news, "get", "topic", "NEWS", "-o", "wide")]

    lines = capsys.readouterr().out.splitlines()
    assert codes == [0, 0]
    assert lines[0].split() == [
        *("NAME", "PARTITIONS", "STATUS", "AVAILABLE", "SUBSCRIPTIONS", "SCHEDULED")
    ]
    assert lines[1].split() == ["empty", "1", "Active", "Available", "0", "0"]
    assert lines[2].split() == ["news", "16", "Active", "Available", "2", "0"]
    assert lines[3].split()[-4:] == ["ORIGIN", "SIZE", "MAX-SIZE", "HOME"]


@pytest.mark.requirement("R262")
@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (("get", "news"), "bendybus get topic news"),
        (("get", "queue", "news"), "bendybus get topic news"),
        (("describe", "queue", "news"), "bendybus get topic news"),
        (("delete", "queue", "news", "--yes"), "bendybus get topic news"),
        (("get", "news/Subscriptions/a"), "bendybus get subscription news a"),
    ],
)
def test_the_name_of_another_kind_is_answered_with_the_command_for_it(
    news: FakeManagement, capsys: Capture, arguments: tuple[str, ...], command: str
) -> None:
    code = run(news, *arguments)

    told = capsys.readouterr().err
    assert code == 3
    assert f"Use {command}." in told
    assert "it is a " in told


@pytest.mark.requirement("R86")
def test_subscriptions_are_listed_of_one_topic_and_of_all(
    news: FakeManagement, capsys: Capture
) -> None:
    run(news, "create", "subscription", "empty", "c")
    capsys.readouterr()

    codes = [
        run(news, "get", "subscriptions", "news"),
        run(news, "get", "subscriptions"),
        run(news, "get", "subscription", "news", "b", "-o", "wide"),
    ]

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert codes == [0, 0, 0]
    assert [line[:2] for line in lines[1:3]] == [["news", "a"], ["news", "b"]]
    assert [line[:2] for line in lines[4:7]] == [["empty", "c"], ["news", "a"], ["news", "b"]]
    assert lines[7][-8:] == [
        *("DEFERRED", "LOCKED", "TRANSFER", "TRANSFER-DEAD"),
        *("FORWARD-TO", "ORIGIN", "SIZE", "PARTITIONS"),
    ]


def test_get_says_what_it_takes(news: FakeManagement, capsys: Capture) -> None:
    codes = [
        run(news, "get", "topic", "news", "a"),
        run(news, "get", "queue", "news", "a"),
        run(news, "get", "topic", "none"),
        run(news, "get", "subscriptions", "none"),
    ]

    told = capsys.readouterr().err
    assert all(codes)
    assert "get topic takes one name (got 'a', too)" in told
    assert "get takes one name of a queue (got 'a', too)" in told
    assert told.count("there is no topic 'none'") == 2


@pytest.mark.requirement("R86")
def test_settings_are_shown_with_the_names_of_manifests(
    news: FakeManagement, capsys: Capture
) -> None:
    run(news, "describe", "subscription", "news", "a", "-o", "json")
    within = json.loads(capsys.readouterr().out)
    run(news, "describe", "topic", "news", "-o", "yaml")
    topic = yaml.safe_load(capsys.readouterr().out)
    run(news, "describe", "topic", "news")
    table = capsys.readouterr().out

    assert (within["kind"], within["topicName"], within["name"]) == ("Subscription", "news", "a")
    assert within["spec"]["lockDuration"] == "PT30S"
    assert within["spec"]["deadLetteringOnFilterEvaluationExceptions"] is True
    assert (topic["kind"], topic["subscriptionCount"]) == ("Topic", 2)
    assert topic["spec"]["enablePartitioning"] is True
    assert "lockDuration" not in topic["spec"]
    assert "subscriptions" in table
    assert "PARTITION" in table


@pytest.mark.requirement("R86")
def test_a_topic_is_deleted_only_after_a_question_that_counts_its_subscriptions(
    news: FakeManagement, capsys: Capture
) -> None:
    asked = run(news, "delete", "topic", "news")
    told = capsys.readouterr().err
    dry = run(news, "delete", "topic", "news", "--dry-run")
    one = run(news, "delete", "subscription", "news", "a", "--yes")
    done = run(news, "delete", "topic", "news", "--yes")

    assert asked == 2
    assert "Delete topic 'news', its 2 subscriptions and their 0 messages?" in told
    lines = capsys.readouterr().out.splitlines()
    assert (dry, one, done) == (0, 0, 0)
    assert lines[0].startswith("topic 'news': would be deleted, with its 2 subscriptions")
    assert lines[1:] == ["subscription 'news/Subscriptions/a': deleted", "topic 'news': deleted"]
    run(news, "get", "topics")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["empty"]


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("colour=red", "--set colour: a subscription has no such field. Known: lockDuration"),
        ("LockDuration=PT30S", "a subscription has no such field. Did you mean lockDuration?"),
        ("enablePartitioning=true", "a subscription has no such field"),
        ("lockDuration=1h", "--set lockDuration: "),
        ("lockDuration=PT1H", "--set lockDuration: must be PT5S to PT5M"),
        ("lockDuration=P99999999D", "--set lockDuration: must be PT5S to PT5M"),
        ("maxDeliveryCount=x", "--set maxDeliveryCount: must be a whole number (got 'x')"),
        ("maxDeliveryCount=1_0", "--set maxDeliveryCount: must be a whole number (got '1_0')"),
        ("deadLetteringOnMessageExpiration=yes", "must be true or false (got 'yes')"),
        ("status=Odd", "must be Active, Disabled, SendDisabled or ReceiveDisabled (got 'Odd')"),
        ("status=SendDisabled", "--set status: of a subscription must be Active or Disabled"),
        ("lockDuration", "--set: must be FIELD=VALUE (got 'lockDuration')"),
    ],
)
def test_a_bad_setting_is_named_and_nothing_is_made(
    news: FakeManagement, capsys: Capture, setting: str, sentence: str
) -> None:
    code = run(news, "create", "subscription", "news", "c", "--set", setting)

    assert code == 2
    assert sentence in capsys.readouterr().err
    assert news.topics.directory.subscription_count("news") == 2


def test_a_dry_run_makes_nothing(bus: FakeManagement, capsys: Capture) -> None:
    run(bus, "create", "topic", "news", "--dry-run", "--json")
    run(bus, "create", "topic", "news", "--detect-duplicates", "--json")

    dry, made = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (dry["dry_run"], made["dry_run"]) == (True, False)
    assert (made["kind"], made["name"], made["change"]) == ("Topic", "news", "created")
    assert run(bus, "create", "topic", "news") == 1
    assert "topic 'news' already exists" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--sql", "--action"])
def test_an_empty_expression_is_no_rule_for_every_message(
    news: FakeManagement, capsys: Capture, option: str
) -> None:
    code = run(news, "create", "rule", "news", "a", "empty", option, " ")

    assert code == 2
    assert capsys.readouterr().err == (
        f"bendybus: {option}: must not be empty. Leave it out, or give an expression.\n"
    )


def test_the_rules_of_a_subscription_are_described_as_rules(
    news: FakeManagement, capsys: Capture
) -> None:
    code = run(news, "describe", "subscription", "news", "a")

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert code == 0
    assert ["rules", "1"] in lines
    at = lines.index(["NAME", "FILTER", "ACTION"])
    assert lines[at + 1 :] == [["$Default", "every", "message", "-"]]


@pytest.mark.parametrize("given", ["news/Subscriptions/a", "news/subscriptions/A"])
def test_a_dry_run_of_purge_counts_a_subscription(
    news: FakeManagement, capsys: Capture, given: str
) -> None:
    code = run(news, "purge", given, "--dry-run")

    assert (code, capsys.readouterr().out) == (0, f"0 would be deleted from {given!r}\n")


def test_a_dry_run_of_purge_counts_the_sub_queue_that_is_named(
    bus: FakeManagement, capsys: Capture
) -> None:
    run(bus, "create", "queue", "q")
    bus.count(
        "q",
        pb.MessageCountDetails(
            active_message_count=1,
            dead_letter_message_count=2,
            transfer_dead_letter_message_count=3,
        ),
    )
    capsys.readouterr()

    for arguments in (
        ("q", "--dead-letters"),
        ("q/$DeadLetterQueue",),
        ("q", "--transfer-dead-letters"),
        ("q/$Transfer/$DeadLetterQueue",),
    ):
        assert run(bus, "purge", *arguments, "--dry-run") == 0

    counts = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert counts == ["2", "2", "3", "3"]
