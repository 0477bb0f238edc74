"""Requests about messages, and those of administration."""

from uuid import UUID

import pytest

from bendybus.frontend.listeners.web.message_paths import MessageCall, parse

pytestmark = pytest.mark.requirement("R652")
LOCK = "ca4bec0f-8e87-1fbc-e5c1-21bcd06885c5"
ABOUT_MESSAGES = [
    ("POST", "/orders/messages", MessageCall.SEND, "orders"),
    ("POST", "/orders/messages/", MessageCall.SEND, "orders"),
    ("POST", "/ORDERS/Messages", MessageCall.SEND, "ORDERS"),
    ("POST", "/orders/messages/head", MessageCall.LOCK, "orders"),
    ("DELETE", "/orders/messages/head", MessageCall.TAKE, "orders"),
    ("DELETE", "/orders/messages/HEAD", MessageCall.TAKE, "orders"),
    ("PUT", f"/orders/messages/5/{LOCK}", MessageCall.UNLOCK, "orders"),
    ("POST", f"/orders/messages/5/{LOCK}", MessageCall.RENEW, "orders"),
    ("DELETE", f"/orders/messages/5/{LOCK.upper()}", MessageCall.COMPLETE, "orders"),
    ("POST", "/eu/north/orders/messages", MessageCall.SEND, "eu/north/orders"),
    ("POST", "/eu%2Fnorth/messages", MessageCall.SEND, "eu/north"),
    ("POST", "/a/messages/messages", MessageCall.SEND, "a/messages"),
    ("POST", "/messages/messages", MessageCall.SEND, "messages"),
    ("POST", "/health/messages", MessageCall.SEND, "health"),
    ("POST", "/api/v1/x/messages", MessageCall.SEND, "api/v1/x"),
    ("POST", "/a/messages/head/messages", MessageCall.SEND, "a/messages/head"),
    ("DELETE", "/a/messages/messages/head", MessageCall.TAKE, "a/messages"),
    ("POST", "/t/subscriptions/s/messages/head", MessageCall.LOCK, "t/subscriptions/s"),
    ("DELETE", "/q/$DeadLetterQueue/messages/head", MessageCall.TAKE, "q/$DeadLetterQueue"),
    ("DELETE", "/q/%24deadletterqueue/messages/head", MessageCall.TAKE, "q/$deadletterqueue"),
]
ADMINISTRATION = [
    ("GET", "/orders/messages"),
    ("PUT", "/orders/messages"),
    ("DELETE", "/orders/messages"),
    ("GET", "/orders/messages/head"),
    ("PUT", "/orders/messages/head"),
    ("GET", f"/orders/messages/5/{LOCK}"),
    ("PUT", "/orders/messages/5/6"),
    ("DELETE", "/orders/messages/5/{ca4bec0f-8e87-1fbc-e5c1-21bcd06885c5}"),
    ("DELETE", f"/orders/messages/5/6/{LOCK}"),
    ("DELETE", f"/orders/messages//{LOCK}"),
    ("PUT", "/orders"),
    ("POST", "/messages"),
    ("POST", "/messages/head"),
    ("POST", "/orders/mess%61ges"),
    ("POST", "/ordersmessages"),
    ("PATCH", "/orders/messages"),
    ("POST", "/"),
    ("POST", ""),
]


@pytest.mark.parametrize(("method", "path", "call", "entity"), ABOUT_MESSAGES)
def test_a_request_about_messages(method: str, path: str, call: MessageCall, entity: str) -> None:
    found = parse(method, path)

    assert found is not None
    assert (found.call, found.entity) == (call, entity)


@pytest.mark.parametrize(("method", "path"), ADMINISTRATION)
def test_everything_else_is_administration(method: str, path: str) -> None:
    assert parse(method, path) is None


def test_the_message_of_a_settlement_may_have_any_id() -> None:
    found = parse("DELETE", f"/eu%2Forders/messages/a%2Fb%20%E2%82%AC/{LOCK}")

    assert found is not None
    assert (found.message, found.lock) == ("a/b €", UUID(LOCK))
    assert (found.entity, found.written) == ("eu/orders", "eu%2Forders")
    assert found.below == ("messages", "a%2Fb%20%E2%82%AC", LOCK)
