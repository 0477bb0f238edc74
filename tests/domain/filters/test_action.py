"""SQL actions: what they change, what they must not, and what a copy looks like."""

from uuid import UUID

import pytest

from bendybus.domain.errors import InvalidArgument, InvalidOperation
from bendybus.domain.filters import rule
from bendybus.domain.filters.rule import Rule, SqlRuleAction
from bendybus.domain.filters.values import FilterError, Timestamp, Value
from bendybus.domain.filters.view import Changes, Properties, UserChange

ID = UUID("00000000-0000-4000-8000-000000000001")
MESSAGE = Properties(
    {"Color": "red", "quantity": 10, "long": "é" * 16_000},
    {"Label": "new", "MessageId": "m"},
    lambda: ID,
)


def made(text: str, **parameters: Value) -> Changes:
    described = Rule("r1", action=SqlRuleAction(text, parameters))
    return rule.compiled(described, partitioned=False).changes(MESSAGE)


def user(text: str, **parameters: Value) -> dict[str, UserChange]:
    changes = dict(made(text, **parameters).user)
    assert changes.pop("rulename") == UserChange("RuleName", "r1")
    return changes


@pytest.mark.requirement("R66")
@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("SET Size = quantity * 2", {"size": UserChange("Size", 20)}),
        ("SET color = 'blue'", {"color": UserChange("color", "blue")}),
        ("set user.a = @p; remove b", {"a": UserChange("a", 3), "b": UserChange("b", None, True)}),
        ("REMOVE [Color]", {"color": UserChange("Color", None, True)}),
        ("SET a = 1 SET b = 2;", {"a": UserChange("a", 1), "b": UserChange("b", 2)}),
        ("SET a = missing + 1", {"a": UserChange("a", None)}),
        ("SET a = NULL", {"a": UserChange("a", None)}),
        ("SET a = newid()", {"a": UserChange("a", ID)}),
        ("SET a = sys.Label", {"a": UserChange("a", "new")}),
        ("SET a = TRUE SET a = 2.5", {"a": UserChange("a", 2.5)}),
        ("SET set = 1 SET remove = 2 REMOVE set", {
            "set": UserChange("set", None, True), "remove": UserChange("remove", 2)
        }),
    ],
)  # fmt: skip
def test_changes_application_properties(text: str, changed: dict[str, UserChange]) -> None:
    assert user(text, p=3) == changed
    assert made(text, p=3).system == {}


@pytest.mark.requirement("R66")
def test_each_statement_sees_what_those_before_it_changed() -> None:
    text = (
        "SET quantity = quantity + 1; SET twice = QUANTITY * 2; REMOVE color; SET was = color;"
        "SET sys.Label = sys.Label + '!'; SET label = sys.subject"
    )

    changes = made(text)

    values = {name: change.value for name, change in changes.user.items()}
    assert values["quantity"] == 11
    assert values["twice"] == 22
    assert values["was"] is None
    assert changes.system == {"Label": "new!"}
    assert values["label"] == "new!"
    assert MESSAGE.user["color"] == "red"


@pytest.mark.requirement("R66")
@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("SET sys.Subject = 'x'", {"Label": "x"}),
        ("SET sys.CorrelationId = color", {"CorrelationId": "red"}),
        ("SET sys.to = NULL", {"To": None}),
        ("SET sys.TimeToLive = 60 * 1000", {"TimeToLive": 60_000}),
        ("SET sys.SessionId = 's' SET sys.PartitionKey = 's'", {
            "SessionId": "s", "PartitionKey": "s"
        }),
        # The copy is made when the message activates: there is nothing to schedule any more.
        ("SET sys.ScheduledEnqueueTimeUtc = @at", {}),
        ("SET sys.ScheduledEnqueueTime = 1 / 0", {}),
    ],
)  # fmt: skip
def test_changes_system_properties(text: str, changed: dict[str, Value]) -> None:
    assert made(text, at=Timestamp(5)).system == changed


@pytest.mark.requirement("R66")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("SET sys.SequenceNumber = 1", "an action cannot set this.*It can set MessageId, Sess"),
        ("SET sys.EnqueuedTimeUtc = 1", "an action cannot set this"),
        ("SET sys.Nonsense = 1", "sys.Nonsense: an action cannot set this"),
        ("REMOVE sys.Label", "a system property cannot be removed. Set it to NULL"),
        ("SET a = @missing", "the parameter @missing has no value"),
        ("SET a = 1 " * 33, r"at most 32 expressions \(got 33\)"),
        ("SET a = " + "x" * 1_020, "at most 1024 characters"),
        ("", "must not be empty"),
    ],
)
def test_an_action_that_cannot_be_applied_is_refused_with_the_rule(
    text: str, sentence: str
) -> None:
    with pytest.raises(InvalidArgument, match=rf"action.sqlExpression: .*{sentence}"):
        made(text)


def test_thirty_two_expressions_are_accepted() -> None:
    assert user("SET a = 1;" * 32) == {"a": UserChange("a", 1)}


@pytest.mark.requirement("R66")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("SET sys.Label = @raw", r"sys.Label must be set to a string, .*\(got binary data\)"),
        ("SET sys.MessageId = long", "at most 128 characters"),
        ("SET sys.TimeToLive = 0", "1 to 922337203685477"),
        ("SET sys.TimeToLive = 1.5", "an integer of milliseconds"),
        ("SET sys.TimeToLive = 'x'", "or a duration such as 'PT5M'"),
        ("SET a = long + long", "must be set to at most 32768 bytes"),
        ("SET sys.To = long + long", "must be set to at most 32768 bytes"),
        ("SET a = quantity / 0", "divided by zero"),
        ("SET a = sys.Nonsense", "there is no such system property"),
    ],
)
def test_an_action_that_fails_for_a_message_is_a_filter_error(text: str, sentence: str) -> None:
    with pytest.raises(FilterError, match=sentence):
        made(text, raw=b"x")


@pytest.mark.requirement("R67")
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("SET sys.SessionId = 'a'", "SessionId"),
        ("SET a = 1; SET SYS.partitionkey = NULL", "PartitionKey"),
        ("SET sys.PartitionKey = 'a' SET sys.SessionId = 'a'", "PartitionKey and SessionId"),
    ],
)
def test_in_a_partitioned_topic_an_action_cannot_change_the_partition(
    text: str, named: str
) -> None:
    described = Rule("r1", action=SqlRuleAction(text))

    with pytest.raises(InvalidOperation, match=f"the action sets {named}, which decides") as found:
        rule.check(described, partitioned=True)

    assert found.value.metadata["field"] == "action.sqlExpression"
    rule.check(described, partitioned=False)


@pytest.mark.requirement("R67")
def test_in_a_partitioned_topic_other_actions_are_possible() -> None:
    text = "SET sys.MessageId = 'a' SET SessionId = 'user' REMOVE PartitionKey"

    rule.check(Rule("r1", action=SqlRuleAction(text)), partitioned=True)


@pytest.mark.requirement("R69")
def test_the_copy_names_its_rule_whatever_the_action_says() -> None:
    described = Rule("r1", action=SqlRuleAction("SET rulename = 'other'"))

    changes = rule.compiled(described, partitioned=True).changes(MESSAGE)

    assert dict(changes.user) == {"rulename": UserChange("RuleName", "r1")}
