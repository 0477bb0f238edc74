"""Shared access: what tokens say, whom they are of, what they allow."""

import dataclasses

import pytest
from azure.servicebus._pyamqp import utils as azure
from hypothesis import given
from hypothesis import strategies as st

from bendybus.domain import shared_access
from bendybus.domain.errors import BusError, Unauthenticated, Unauthorized
from bendybus.domain.shared_access import Cause, Policy, Right

NOW = 1_800_000_000
END = NOW + 60
SEND, LISTEN, MANAGE = frozenset({Right.SEND}), frozenset({Right.LISTEN}), frozenset({Right.MANAGE})
URI = "sb://demo-frontend.default.svc:7480/"
# Computed with openssl: printf 'sb%3A…%2F\n1800000060' | openssl dgst -sha256 -hmac first -binary
GOLDEN = (
    "SharedAccessSignature sr=sb%3A%2F%2Fdemo-frontend.default.svc%3A7480%2F"
    "&sig=10eZtua7AY87bURqLR6KpMb0f65VKmMXVNkghj5qMLE%3D&se=1800000060&skn=app"
)
POLICIES = shared_access.group(
    [
        Policy("app", SEND, keys=("first", "second")),
        Policy("reader", LISTEN, "Orders", ("of orders",)),
        Policy("reader", LISTEN, "bills", ("of bills",)),
        Policy("root", MANAGE, keys=("root",)),
    ]
)


def cause_of(error: BusError) -> str:
    """Return why a token was refused."""
    return error.metadata["cause"]


def test_a_token_has_the_form_of_service_bus() -> None:
    assert shared_access.sign(URI, "app", "first", END) == GOLDEN


@given(
    st.text("abcZ09-./:", min_size=1),
    # It encodes other characters of a name twice.
    st.text("abcXYZ019_.-", min_size=1),
    st.text(st.characters(codec="utf-8"), min_size=1),
)
def test_azures_library_signs_the_same(path: str, name: str, key: str) -> None:
    uri = f"sb://host/{path}"

    theirs = azure.generate_sas_token(uri, name, key, END)  # type: ignore[no-untyped-call]
    assert shared_access.sign(uri, name, key, END) == theirs


@pytest.mark.parametrize("key", ["first", "second"])
def test_both_keys_of_a_policy_sign(key: str) -> None:
    token = shared_access.sign(URI, "app", key, END)

    grant = shared_access.verify(POLICIES, token, "orders", Right.SEND, NOW)

    assert (grant.policy.name, grant.expires_at_s) == ("app", END)


def test_a_token_is_good_until_its_end_and_a_little_longer_for_clocks_that_differ() -> None:
    token = shared_access.sign(URI, "app", "first", NOW)

    shared_access.verify(POLICIES, token, "orders", Right.SEND, NOW + 4.9)
    with pytest.raises(Unauthenticated) as refused:
        shared_access.verify(POLICIES, token, "orders", Right.SEND, NOW + 5)

    assert cause_of(refused.value) == Cause.EXPIRED


@pytest.mark.parametrize(
    ("name", "key", "cause"),
    [
        ("app", "third", Cause.WRONG_KEY),
        ("app", "", Cause.WRONG_KEY),
        ("App", "first", Cause.UNKNOWN_POLICY),
        ("", "first", Cause.MALFORMED),
    ],
)
def test_who_has_no_key_is_not_known(name: str, key: str, cause: Cause) -> None:
    token = shared_access.sign(URI, name, key, END)

    with pytest.raises(Unauthenticated) as refused:
        shared_access.verify(POLICIES, token, "orders", Right.SEND, NOW)

    assert cause_of(refused.value) == cause


@pytest.mark.parametrize(
    ("name", "key", "uri", "entity", "right", "cause"),
    [
        ("app", "first", URI, "orders", Right.SEND, None),
        ("app", "first", URI, "orders", Right.LISTEN, Cause.MISSING_RIGHT),
        ("app", "first", URI, "orders", Right.MANAGE, Cause.MISSING_RIGHT),
        ("root", "root", URI, "orders", Right.SEND, None),
        ("root", "root", URI, "orders", Right.LISTEN, None),
        ("root", "root", URI, "", Right.MANAGE, None),
        # The policy is on one queue; names are compared without case.
        ("reader", "of orders", URI, "ORDERS", Right.LISTEN, None),
        ("reader", "of orders", URI, "orders/$DeadLetterQueue", Right.LISTEN, None),
        ("reader", "of orders", URI, "orders2", Right.LISTEN, Cause.WRONG_ENTITY),
        ("reader", "of orders", URI, "bills", Right.LISTEN, Cause.WRONG_ENTITY),
        ("reader", "of bills", URI, "bills", Right.LISTEN, None),
        ("reader", "of orders", URI, "", Right.LISTEN, Cause.WRONG_ENTITY),
        # The token is for one queue.
        ("app", "first", f"{URI}Orders", "orders", Right.SEND, None),
        ("app", "first", f"{URI}orders/", "orders", Right.SEND, None),
        ("app", "first", f"{URI}orders", "bills", Right.SEND, Cause.WRONG_ENTITY),
        ("app", "first", "demo/orders", "orders", Right.SEND, None),
        ("reader", "of orders", f"{URI}bills", "bills", Right.LISTEN, Cause.WRONG_ENTITY),
        ("reader", "of orders", f"{URI}bills", "orders", Right.LISTEN, Cause.WRONG_ENTITY),
    ],
)
def test_a_token_allows_what_it_and_its_policy_allow(
    name: str, key: str, uri: str, entity: str, right: Right, cause: Cause | None
) -> None:
    token = shared_access.sign(uri, name, key, END)

    if cause is None:
        shared_access.verify(POLICIES, token, entity, right, NOW)
        return
    with pytest.raises(Unauthorized) as refused:
        shared_access.verify(POLICIES, token, entity, right, NOW)

    assert cause_of(refused.value) == cause


@pytest.mark.parametrize(
    "change",
    [
        lambda token: token.replace("se=1800000060", "se=1900000060"),
        lambda token: token.replace("demo-frontend", "other-frontend"),
        lambda token: token.replace("7480%2F", "7480%2Forders"),
    ],
)
def test_a_token_that_was_changed_is_refused(change) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Unauthenticated) as refused:
        shared_access.authenticate(POLICIES, change(GOLDEN), NOW)

    assert cause_of(refused.value) == Cause.WRONG_KEY


@pytest.mark.parametrize(
    "text",
    [
        "Bearer abc",
        "SharedAccessSignature ",
        "SharedAccessSignature sr=a&sig=b&se=1",
        "SharedAccessSignature sr=a&sig=%%%&se=1&skn=app",
        "SharedAccessSignature sr=a&sig=YQ%3D%3D&se=x&skn=app",
        "SharedAccessSignature sr=a&sig=YQ%3D%3D&se=-1&skn=app",
        "SharedAccessSignature sr=a&sig=YQ%3D%3D&se=1&skn=app&skn=root",
        "SharedAccessSignature sr=a&sig=YQ%3D%3D&se=1&skn=app&x=y",
        "SharedAccessSignature sr=%2F%2F%5B&sig=YQ%3D%3D&se=1&skn=app",
        # A byte that is not UTF-8, as HTTP servers read headers.
        "SharedAccessSignature sr=a\udcff&sig=YQ%3D%3D&se=1&skn=app",
        "SharedAccessSignature " + "x" * 5_000,
    ],
)
def test_nonsense_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(Unauthenticated) as refused:
        shared_access.authenticate(POLICIES, text, NOW)

    assert cause_of(refused.value) == Cause.MALFORMED
    assert text not in str(refused.value)


@given(st.text())
def test_whatever_comes_as_a_token_is_refused_in_good_order(text: str) -> None:
    with pytest.raises(Unauthenticated):
        shared_access.authenticate(POLICIES, f"SharedAccessSignature {text}", NOW)


def test_no_token_has_a_cause_of_its_own() -> None:
    with pytest.raises(Unauthenticated) as refused:
        shared_access.authenticate(POLICIES, "", NOW)

    assert cause_of(refused.value) == Cause.NO_TOKEN


def test_keys_and_signatures_are_never_printed() -> None:
    token = shared_access.parse(GOLDEN)
    grant = shared_access.authenticate(POLICIES, GOLDEN, NOW)

    printed = repr((POLICIES, token, grant))

    assert "first" not in printed
    assert repr(token.signature) not in printed


@pytest.mark.requirement("R337")
@pytest.mark.parametrize(
    ("path", "covered"),
    [
        ("orders", True),
        ("ORDERS", True),
        ("orders/$DeadLetterQueue", True),
        ("orders/Subscriptions/eu", True),
        ("orders/subscriptions/eu/$DeadLetterQueue", True),
        ("orders/eu", False),
        ("orders/eu/$DeadLetterQueue", False),
        ("orders/subscriptions", False),
        ("orders/subscriptionsx/eu", False),
        ("orders2", False),
        ("order", False),
        ("", False),
    ],
)
@pytest.mark.parametrize("by_policy", [True, False])
def test_a_policy_covers_its_entity_its_sub_queues_and_its_subscriptions_and_nothing_else(
    path: str, covered: bool, by_policy: bool
) -> None:
    entity, resource = ("Orders", "") if by_policy else ("", "orders")
    policy = shared_access.Policy("app", frozenset(Right), entity)
    grant = shared_access.Grant(policy, resource, 0)

    if covered:
        grant.check(path, Right.SEND)
    else:
        with pytest.raises(Unauthorized):
            grant.check(path, Right.SEND)


@pytest.mark.requirement("R337")
@pytest.mark.parametrize(("entity", "resource"), [("ORDERS", ""), ("", "orders"), ("", "")])
def test_the_scope_of_a_token_is_in_lower_case(entity: str, resource: str) -> None:
    policy = dataclasses.replace(POLICIES["app"][0], entity=entity)

    grant = shared_access.Grant(policy, resource, 0)

    assert grant.scope == (entity or resource).lower()


NAMES = ("bus.example", "bus.ns.svc", "127.0.0.1")


@pytest.mark.requirement("R499")
@pytest.mark.parametrize(
    "uri",
    [
        "sb://bus.example/", "https://BUS.example:8443/orders", "amqps://bus.ns.svc/orders",
        "bus.example:5671/orders", "https://bus.example/$Resources/queues?$skip=0",
        "sb://127.0.0.1:7480/",
    ],
)  # fmt: skip
def test_a_token_is_for_a_listed_host_whatever_its_scheme_port_and_path(uri: str) -> None:
    token = shared_access.sign(uri, "app", "first", 2_000)

    assert shared_access.authenticate(POLICIES, token, 1_000, NAMES)


@pytest.mark.requirement("R499")
@pytest.mark.parametrize(
    "uri", ["sb://other.example/", "sb://bus.example.evil/", "/orders", "sb://"]
)
def test_a_token_for_another_host_is_refused_only_where_hosts_are_listed(uri: str) -> None:
    token = shared_access.sign(uri, "app", "first", 2_000)

    assert shared_access.authenticate(POLICIES, token, 1_000)
    with pytest.raises(Unauthenticated, match="for another host") as raised:
        shared_access.authenticate(POLICIES, token, 1_000, NAMES)
    assert raised.value.metadata["cause"] == "wrong-host"


@pytest.mark.requirement("R498")
def test_a_token_for_the_url_of_a_request_is_for_what_it_asks_for() -> None:
    token = shared_access.Policy("app", frozenset(Right))
    grant = shared_access.Grant(token, "$resources/queues", 0)

    grant.check("", Right.MANAGE, resources=["$Resources/queues"])
    with pytest.raises(Unauthorized):
        grant.check("", Right.MANAGE)
    with pytest.raises(Unauthorized):
        grant.check("", Right.MANAGE, resources=["$Resources/topics"])
    of_entity = shared_access.Policy("app", frozenset(Right), "orders")
    with pytest.raises(Unauthorized):
        shared_access.Grant(of_entity, "bills", 0).check("bills", Right.SEND, resources=["bills"])
