"""Rights over HTTP: each call with every kind of key, and what ends with a right."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bendybus.domain import shared_access
from tests.integration.http_bus import LOCK, connected, running
from tests.integration.rest import Answer, Rest
from tests.integration.secured import ROOT, ROOT_KEY, ROOT_POLICY, SecuredBus, policy
from tests.integration.web import WebBus
from tests.ports import HOST, free_port

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R652")]


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBus]:
    with running(tmp_path_factory.mktemp("bus")) as made:
        yield made


@pytest.fixture
def rest(bus: WebBus) -> Iterator[Rest]:
    with connected(bus) as made:
        yield made


CALLS = {
    "send": ("POST", "/here/messages", "Send"),
    "lock": ("POST", "/here/messages/head?timeout=0", "Listen"),
    "take": ("DELETE", "/here/messages/head?timeout=0", "Listen"),
    "unlock": ("PUT", f"/here/messages/1/{LOCK}", "Listen"),
    "renew": ("POST", f"/here/messages/1/{LOCK}", "Listen"),
    "complete": ("DELETE", f"/here/messages/1/{LOCK}", "Listen"),
}


def signed(bus: WebBus, name: str, path: str = "", *, host: str = "", ago_s: int = 0) -> str:
    """Return a token of a policy for a path; `ago_s`: it expired so long ago."""
    expires = round(time.time()) - ago_s if ago_s else shared_access.NEVER_S
    return shared_access.sign(f"https://{host or bus.https}/{path}", name, f"{name}-key", expires)


@pytest.mark.parametrize("call", CALLS)
def test_each_call_needs_its_right_on_its_entity(bus: WebBus, rest: Rest, call: str) -> None:
    method, path, right = CALLS[call]
    while rest.take("here", 0).status == 200:
        continue
    mine = "send" if right == "Send" else "listen"
    other = "listen" if right == "Send" else "send"
    whole, _, _ = path.partition("?")
    good = {
        "on the namespace": signed(bus, mine),
        "on the entity": signed(bus, f"{mine}-here"),
        "for the entity": signed(bus, mine, "here"),
        "for the URL": signed(bus, mine, whole.strip("/")),
        "for a part of it": signed(bus, mine, "here/messages"),
        "in capitals": signed(bus, mine, "HERE/Messages"),
    }
    bad = {
        "none": "",
        "no token": "Basic abc",
        "another key": signed(bus, mine).replace("skn=", "skn=x"),
        "wrong signature": signed(bus, mine).replace("sig=", "sig=A"),
        "expired": signed(bus, mine, ago_s=3600),
        "another right": signed(bus, other),
        "another right here": signed(bus, f"{other}-here"),
        "another entity": signed(bus, "all-there"),
        "for another entity": signed(bus, mine, "there"),
        "for a longer path": signed(bus, mine, f"{whole.strip('/')}/more"),
        "for a longer name": signed(bus, mine, "here-too"),
        "for another URL": signed(bus, mine, "here/messages-of-others"),
        "for a subscription": signed(bus, mine, "here/subscriptions/all"),
    }

    with connected(bus, "") as stranger:
        allowed, refused = {}, {}
        for name, token in bad.items():
            stranger.token = token
            refused[name] = stranger.ask(method, path)
        for name, token in good.items():
            stranger.token = token
            allowed[name] = stranger.ask(method, path).status

    done = {"send": 201, "lock": 204, "take": 204}.get(call, 404)
    assert {name: answer.status for name, answer in refused.items()} == dict.fromkeys(bad, 401)
    assert all(answer.sentence.count("SubCode=40100") == 1 for answer in refused.values())
    assert allowed == dict.fromkeys(good, done)
    # Refused calls changed nothing.
    left = sum(rest.take("here", 0).status == 200 for _ in range(len(good) + 1))
    assert left == (len(good) if call == "send" else 0)


def test_listen_on_a_topic_is_enough_to_settle_in_its_subscription(bus: WebBus) -> None:
    with connected(bus) as root, connected(bus, signed(bus, "listen-topic")) as rest:
        root.send("topic")
        locked = rest.lock("topic/subscriptions/all")

        assert rest.complete(locked).status == 200
        assert rest.ask("DELETE", locked.location.replace("topic", "here")).status == 401


def test_a_token_for_an_entity_whose_name_is_a_url_is_for_that_entity(
    bus: WebBus, rest: Rest
) -> None:
    with bus.azure() as administration:
        administration.create_queue("shared")
        administration.create_queue("shared/messages")
    with connected(bus, signed(bus, "send", "shared/messages")) as sender:
        refused = sender.send("shared").status
        own = sender.send("shared/messages").status

    assert (refused, own) == (401, 201)
    assert rest.take("shared", 0).status == 204


def test_a_receive_that_waits_ends_with_its_right(tmp_path: Path) -> None:
    address = f"{HOST}:{free_port()}"
    bus = SecuredBus(
        tmp_path,
        [ROOT, policy("reader", ["Listen"], ["reader-key"])],
        partitions=2,
        front_end_options=(f"--shared-listen={address}",),
    )
    with bus.administration() as administration:
        administration.create_queue("q")

    def token(lasts_s: float) -> str:
        expires = round(time.time() + lasts_s)
        return shared_access.sign(f"https://{address}/", "reader", "reader-key", expires)

    def waits(lasts_s: float) -> Answer:
        with Rest(address, token(lasts_s)) as rest:
            return rest.take("q", 40)

    with ThreadPoolExecutor(2) as pool:
        began_s = time.monotonic()
        expires, changes = pool.submit(waits, 2), pool.submit(waits, 3_600)
        expired = expires.result()
        expired_s = time.monotonic() - began_s
        bus.grant([ROOT])
        changed = changes.result()
        lasted_s = time.monotonic() - began_s

    bus.end()
    assert (expired.status, changed.status) == (401, 401)
    assert expired_s < 15
    assert lasted_s < 35
    assert "expired" in expired.sentence


def test_a_token_for_another_host_is_refused_where_a_bus_has_names(tmp_path: Path) -> None:
    address = f"{HOST}:{free_port()}"
    bus = SecuredBus(
        tmp_path,
        [ROOT],
        partitions=1,
        front_end_options=(
            f"--shared-listen={address}",
            "--host-name=bus.example",
            f"--host-name={HOST}",
        ),
    )
    with bus.administration() as administration:
        administration.create_queue("q")

    def sent(host: str) -> Answer:
        uri = f"https://{host}/q"
        token = shared_access.sign(uri, ROOT_POLICY, ROOT_KEY, shared_access.NEVER_S)
        with Rest(address, token) as rest:
            return rest.send("q")

    own, other = sent("bus.example:443"), sent("bus.example.evil")

    bus.end()
    assert (own.status, other.status) == (201, 401)
    assert "another host" in other.sentence
