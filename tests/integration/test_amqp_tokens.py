"""What a client of AMQP may do: tokens, claims, rights, and what refusals say. Real processes."""

import gc
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.core.credentials import AzureSasCredential
from azure.servicebus import ServiceBusClient as SdkClient
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusAuthenticationError, ServiceBusAuthorizationError

from bendybus.amqp import sections, values
from bendybus.amqp.performatives import Accepted, Declared, Detach, Rejected
from bendybus.amqp.values import Array, Symbol, Timestamp
from bendybus.frontend.listeners.amqp.management import OPERATIONS
from tests.amqp.peers import message
from tests.integration.amqp import AmqpBus
from tests.integration.guarded import Guarded
from tests.integration.processes import eventually
from tests.integration.raw_amqp import RECEIVER, SENDER, RawAmqp, attach_of, ended
from tests.integration.secured import (
    LISTEN_KEY,
    OTHER_KEY,
    POLICIES,
    ROOT_KEY,
    ROOT_POLICY,
    SEND_KEY,
    policy,
)

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
UNAUTHORIZED = "amqp:unauthorized-access"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("guarded"))
    yield made
    made.end()
    # What the SDK leaves is found here, and not in a test of another file.
    gc.collect()


@pytest.mark.parametrize("kind", ["jwt", "servicebus.windows.net:sastoken", "", "odd"])
def test_a_shared_access_signature_is_one_whatever_type_says(guarded: Guarded, kind: str) -> None:
    with guarded.raw().open() as peer:
        assert peer.put_token(guarded.token(ROOT_POLICY, ROOT_KEY), guarded.uri(), kind) == 202
        assert peer.attach("orders", SENDER) is None


def test_tokens_that_are_not_good_are_refused_with_401(guarded: Guarded) -> None:
    good = guarded.token("sender", SEND_KEY)
    tokens: dict[str, Any] = {
        "a JWT": "eyJhbGciOiJub25lIn0.e30.",
        "nothing": "",
        "no text": 5,
        "null": None,
        "a wrong key": guarded.token("sender", "wrong"),
        "an unknown policy": guarded.token("nobody", SEND_KEY),
        "expired": guarded.token("sender", SEND_KEY, lives_s=-10),
        "cut": good[:-20],
        "too long": good + "x" * 5_000,
        "no scheme": good.removeprefix("SharedAccessSignature "),
        "twice": f"{good}&skn=root",
    }
    with guarded.raw().open() as peer:
        for name, token in tokens.items():
            assert peer.put_token(token, guarded.uri("orders")) == 401, name
        refused = peer.attach("orders", SENDER)

        assert refused is not None
        assert ended(refused) == UNAUTHORIZED
        # And it goes on.
        assert peer.put_token(good, guarded.uri("orders")) == 202


def test_requests_to_cbs_that_are_none_are_refused_with_400(guarded: Guarded) -> None:
    token = guarded.token(ROOT_POLICY, ROOT_KEY)
    with guarded.raw().open() as peer:
        for properties in (
            {},
            {"operation": "put-token"},
            {"operation": "put-token", "name": 5},
            {"operation": "delete-token", "name": guarded.uri()},
            {"operation": ["put-token"], "name": guarded.uri()},
            {"operation": "put-token", "name": "amqp://[bad/orders"},
            {"operation": "put-token", "name": "orders" * 1_000},
        ):
            reply = peer.request("$cbs", properties, token).application_properties
            assert isinstance(reply, dict)
            assert reply["status-code"] == 400, properties
        assert peer.attach("orders", SENDER) is not None


def test_a_link_is_refused_where_no_claim_lies_over_it_or_a_right_is_missing(
    guarded: Guarded,
) -> None:
    with guarded.held_by("sender", SEND_KEY) as peer:
        for address, role in (
            ("bills", SENDER),
            ("orders", RECEIVER),
            ("orders/$DeadLetterQueue", RECEIVER),
            ("order", SENDER),
            ("orders2", SENDER),
            ("orders/eu", SENDER),
            ("", SENDER),
        ):
            refused = peer.attach(address, role)
            assert refused is not None, address
            assert ended(refused) == UNAUTHORIZED or not address, address
        assert peer.attach("orders", SENDER) is None


def test_a_claim_covers_subqueues_subscriptions_and_management(guarded: Guarded) -> None:
    with guarded.held_by(ROOT_POLICY, ROOT_KEY, "topic") as peer:
        assert peer.attach(guarded.uri("Topic/Subscriptions/All"), RECEIVER) is None
        assert peer.attach("topic/subscriptions/all/$DeadLetterQueue", RECEIVER) is None
        assert peer.attach("/TOPIC", SENDER) is None
        peek = {"from-sequence-number": 0, "message-count": 1}
        assert peer.manage("topic/subscriptions/all", "peek-message", peek)[0] == 204
        refused = peer.attach("orders", SENDER)
        assert refused is not None


def test_a_token_may_be_for_the_management_node_alone(guarded: Guarded) -> None:
    """The SDK for JavaScript signs one for it."""
    with guarded.raw().open() as peer:
        node = "orders/$management"
        token = guarded.token("listener", LISTEN_KEY, node)
        assert peer.put_token(token, guarded.uri(node)) == 202
        peek = {"from-sequence-number": 0, "message-count": 1}
        assert peer.manage("orders", "peek-message", peek)[0] in (200, 204)
        for address in ("orders", "bills/$management"):
            refused = peer.attach(address, RECEIVER)
            assert refused is not None, address
            assert ended(refused) == UNAUTHORIZED


def test_a_policy_of_one_entity_is_one_for_nothing_else(guarded: Guarded) -> None:
    with guarded.held_by("orders-only", OTHER_KEY, "") as peer:
        assert peer.attach("orders", SENDER) is None
        for address in ("bills", "topic", "no-such"):
            refused = peer.attach(address, SENDER)
            assert refused is not None
            assert ended(refused) == UNAUTHORIZED
            assert refused.error.description.count(address) >= 1


@pytest.mark.parametrize("node", ["bills", "no-such", "topic/subscriptions/no-such"])
def test_what_exists_is_not_told_to_who_has_no_right_on_it(guarded: Guarded, node: str) -> None:
    told = []
    for name in (node, "other-that-is-not-there"):
        with guarded.held_by("orders-only", OTHER_KEY) as peer:
            found = []
            for address, role in (
                (name, SENDER),
                (name, RECEIVER),
                (f"{name}/$DeadLetterQueue", RECEIVER),
                (f"{name}/$management", SENDER),
                (f"{name}/$management", RECEIVER),
            ):
                refused = peer.attach(address, role)
                assert refused is not None, address
                found.append((ended(refused), refused.error.description.replace(name, "*")))
            told.append(found)

    assert told[0] == told[1]
    assert {condition for condition, _ in told[0]} == {UNAUTHORIZED}


def test_nothing_but_cbs_and_one_transaction_is_there_for_strangers(guarded: Guarded) -> None:
    with guarded.raw().open() as peer:
        for address in ("orders/$management", "$management", "orders"):
            for role in (SENDER, RECEIVER):
                refused = peer.attach(address, role)
                assert refused is not None, address
                assert ended(refused) == UNAUTHORIZED
        # The SDK for Java declares a transaction before it puts a token.
        assert isinstance(peer.declare(), Declared)
        refused = peer.declare()
        assert isinstance(refused, Rejected)
        assert refused.error.condition == UNAUTHORIZED
        assert peer.put_token("x", "y") == 401


PEEK = {"from-sequence-number": 0, "message-count": 1}
NUMBERS = {"sequence-numbers": Array(values.LONG, [1])}
LOCKS = {"lock-tokens": Array(values.UUID, [uuid.uuid4()])}
SESSION = {"session-id": "a"}
RULE = {"rule-name": "r", "rule-description": {"sql-filter": {"expression": "1=1"}}}
# What each operation needs, and where it is asked.
NEEDS: dict[str, tuple[str, str, Any]] = {
    "renew-lock": ("Listen", "orders", LOCKS),
    "update-disposition": ("Listen", "orders", {"disposition-status": "completed", **LOCKS}),
    "peek-message": ("Listen", "orders", PEEK),
    "receive-by-sequence-number": ("Listen", "orders", {"receiver-settle-mode": 1, **NUMBERS}),
    "schedule-message": ("Send", "orders", {"messages": [{"message": message()}]}),
    "cancel-scheduled-message": ("Send", "orders", NUMBERS),
    "renew-session-lock": ("Listen", "sessions", SESSION),
    "get-session-state": ("Listen", "sessions", SESSION),
    "set-session-state": ("Listen", "sessions", {**SESSION, "session-state": b"x"}),
    "get-message-sessions": (
        "Listen", "sessions", {"last-updated-time": Timestamp(0), "skip": 0, "top": 5},
    ),
    "add-rule": ("Listen", "topic/subscriptions/all", RULE),
    "enumerate-rules": ("Listen", "topic/subscriptions/all", {"skip": 0, "top": 5}),
    "remove-rule": ("Listen", "topic/subscriptions/all", {"rule-name": "r"}),
    "batch-delete-messages": (
        "Listen", "orders", {"message-count": 1, "enqueued-time-utc": Timestamp(1)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("operation", NEEDS)
def test_management_needs_its_right_on_its_entity(guarded: Guarded, operation: str) -> None:
    assert set(NEEDS) == set(OPERATIONS)
    right, path, body = NEEDS[operation]
    enough = ("sender", SEND_KEY) if right == "Send" else ("listener", LISTEN_KEY)
    other = ("listener", LISTEN_KEY) if right == "Send" else ("sender", SEND_KEY)

    with guarded.held_by(*enough, path) as peer:
        status, condition, _ = peer.manage(path, operation, body)
        assert condition != UNAUTHORIZED, (status, condition)
    with guarded.held_by(*other, path) as peer:
        assert peer.manage(path, operation, body)[:2] == (401, UNAUTHORIZED)
        # A claim for another entity does not help.
        assert peer.put_token(guarded.token(*enough), guarded.uri("bills")) == 202
        assert peer.manage(path, operation, body)[:2] == (401, UNAUTHORIZED)


def test_a_session_is_asked_about_only_on_the_connection_that_holds_it(guarded: Guarded) -> None:
    def attached() -> RawAmqp:
        return guarded.held_by("listener", LISTEN_KEY, "sessions")

    name = Symbol("com.microsoft:session-filter")
    with attached() as holder, attached() as other:
        assert holder.attach("sessions", RECEIVER, filter={name: "mine"}) is None
        assert other.attach("sessions", RECEIVER, filter={name: "theirs"}) is None
        body = {"session-id": "mine"}
        for operation in ("get-session-state", "renew-session-lock", "set-session-state"):
            assert holder.manage("sessions", operation, body)[0] == 200
            assert other.manage("sessions", operation, body)[:2] == (
                410,
                "com.microsoft:session-lock-lost",
            )
        settle = {"disposition-status": "completed", **LOCKS, **body}
        assert other.manage("sessions", "update-disposition", settle)[0] == 410


def test_links_without_a_fresh_token_are_detached_and_others_go_on(guarded: Guarded) -> None:
    with guarded.raw().open() as peer:
        short = guarded.token("orders-only", OTHER_KEY, lives_s=3)
        assert peer.put_token(short, guarded.uri("orders")) == 202
        assert peer.put_token(guarded.token(ROOT_POLICY, ROOT_KEY), guarded.uri("bills")) == 202
        assert peer.attach("orders", SENDER) is None
        assert peer.attach("bills", SENDER) is None
        assert peer.attach("orders", RECEIVER) is None
        assert isinstance(peer.transfer("orders", message()), Accepted)

        assert ended(peer.wait(Detach, within_s=8)) == UNAUTHORIZED
        assert ended(peer.wait(Detach, within_s=8)) == UNAUTHORIZED
        assert isinstance(peer.transfer("bills", message()), Accepted)
        # With a fresh one all is as before.
        fresh = guarded.token("orders-only", OTHER_KEY)
        assert peer.put_token(fresh, guarded.uri("orders")) == 202
        assert peer.attach("orders", SENDER) is None
        assert isinstance(peer.transfer("orders", message()), Accepted)


def test_a_session_that_is_waited_for_is_not_given_to_who_may_no_longer_have_it(
    guarded: Guarded,
) -> None:
    name = Symbol("com.microsoft:session-filter")
    with guarded.raw().open() as peer, guarded.held_by("listener", LISTEN_KEY, "sessions") as other:
        short = guarded.token("listener", LISTEN_KEY, lives_s=2)
        assert peer.put_token(short, guarded.uri("sessions")) == 202
        peer.send(attach_of("sessions", RECEIVER, 50, filter={name: None}))
        time.sleep(2.5)
        assert other.put_token(guarded.token("sender", SEND_KEY), guarded.uri("")) == 202
        assert other.attach("sessions", SENDER) is None
        mine = sections.encode(
            sections.Message(properties=sections.Properties(group_id="late"), data=(b"x",))
        )
        assert isinstance(other.transfer("sessions", mine), Accepted)

        assert ended(peer.wait(Detach)) == UNAUTHORIZED
        # And another one gets it.
        assert other.attach("sessions", RECEIVER, filter={name: "late"}) is None


def test_sasl_plain_takes_the_name_and_a_key_of_a_policy(guarded: Guarded) -> None:
    with guarded.raw().plain("sender", SEND_KEY) as peer:
        assert peer.attach("bills", SENDER) is None
        assert peer.attach("bills", RECEIVER) is not None
    for response in (
        b"\0sender\0wrong", b"\0nobody\0send-key", b"", b"\0\0", b"sender\0send-key",
        b"\0sender\0send-key\0", b"\xff\0\xff\0\xff", b"\0sender\0" + b"x" * 3_000,
    ):  # fmt: skip
        with guarded.raw() as peer:
            assert peer.sasl("PLAIN", response) == 1, response
            peer.wait_for_end(5)
    for mechanism in ("GSSAPI", "SCRAM-SHA-1", "x" * 200):
        with guarded.raw() as peer:
            assert peer.sasl(mechanism) == 1
            peer.wait_for_end(5)


@pytest.mark.parametrize(
    ("name", "key", "queue"),
    [
        ("sender", "wrong", "orders"),
        ("nobody", SEND_KEY, "orders"),
        ("orders-only", OTHER_KEY, "bills"),
        ("listener", LISTEN_KEY, "orders"),
    ],
    ids=["wrong key", "unknown policy", "other entity", "missing right"],
)
def test_the_sdk_says_at_once_that_it_may_not(
    guarded: Guarded, name: str, key: str, queue: str
) -> None:
    began = time.monotonic()

    with (
        guarded.sdk_of(name, key) as sdk,
        pytest.raises((ServiceBusAuthenticationError, ServiceBusAuthorizationError)),
        sdk.get_queue_sender(queue) as sender,
    ):
        sender.send_messages(ServiceBusMessage("x"))

    assert time.monotonic() - began < 30


def test_the_sdk_works_with_the_least_right(guarded: Guarded) -> None:
    with guarded.sdk_of("sender", SEND_KEY) as sdk, sdk.get_queue_sender("bills") as sender:
        sender.send_messages(ServiceBusMessage("x"))
    with (
        guarded.sdk_of("listener", LISTEN_KEY) as sdk,
        sdk.get_queue_receiver("bills") as receiver,
    ):
        assert receiver.peek_messages(1)
        [found, *_] = receiver.receive_messages(1, max_wait_time=10)
        receiver.complete_message(found)
    token = AzureSasCredential(guarded.token("orders-only", OTHER_KEY, "orders"))
    client = SdkClient(guarded.amqp_address, token, use_tls=False)
    with client, client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("x"))


def test_a_removed_key_ends_links_within_two_seconds(guarded: Guarded) -> None:
    short_lived = policy("brief", ["Send", "Listen"], ["brief-key"])
    guarded.grant([*POLICIES, short_lived])
    eventually(lambda: _accepted(guarded, "brief", "brief-key"))
    with (
        guarded.raw().plain("brief", "brief-key") as plain,
        guarded.held_by("brief", "brief-key") as peer,
        guarded.held_by("sender", SEND_KEY) as other,
    ):
        for each in (plain, peer, other):
            assert each.attach("orders", SENDER) is None
        guarded.grant(POLICIES)
        began = time.monotonic()

        for each in (plain, peer):
            assert ended(each.wait(Detach, within_s=5)) == UNAUTHORIZED
        assert time.monotonic() - began < 2.5
        assert isinstance(other.transfer("orders", message()), Accepted)


def _accepted(guarded: Guarded, name: str, key: str) -> bool:
    with guarded.raw().open() as peer:
        return peer.put_token(guarded.token(name, key), guarded.uri()) == 202


def test_a_bus_without_policies_takes_any_token(tmp_path: Path) -> None:
    bus = AmqpBus(tmp_path, partitions=1)
    try:
        with bus.administration() as administration:
            administration.create_queue("orders")
        with RawAmqp(bus.amqp_address).open() as peer:
            assert peer.attach("orders", SENDER) is None
            assert peer.put_token("anything", "amqp://x/orders") == 202
        with RawAmqp(bus.amqp_address).plain("any", "thing") as peer:
            assert peer.attach("orders", RECEIVER) is None
    finally:
        bus.end()
