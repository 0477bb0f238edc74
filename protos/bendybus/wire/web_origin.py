"""A server that checks no key serves web pages of this machine and of given names only.

A browser lets any page send requests to a server on loopback, and open WebSockets to it; where a
name of the page's own leads to loopback (DNS rebinding), it also lets the page read the answers. A
page cannot change what its browser says of it: Origin names the page, Host the name that was used.
Programs that are no browser send no Origin.

Source: RFC 6455, 10.2.
"""

import ipaddress
import os
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final
from wsgiref.simple_server import WSGIServer

VARIABLE: Final = "BENDYBUS_HOST_NAMES"
_LOCAL: Final = "localhost"
_SHOWN_CHARS: Final = 100
_HOST: Final = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^\s\[\]:/?#@\\,]+)(:[0-9]*)?")
_ORIGIN: Final = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*://{_HOST.pattern}")
_GIVEN: Final = re.compile(rf"([A-Za-z][A-Za-z0-9+.-]*://)?{_HOST.pattern}")
# See PEP 3333.
Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def refusal(host: str | None, origin: str | None, names: Collection[str]) -> str | None:
    """Return why a request is refused, None if it is not.

    `host` and `origin`: the headers, None if there is none; `names`: those that clients may use
    beside the ones of this machine, see `given_names`.
    """
    if origin is not None and not _is_known(_name_in(origin, of_origin=True), names):
        return (
            f"this bus checks no key, and a web page of {origin[:_SHOWN_CHARS]!r} may not use it. "
            f"If it may, start the bus with {_wanted(_name_in(origin, of_origin=True))} in "
            f"{VARIABLE}."
        )
    if host is not None and not _is_known(_name_in(host, of_origin=False), names):
        return (
            f"this bus checks no key, and is not known as {host[:_SHOWN_CHARS]!r}, so that no web "
            f"page can lead there by a name of its own. Use localhost, or start the bus with "
            f"{_wanted(_name_in(host, of_origin=False))} in {VARIABLE}."
        )
    return None


def given_names(names: Iterable[str] | None = None) -> frozenset[str]:
    """Return host names as `refusal` has them; None: those of the environment.

    A port is left out, and so is a scheme: a page may use every port of its host.
    """
    given = os.environ.get(VARIABLE, "").split(",") if names is None else names
    return frozenset(filter(None, (_host_of(name.strip()) for name in given)))


def guard(server: WSGIServer, names: Collection[str] = ()) -> None:
    """Let a server, such as that of metrics, answer no foreign web page."""
    application = server.get_app()
    assert application is not None, "it serves something"
    server.set_app(guarded(application, names))


def guarded(application: Wsgi, names: Collection[str] = ()) -> Wsgi:
    """Return a WSGI application that answers no foreign web page."""

    def checked(environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        why = refusal(environment.get("HTTP_HOST"), environment.get("HTTP_ORIGIN"), names)
        if why is None:
            return application(environment, start)
        start("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{why}\n".encode()]

    return checked


def _name_in(header: str, *, of_origin: bool) -> str:
    """Return the host name in a header, in lower case; an empty one if there is not exactly one."""
    found = (_ORIGIN if of_origin else _HOST).fullmatch(header)
    return "" if found is None else _plain(found["name"])


def _host_of(given: str) -> str:
    found = _GIVEN.fullmatch(given)
    return _plain(given if found is None else found["name"])


def _wanted(name: str) -> str:
    """Return the words of a refusal for the host name to set; "": the header has none."""
    return f"the host name {name[:_SHOWN_CHARS]!r}" if name else "its host name"


def _plain(name: str) -> str:
    return name.strip("[]").lower().rstrip(".")


def _is_known(name: str, names: Collection[str]) -> bool:
    if name == _LOCAL or name.endswith(f".{_LOCAL}") or name in names:
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    # `::ffff:127.0.0.1` is 127.0.0.1.
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
