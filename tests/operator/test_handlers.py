"""Kopf itself: its webhook server over HTTPS, its watches, and what it must not do to objects."""

import asyncio
import copy
import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import kmock
import kopf
import pytest
import pytest_asyncio
from kmock import ResourceInfo

from bendybus.operator import handlers
from bendybus.operator.certificates.operator_issuer import OperatorIssuer
from bendybus.operator.certificates.webhook_certificates import WebhookCertificates
from bendybus.operator.controllers.kopf_settings import operator_settings
from bendybus.operator.controllers.webhooks import Webhooks
from bendybus.operator.kubernetes import names
from bendybus.operator.metrics import Metrics
from bendybus.operator.settings import Settings
from tests.operator.cluster import Cluster, Loopback, eventually
from tests.operator.manifests import bus_body, changed, queue_body, subscription_body, topic_body
from tests.ports import free_port

pytestmark = pytest.mark.integration
Body = dict[str, Any]
WATCHED = {
    "bendybus.io/v1alpha1/busnamespaces": "BusNamespace",
    "bendybus.io/v1alpha1/queues": "Queue",
    "bendybus.io/v1alpha1/topics": "Topic",
    "bendybus.io/v1alpha1/subscriptions": "Subscription",
    "v1/namespaces": "Namespace",
    "v1/events": "Event",
    "apiextensions.k8s.io/v1/customresourcedefinitions": "CustomResourceDefinition",
}


class Ear:
    """Stands where the office does; notes the events."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str | None, str]] = []
        self.leading = True

    def bus_event(self, change: str | None, body: Body) -> None:
        self.heard.append(("bus", change, body["metadata"]["name"]))

    def entity_event(self, change: str | None, body: Body) -> None:
        self.heard.append((body["kind"].lower(), change, body["metadata"]["name"]))


class Running:
    """A Kopf operator with our handlers, whose webhooks can be asked."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.settings = Settings(
            tls_directory=folder,
            webhook_port=free_port(),
            webhook_configuration="",
            peering="",
            namespace="bendybus-system",
        )
        self.metrics = Metrics()
        self.ear = Ear()
        self.authority = OperatorIssuer(cluster.api, self.settings)
        self.certificates = WebhookCertificates(
            cluster.api, self.settings, self.authority, self.metrics
        )
        self.webhooks = Webhooks(cluster.api, self.metrics, Loopback(cluster))
        self.stop = threading.Event()
        self.task: asyncio.Future[None]

    async def start(self, server: str) -> None:
        """Run Kopf in a thread: when it stops, it cancels every task of its loop."""
        await self.certificates.first()
        running = asyncio.to_thread(asyncio.run, self._run(server))
        self.task = asyncio.ensure_future(running)

    async def _run(self, server: str) -> None:
        manager = asyncio.create_task(asyncio.Event().wait(), name="office")

        async def leave() -> None:
            manager.cancel()

        assert handlers.admit_bus is not None
        registry = copy.deepcopy(kopf.get_default_registry())

        @kopf.on.login(registry=registry)
        def login(**_: Any) -> kopf.ConnectionInfo:
            return kopf.ConnectionInfo(server=server)

        await kopf.operator(
            registry=registry,
            settings=operator_settings(self.settings, 1, self.certificates),
            memo=kopf.Memo(manager=self.ear, webhooks=self.webhooks, leave=leave),
            standalone=True,
            clusterwide=True,
            stop_flag=self.stop,
        )

    async def post(self, path: str, review: Body) -> Body:
        """Post an AdmissionReview as the API server does, and verify the certificate as it does."""
        bundle = (await self.authority.authority()).bundle
        context = ssl.create_default_context(cadata=bundle)
        context.check_hostname = False
        request = urllib.request.Request(
            f"https://127.0.0.1:{self.settings.webhook_port}{path}",
            data=json.dumps(review).encode(),
            headers={"Content-Type": "application/json"},
        )

        def call() -> Body:
            with urllib.request.urlopen(request, context=context, timeout=10) as answer:
                found: Body = json.loads(answer.read())["response"]
                return found

        return await asyncio.to_thread(call)

    async def ask(self, body: Body, *, old: Body | None = None, operation: str = "") -> Body:
        """Ask as the webhook configuration of the chart says."""
        return await self.post(f"/{plural_of(body)}", review(body, old, operation))


def plural_of(body: Body) -> str:
    return f"{body['kind'].lower()}s"


def review(body: Body, old: Body | None = None, operation: str = "") -> Body:
    plural = plural_of(body)
    gone = operation == "DELETE"
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "review-1",
            "kind": {"group": "bendybus.io", "version": "v1alpha1", "kind": body["kind"]},
            "resource": {"group": "bendybus.io", "version": "v1alpha1", "resource": plural},
            "operation": operation or ("UPDATE" if old else "CREATE"),
            "userInfo": {"username": "somebody"},
            "namespace": body["metadata"]["namespace"],
            "name": body["metadata"]["name"],
            "object": None if gone else body,
            "oldObject": body if gone else old,
        },
    }


@pytest_asyncio.fixture
async def running(
    cluster: Cluster, tmp_path: Path, kmock: kmock.KubernetesEmulator
) -> AsyncIterator[Running]:
    for resource, kind in WATCHED.items():
        kmock.resources[resource] = ResourceInfo(
            kind=kind,
            singular=kind.lower(),
            verbs={"list", "watch", "patch", "get"},
            namespaced=kind not in ("Namespace", "CustomResourceDefinition"),
        )
    cluster.operator()
    cluster.apply(bus_body())
    cluster.apply(queue_body())
    await cluster.says("Queue", "paid", "Available")
    made = Running(cluster, tmp_path / "tls")
    await made.start(str(kmock.url))
    await until_it_answers(made)
    yield made
    made.stop.set()
    await asyncio.wait_for(made.task, 10)


async def until_it_answers(running: Running) -> None:
    for _ in range(500):
        try:
            await running.ask(bus_body())
            return
        except (urllib.error.URLError, ConnectionError):
            await asyncio.sleep(0.02)
    raise AssertionError("the webhook server does not answer")


async def test_webhooks_allow_and_refuse(running: Running, cluster: Cluster) -> None:
    # Taken, without a word and with a warning.
    assert (await running.ask(bus_body()))["allowed"]
    assert await running.ask(queue_body("new")) == {"uid": "review-1", "allowed": True}
    early = await running.ask(queue_body("early", namespaceRef={"name": "nowhere"}))
    assert early["allowed"]
    assert early["warnings"] == [
        "there is no BusNamespace shop/nowhere yet; the queue is created when that exists"
    ]

    # Refused, with a sentence for people and a code for programs.
    for body, old, words in (
        (queue_body(lockDuration="PT1S"), None, "spec.lockDuration"),
        (bus_body("9"), None, "metadata.name"),
        (changed(queue_body(), entityName="x"), queue_body(), "spec.entityName"),
        (changed(bus_body(), premiumMessagingPartitions=4), bus_body(), "cannot become 4"),
    ):
        refused = await running.ask(body, old=old)
        assert refused["allowed"] is False
        assert refused["status"]["code"] == 422
        assert words in refused["status"]["message"]
    labels = {"kind": "Queue"}
    registry = running.metrics.registry
    assert registry.get_sample_value("bendybus_operator_admission_refused_total", labels) == 2

    # A path that is no handler's id: Kopf lets everything through. See the chart's test.
    assert (await running.post("/wrong", review(bus_body("9"))))["allowed"] is True
    assert (await running.post("/", review(bus_body("9"))))["allowed"] is True

    # Deletion.
    kept = queue_body(deletionPolicy="Retain")
    gone = queue_body(deletionPolicy="Delete")
    assert (await running.ask(kept, operation="DELETE"))["allowed"]
    cluster.api.objects["Queue", "shop", "paid"] = gone
    assert (await running.ask(gone, operation="DELETE"))["allowed"], "it holds no message"
    await cluster.stop(names.ObjectKey("shop", "orders"), 1)
    unknown = await running.ask(gone, operation="DELETE")
    assert "partition(s) 1 cannot say" in unknown["status"]["message"]
    allowed = {names.ALLOW_DELETION_ANNOTATION: "true"}
    meant = queue_body(deletionPolicy="Delete", annotations=allowed)
    assert (await running.ask(meant, operation="DELETE"))["allowed"]
    ending = cluster.api.one("Namespace", "shop", "")
    ending["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
    cluster.api.put(ending)
    assert (await running.ask(gone, operation="DELETE"))["allowed"], "a namespace must end"


async def test_topics_and_subscriptions_have_their_webhooks(
    running: Running, cluster: Cluster
) -> None:
    for body, other in (
        (topic_body(), {"enablePartitioning": True}),
        (subscription_body(), {"topicName": "other"}),
    ):
        allowed = await running.ask(body)
        cluster.api.objects[body["kind"], "shop", body["metadata"]["name"]] = body
        refused = await running.ask(changed(body, **other), old=body)

        assert allowed["allowed"], allowed
        assert not refused["allowed"]
        assert "cannot be changed after creation" in refused["status"]["message"]


async def test_events_reach_the_office_and_objects_stay_as_they_are(
    running: Running, kmock: kmock.KubernetesEmulator
) -> None:
    bodies = {
        "bendybus.io/v1alpha1/busnamespaces": bus_body(),
        "bendybus.io/v1alpha1/queues": queue_body(),
        "bendybus.io/v1alpha1/topics": topic_body(),
        "bendybus.io/v1alpha1/subscriptions": subscription_body(),
    }
    for resource, body in bodies.items():
        async with asyncio.timeout(10):
            await create(str(kmock.url), resource, body)

    await eventually(lambda: len(running.ear.heard) >= len(bodies))

    assert {(kind, name) for kind, _, name in running.ear.heard} == {
        ("bus", "orders"),
        ("queue", "paid"),
        ("topic", "sales"),
        ("subscription", "audit"),
    }
    for resource, body in bodies.items():
        stored = kmock.objects[resource, "shop", body["metadata"]["name"]]
        assert stored["metadata"].get("finalizers") is None
        assert dict(stored["metadata"].get("annotations") or {}) == (
            body["metadata"].get("annotations") or {}
        )
    assert not [request for request in kmock if request.method and request.method.value == "PATCH"]


async def create(server: str, resource: str, body: Body) -> None:
    prefix, plural = resource.rsplit("/", 1)
    root = "apis" if "." in prefix or "/" in prefix else "api"
    request = urllib.request.Request(
        f"{server.rstrip('/')}/{root}/{prefix}/namespaces/shop/{plural}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    await asyncio.to_thread(lambda: urllib.request.urlopen(request, timeout=5).read())


def test_no_handler_needs_a_finalizer_or_remembers_anything() -> None:
    registry = kopf.get_default_registry()

    assert list(registry._spawning.get_all_handlers()) == []
    assert list(registry._changing.get_all_handlers()) == []
    assert list(registry._indexing.get_all_handlers()) == []
    assert {handler.id for handler in registry._webhooks.get_all_handlers()} == {
        "busnamespaces",
        "queues",
        "topics",
        "subscriptions",
    }


def test_the_chart_posts_to_the_paths_that_are_handlers_ids() -> None:
    template = Path(__file__).parents[2] / "charts/bendybus/templates/webhooks.yaml"
    candidates = [template, *template.parent.glob("*webhook*.yaml")]
    text = "".join(path.read_text() for path in candidates if path.exists())

    assert 'range $plural := list "busnamespaces" "queues" "topics" "subscriptions"' in text
    assert "path: /{{ $plural }}" in text


async def test_the_operator_ends_at_once(running: Running) -> None:
    """Kopf gives tasks that it does not know 5 s to end, so they are ended before."""
    loop = asyncio.get_running_loop()
    began = loop.time()

    running.stop.set()
    await running.task

    assert loop.time() - began < 4


def test_kopf_is_told_to_write_no_webhook_configuration_and_to_peer_for_sure(
    tmp_path: Path, cluster: Cluster
) -> None:
    settings = Settings(tls_directory=tmp_path, identity="me")
    authority = OperatorIssuer(cluster.api, settings)
    certificates = WebhookCertificates(cluster.api, settings, authority, Metrics())

    made = operator_settings(settings, 7, certificates)

    assert made.admission.managed is None
    assert made.peering.mandatory is True
    assert made.peering.priority == 7
    # With ten more for a look at the partitions: the truth in the status within 30 s of the death
    # of the leader's node.
    assert made.peering.lifetime <= 15


@pytest.mark.requirement("R389")
@pytest.mark.parametrize("demanded", [True, False])
def test_webhooks_demand_a_client_certificate_where_its_authority_is_named(
    tmp_path: Path, cluster: Cluster, demanded: bool
) -> None:
    path = str(tmp_path / "ca.crt") if demanded else ""
    settings = Settings(tls_directory=tmp_path, identity="me", webhook_client_ca=path)
    authority = OperatorIssuer(cluster.api, settings)
    certificates = WebhookCertificates(cluster.api, settings, authority, Metrics())

    server = operator_settings(settings, 7, certificates).admission.server

    assert isinstance(server, kopf.WebhookServer)
    assert server.verify_mode == (ssl.CERT_REQUIRED if demanded else None)
    assert server.verify_cafile == (path or None)
