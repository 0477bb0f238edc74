"""Administration over HTTP by hand: rights, errors, and what no good client sends."""

import html
import itertools
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from xml.sax.saxutils import escape

import grpc
import pytest

from bendybus.domain import shared_access
from bendybus.frontend.listeners.web.administration import ROUTES
from bendybus.frontend.listeners.web.resources import ResourceKind
from bendybus.v1 import management_pb2, management_pb2_grpc
from tests.integration.secured import ROOT, policy
from tests.integration.web import WebBus
from tests.ports import HOST

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R498")]
NAMESPACE = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
# Each policy: its rights, and the entity that it is of.
POLICIES = {
    "send": (["Send"], ""),
    "listen": (["Listen"], ""),
    "send-listen-here": (["Send", "Listen"], "here"),
    "manage-other": (["Manage"], "other"),
    "manage-here": (["Manage"], "here"),
    "manage-topic": (["Manage"], "topic"),
    "manage": (["Manage"], ""),
}
PATHS = {
    ResourceKind.NAMESPACE: "/$namespaceinfo",
    ResourceKind.QUEUES: "/$Resources/queues",
    ResourceKind.TOPICS: "/$Resources/topics",
    ResourceKind.ENTITY: "/here",
    ResourceKind.SUBSCRIPTIONS: "/topic/subscriptions",
    ResourceKind.SUBSCRIPTION: "/topic/subscriptions/all",
    ResourceKind.RULES: "/topic/subscriptions/all/rules",
    ResourceKind.RULE: "/topic/subscriptions/all/rules/one",
}
# Who may do what is on the whole namespace, and what is on one entity.
WHOLE = {
    (ResourceKind.NAMESPACE, "GET"),
    (ResourceKind.QUEUES, "GET"),
    (ResourceKind.TOPICS, "GET"),
    (ResourceKind.ENTITY, "PUT"),
}


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBus]:
    policies = (
        policy(name, rights, [f"{name}-key"], entity) for name, (rights, entity) in POLICIES.items()
    )
    made = WebBus(tmp_path_factory.mktemp("bus"), (ROOT, *policies))
    with made.azure() as azure:
        azure.create_queue("here")
        azure.create_queue("other")
        azure.create_topic("topic")
        azure.create_subscription("topic", "all")
    yield made
    made.end()


def entry(description: str, kind: str = "Queue") -> str:
    """Return an entry with a description."""
    return (
        '<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml">'
        f'<{kind}Description xmlns="{NAMESPACE}" '
        'xmlns:i="http://www.w3.org/2001/XMLSchema-instance">'
        f"{description}</{kind}Description></content></entry>"
    )


def detail(text: str) -> str:
    """Return the sentence of an error."""
    found = re.search("<Detail>(.*)</Detail>", text, re.DOTALL)
    assert found is not None, text
    return html.unescape(found[1])


def test_every_route_needs_its_right(bus: WebBus) -> None:
    for (kind, method), name in itertools.product(ROUTES, POLICIES):
        rights, entity = POLICIES[name]
        allowed = "Manage" in rights and (
            not entity
            or ((kind, method) not in WHOLE and PATHS[kind].lstrip("/").split("/")[0] == entity)
        )
        headers = {"If_Match": "*"} if method == "PUT, If-Match" else {}

        # Nothing is changed: the body is none.
        answer = bus.ask(
            method[:3] if method != "DELETE" else "DELETE",
            PATHS[kind] if method != "DELETE" else f"{PATHS[kind]}-missing",
            token=bus.token(f"{name}-key", name),
            **headers,
        )

        if method == "DELETE" and entity:
            # A policy of an entity is not for what only begins like it.
            allowed = allowed and kind is not ResourceKind.ENTITY
        assert (answer.status == 401) is not allowed, (kind, method, name, answer)
        if not allowed:
            assert detail(answer.text).startswith("SubCode=40100. policy"), answer


@pytest.mark.parametrize(
    ("token", "sentence"),
    [
        ("", "carries no token"),
        ("Basic dXNlcjpwYXNz", "cannot be read"),
        ("SharedAccessSignature sr=x", "cannot be read"),
        ("Bearer eyJhbGciOiJub25lIn0.e30.", "cannot be read"),
        (shared_access.sign("https://x/", "nobody", "key", 2**33), "does not exist"),
        (shared_access.sign("https://x/", "manage", "wrong", 2**33), "not signed with a key"),
        (shared_access.sign("https://x/", "manage", "manage-key", 1), "has expired"),
        (shared_access.sign("https://x/other", "manage", "manage-key", 2**33), "not for entity"),
    ],
)
def test_a_token_that_is_not_good_is_refused_in_a_sentence(
    bus: WebBus, token: str, sentence: str
) -> None:
    for method, path in (("GET", "/here"), ("PUT", "/new"), ("DELETE", "/here")):
        answer = bus.ask(method, path, entry(""), token=token)

        assert answer.status == 401
        # A token for one entity is not for the whole namespace either.
        wanted = "the whole namespace" if "entity" in sentence and method == "PUT" else sentence
        assert wanted in detail(answer.text)
    assert bus.ask("GET", "/new").text.count("<entry") == 0


def test_a_signature_may_be_called_a_bearer_token(bus: WebBus) -> None:
    assert bus.ask("GET", "/here", token=f"Bearer {bus.token()}").status == 200


def test_forwarding_needs_the_right_on_the_destination(bus: WebBus) -> None:
    forward = entry("<ForwardTo>other</ForwardTo>")
    mine = bus.token("manage-here-key", "manage-here")
    theirs = bus.token("manage-other-key", "manage-other")

    refused = bus.ask("PUT", "/here", forward, token=mine, If_Match="*")
    wrong = bus.ask(
        "PUT", "/here", forward, token=mine, If_Match="*",
        ServiceBusSupplementaryAuthorization=mine,
    )  # fmt: skip
    allowed = bus.ask(
        "PUT", "/here", forward, token=mine, If_Match="*",
        ServiceBusSupplementaryAuthorization=theirs,
    )  # fmt: skip

    assert (refused.status, wrong.status, allowed.status) == (401, 401, 200)
    assert bus.ask("PUT", "/here", entry(""), If_Match="*").status == 200


def test_forwarding_dead_letters_needs_the_right_on_the_destination(bus: WebBus) -> None:
    forward = entry("<ForwardDeadLetteredMessagesTo>other</ForwardDeadLetteredMessagesTo>")
    mine = bus.token("manage-here-key", "manage-here")
    theirs = bus.token("manage-other-key", "manage-other")

    refused = bus.ask("PUT", "/here", forward, token=mine, If_Match="*")
    wrong = bus.ask(
        "PUT", "/here", forward, token=mine, If_Match="*",
        ServiceBusSupplementaryAuthorization=theirs,
    )  # fmt: skip
    allowed = bus.ask(
        "PUT", "/here", forward, token=mine, If_Match="*",
        ServiceBusDlqSupplementaryAuthorization=theirs,
    )  # fmt: skip

    assert (refused.status, wrong.status, allowed.status) == (401, 401, 200)
    assert bus.ask("PUT", "/here", entry(""), If_Match="*").status == 200


@pytest.mark.parametrize(
    ("description", "sentence"),
    [
        ("<LockDuration>five</LockDuration>", "lockDuration: must be an ISO 8601 duration"),
        ("<LockDuration>PT1S</LockDuration>", "lockDuration: must be PT5S"),
        ("<MaxDeliveryCount>-1</MaxDeliveryCount>", "MaxDeliveryCount: must be a whole number"),
        ("<MaxDeliveryCount>1e3</MaxDeliveryCount>", "MaxDeliveryCount: must be a whole number"),
        ("<MaxDeliveryCount>2147483648</MaxDeliveryCount>", "must be at most 2147483647 (got 2147"),
        (f"<MaxSizeInMegabytes>{2**63}</MaxSizeInMegabytes>", f"must be at most {2**63 - 1} (got"),
        (f"<MaxSizeInMegabytes>{2**63 - 1}</MaxSizeInMegabytes>", "must be one of 1024, 2048"),
        (f"<MaxDeliveryCount>{'9' * 5000}</MaxDeliveryCount>", "must be a whole number"),
        ("<RequiresSession>perhaps</RequiresSession>", "RequiresSession: must be true or false"),
        ("<Status>Asleep</Status>", "Status: must be one of Active, Disabled"),
        ("<Colour>red</Colour>", "Colour: is unknown to a queue"),
        ("<Status>Active</Status><Status>Disabled</Status>", "Status: must be there once"),
        ("<IsAnonymousAccessible>true</IsAnonymousAccessible>", "access without a key is not"),
        (f"<UserMetadata>{'x' * 1025}</UserMetadata>", "userMetadata: must be at most 1024"),
        ("<ForwardTo>nowhere</ForwardTo>", "nowhere"),
        ("<ForwardTo>sb://[x</ForwardTo>", "ForwardTo: must be the name of an entity, or a URI"),
        ("<ForwardTo>sb://127.0.0.1/</ForwardTo>", "ForwardTo: must be the name of an entity, or"),
        ("<ForwardTo>/other/</ForwardTo>", "forwardTo: '/other/' must be segments"),
        ("<MaxMessageSizeInKilobytes>2048</MaxMessageSizeInKilobytes>", "only in Premium"),
    ],
)
def test_a_value_that_is_not_allowed_is_named_and_changes_nothing(
    bus: WebBus, description: str, sentence: str
) -> None:
    created = bus.ask("PUT", "/refused", entry(description))
    updated = bus.ask("PUT", "/here", entry(description), If_Match="*")

    for answer in (created, updated):
        assert answer.status in (400, 404), answer
        assert sentence in detail(answer.text)
    assert bus.ask("GET", "/refused").text.count("<entry") == 0


BOMB = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    "<entry>&b;</entry>"
)
FILE = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><entry>&a;</entry>'


BODIES = {
    "nothing": "",
    "text": "x",
    "no end": "<entry>",
    "empty": "<entry/>",
    "no description": "<entry><content/></entry>",
    "bomb": BOMB,
    "file": FILE,
    "deep": "<a>" * 50_000 + "</a>" * 50_000,
    "wide": "<entry><content>" + "<b/>" * 20_000 + "</content></entry>",
    "another kind": entry("", "Mango"),
    "a rule": entry("", "Rule"),
    "many": entry("<a/>" * 20_000),
    "another encoding": '<?xml version="1.0" encoding="utf-7"?><entry/>',
    "binary": "\x00\x01",
    "NUL": "&#0;",
    "no namespace": "<entry xmlns:i='x' i:type=''/>",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_body_that_is_no_description_is_refused(bus: WebBus, body: str) -> None:
    began = time.monotonic()

    answer = bus.ask("PUT", "/refused", body)

    assert (answer.status, time.monotonic() - began < 2) == (400, True), answer.status
    assert "root:" not in answer.text


def test_a_body_that_is_too_large_is_refused(bus: WebBus) -> None:
    answer = bus.ask("PUT", "/refused", entry(f"<UserMetadata>{'x' * 600_000}</UserMetadata>"))

    assert (answer.status, "must be at most" in detail(answer.text)) == (413, True)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/$Resources/rules", 404),
        ("GET", "/a//b", 404),
        ("GET", "/topic/subscriptions/all/x", 404),
        ("GET", "/topic/subscriptions/all/rules/a/b", 404),
        ("POST", "/here", 400),
        ("DELETE", "/$namespaceinfo", 400),
        ("PUT", "/topic/subscriptions", 400),
        ("GET", "/..%2f..%2fetc%2fpasswd", 200),
        ("GET", "/here;x=1", 200),
        ("GET", f"/{'x' * 600}", 400),
        ("DELETE", "/here%00", 404),
        ("PUT", "/a%0d%0aSet-Cookie:x", 400),
        ("GET", "/$Resources/queues?$skip=-1", 400),
        ("GET", "/$Resources/queues?$skip=99999999", 400),
        ("GET", "/$Resources/queues?$skip=1000001", 400),
        ("GET", "/$Resources/queues?$skip=0000001000000", 200),
        ("GET", "/$Resources/queues?$top=x", 400),
        ("GET", "/$Resources/queues?$skip=1000000&$top=1000000", 200),
    ],
)
def test_paths_that_name_nothing(bus: WebBus, method: str, path: str, status: int) -> None:
    answer = bus.ask(method, path, entry(""))

    assert answer.status == status, answer
    assert "<entry" not in answer.text
    assert "Set-Cookie" not in answer.headers


def test_texts_come_back_as_they_were_and_are_no_markup(bus: WebBus) -> None:
    for number, text in enumerate(('<a href="x">&amp;</a>', "]]>", "ünï ☃ 🚌", "'\"", "  x  ")):
        with bus.secured.administration() as administration:
            administration.create_queue(f"text-{number}", user_metadata=text)

        shown = bus.ask("GET", f"/text-{number}").text

        assert f"<UserMetadata>{escape(text)}</UserMetadata>" in shown


def test_what_xml_cannot_say_is_shown_as_a_replacement(bus: WebBus) -> None:
    with bus.secured.administration() as administration:
        administration.create_queue("control", user_metadata="a\x01b")

    with bus.azure() as azure:
        assert azure.get_queue("control").user_metadata == "a\ufffdb"


def test_the_host_of_links_is_the_one_that_the_caller_used(bus: WebBus) -> None:
    shown = bus.ask("GET", "/here", Host="bus.example:8443").text

    assert "<id>https://bus.example:8443/here</id>" in shown


def test_an_entity_of_a_manifest_is_changed_only_there(bus: WebBus) -> None:
    request = management_pb2.CreateQueueRequest(
        name="declared", origin=management_pb2.ENTITY_ORIGIN_MANIFEST, uid="declared-1"
    )
    authority = grpc.ssl_channel_credentials(Path(bus.ca_file).read_bytes())
    with grpc.secure_channel(bus.secured.bus.front_end_address, authority) as channel:
        stub = management_pb2_grpc.ManagementServiceStub(channel)
        stub.CreateQueue(request, timeout=20, metadata=(("authorization", bus.token()),))

    answer = bus.ask("PUT", "/declared", entry(""), If_Match="*")

    assert answer.status == 400
    assert "manifest" in detail(answer.text)


def raw(bus: WebBus) -> socket.socket:
    """Return a connection with TLS."""
    host, port = bus.https.split(":")
    made = socket.create_connection((host, int(port)), timeout=30)
    return bus.tls().wrap_socket(made, server_hostname=HOST)


def test_slow_headers_and_slow_bodies_are_cut_off(bus: WebBus) -> None:
    token = bus.token()
    slow = (
        b"GET /here HTTP/1.1\r\nHost: x\r\nX: ",
        b"GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /here HTTP/1.1\r\nX: ",
        b"PUT /new HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nAuthorization: "
        + token.encode() + b"\r\n\r\n<entry",
        b"",
    )  # fmt: skip

    def ends_after(data: bytes) -> float:
        began = time.monotonic()
        with raw(bus) as connection:
            connection.sendall(data)
            with suppress(OSError):
                while time.monotonic() - began < 20:
                    connection.sendall(b"a" if data else b"")
                    connection.settimeout(0.5)
                    with suppress(TimeoutError):
                        if not connection.recv(4_096):
                            break
        return time.monotonic() - began

    with ThreadPoolExecutor(len(slow)) as pool:
        took = list(pool.map(ends_after, slow))

    assert max(took) < 16, took


def test_a_stranger_cannot_send_much(bus: WebBus) -> None:
    with raw(bus) as connection:
        connection.sendall(b"PUT /new HTTP/1.1\r\nHost: x\r\nContent-Length: 90000000\r\n\r\n")
        sent = 0
        with suppress(OSError):
            while sent < 50_000_000:
                sent += connection.send(b"x" * 65_536)

    assert sent < 10_000_000


def test_a_request_cannot_be_smuggled_into_another(bus: WebBus) -> None:
    token = bus.token().encode()
    for head in (
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Content-Length: +5\r\n",
    ):
        with raw(bus) as connection:
            connection.sendall(
                b"PUT /smuggled HTTP/1.1\r\nHost: x\r\nAuthorization: " + token + b"\r\n" + head
                + b"\r\n0\r\n\r\nDELETE /here HTTP/1.1\r\nHost: x\r\nAuthorization: " + token
                + b"\r\n\r\n"
            )  # fmt: skip
            connection.settimeout(2)
            with suppress(OSError):
                while connection.recv(65_536):
                    pass

        assert "<entry" in bus.ask("GET", "/here").text, head
