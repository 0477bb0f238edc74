"""Policies and their keys: kept, made, rotated, never printed."""

import base64
from typing import Any

import pytest

from bendybus.crds.namespace_manifest import BusNamespaceSpec
from bendybus.operator.builders import secret_files
from bendybus.operator.builders.secret_files import Policy
from bendybus.operator.kubernetes import names
from tests.operator.manifests import bus

ROOT = names.ROOT_RULE


def spec(*rules: dict[str, Any]) -> BusNamespaceSpec:
    view = bus(authorizationRules=list(rules))
    assert view.manifest is not None, view.problems
    return view.manifest.spec


def random_bytes(count: int) -> bytes:
    return b"r" * count


def secret(**fields: str) -> dict[str, Any]:
    return {"data": {name: base64.b64encode(text.encode()) for name, text in fields.items()}}


def test_every_bus_has_the_root_policy_with_all_rights() -> None:
    assert secret_files.rules(spec()) == [(ROOT, ("Listen", "Send", "Manage"), "")]


def test_policies_of_the_manifest_follow() -> None:
    rules = secret_files.rules(spec({"name": "Reader", "rights": ["Listen"], "entity": "paid"}))

    assert rules[1:] == [("Reader", ("Listen",), "paid")]


def test_missing_keys_are_made_with_256_bits() -> None:
    (root,) = secret_files.policies_of(spec(), {}, random_bytes)

    assert base64.b64decode(root.primary_key) == b"r" * 32
    assert base64.b64decode(root.secondary_key) == b"r" * 32


def test_keys_that_are_there_stay() -> None:
    kept = {ROOT: secret(primaryKey="one", secondaryKey="two")}

    (root,) = secret_files.policies_of(spec(), kept, random_bytes)

    assert (root.primary_key, root.secondary_key) == ("one", "two")


def test_a_key_that_was_removed_is_made_anew_and_the_other_stays() -> None:
    (root,) = secret_files.policies_of(spec(), {ROOT: secret(secondaryKey="two")}, random_bytes)

    assert root.primary_key == base64.b64encode(b"r" * 32).decode()
    assert root.secondary_key == "two"


@pytest.mark.parametrize("data", [{"primaryKey": "%%%"}, {"primaryKey": "/w=="}, None, {}])
def test_what_is_no_key_is_replaced(data: Any) -> None:
    (root,) = secret_files.policies_of(spec(), {ROOT: {"data": data}}, random_bytes)

    assert root.primary_key == base64.b64encode(b"r" * 32).decode()


@pytest.mark.parametrize("text", ["a;b", "  ", ""])
def test_a_key_that_would_break_a_connection_string_is_replaced(text: str) -> None:
    (root,) = secret_files.policies_of(spec(), {ROOT: secret(primaryKey=text)}, random_bytes)

    assert root.primary_key == base64.b64encode(b"r" * 32).decode()


def test_keys_are_not_printed() -> None:
    policy = Policy("app", ("Send",), "", "hidden-1", "hidden-2")

    assert "hidden" not in repr(policy)
    assert "hidden" not in f"{policy}"
