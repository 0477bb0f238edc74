"""Web pages of others do not reach a server on this machine."""

from typing import Any

import pytest

from bendybus.wire import web_origin

pytestmark = pytest.mark.requirement("R586")


@pytest.mark.parametrize(
    "host",
    [
        None, "localhost", "LOCALHOST:5300", "localhost.", "bus.localhost:80", "127.0.0.1:5300",
        "127.8.9.1", "[::1]:5300", "emulator:5300", "[::ffff:127.0.0.1]:80",
    ],
)  # fmt: skip
def test_names_of_this_machine_and_given_ones_are_known(host: str | None) -> None:
    assert web_origin.refusal(host, None, {"emulator"}) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:5300", "localhost.evil.example", "evil-localhost", "",
        ":5300", "192.168.0.7", "[fe80::1]:80", "127.0.0.1.evil.example", "[",
        "emulator.evil.example", "user@localhost.evil.example",
    ],
)  # fmt: skip
def test_other_names_may_have_been_made_to_lead_here(host: str) -> None:
    why = web_origin.refusal(host, None, {"emulator"})

    assert why is not None
    assert "BENDYBUS_HOST_NAMES" in why


@pytest.mark.parametrize(
    "origin", ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:8080", "http://emulator"]
)
def test_pages_of_this_machine_are_known(origin: str) -> None:
    assert web_origin.refusal("localhost", origin, {"emulator"}) is None


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example", "https://localhost.evil.example", "null", "", "file://",
        "chrome-extension://abc", "http://192.168.0.7", "evil.example", "http://[",
    ],
)  # fmt: skip
def test_pages_of_others_are_refused_whatever_host_they_name(origin: str) -> None:
    why = web_origin.refusal("localhost", origin, {"emulator"})

    assert why is not None
    assert "web page" in why


@pytest.mark.parametrize("port", ["", ":80"])
def test_of_several_names_none_is_known(port: str) -> None:
    origins = f"http://localhost{port},http://evil.example"

    assert web_origin.refusal("localhost", origins, ()) is not None
    assert web_origin.refusal(f"localhost{port},evil.example", None, ()) is not None
    assert web_origin.refusal("[::1].evil.example", None, ()) is not None


def test_names_are_given_as_people_write_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENDYBUS_HOST_NAMES", " Emulator, bus.example.,")
    names = web_origin.given_names()

    assert names == {"emulator", "bus.example"}
    assert web_origin.refusal("EMULATOR:5300", "https://bus.example", names) is None
    assert web_origin.refusal("localhost", "null", names) is not None
    assert web_origin.given_names(["Emulator."]) == {"emulator"}


@pytest.mark.parametrize(("origin", "status"), [(None, "200 OK"), ("null", "403 Forbidden")])
def test_an_application_is_not_asked_by_a_foreign_page(origin: str | None, status: str) -> None:
    said: list[Any] = []

    def application(_: dict[str, Any], start: Any) -> list[bytes]:
        start("200 OK", [])
        return [b"figures"]

    environment = {"HTTP_HOST": "localhost:9"} | ({} if origin is None else {"HTTP_ORIGIN": origin})
    answer = web_origin.guarded(application)(environment, lambda *given: said.append(given[0]))

    assert said == [status]
    assert (list(answer) == [b"figures"]) is (origin is None)


def test_a_given_name_may_have_a_port_or_a_scheme() -> None:
    names = web_origin.given_names(["bus.lan:31300", " https://Shop.lan ", "[::2]:80", "plain", ""])

    assert names == {"bus.lan", "shop.lan", "::2", "plain"}
    assert web_origin.refusal("bus.lan:31300", "https://shop.lan", names) is None


@pytest.mark.parametrize(
    ("host", "origin", "told"),
    [
        ("bus.lan:31300", None, "with the host name 'bus.lan' in BENDYBUS_HOST_NAMES"),
        ("localhost", "https://shop.lan:8443", "with the host name 'shop.lan' in"),
        ("localhost", "null", "with its host name in"),
    ],
)
def test_what_to_set_is_told_as_it_would_work(host: str, origin: str | None, told: str) -> None:
    assert told in (web_origin.refusal(host, origin, ()) or "")
