"""The Kubernetes API as the operator uses it: paths and verbs over the official client.

The client blocks, so calls run in a few threads of their own. Errors of the client become
`ApiError` here; tests replace it by a fake.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Protocol

import urllib3
from kubernetes import client, config

from bendybus.operator.kubernetes.names import MANAGER

Body = dict[str, Any]
THREADS: Final = 4
TIMEOUT_S: Final = 20
PAGE: Final = 500
WATCH_PAGE: Final = 100
# Of objects that tenants make as large as they like, some MB each.
STATUS_PAGE: Final = 10
# How long one poll of a watch waits; shorter than TIMEOUT_S.
WATCH_S: Final = 5
WATCHERS: Final = 4
# kind → (path of its API group and version, plural, whether it is in a namespace)
KINDS: Final[dict[str, tuple[str, str, bool]]] = {
    "BusNamespace": ("/apis/bendybus.io/v1alpha1", "busnamespaces", True),
    "Queue": ("/apis/bendybus.io/v1alpha1", "queues", True),
    "Topic": ("/apis/bendybus.io/v1alpha1", "topics", True),
    "Subscription": ("/apis/bendybus.io/v1alpha1", "subscriptions", True),
    "Namespace": ("/api/v1", "namespaces", False),
    "Secret": ("/api/v1", "secrets", True),
    "Service": ("/api/v1", "services", True),
    "Pod": ("/api/v1", "pods", True),
    "Event": ("/api/v1", "events", True),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims", True),
    "StatefulSet": ("/apis/apps/v1", "statefulsets", True),
    "Deployment": ("/apis/apps/v1", "deployments", True),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets", True),
    "HorizontalPodAutoscaler": ("/apis/autoscaling/v2", "horizontalpodautoscalers", True),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies", True),
    "Certificate": ("/apis/cert-manager.io/v1", "certificates", True),
    "Issuer": ("/apis/cert-manager.io/v1", "issuers", True),
    "ValidatingWebhookConfiguration": (
        "/apis/admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        False,
    ),
    "ClusterKopfPeering": ("/apis/kopf.dev/v1", "clusterkopfpeerings", False),
    "KopfPeering": ("/apis/kopf.dev/v1", "kopfpeerings", True),
}


class ApiError(Exception):
    """Raised when the API server refuses a call or cannot be reached (status 0)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message

    @property
    def final(self) -> bool:
        """Whether repeating the call is futile until something else changes."""
        return 400 <= self.status < 500 and self.status not in (401, 408, 409, 410, 429)


@dataclass(frozen=True, slots=True)
class Changes:
    """The events of one poll, (ADDED, MODIFIED or DELETED, object), and the version after it."""

    events: tuple[tuple[str, Body], ...]
    version: str


class KubernetesApi(Protocol):
    """What the operator needs of the API server."""

    async def get(self, kind: str, namespace: str, name: str) -> Body | None:
        """Return an object, None if it does not exist. Raises ApiError."""

    async def list(self, kind: str, namespace: str = "", *, labels: str = "") -> list[Body]:
        """Return all objects of a kind, of all namespaces if none is named. Raises ApiError."""

    async def statuses(
        self, kind: str, namespace: str, *, labels: str, most: int
    ) -> Sequence[Body]:
        """Return name and status of up to `most` objects that have the labels. Raises ApiError.

        Few of them are in memory as a whole.
        """

    async def watch(self, kind: str, namespace: str, *, labels: str, version: str) -> Changes:
        """Wait a few seconds for changes since `version`; "" begins with all objects.

        Only what has the labels, and of Secrets their metadata only. Raises ApiError, with 410
        when it must start over.
        """

    async def apply(self, body: Body, *, subresource: str = "", manager: str = MANAGER) -> Body:
        """Apply an object server-side, taking over what others wrote. Raises ApiError."""

    async def create(self, body: Body) -> Body:
        """Create an object; ApiError 409 if it exists."""

    async def merge(self, kind: str, namespace: str, name: str, patch: Body) -> Body:
        """Merge a patch into an object. Raises ApiError."""

    async def delete(self, kind: str, namespace: str, name: str, *, orphan: bool = False) -> None:
        """Delete an object, without its children if `orphan`; none is fine. Raises ApiError."""


def path_of(kind: str, namespace: str, name: str = "", subresource: str = "") -> str:
    """Return the path of an object, or of a list without a name."""
    prefix, plural, in_namespace = KINDS[kind]
    place = f"/namespaces/{namespace}" if in_namespace and namespace else ""
    parts = [f"{prefix}{place}/{plural}", name, subresource]
    return "/".join(part for part in parts if part)


class RealKubernetesApi:
    """The API server that the pod, or KUBECONFIG, names."""

    def __init__(self) -> None:
        try:
            config.load_incluster_config()  # type: ignore[no-untyped-call]
        except config.ConfigException:
            config.load_kube_config()  # type: ignore[no-untyped-call]
        self._client = client.ApiClient()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="kubernetes")
        # Watches wait most of the time; nothing else waits behind them.
        self._watchers = ThreadPoolExecutor(WATCHERS, thread_name_prefix="kubernetes-watch")

    async def get(self, kind: str, namespace: str, name: str) -> Body | None:
        """Return an object, None if there is none."""
        try:
            return await self._call("GET", path_of(kind, namespace, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def list(self, kind: str, namespace: str = "", *, labels: str = "") -> list[Body]:
        """Return all objects of a kind, page by page."""
        items: list[Body] = []
        query: dict[str, str] = {"limit": str(PAGE)} | ({"labelSelector": labels} if labels else {})
        while True:
            answer = await self._call("GET", path_of(kind, namespace), query)
            items.extend(answer.get("items") or [])
            more = answer["metadata"].get("continue")
            if not more:
                # Items of a list do not say what they are.
                version, name = answer.get("apiVersion"), answer["kind"].removesuffix("List")
                return [{"apiVersion": version, "kind": name, **item} for item in items]
            query["continue"] = more

    async def statuses(
        self, kind: str, namespace: str, *, labels: str, most: int
    ) -> Sequence[Body]:
        """Return name and status of up to `most` objects that have the labels."""
        found: list[Body] = []
        query = {"labelSelector": labels}
        while len(found) < most:
            query["limit"] = str(min(STATUS_PAGE, most - len(found)))
            answer = await self._call("GET", path_of(kind, namespace), query)
            found += [
                {"metadata": {"name": each["metadata"]["name"]}, "status": each.get("status") or {}}
                for each in answer.get("items") or []
            ]
            more = answer["metadata"].get("continue")
            if not more:
                break
            query["continue"] = more
        return found

    async def watch(self, kind: str, namespace: str, *, labels: str, version: str) -> Changes:
        """Wait a few seconds for changes since `version`; "" begins with all objects."""
        loop = asyncio.get_running_loop()
        look = self._look if version else self._begin
        return await loop.run_in_executor(
            self._watchers, look, kind, path_of(kind, namespace), labels, version
        )

    def _begin(self, kind: str, path: str, labels: str, version: str) -> Changes:
        query = {"limit": str(WATCH_PAGE), "labelSelector": labels}
        events: list[tuple[str, Body]] = []
        while True:
            answer = self._parsed(self._send("GET", path, query, accept=_accept(kind, "List")))
            events += [("ADDED", item | {"kind": kind}) for item in answer.get("items") or []]
            more = answer["metadata"].get("continue")
            if not more:
                return Changes(tuple(events), answer["metadata"]["resourceVersion"])
            query["continue"] = more

    def _look(self, kind: str, path: str, labels: str, version: str) -> Changes:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
            "labelSelector": labels,
            "resourceVersion": version,
        }
        status, _, data = self._send("GET", path, query, accept=_accept(kind))
        if status >= 300:
            self._parsed((status, "", data))
        events = []
        for line in filter(None, data.split(b"\n")):
            change = json.loads(line)
            body = change["object"]
            if change["type"] == "ERROR":
                raise ApiError(int(body.get("code") or 0), str(body.get("message", "watch ended")))
            version = body["metadata"]["resourceVersion"]
            if change["type"] != "BOOKMARK":
                events.append((change["type"], body | {"kind": kind}))
        return Changes(tuple(events), version)

    async def apply(self, body: Body, *, subresource: str = "", manager: str = MANAGER) -> Body:
        """Apply an object server-side."""
        metadata = body["metadata"]
        path = path_of(body["kind"], metadata.get("namespace", ""), metadata["name"], subresource)
        query = {"fieldManager": manager, "force": "true"}
        return await self._call("PATCH", path, query, body, "application/apply-patch+yaml")

    async def create(self, body: Body) -> Body:
        """Make an object."""
        path = path_of(body["kind"], body["metadata"].get("namespace", ""))
        return await self._call("POST", path, {"fieldManager": MANAGER}, body)

    async def merge(self, kind: str, namespace: str, name: str, patch: Body) -> Body:
        """Merge a patch into an object."""
        path = path_of(kind, namespace, name)
        query = {"fieldManager": MANAGER}
        return await self._call("PATCH", path, query, patch, "application/merge-patch+json")

    async def delete(self, kind: str, namespace: str, name: str, *, orphan: bool = False) -> None:
        """Delete an object."""
        query = {"propagationPolicy": "Orphan" if orphan else "Background"}
        try:
            await self._call("DELETE", path_of(kind, namespace, name), query)
        except ApiError as error:
            if error.status != 404:
                raise

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Body | None = None,
        content_type: str = "application/json",
    ) -> Body:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads, self._blocking, method, path, dict(query or {}), body, content_type
        )

    def _blocking(
        self, method: str, path: str, query: dict[str, str], body: Body | None, content_type: str
    ) -> Body:
        return self._parsed(self._send(method, path, query, body, content_type))

    def _send(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: Body | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> tuple[int, str, bytes]:
        """Return status, reason and content of an answer. Raises ApiError if there is none."""
        headers = {"Accept": accept}
        # YAML is a superset of JSON; the client sends text of other types as it is.
        content: Any = json.dumps(body) if body and "yaml" in content_type else body
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            request = self._client.param_serialize(
                method,
                path,
                query_params=list(query.items()),
                header_params=headers,
                body=content,
                auth_settings=["BearerToken"],
            )
            response = self._client.call_api(*request, _request_timeout=TIMEOUT_S)
            data: bytes = response.read()  # type: ignore[no-untyped-call]
        except (urllib3.exceptions.HTTPError, client.ApiException, OSError) as exc:
            raise ApiError(0, f"the API server cannot be reached: {exc}") from exc
        return response.status, str(response.reason), data or b""

    def _parsed(self, answered: tuple[int, str, bytes]) -> Body:
        status, reason, data = answered
        try:
            answer: Body = json.loads(data) if data else {}
        except ValueError as exc:
            # Something between here and the API server answered in its place.
            raise ApiError(0, f"the API server gave no JSON (status {status})") from exc
        if status >= 300:
            raise ApiError(status, str(answer.get("message", reason)))
        return answer


def _accept(kind: str, suffix: str = "") -> str:
    """Return which form of objects is asked for: of Secrets their metadata only."""
    if kind != "Secret":
        return "application/json"
    return f"application/json;as=PartialObjectMetadata{suffix};g=meta.k8s.io;v=v1"
