"""Authorization rules of Azure, which are unique on an entity, are policies of one bus."""

from typing import Any

import pytest

from tests.crds.reports import reported
from tests.crds.test_arm_templates import NAMESPACE, converted, problems, resource, specs, template

pytestmark = pytest.mark.requirement("R655")


def policy(name: str, *rights: str, of: str = "", **more: Any) -> dict[str, Any]:
    """Return an authorization rule; `of`: the type and name of its entity."""
    kind, _, entity = of.partition(" ")
    whole = f"namespaces/{kind}/authorizationRules" if of else "namespaces/authorizationRules"
    names = f"shop/{entity}/{name}" if of else f"shop/{name}"
    return resource(whole, names, properties={"rights": list(rights)}, **more)


def test_a_name_of_several_entities_becomes_one_for_each() -> None:
    found = converted(
        template(
            NAMESPACE,
            resource("namespaces/queues", "shop/a~b"),
            resource("namespaces/topics", "shop/news"),
            policy("reader", "Listen"),
            policy("Reader", "Listen", of="queues a~b"),
            policy("reader", "Listen", of="topics news"),
            policy("app_send", "Send", "send"),
        )
    )

    assert specs(found)["BusNamespace shop"]["authorizationRules"] == [
        {"name": "reader", "rights": ["Listen"]},
        {"name": "a-b-Reader", "rights": ["Listen"], "entity": "a/b"},
        {"name": "news-reader", "rights": ["Listen"], "entity": "news"},
        {"name": "app-send", "rights": ["Send"]},
    ]
    assert [str(each) for each in reported(found)] == [
        f"changed: resources[{at}].name: the policy is called {name}: on a bus a name is unique, "
        "of letters, digits and -."
        for at, name in ((4, "a-b-Reader"), (5, "news-reader"), (6, "app-send"))
    ]


def test_more_policies_than_a_bus_has_are_left_out() -> None:
    policies = [policy(f"p{number}", "Send") for number in range(14)]

    found = converted(template(NAMESPACE, *policies))

    assert len(specs(found)["BusNamespace shop"]["authorizationRules"]) == 12
    left = [each.path for each in reported(found) if "is left out" in each.detail]
    assert left == ["resources[13]", "resources[14]"]


@pytest.mark.parametrize(
    ("rights", "words"),
    [
        ([], "resources[1].properties.rights: must have at least one of Listen, Send and Manage."),
        (["Read"], "resources[1].properties.rights[0]: must be Listen, Send or Manage"),
    ],
)
def test_wrong_rights_are_said_with_their_place(rights: list[str], words: str) -> None:
    [said] = problems(template(NAMESPACE, policy("app", *rights)))

    assert words in said


def test_a_subscription_of_a_topic_elsewhere_needs_it() -> None:
    document = template(NAMESPACE, resource("namespaces/topics/subscriptions", "shop/news/all"))

    [said] = map(str, reported(converted(document)))

    assert said == "changed: resources[1]: needs topic 'news', which this file lacks."
