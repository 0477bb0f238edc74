"""`create rule`: which properties `--equal` means, and what is refused."""

import pytest

from bendybus.cli import __main__ as command
from bendybus.cli.commands import rule_commands
from bendybus.cli.output import entity_views
from bendybus.crds import rule_manifest
from bendybus.crds.rule_manifest import RuleSpec
from bendybus.domain.filters.rule import (
    CorrelationFilter,
    FalseFilter,
    Rule,
    SqlFilter,
    SqlRuleAction,
    TrueFilter,
)
from tests.cli.fake_management import FakeManagement
from tests.cli.test_entity_commands import run

Capture = pytest.CaptureFixture[str]
NOWHERE = (
    "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=x;UseDevelopmentEmulator=true"
)


@pytest.mark.requirement("R86")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["session-id=a"], CorrelationFilter(session_id="a")),
        (["sys.SessionId=a", "sys.Label=b"], CorrelationFilter(session_id="a", label="b")),
        (["user.session_id=a"], CorrelationFilter(properties={"session_id": "a"})),
        (["user.label=a", "label=b"], CorrelationFilter(label="b", properties={"label": "a"})),
        (["color=red"], CorrelationFilter(properties={"color": "red"})),
        (["color.shade=red"], CorrelationFilter(properties={"color.shade": "red"})),
    ],
)
def test_a_filter_has_properties_of_the_message_and_of_the_application(
    given: list[str], expected: CorrelationFilter
) -> None:
    assert rule_commands.wanted_filter(None, given, nothing=False) == expected


@pytest.mark.requirement("R86")
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            ["session_id=a"],
            "--equal session_id: write session-id for the property of the message, or "
            "user.session_id for an application property of this name.",
        ),
        (
            ["Subject=a"],
            "--equal Subject: write label for the property of the message, or user.Subject for "
            "an application property of this name.",
        ),
        (
            ["sys.Colour=a"],
            "--equal sys.Colour: must be sys. and one of correlation-id, message-id, to, reply-to, "
            "label, session-id, reply-to-session-id, content-type.",
        ),
        (
            ["session-id=a", "sys.SessionId=b"],
            "--equal: a property is given twice (got 'sys.SessionId=b'). Leave one out.",
        ),
        (
            ["color=a", "color=b"],
            "--equal: a property is given twice (got 'color=b'). Leave one out.",
        ),
    ],
)
def test_a_property_that_could_mean_two_things_is_refused(
    given: list[str], sentence: str, capsys: Capture
) -> None:
    options = [part for each in given for part in ("--equal", each)]

    code = command.main(
        ["--connection-string", NOWHERE, "create", "rule", "news", "a", "r", *options]
    )

    assert (code, capsys.readouterr().err) == (2, f"bendybus: {sentence}\n")


@pytest.mark.requirement("R86")
@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("topic", "news"), 1, "topic 'news' already exists. Choose another name or update it."),
        (("queue", "news"), 1, "topic 'news' already exists. Choose another name or update it."),
        (("queue", "orders"), 1, "queue 'orders' already exists. Choose another name or update"),
        (("topic", "orders"), 1, "queue 'orders' already exists. Choose another name or update"),
        (("subscription", "news", "a"), 1, "subscription 'news/Subscriptions/a' already exists."),
        (("subscription", "none", "a"), 3, "there is no topic 'none'"),
        (("rule", "news", "a", "$Default"), 1, "rule '$Default' of subscription"),
        (("rule", "news", "none", "r"), 3, "there is no subscription 'news/Subscriptions/none'"),
    ],
)
def test_a_dry_run_fails_where_creating_would_fail(
    bus: FakeManagement, capsys: Capture, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    for name in (("topic", "news"), ("subscription", "news", "a"), ("queue", "orders")):
        assert run(bus, "create", *name) == 0
    capsys.readouterr()

    found = run(bus, "create", *arguments, "--dry-run")

    told = capsys.readouterr()
    assert (found, told.out) == (code, "")
    assert sentence in told.err


@pytest.mark.requirement("R86")
@pytest.mark.parametrize(
    "rule",
    [
        Rule("$Default", TrueFilter()),
        Rule("none", FalseFilter(), SqlRuleAction("SET a = @b", {"b": 1})),
        Rule("sql", SqlFilter("a > @least AND b = @b", {"least": 1.5, "b": True})),
        Rule("equal", CorrelationFilter(reply_to_session_id="s", properties={"color": "red"})),
    ],
    ids=lambda rule: rule.name,
)
def test_a_rule_is_shown_as_a_manifest_has_it(rule: Rule) -> None:
    shown = entity_views.rule_as_json(rule)

    assert rule_manifest.to_rule(RuleSpec.model_validate(shown)) == rule
