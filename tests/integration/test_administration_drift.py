"""Administration over HTTP shows what was set, so that tools that compare see no change."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.web import Answer, WebBus

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R564")]
NAMESPACE = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBus]:
    made = WebBus(Path(tmp_path_factory.mktemp("bus")))
    yield made
    made.secured.end()


def put(bus: WebBus, path: str, content: str, kind: str = "Queue", **headers: str) -> Answer:
    body = (
        '<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml">'
        f'<{kind}Description xmlns="{NAMESPACE}">{content}</{kind}Description></content></entry>'
    )
    return bus.ask("PUT", path, body, **headers)


def shown(answer: Answer, name: str) -> str | None:
    found = re.search(f"<{name}[^>]*>([^<]*)</{name}>", answer.text)
    return found.group(1) if found else None


@pytest.mark.parametrize("name", ["EnableBatchedOperations", "SupportOrdering"])
@pytest.mark.parametrize("kind", ["Queue", "Topic"])
def test_a_setting_without_effect_comes_back_as_it_was_set(
    bus: WebBus, name: str, kind: str
) -> None:
    path = f"/{name}-{kind}"
    made = put(bus, path, f"<{name}>false</{name}>", kind)

    assert made.status == 201
    assert shown(made, name) == shown(bus.ask("GET", path), name) == "false"
    assert put(bus, path, "", kind, If_Match="*").status == 200
    assert shown(bus.ask("GET", path), name) == "true"


def test_a_subscription_keeps_it_as_well(bus: WebBus) -> None:
    put(bus, "/drift-topic", "", "Topic")
    off = "<EnableBatchedOperations>false</EnableBatchedOperations>"
    put(bus, "/drift-topic/subscriptions/s", off, "Subscription")

    found = bus.ask("GET", "/drift-topic/subscriptions/s")

    assert shown(found, "EnableBatchedOperations") == "false"


def test_what_forwards_is_never_idle(bus: WebBus) -> None:
    put(bus, "/target", "")
    idle = "<AutoDeleteOnIdle>PT10M</AutoDeleteOnIdle>"
    put(bus, "/forwards", f"<ForwardTo>target</ForwardTo>{idle}")
    put(bus, "/stays", idle)

    assert shown(bus.ask("GET", "/stays"), "AutoDeleteOnIdle") == "PT10M"
    assert (shown(bus.ask("GET", "/forwards"), "AutoDeleteOnIdle") or "").startswith("P10675199D")


@pytest.mark.parametrize("scheme", ["sb", "https", "amqps"])
def test_a_destination_on_another_host_is_refused(bus: WebBus, scheme: str) -> None:
    put(bus, "/here", "")
    forward = "<ForwardTo>{}://{}/here</ForwardTo>"

    refused = put(bus, f"/away-{scheme}", forward.format(scheme, "other.servicebus.windows.net"))
    own = put(bus, f"/near-{scheme}", forward.format(scheme, bus.https))
    without_port = put(bus, f"/port-{scheme}", forward.format(scheme, bus.https.split(":")[0]))

    assert refused.status == 400
    assert "other.servicebus.windows.net" in refused.text
    assert "is on another host than this bus" in refused.text
    assert (own.status, without_port.status) == (201, 201)
    assert shown(bus.ask("GET", f"/away-{scheme}"), "LockDuration") is None


@pytest.mark.parametrize(
    ("version", "has"), [("2017-04", False), ("2021-05", True), ("2024-05", True), ("", True)]
)
def test_an_api_version_shows_what_it_has(bus: WebBus, version: str, has: bool) -> None:
    put(bus, "/versions", "")
    query = f"?api-version={version}" if version else ""

    found = bus.ask("GET", f"/versions{query}")

    assert (shown(found, "MaxMessageSizeInKilobytes") is not None) is has


def test_what_exists_is_a_conflict_whatever_its_authorization_rules_are(bus: WebBus) -> None:
    rules = (
        "<AuthorizationRules><AuthorizationRule><Rights><AccessRights>Send</AccessRights></Rights>"
        "<KeyName>mine</KeyName></AuthorizationRule></AuthorizationRules>"
    )
    first = put(bus, "/guarded", rules)

    again = put(bus, "/guarded", "")
    other = put(bus, "/guarded", rules.replace("Send", "Listen"))

    assert (first.status, again.status, other.status) == (201, 409, 409)
    assert "already exists" in other.text


def test_the_root_says_what_is_served(bus: WebBus) -> None:
    found = bus.ask("GET", "/", token="")

    assert found.status == 200
    for each in ("Bendybus", "/health", "/$servicebus/websocket", "connection string"):
        assert each in found.text
