"""Parameters of templates: their types and constraints, and what a file lacks, said at once."""

from typing import Any

import pytest

from bendybus.crds.errors import ManifestError
from bendybus.crds.imports import arm
from bendybus.crds.imports.asked import Asked

pytestmark = pytest.mark.requirement("R665")
TYPE = "Microsoft.ServiceBus/namespaces"


def template(count: Any = "[parameters('p')]", **parts: Any) -> dict[str, Any]:
    """Return a template with a queue whose deliveries are `count`."""
    queue = {"type": f"{TYPE}/queues", "name": "shop/q", "properties": {"maxDeliveryCount": count}}
    return {"resources": [{"type": TYPE, "name": "shop"}, queue], **parts}


def deliveries(document: dict[str, Any], **given: Any) -> Any:
    found = arm.convert("t", document, Asked(given))
    return found.documents[1]["spec"]["maxDeliveryCount"]


def problem(document: dict[str, Any], **given: Any) -> str:
    with pytest.raises(ManifestError) as error:
        arm.convert("t", document, Asked(given))
    [found] = error.value.problems
    return f"{found.field}: {found.sentence}"


@pytest.mark.parametrize(
    ("definition", "value", "words"),
    [
        ({"type": "int"}, "abc", 'must be a whole number (got "abc").'),
        ({"type": "int"}, "7.5", 'must be a whole number (got "7.5").'),
        ({"type": "int"}, True, "must be a whole number (got true)."),
        ({"type": "bool"}, "yes", 'must be true or false (got "yes").'),
        ({"type": "array"}, "abc", 'must be a list, as JSON (got "abc").'),
        ({"type": "array"}, "{}", 'must be a list, as JSON (got "{}").'),
        ({"type": "Object"}, "[1]", 'must be an object, as JSON (got "[1]").'),
        ({"type": "secureObject"}, "x", "must be an object, as JSON (got a secret)."),
        ({"type": "secureString", "maxLength": 3}, "hunter2", "at most 3 (got a secret)."),
        ({"type": "int", "minValue": "3"}, 2, "must be at least 3 (got 2)."),
        ({"type": "int", "allowedValues": [True]}, 1, "must be one of true (got 1)."),
        ({"type": "string"}, [1], "must be a text (got [1])."),
        ({"type": "int", "allowedValues": [3, 7]}, "5", "must be one of 3, 7 (got 5)."),
        ({"type": "string", "allowedValues": ["a"]}, "b", 'must be one of "a" (got "b").'),
        ({"type": "array", "allowedValues": ["a", "b"]}, ["a", "c"], 'one of "a", "b" (got "c").'),
        ({"type": "int", "minValue": 3}, 2, "must be at least 3 (got 2)."),
        ({"type": "int", "maxValue": 3}, "4", "must be at most 3 (got 4)."),
        ({"type": "string", "minLength": 2}, "a", 'must have a length of at least 2 (got "a").'),
        ({"type": "array", "maxLength": 1}, "[1, 2]", "must have a length of at most 1 (got [1, 2"),
    ],
)
def test_a_value_that_a_parameter_does_not_take_is_said_with_its_name(
    definition: dict[str, Any], value: Any, words: str
) -> None:
    said = problem(template(parameters={"p": definition}), p=value)

    assert said.startswith("resources[1].properties.maxDeliveryCount: needs the parameter p, which")
    assert words in said


@pytest.mark.parametrize(
    ("definition", "value"),
    [
        ({"type": "int", "allowedValues": [3, 7], "minValue": 7, "maxValue": 7}, "7"),
        ({"type": "INT"}, 7),
        ({"type": "int", "allowedValues": []}, 7),
        ({"type": "string", "allowedValues": ["7", "8"], "minLength": 1, "maxLength": 1}, "7"),
        ({"type": "string"}, 7),
        ({}, "7"),
        ({"$ref": "#/definitions/count"}, 7),
    ],
)
def test_a_value_within_the_constraints_is_taken(definition: dict[str, Any], value: Any) -> None:
    assert deliveries(template(parameters={"p": definition}), p=value) == 7


def test_case_does_not_count_in_allowed_values_and_lists_may_have_any_of_them() -> None:
    parameters = {
        "p": {"type": "string", "allowedValues": ["Seven"]},
        "q": {"type": "array", "allowedValues": ["a", "b"]},
    }
    count = "[if(equals(toLower(parameters('p')), 'seven'), length(parameters('q')), 1)]"

    assert deliveries(template(count, parameters=parameters), p="SEVEN", q=["b", "a", "a"]) == 3


def test_a_default_value_is_within_the_constraints_too() -> None:
    definition = {"type": "int", "defaultValue": 5, "maxValue": 4}

    assert "must be at most 4 (got 5)." in problem(template(parameters={"p": definition}))


def test_all_that_a_file_lacks_is_asked_for_at_once() -> None:
    text, number = {"type": "string"}, {"type": "int"}
    queues = {
        "type": f"{TYPE}/queues",
        "name": "[format('{0}/{1}{2}', parameters('bus'), parameters('a'), uniqueString('x'))]",
        "properties": {
            "maxDeliveryCount": "[parameters('n')]",
            "status": "[parameters('a')]",
            "forwardTo": "[concat(variables('to'), resourceGroup().name)]",
        },
    }
    document: dict[str, Any] = {
        "parameters": {"bus": text, "a": text, "to": text, "n": number, "unused": text},
        "variables": {"to": "[parameters('to')]"},
        "resources": [{"type": TYPE, "name": "[parameters('bus')]"}, queues],
    }

    said = problem(document)

    names = ["bus", "a", "uniqueString", "n", "to", "resourceGroup.name"]
    assert said == (
        f"resources[0].name: needs {', '.join(names[:-1])} and {names[-1]}, which the file lacks: "
        f"give them with {' '.join(f'--set {each}=VALUE' for each in names)}."
    )
    given = {"bus": "shop", "a": "Active", "to": "shop", "n": "7", "uniqueString": "x"}
    given |= {"resourceGroup.name": "g"}
    assert deliveries(document, **given) == 7


def test_a_name_is_asked_for_once_whatever_its_case_and_conditions_hide_nothing() -> None:
    parameters = {name: {"type": "string"} for name in ("Bus", "wanted", "count", "status")}
    queue = {
        "type": f"{TYPE}/queues",
        "name": "[concat(parameters('bus'), '/', parameters('BUS'), length(5))]",
        "condition": "[parameters('wanted')]",
        "copy": {"name": "c", "count": "[parameters('count')]"},
        "properties": {"status": "[parameters('status')]", "forwardTo": "[length(5)]"},
    }
    document = {"parameters": parameters, "resources": [{"type": TYPE, "name": "shop"}, queue]}

    said = problem(document)

    assert "needs count, wanted, bus and status, which the file lacks: give them with" in said


def test_two_names_that_become_one_are_said() -> None:
    properties = {"userMetadata": "a", "[concat('user', 'Metadata')]": "b"}
    queue = {"type": f"{TYPE}/queues", "name": "shop/q", "properties": properties}

    said = problem({"resources": [{"type": TYPE, "name": "shop"}, queue]})

    assert said == "resources[1].properties: has 'userMetadata' twice. Remove one of them."


def test_what_a_deployment_inside_is_not_passed_cannot_be_given() -> None:
    inner = {"parameters": {"n": {"type": "int"}}, **template("[parameters('n')]")}
    deployment = {
        "type": "Microsoft.Resources/deployments",
        "name": "inner",
        "properties": {"expressionEvaluationOptions": {"scope": "inner"}, "template": inner},
    }

    said = problem({"resources": [deployment]})

    assert said.endswith("needs the parameter 'n', which is not passed to it.")


FUNCTIONS = [
    {
        "namespace": "my",
        "members": {
            "twice": {
                "parameters": [{"name": "n", "type": "int"}],
                "output": {"type": "int", "value": "[mul(parameters('n'), 2)]"},
            },
            "odd": {"parameters": 5, "output": {"type": "int", "value": 7}},
            "seven": {"output": {"type": "int", "value": 7}},
        },
    }
]


def test_functions_of_the_template_are_called_with_their_own_parameters() -> None:
    count = "[add(My.Twice(parameters('p')), my.seven())]"
    document = template(count, parameters={"p": {"type": "int"}}, functions=FUNCTIONS)

    assert deliveries(document, p="3") == 13


@pytest.mark.parametrize(
    ("count", "words"),
    [
        ("[my.twice()]", "my.twice() has 0 arguments, and needs 1."),
        ("[my.other(1)]", "uses my.other(), which is not known here. Write its result instead."),
        ("[my.odd(1)]", "my.odd() has 1 arguments, and needs 0."),
        ("[my.twice('a')]", 'needs the parameter n, which must be a whole number (got "a").'),
        ("[my.]", "is no expression: the name of a function is missing at character 5."),
    ],
)
def test_calls_of_functions_that_are_wrong_are_said(count: str, words: str) -> None:
    assert words in problem(template(count, functions=FUNCTIONS))


def test_a_function_does_not_see_parameters_and_functions_of_the_template() -> None:
    output = {"type": "int", "value": "[parameters('p')]"}
    functions = [{"namespace": "my", "members": {"f": {"output": output}}}]
    document = template("[my.f()]", parameters={"p": {"defaultValue": 3}}, functions=functions)

    assert "uses the parameter 'p', which the file does not have." in problem(document)


def test_a_condition_that_is_false_is_in_the_report() -> None:
    document = template(7)
    document["resources"].append({"type": f"{TYPE}/queues", "name": "shop/r", "condition": False})

    found = arm.convert("t", document, Asked())

    assert "without effect: resources[2].condition: is false: this is not made." in [
        *found.remarks()
    ]


def test_thousands_of_values_are_asked_for_in_one_bounded_sentence() -> None:
    names = [f"p{number}" for number in range(3_000)]
    count = f"[concat({', '.join(f'''parameters('{name}')''' for name in names[:900])})]"
    document = template(count, parameters={name: {"type": "int"} for name in names})
    document["resources"][1]["copy"] = {"name": "c", "count": 10_000}

    said = problem(document)

    assert said.count("--set ") == 50
    assert "p49 and 850 more, which the file lacks: give them with --set p0=VALUE --set p1" in said
