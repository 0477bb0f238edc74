"""What callers may do, by operation; no protocol takes part."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from bendybus.domain import authorization_rules, errors, shared_access
from bendybus.domain.shared_access import Right
from bendybus.frontend.security.authenticator import RULES, Authenticator, Caller, Operation
from bendybus.frontend.security.policy_file import PolicyFile

NOW_S = 1_000_000
KEY = "a-key-of-this-test"


def caller_with(folder: Path, right: Right, entity: str) -> Caller:
    """Return a caller whose policy grants one right on `entity`, "" for the namespace."""
    policy = {"name": "app", "rights": [right], "entity": entity, "keys": [KEY]}
    path = folder / "policies.json"
    path.write_text(json.dumps({"policies": [policy]}))
    authenticator = Authenticator(PolicyFile(path), lambda: NOW_S)
    token = shared_access.sign(f"sb://any/{entity}", "app", KEY, NOW_S + 60)
    return authenticator.authenticate(token)


def allowed(caller: Caller, operation: Operation, entity_path: str) -> bool:
    """Whether the caller may do that, asked twice: what is remembered must say the same."""
    answers = set()
    for _ in range(2):
        try:
            caller.check(operation, entity_path)
            answers.add(True)
        except errors.Unauthorized:
            answers.add(False)
    [answer] = answers
    return answer


def test_every_operation_has_a_rule() -> None:
    assert set(RULES) == set(Operation)


@pytest.mark.parametrize("right", [Right.SEND, Right.LISTEN])
def test_a_right_on_an_entity_allows_its_operations_on_that_entity_only(
    right: Right, tmp_path: Path
) -> None:
    caller = caller_with(tmp_path, right, "orders")

    for operation, rule in RULES.items():
        expected = right in (rule.right, rule.other) and not rule.whole_namespace
        assert allowed(caller, operation, "orders") is expected, operation
        assert not allowed(caller, operation, "invoices"), operation


def test_manage_on_the_namespace_allows_everything(tmp_path: Path) -> None:
    caller = caller_with(tmp_path, Right.MANAGE, "")

    for operation in Operation:
        assert allowed(caller, operation, "orders")


def test_without_policies_every_caller_may_do_everything() -> None:
    caller = Authenticator(None).authenticate("")

    for operation in Operation:
        assert allowed(caller, operation, "orders")


@pytest.mark.requirement("R499")
def test_a_token_for_another_host_than_those_of_the_bus_is_refused(tmp_path: Path) -> None:
    policy = {"name": "app", "rights": ["Send"], "entity": "", "keys": [KEY]}
    path = tmp_path / "policies.json"
    path.write_text(json.dumps({"policies": [policy]}))
    authenticator = Authenticator(PolicyFile(path), lambda: NOW_S, hosts=["Bus.Example"])

    authenticator.authenticate(shared_access.sign("sb://bus.example/", "app", KEY, NOW_S + 60))
    with pytest.raises(errors.Unauthenticated):
        authenticator.authenticate(shared_access.sign("sb://other/", "app", KEY, NOW_S + 60))


@pytest.mark.requirement("R498")
def test_what_a_token_allows_for_one_url_is_not_remembered_for_others(tmp_path: Path) -> None:
    policy = {"name": "app", "rights": ["Manage"], "entity": "", "keys": [KEY]}
    path = tmp_path / "policies.json"
    path.write_text(json.dumps({"policies": [policy]}))
    token = shared_access.sign("sb://any/$Resources/queues", "app", KEY, NOW_S + 60)
    caller = Authenticator(PolicyFile(path), lambda: NOW_S).authenticate(token)

    caller.check(Operation.LIST_ENTITIES, resources=["$Resources/queues"])

    assert not allowed(caller, Operation.LIST_ENTITIES, "")


@pytest.mark.requirement("R578")
def test_policies_of_an_entity_take_the_share_of_the_entity_whatever_they_are_called(
    tmp_path: Path,
) -> None:
    path = tmp_path / "policies.json"
    declared = {"name": "app", "rights": ["Send"], "entity": "", "keys": [KEY]}
    path.write_text(json.dumps({"policies": [declared]}))
    rules = [authorization_rules.rule(name, ["Send"], f"{name}-key") for name in ("app", "other")]
    own = authorization_rules.on("orders", rules)
    entities = SimpleNamespace(authorization_changes=0, authorization_rules=lambda _: own)
    authenticator = Authenticator(PolicyFile(path), lambda: NOW_S, entities=entities)

    def share(name: str, key: str) -> str:
        token = shared_access.sign("sb://any/orders", name, key, NOW_S + 60)
        return authenticator.authenticate(token).policy

    assert share("app", KEY) == "app"
    assert share("app", "app-key") == share("other", "other-key") == "entity orders"
