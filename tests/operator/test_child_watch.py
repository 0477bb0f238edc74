"""Children are watched by label, in pages, and Secrets without what is in them."""

import asyncio
import contextlib
import json
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import kopf
import pytest
from kubernetes import config

from bendybus.domain.backoff import Backoff
from bendybus.operator import handlers
from bendybus.operator.controllers import child_watch
from bendybus.operator.controllers.child_watch import ChildWatch
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.api import ApiError, Body, Changes, RealKubernetesApi
from bendybus.operator.settings import Settings
from tests.operator.cluster import eventually

LABELS = {"app.kubernetes.io/managed-by": "bendybus-operator", names.BUS_LABEL: "orders"}


def secret(name: str, version: int = 1, namespace: str = "shop") -> Body:
    metadata = {"name": name, "namespace": namespace, "labels": LABELS}
    return {"kind": "Secret", "metadata": metadata | {"resourceVersion": str(version)}}


class ChildListener:
    def __init__(self) -> None:
        self.leading = True
        self.heard: list[tuple[str | None, str, str]] = []

    def child_event(self, change: str | None, body: Body) -> None:
        self.heard.append((change, body["kind"], body["metadata"]["name"]))


class Api:
    """Gives what a test has put into `answers`; waits when there is nothing more."""

    def __init__(self, *answers: Changes | ApiError) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, str, str]] = []

    async def watch(self, kind: str, namespace: str, *, labels: str, version: str) -> Changes:
        if kind != "Secret":
            await asyncio.Event().wait()
        self.asked.append((kind, namespace, labels, version))
        if not self.answers:
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return answer


async def watched(api: Api, listener: ChildListener, *namespaces: str) -> None:
    watching = ChildWatch(api, Settings(watch_namespaces=namespaces), listener)  # type: ignore[arg-type]
    task = asyncio.create_task(watching.run())
    await eventually(lambda: not api.answers)
    await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_changes_are_handed_on_from_where_the_last_look_ended() -> None:
    api, listener = (
        Api(Changes((("ADDED", secret("a")),), "5"), Changes((("MODIFIED", secret("a", 6)),), "7")),
        ChildListener(),
    )

    await watched(api, listener)

    assert listener.heard == [("ADDED", "Secret", "a"), ("MODIFIED", "Secret", "a")]
    assert [version for *_, version in api.asked] == ["", "5", "7"]
    assert {labels for *_, labels, _ in api.asked} == {
        "app.kubernetes.io/managed-by=bendybus-operator"
    }


async def test_what_went_while_a_watch_was_broken_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_watch, "RETRY", Backoff(0.0, 30.0))
    both = Changes((("ADDED", secret("a")), ("ADDED", secret("b"))), "5")
    again = Changes((("ADDED", secret("b")),), "9")
    api, listener = (
        Api(both, ApiError(410, "expired"), ApiError(0, "away"), again),
        ChildListener(),
    )  # fmt: skip

    await watched(api, listener)

    assert ("DELETED", "Secret", "a") in listener.heard
    assert ("DELETED", "Secret", "b") not in listener.heard
    assert [version for *_, version in api.asked] == ["", "5", "", "", "9"]


async def test_namespaces_that_are_served_are_looked_at_in_turn() -> None:
    api, listener = Api(*[Changes((), "1")] * 4), ChildListener()

    await watched(api, listener, "shop", "guest")

    assert [namespace for _, namespace, *_ in api.asked[:4]] == ["shop", "guest"] * 2


async def test_a_standby_watches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_watch, "STANDBY_S", 0.01)
    api, listener = Api(Changes((), "1")), ChildListener()
    listener.leading = False
    watching = ChildWatch(api, Settings(), listener)  # type: ignore[arg-type]
    task = asyncio.create_task(watching.run())
    await asyncio.sleep(0.05)
    assert api.asked == []

    listener.leading = True

    await eventually(lambda: api.asked)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def test_kopf_lists_manifests_and_nothing_else_of_the_cluster() -> None:
    """It lists all objects of a kind, whatever labels a handler asks for."""
    assert handlers.bus_changed is not None
    watched = kopf.get_default_registry()._watching.get_all_handlers()

    assert {handler.id for handler in watched} == {"bus_changed", "entity_changed"}


# Against an API server over HTTP


class Server(BaseHTTPRequestHandler):
    """Secrets of a cluster, of which few are ours; those of others are large."""

    requests: ClassVar[list[dict[str, str]]] = []

    def do_GET(self) -> None:
        """Answer a list or a watch."""
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        self.requests.append({"path": url.path, "accept": self.headers["Accept"], **query})
        if query.get("watch"):
            lines = [
                {"type": "MODIFIED", "object": secret("ours-1", 12)},
                {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "13"}}},
            ]
            if query["resourceVersion"] == "old":
                lines = [{"type": "ERROR", "object": {"code": 410, "message": "too old"}}]
            self._answer("\n".join(map(json.dumps, lines)).encode())
            return
        begin = int(query.get("continue", "0"))
        metadata: dict[str, Any] = {"resourceVersion": "11"}
        if begin < 200:
            metadata["continue"] = str(begin + 100)
        items = [secret(f"ours-{n}") for n in range(begin, begin + 100)]
        self._answer(json.dumps({"metadata": metadata, "items": items}).encode())

    def _answer(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealKubernetesApi]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Server.requests.clear()
    content = {
        "clusters": [
            {"name": "a", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        ],
        "users": [{"name": "a", "user": {"token": "x"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
    file = tmp_path / "config"
    file.write_text(json.dumps(content))
    monkeypatch.setattr(config, "load_kube_config", _loader(file))
    yield RealKubernetesApi()
    server.shutdown()
    server.server_close()


def _loader(file: Path) -> Any:
    real: Any = config.load_kube_config
    return lambda: real(config_file=str(file))


async def test_secrets_are_listed_by_label_in_pages_and_without_their_content(
    api: RealKubernetesApi,
) -> None:
    changes = await api.watch("Secret", "shop", labels="a=b", version="")
    more = await api.watch("Secret", "shop", labels="a=b", version=changes.version)

    assert len(changes.events) == 300
    assert (changes.version, more.version) == ("11", "13")
    assert [(change, body["metadata"]["name"]) for change, body in more.events] == [
        ("MODIFIED", "ours-1")
    ]
    for request in Server.requests:
        assert request["path"] == "/api/v1/namespaces/shop/secrets"
        assert request["labelSelector"] == "a=b"
        assert "as=PartialObjectMetadata" in request["accept"]
    assert [request.get("limit") for request in Server.requests] == ["100", "100", "100", None]


async def test_a_watch_that_is_too_old_begins_anew(api: RealKubernetesApi) -> None:
    with pytest.raises(ApiError) as raised:
        await api.watch("Deployment", "", labels="a=b", version="old")

    assert raised.value.status == 410
    assert Server.requests[0]["accept"] == "application/json"
