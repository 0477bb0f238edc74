"""Expressions of templates: what they mean, and what is wrong with them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.crds.imports import arm_expressions
from bendybus.crds.imports.arm_evaluation import AskedError, Budget, Evaluation
from bendybus.crds.imports.arm_expressions import TemplateError

pytestmark = pytest.mark.requirement("R655")
PARAMETERS: dict[str, Any] = {
    "prefix": {"type": "string", "defaultValue": "shop"},
    "queues": {"type": "array", "defaultValue": [{"name": "orders", "size": 5}, {"name": "bills"}]},
    "secret": {"type": "string"},
    "maybe": {"type": "string", "nullable": True},
    "derived": {"type": "string", "defaultValue": "[concat(parameters('prefix'), '-bus')]"},
    "self": {"type": "string", "defaultValue": "[parameters('self')]"},
}
VARIABLES: dict[str, Any] = {
    "lower": "[toLower(parameters('Prefix'))]",
    "settings": {"lockDuration": "PT1M", "names": ["a", "b"]},
    "one": "[variables('two')]",
    "two": "[variables('one')]",
}


def evaluation(**given: Any) -> Evaluation:
    """Return an evaluation with the parameters and variables above."""
    return Evaluation(given, PARAMETERS, VARIABLES, Budget())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("[[not an expression]", "[not an expression]"),
        ("[ 'it''s' ]", "it's"),
        ("[parameters('PREFIX')]", "shop"),
        ("[parameters('derived')]", "shop-bus"),
        ("[parameters('maybe')]", None),
        ("[parameters('queues')[0].name]", "orders"),
        ("[parameters('queues')[1]['name']]", "bills"),
        ("[variables('settings').LockDuration]", "PT1M"),
        ("[concat(variables('lower'), '-', string(5), '-', true())]", "shop-5-True"),
        ("[concat(createArray(1), createArray(2, 3))]", [1, 2, 3]),
        ("[format('{0}/{1}-{{{0}}}', 'a', 2)]", "a/2-{a}"),
        ("[if(equals(1, 1), 'yes', parameters('secret'))]", "yes"),
        ("[and(true(), not(false()), or(false(), true()))]", True),
        ("[if(greater(length(parameters('queues')), 1), 'many', 'one')]", "many"),
        ("[coalesce(null(), parameters('maybe'), 'last')]", "last"),
        ("[empty('')]", True),
        ("[contains(variables('settings'), 'NAMES')]", True),
        ("[contains('abc', 'b')]", True),
        ("[contains(createArray('a'), 'b')]", False),
        ("[take('abcdef', 3)]", "abc"),
        ("[skip(createArray(1, 2, 3), 1)]", [2, 3]),
        ("[last(split('a/b,c', createArray('/', ',')))]", "c"),
        ("[replace('a-b', '-', '')]", "ab"),
        ("[substring('abcdef', 1, 2)]", "bc"),
        ("[join(createArray('a', 1), ';')]", "a;1"),
        ("[union(createObject('a', 1), createObject('A', 2, 'b', 3))]", {"a": 2, "b": 3}),
        ("[intersection(createArray(1, 2), createArray(2, 3))]", [2]),
        ("[map(parameters('queues'), lambda('q', lambdaVariables('q').name))]",
         ["orders", "bills"]),
        ("[filter(range(0, 5), lambda('n', greater(lambdaVariables('n'), 2)))]", [3, 4]),
        ("[reduce(range(1, 4), 0, lambda('a', 'n', add(lambdaVariables('a'), "
         "lambdaVariables('n'))))]", 10),
        ("[tryGet(parameters('queues')[1], 'size')]", None),
        ("[div(-7, 2)]", -3),
        ("[mod(7, 4)]", 3),
        ("[min(createArray(3, 1))]", 1),
        ("[max(3, 1)]", 3),
        ("[int('5')]", 5),
        ("[bool('true')]", True),
        ("[json('{\"a\": [1]}').a[0]]", 1),
        ("[last(split(resourceId('Microsoft.ServiceBus/namespaces/queues', 'n', 'q'), '/'))]", "q"),
        ({"a": ["[add(1, 2)]"], "b": True}, {"a": [3], "b": True}),
        ({"copy": [{"name": "all", "count": 3, "input": "[copyIndex('all', 1)]"}], "x": 0},
         {"x": 0, "all": [1, 2, 3]}),
    ],
)  # fmt: skip
def test_an_expression_means_what_it_means_in_azure(text: Any, value: Any) -> None:
    assert evaluation().value(text) == value


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("[parameters('secret')]", "secret"),
        ("[toLower(uniqueString(resourceGroup().id))]", "uniqueString"),
        ("[resourceGroup().location]", "resourceGroup.location"),
        ("[listKeys('x', '2021').primaryKey]", "listKeys.primaryKey"),
        ("[listKeys('x', '2021').keys[0].value]", "listKeys.keys.0.value"),
        ("[reference('bus', '2024-01-01', 'full').sku.name]", "reference.sku.name"),
        ("[utcNow()]", "utcNow"),
    ],
)
def test_what_only_azure_knows_is_asked_for_by_name(text: str, name: str) -> None:
    with pytest.raises(AskedError, match=f"--set {name}=VALUE") as asked:
        evaluation().value(text)
    assert asked.value.names == (name,)

    assert evaluation(**{name.lower(): "Given"}).value(text).lower() == "given"


def test_a_member_is_asked_for_where_only_another_is_given() -> None:
    text = "[concat(resourceGroup().name, resourceGroup().location)]"

    with pytest.raises(AskedError, match=r"--set resourceGroup\.location=VALUE"):
        evaluation(**{"resourcegroup.name": "g"}).value(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "a function is missing at character 2"),
        ("[concat('a' 'b')]", r"\) is missing"),
        ("[concat('a', )]", "is missing"),
        ("['a' 'b']", "the end is missing"),
        ("[1.5]", "is missing"),
        ("[nothing()]", "uses nothing"),
        ("[parameters('none')]", "the parameter 'none'"),
        ("[variables('none')]", "the variable 'none'"),
        ("[parameters('self')]", "which needs itself"),
        ("[variables('one')]", "which needs itself"),
        ("[concat()]", "has 0 arguments"),
        ("[if(true(), 1)]", "has 2 arguments, and needs 3"),
        ("[if('x', 1, 2)]", "true or false"),
        ("[add('x', 1)]", "a whole number"),
        ("[mul(9223372036854775807, 2)]", "64 bits"),
        ("[div(1, 0)]", "by zero"),
        ("[range(0, 100000)]", "must be 0 to 10000"),
        ("[padLeft('x', 100000)]", "more than 10000"),
        ("[parameters('queues')[2]]", "item 2 of an array of 2"),
        ("[parameters('prefix').name]", "no object and no array"),
        ("[copyIndex()]", "is not in a copy"),
        ("[json('{')]", "no JSON"),
        ("[format('{3}', 1)]", r"has \{3\} in its format"),
        ("[" + "concat(" * 60 + "'a'" + ")" * 60 + "]", "nested more than 50 deep"),
        ("[" + "x" * 30_000 + "]", "at most 24576"),
    ],
)
def test_what_is_wrong_with_an_expression_is_said(text: str, words: str) -> None:
    with pytest.raises(TemplateError, match=words):
        evaluation().value(text)


def test_the_place_of_what_is_wrong_in_a_value_is_known() -> None:
    with pytest.raises(TemplateError) as wrong:
        evaluation().value({"a": [1, {"b": "[nothing()]"}]})

    assert wrong.value.steps == ["a", 1, "b"]


def test_a_deep_value_ends() -> None:
    deep: Any = 1
    for _ in range(5_000):
        deep = {"a": [deep]}

    with pytest.raises(TemplateError, match="nested more than 60 deep") as wrong:
        evaluation().value(deep)
    assert len(wrong.value.steps) == 60
    assert evaluation().value({"a": "[parameters('prefix')]"}) == {"a": "shop"}


def test_a_file_has_so_many_steps() -> None:
    few = Evaluation({}, {}, {}, Budget(1))

    with pytest.raises(TemplateError, match="too much to evaluate"):
        few.value("[concat('a text of more', ' than ten characters')]")


@pytest.mark.parametrize(
    "make",
    [
        lambda before: f"[concat({before}, {before})]",
        lambda before: f"[createArray({before}, {before})]",
        lambda before: {"a": f"[{before}]", "b": f"[{before}]"},
    ],
    ids=["texts", "arrays", "objects"],
)
def test_values_that_double_each_other_end(make: Any) -> None:
    variables: dict[str, Any] = {"v0": "x" * 100}
    for number in range(1, 50):
        variables[f"v{number}"] = make(f"variables('v{number - 1}')")

    with pytest.raises(TemplateError, match="too much to evaluate"):
        Evaluation({}, {}, variables, Budget()).value("[variables('v49')]")


def test_a_long_chain_of_values_ends() -> None:
    chain = {f"v{n}": f"[variables('v{n + 1}')]" for n in range(10_000)}

    with pytest.raises(TemplateError, match="too often"):
        Evaluation({}, {}, chain, Budget()).value("[variables('v0')]")


@given(st.text(max_size=60))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    written = f"[{text}]"
    if arm_expressions.is_expression(written):
        try:
            evaluation().value(written)
        except TemplateError:
            return
