"""A Config.json that cannot become a bus is refused, with each mistake and its path."""

from typing import Any

import pytest

from bendybus.crds import emulator_config
from bendybus.crds.errors import ManifestError
from bendybus.crds.imports.asked import Asked
from bendybus.domain import limits
from tests.crds.emulator_documents import (
    QUEUE,
    RULE,
    document,
    queue,
    refused,
    rule,
    topic_with,
)


@pytest.mark.requirement("R501")
@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"MaxDeliveryCount": "3"}, "must be a whole number (got '3'). Remove the quotes."),
        ({"MaxDeliveryCount": True}, "must be a whole number (got true)."),
        ({"MaxDeliveryCount": 0}, "must be 1 to 2147483647 (got 0)."),
        ({"RequiresSession": "true"}, "must be true or false (got 'true'). Remove the quotes."),
        ({"LockDuration": "P1W"}, "must not have weeks: write P7D."),
        ({"LockDuration": 60}, "must be a duration in ISO 8601, such as PT30S (got 60)."),
        ({"LockDuration": "PT1H"}, "must be PT5S to PT5M (got PT1H)."),
        (
            {"LockDuration": "00:01:00"},
            "must be an ISO 8601 duration such as PT30S, PT5M or P7D (got '00:01:00').",
        ),
        ({"ForwardTo": ["x"]}, "must be text (got ['x'])."),
        ({"MaxDeliveryCount": "ten"}, "must be a whole number (got 'ten')."),
        ({"ForwardTo": " "}, "' ' must be segments of letters, digits and "),
        (
            {"Status": "Off"},
            "must be Active or Disabled or SendDisabled or ReceiveDisabled (got 'Off').",
        ),
        ({"ForwardTo": "sb://x/y"}, "'sb://x/y' must be segments of letters, "),
        ({"ForwardDeadLetteredMessagesTo": "a b"}, "'a b' must be segments of letters, "),
        ({"lockduration": "PT1M", "LockDuration": "PT1M"}, "is the same field as "),
    ],
)
def test_a_wrong_value_is_named_with_its_path(properties: dict[str, Any], said: str) -> None:
    name = next(reversed(properties))

    problems = refused(document(queues=[queue(**properties)]))

    assert [each for each in problems if each.startswith(f"{QUEUE}.Properties.{name}: {said}")]
    assert len(problems) == 1
    assert problems[0].endswith("Remove the quotes.") == said.endswith("Remove the quotes.")


@pytest.mark.requirement("R501")
@pytest.mark.parametrize(
    ("properties", "field", "said"),
    [
        ({"FilterType": "SqlFilter", "SqlFilter": {"SqlExpression": "1 = 1"}}, ".FilterType",
         "'SqlFilter' is not a type of filter. Did you mean Sql?"),
        ({"FilterType": "Sql"}, ".SqlFilter", "is missing. It is required."),
        ({"FilterType": "Sql", "SqlFilter": {}}, ".SqlFilter.SqlExpression",
         "is missing. It is required."),
        ({"FilterType": "Sql", "SqlFilter": {"SqlExpression": "a = = 1"}},
         ".SqlFilter.SqlExpression", "line 1, column 5: unexpected '=': "),
        ({"FilterType": "Sql", "SqlFilter": {"SqlExpression": "a = 1"},
          "Action": {"SqlExpression": "SET"}}, ".Action.SqlExpression", "line 1, "),
        ({"FilterType": "Correlation", "CorrelationFilter": {}}, ".CorrelationFilter",
         "must have at least one property."),
        ({"FilterType": "Correlation", "CorrelationFilter": {"Properties": {"a.b": [1]}}},
         '.CorrelationFilter.Properties["a.b"]', "must be text, a number, true or false (got ["),
        ({"FilterType": "Correlation", "CorrelationFilter": {"Properties": {"a.b": 2**64}}},
         '.CorrelationFilter.Properties["a.b"]', "must fit into 64 bits (got "),
        ({"SqlFilter": {"SqlExpression": "1 = 1"}}, ".FilterType", "is missing. It is required."),
        ({"FilterType": "Correlation", "CorrelationFilter": {"Properties": {"order_id": 1 << 64}}},
         ".CorrelationFilter.Properties.order_id", "must fit into 64 bits "),
        ({"FilterType": "Correlation", "CorrelationFilter": {"Properties": {"a.b": "x" * 2_000}}},
         '.CorrelationFilter.Properties["a.b"]', "must be at most 1024 characters "),
        ({"FilterType": "Correlation", "CorrelationFilter": {"Subject": "x", "Properties": {}}},
         ".CorrelationFilter", "must have at least one property. Known: CorrelationId, "),
    ],
)  # fmt: skip
def test_a_wrong_rule_is_named_with_its_path(
    properties: dict[str, Any], field: str, said: str
) -> None:
    problems = refused(document(topics=[topic_with(rule(**properties))]))

    assert [each for each in problems if each.startswith(f"{RULE}.Properties{field}: {said}")]
    assert len(problems) == 1


@pytest.mark.requirement("R501")
def test_two_rules_of_one_name_are_named_also_beside_another_mistake() -> None:
    sql = {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "a = 1"}}
    rules = [rule(**sql), {"Name": "R", "Properties": sql}, {"Name": "x", "Properties": {}}]

    problems = refused(document(topics=[topic_with(*rules)]))

    where = RULE.removesuffix("[0]")
    assert problems == [
        f"{where}[1].Name: 'R' is already the name of {where}[0]; case does not count. Choose "
        "another name.",
        f"{where}[2].Properties.FilterType: is missing. It is required.",
    ]


@pytest.mark.requirement("R501")
def test_a_queue_too_many_is_named_before_the_start() -> None:
    many = [{"Name": f"q{number}"} for number in range(limits.ENTITIES_PER_NAMESPACE + 1)]

    [problem] = refused(document(queues=many))

    assert problem == (
        "UserConfig.Namespaces[0].Queues[10000]: there are more than 10,000 queues and topics of "
        "a namespace. Remove some."
    )


@pytest.mark.requirement("R501")
def test_a_subscription_too_many_is_named_before_the_start() -> None:
    many = [{"Name": f"s{number}"} for number in range(limits.SUBSCRIPTIONS_PER_TOPIC + 1)]

    [problem] = refused(document(topics=[{"Name": "t", "Subscriptions": many}]))

    assert problem == (
        "UserConfig.Namespaces[0].Topics[0].Subscriptions[2000]: there are more than 2,000 "
        "subscriptions of a topic. Remove some."
    )


@pytest.mark.requirement("R501")
def test_all_problems_are_found_at_once_in_the_order_of_the_file() -> None:
    queues: list[Any] = [queue(f"q{number}", LockDuration=1) for number in range(11)]
    queues += [{"Name": "Q1"}, {"Name": "a//b"}, {"Properties": {}}, 7]

    problems = refused(document(queues=queues, topics=[topic_with({"Name": "r"}), {"Name": "T"}]))

    where = "UserConfig.Namespaces[0]"
    assert [each.partition(": ")[0] for each in problems] == [
        *(f"{where}.Queues[{number}].Properties.LockDuration" for number in range(11)),
        f"{where}.Queues[11].Name",
        f"{where}.Queues[12].Name",
        f"{where}.Queues[13].Name",
        f"{where}.Queues[14]",
        f"{where}.Topics[0].Subscriptions[0].Rules[0].Properties",
        f"{where}.Topics[1].Name",
    ]


@pytest.mark.requirement("R501")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "is empty. Name a file with content."),
        (b"[]", "must be an object, { \u2026 } (got [])."),
        (b"{}", "UserConfig: is missing. It is required."),
        (b'{"UserConfig": {"Namespaces": []}}', "UserConfig.Namespaces: must have one namespace"),
        (b'{"UserConfig": {"Namespaces": [{"Name": "a"}, {}]}}',
         "UserConfig.Namespaces[1]: is a second namespace: a file has one."),
        (b'{"a": 1, "a": 2}', 'is not JSON: the key "a" is there twice.'),
        (b'{\n"a": 1, // x\n}', "Config.json, line 2: is not JSON: expecting property name "),
        (b'{\n"a": 1 // x\n}', "Config.json, line 2: is not JSON: expecting ',' delimiter "),
        (b'{\n"a": [1,\n],\n}', "Config.json, line 3: is not JSON: "),
        (b"NaN", "is not JSON: NaN is not a JSON number."),
        (b"[" * 100_000, "is not JSON that can be read: it is nested too deeply."),
        (b"\xff\xfe{\0}\0", "is not UTF-8 text. Save it as UTF-8."),
        (b'{"apiVersion": "v1"}', "is a manifest, not a Config.json. Give it to bendybus up -f."),
    ],
)  # fmt: skip
def test_a_file_that_is_no_config_is_refused_in_one_sentence(text: bytes, said: str) -> None:
    [problem] = refused(text)

    assert problem.startswith(said)


@pytest.mark.requirement("R501")
def test_what_the_number_of_partitions_does_not_allow_is_named_before_the_start() -> None:
    action = rule(
        FilterType="Sql",
        SqlFilter={"SqlExpression": "1 = 1"},
        Action={"SqlExpression": "SET sys.PartitionKey = 'a'"},
    )
    config = document(
        queues=[queue(MaxMessageSizeInKilobytes=102_400)], topics=[topic_with(action)]
    )

    with pytest.raises(ManifestError) as caught:
        emulator_config.convert("c", config, Asked(premium=16))

    size, key = caught.value.problems
    assert size.field == f"{QUEUE}.Properties.MaxMessageSizeInKilobytes"
    assert size.sentence.startswith("must be at most 1024 in a Premium namespace of 16 partitions ")
    assert key.field == RULE
    assert "in a partitioned topic no action can" in key.sentence
    assert emulator_config.convert("c", config).bundle.entities


@pytest.mark.requirement("R501")
@pytest.mark.parametrize(("text", "bracket"), [(b'{"a": [1, 2 ,\n ]}', "]"), (b'{"a": 1,}', "}")])
def test_a_comma_too_many_is_named(text: bytes, bracket: str) -> None:
    [problem] = refused(text)

    assert problem.endswith(f"Remove the comma before {bracket}.")


@pytest.mark.requirement("R501")
def test_comments_are_refused_with_what_to_do() -> None:
    [problem] = refused(b'{ // queues\n "UserConfig": {} }')

    assert problem.endswith("JSON has no comments: remove them.")
