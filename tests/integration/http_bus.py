"""A bus whose messages are sent and received over HTTP, with policies of every kind."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from tests.integration.rest import Rest
from tests.integration.secured import ROOT, policy
from tests.integration.web import WebBus

POLICIES = {
    "send": (["Send"], ""),
    "listen": (["Listen"], ""),
    "send-here": (["Send"], "here"),
    "listen-here": (["Listen"], "here"),
    "all-there": (["Manage"], "there"),
    "listen-topic": (["Listen"], "topic"),
}
LOCK = "ca4bec0f-8e87-1fbc-e5c1-21bcd06885c5"


@contextmanager
def running(folder: Path) -> Iterator[WebBus]:
    """Give a bus with a few entities."""
    policies = (
        policy(name, rights, [f"{name}-key"], entity) for name, (rights, entity) in POLICIES.items()
    )
    made = WebBus(folder, [ROOT, *policies])
    with made.azure() as administration:
        for name in ("here", "there"):
            administration.create_queue(name, lock_duration=timedelta(seconds=10))
        administration.create_topic("topic")
        administration.create_subscription("topic", "all", lock_duration=timedelta(seconds=10))
        administration.create_queue("in-sessions", requires_session=True)
    yield made
    made.end()


def connected(bus: WebBus, token: str | None = None, timeout: float = 70) -> Rest:
    """Return a connection; without a token, with the root policy's."""
    return Rest(bus.https, bus.token() if token is None else token, bus.tls(), timeout)
