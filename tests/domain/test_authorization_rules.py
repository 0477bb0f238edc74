"""Policies that an entity has itself: what they may be, and the keys that the bus makes."""

import dataclasses
from collections.abc import Mapping

import pytest

from bendybus.domain import (
    authorization_rules,
    descriptions,
    entity_settings,
    limits,
    shared_access,
)
from bendybus.domain.authorization_rules import rule
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Entity, Fingerprint, Origin
from bendybus.domain.entity_settings import Description, QueueDescription, SubscriptionDescription
from bendybus.domain.errors import InvalidArgument, Unauthenticated, Unauthorized
from bendybus.domain.limits import Tier
from bendybus.domain.shared_access import Policy, Right

pytestmark = pytest.mark.requirement("R578")
ALL = ("Manage", "Send", "Listen")
NOW_S = 1_700_000_000


def test_names_keys_and_numbers_have_the_bounds_of_the_service() -> None:
    name, key = "n" * 256, "k" * 256
    authorization_rules.check([rule(name, ["Send"], key, key)])
    authorization_rules.check([rule(f"n{number}", ALL) for number in range(12)])
    authorization_rules.check([rule("a.b_c-D", ["Send"], shared_access.new_key(), "-_+/=")])

    for wrong in (
        [rule(f"{name}n", ["Send"])],
        [rule("", ["Send"])],
        [rule("n", ["Send"], "", f"{key}k")],
        [rule(f"n{number}", ALL) for number in range(13)],
        [rule("n", ["Send"]), rule("N", ["Send"])],
        [rule("n", [])],
        [rule("n", ["Manage", "Send"])],
        # A document or a connection string would change these.
        *(
            [rule(name, ["Send"])]
            for name in (" n", "n\r", "a b", "a;b", "a/b", "\u2028", "\0", "é")
        ),
        *([rule("n", ["Send"], key)] for key in (" k", "k\n", "a b", "a;b", "a&b", "\0", "é")),
    ):
        with pytest.raises(InvalidArgument, match=r"^authorizationRules: "):
            authorization_rules.check(wrong)
    assert limits.AUTHORIZATION_NAME_CHARS_MAX == limits.AUTHORIZATION_KEY_CHARS_MAX == 256


def test_keys_that_are_not_given_stay_or_are_made() -> None:
    made = iter("xyz")
    known = [rule("App", ["Send"], "a", "b")]

    kept, half, new = authorization_rules.completed(
        [rule("app", ["Listen"]), rule("half", ["Send"], "h"), rule("new", ["Send"])],
        known,
        lambda: next(made, "last"),
    )

    assert kept == rule("app", ["Listen"], "a", "b")
    assert half.keys == ("h", "x")
    assert new.keys == ("y", "z")


def test_a_key_has_256_random_bits() -> None:
    keys = {shared_access.new_key() for _ in range(100)}

    assert len(keys) == 100
    assert all(len(key) == 44 for key in keys)


def test_a_rule_is_stored_as_it_is() -> None:
    given = rule("app", ALL, "a", "b")

    assert authorization_rules.from_json(authorization_rules.to_json(given)) == given
    assert "'a'" not in repr(given)


def test_only_an_entity_with_rules_needs_programs_that_keep_them() -> None:
    values = entity_settings.values_of(QueueDescription())

    assert entity_settings.version_of(values) == 1
    assert entity_settings.version_of({"enable_batched_operations": False}) == 4
    with_rules = {**values, "authorization_rules": (rule("app", ALL),)}
    assert entity_settings.version_of(with_rules) == entity_settings.VERSION == 5


# Tokens


def directory_of(**rules: Policy) -> Directory:
    """Return a directory of queues, each with a rule; `__` in a name is a slash."""
    made = Directory()
    take(made, {name.replace("__", "/"): QueueDescription(authorization_rules=(each,))
                for name, each in rules.items()})  # fmt: skip
    return made


def take(directory: Directory, described: Mapping[str, Description], generation: int = 1) -> None:
    """Take the entries of a partition."""
    entries = [
        Entity(name, f"uid-{name}", generation, Origin.CLIENT, each, 1, 0, 1, 1)
        for name, each in described.items()
    ]
    directory.update(0, Fingerprint("ns", "uid", Tier.PREMIUM, 1, 0), entries, snapshot=True)


def token(path: str, key: str, name: str = "app") -> str:
    """Return a token for a path."""
    return shared_access.sign(f"sb://bus.example/{path}", name, key, NOW_S + 60)


def opened(directory: Directory, text: str) -> shared_access.Grant:
    """Return the grant of a token where there are no policies of the namespace."""
    return shared_access.authenticate(
        {}, text, NOW_S, (), lambda each: directory.authorization_rules(each.resource)
    )


@pytest.mark.parametrize(
    "path", ["Orders", "orders/$deadletterqueue", "orders/messages/head", "orders/" + "x" * 900]
)
def test_a_token_for_an_entity_or_below_is_verified_with_its_rules(path: str) -> None:
    known = directory_of(orders=rule("app", ["Send"], "key", "other"))

    for key in ("key", "other"):
        grant = opened(known, token(path, key))
        assert grant.policy.entity == "orders"
    opened(known, token("orders", "key")).check("orders", Right.SEND)
    with pytest.raises(Unauthenticated, match="not signed with a key"):
        opened(known, token(path, "wrong"))


@pytest.mark.parametrize("path", ["", "order", "orders2", "eu", "eu/orders/x", "$management"])
def test_a_token_for_anything_else_is_not(path: str) -> None:
    known = directory_of(orders=rule("app", ["Send"], "key", "other"))

    with pytest.raises(Unauthenticated, match="does not exist"):
        opened(known, token(path, "key"))


def test_of_names_that_begin_alike_each_has_its_own_rule() -> None:
    known = directory_of(a=rule("app", ["Send"], "1", "1"), a__b=rule("app", ["Send"], "2", "2"))

    assert opened(known, token("a/b", "2")).policy.entity == "a/b"
    assert opened(known, token("a", "1")).policy.entity == "a"
    with pytest.raises(Unauthenticated):
        opened(known, token("a", "2"))
    # It is for a/b, and the rule is of a.
    with pytest.raises(Unauthorized):
        opened(known, token("a/b", "1")).check("a/b", Right.SEND)


def test_whoever_looks_learns_that_rules_may_have_changed() -> None:
    known = directory_of(orders=rule("app", ["Send"], "key", "other"))
    plain = {"plain": QueueDescription()}
    before = known.authorization_changes

    take(known, plain)
    take(known, {"plain/Subscriptions/s": SubscriptionDescription()}, 2)
    assert known.authorization_changes == before
    take(known, {"orders": QueueDescription(max_delivery_count=3)}, 2)
    assert known.authorization_changes == before + 1
    with pytest.raises(Unauthenticated):
        opened(known, token("orders", "key"))


def test_a_tombstone_keeps_no_key() -> None:
    described = QueueDescription(authorization_rules=(rule("app", ALL, "a", "b"),))

    assert descriptions.buried(described) == dataclasses.replace(described, authorization_rules=())
