"""A root per bus: who trusts whom, and how a bus of v0.2 goes over to its own."""

import base64
import datetime as dt
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bendybus.operator.builders.certificates import wanted
from bendybus.operator.certificates import certificate_authority, operator_issuer
from bendybus.operator.certificates.operator_issuer import BusAuthority, OperatorIssuer, files_of
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.api import ApiError
from bendybus.operator.settings import Settings
from tests.operator.manifests import BUS, context
from tests.operator.memory_api import MemoryKubernetesApi
from tests.operator.test_operator_issuer import DAY, START, Clock

KEEP = {"name": names.authority(BUS), "namespace": "shop", "labels": dict(names.bus_labels(BUS))}
CLIENTS = names.access_secret(BUS, names.ROOT_RULE)


class Pods:
    """The Secrets of one bus, and what its pods have of them: files arrive when `mount` says."""

    def __init__(self, clock: Clock) -> None:
        self.api = MemoryKubernetesApi()
        for name in ("bendybus-system", "shop"):
            self.api.put({"kind": "Namespace", "metadata": {"name": name}})
        self.clock = clock
        self.ours = OperatorIssuer(self.api, Settings(), clock)
        self.partition_files: dict[str, str] = {}
        self.frontend_files: dict[str, str] = {}

    def put(self, secret: str, files: Mapping[str, str]) -> None:
        data = {name: base64.b64encode(text.encode()).decode() for name, text in files.items()}
        metadata = {"name": secret, "namespace": "shop", "labels": names.bus_labels(BUS)}
        self.api.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})

    def files(self, secret: str) -> dict[str, str]:
        return files_of(self.api.objects.get(("Secret", "shop", secret)))

    async def reconcile(self) -> None:
        """Do what a look of the operator does."""
        of_bus = await self.ours.of_bus(BUS, KEEP)
        for each in wanted(context()):
            self.put(
                each.secret,
                await self.ours.bus_certificate(each, self.files(each.secret), of_bus),
            )
        self.put(CLIENTS, {"ca.crt": of_bus.trust})

    def mount(self, *roles: str) -> None:
        """Let files arrive in pods."""
        if "partition" in roles:
            self.partition_files = self.files(names.partition_tls(BUS))
        if "frontend" in roles:
            self.frontend_files = self.files(names.frontend_tls(BUS))

    async def meet(self, application: str) -> None:
        """Have everybody who connects do so; `application`: what a client trusts."""
        now = self.clock.now
        verify(self.partition_files["tls.crt"], self.frontend_files["ca.crt"], now)
        verify(self.frontend_files["tls.crt"], self.partition_files["ca.crt"], now)
        verify(self.frontend_files["tls.crt"], application, now)
        material = await self.ours.operator_material(BUS)
        verify(self.partition_files["tls.crt"], material.authorities.decode(), now)
        verify(material.certificate.decode(), self.partition_files["ca.crt"], now)


def verify(certificate: str, bundle: str, now: dt.datetime) -> None:
    """Raise unless an authority of the bundle signed the certificate, and both are good now."""
    from cryptography import x509

    leaf = x509.load_pem_x509_certificate(certificate.encode())
    assert leaf.not_valid_before_utc <= now <= leaf.not_valid_after_utc
    for root in x509.load_pem_x509_certificates(bundle.encode()):
        if root.subject == leaf.issuer and root.not_valid_after_utc > now:
            leaf.verify_directly_issued_by(root)
            return
    raise AssertionError(f"{leaf.issuer} is not trusted")


async def as_of_v0_2(pods: Pods) -> str:
    """Make the Secrets of a bus as v0.2 did, all by one root; return that root."""
    shared = await pods.ours.authority()
    for each in wanted(context()):
        pair = certificate_authority.issue(
            shared, name=each.secret, dns_names=each.dns_names, uris=[each.uri], days=90,
            ip_addresses=each.ip_addresses, now=pods.clock.now,
        )  # fmt: skip
        files = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": shared.bundle}
        pods.put(each.secret, files)
    pods.put(CLIENTS, {"ca.crt": shared.bundle})
    pods.mount("partition", "frontend")
    return shared.bundle


async def test_a_new_bus_has_a_root_of_its_own_at_once() -> None:
    pods = Pods(Clock())

    await pods.reconcile()
    pods.mount("partition", "frontend")

    await pods.meet(pods.frontend_files["ca.crt"])
    operators = (await pods.ours.authority()).bundle
    with pytest.raises(AssertionError, match="not trusted"):
        verify(pods.frontend_files["tls.crt"], operators, START)


async def test_no_bus_can_sign_for_another_bus_the_webhooks_or_the_operator() -> None:
    pods = Pods(Clock())
    await pods.reconcile()
    pods.mount("partition", "frontend")
    thief = operator_issuer.first_authority(START, "")
    names_of_others = ("bendybus-operator.bendybus-system.svc", names.frontend_host(BUS))
    stolen = certificate_authority.issue(
        thief.own, name="x", dns_names=names_of_others, uris=[names.OPERATOR_IDENTITY], days=9,
        now=START,
    )  # fmt: skip

    operators = (await pods.ours.authority()).bundle
    material = await pods.ours.operator_material(BUS)
    for trusted in (
        operators,
        pods.partition_files["ca.crt"],
        pods.frontend_files["ca.crt"],
        material.authorities.decode(),
    ):
        with pytest.raises(AssertionError, match="not trusted"):
            verify(stolen.certificate, trusted, START)


async def test_the_operators_root_key_is_in_no_namespace_of_a_bus() -> None:
    pods = Pods(Clock())
    await as_of_v0_2(pods)
    await pods.reconcile()

    key = files_of(pods.api.one("Secret", "bendybus-ca", "bendybus-system"))["tls.key"]

    for (kind, namespace, _), body in pods.api.objects.items():
        if kind == "Secret" and namespace == "shop":
            assert key not in files_of(body).values()


@pytest.mark.parametrize("first_to_get_files", ["partition", "frontend"])
async def test_a_bus_of_v0_2_goes_over_and_nobody_ever_meets_who_is_not_trusted(
    first_to_get_files: str,
) -> None:
    """Files arrive in one kind of pod minutes before the other, and an application's come last."""
    pods = Pods(Clock())
    shared = await as_of_v0_2(pods)
    application = pods.frontend_files["ca.crt"]
    other = {"partition": "frontend", "frontend": "partition"}[first_to_get_files]

    for _ in range(40):
        await pods.reconcile()
        await pods.meet(application)
        pods.mount(first_to_get_files)
        await pods.meet(application)
        pods.mount(other)
        await pods.meet(application)
        application = pods.frontend_files["ca.crt"]
        await pods.meet(application)
        pods.clock.now += DAY / 10

    of_bus = await pods.ours.of_bus(BUS)
    assert (of_bus.rotation.signs, of_bus.rotation.former) == (True, "")
    verify(pods.frontend_files["tls.crt"], of_bus.own.bundle, pods.clock.now)
    assert shared not in pods.frontend_files["ca.crt"]
    assert shared in pods.partition_files["ca.crt"], "the operator's, which calls them"


async def test_an_operator_that_was_away_for_days_still_goes_step_by_step() -> None:
    pods = Pods(Clock())
    await as_of_v0_2(pods)
    steps = []

    for _ in range(5):
        await pods.reconcile()
        await pods.meet(pods.frontend_files["ca.crt"])
        pods.mount("frontend")
        await pods.meet(pods.frontend_files["ca.crt"])
        pods.mount("partition")
        await pods.meet(pods.frontend_files["ca.crt"])
        of_bus = await pods.ours.of_bus(BUS)
        steps.append((of_bus.rotation.signs, bool(of_bus.rotation.former)))
        pods.clock.now += 5 * DAY

    assert steps == [(False, True), (True, True), *[(True, False)] * 3]


async def test_nothing_is_signed_by_a_root_that_the_pods_were_never_told_of() -> None:
    pods = Pods(Clock())
    shared = await as_of_v0_2(pods)
    await pods.ours.of_bus(BUS, KEEP)  # and then the Secrets could not be written

    pods.clock.now += 9 * DAY
    of_bus = await pods.ours.of_bus(BUS, KEEP)

    assert not of_bus.rotation.signs
    assert shared in of_bus.trust


@pytest.mark.parametrize("not_told", [names.partition_tls(BUS), names.frontend_tls(BUS), CLIENTS])
async def test_nothing_is_signed_by_a_root_that_not_everybody_was_told_of(not_told: str) -> None:
    pods = Pods(Clock())
    await as_of_v0_2(pods)
    before = pods.files(not_told)
    await pods.reconcile()
    pods.put(not_told, before)  # this one could not be written

    pods.clock.now += 9 * DAY
    assert not (await pods.ours.of_bus(BUS, KEEP)).rotation.signs
    await pods.reconcile()
    assert (await pods.ours.of_bus(BUS, KEEP)).rotation.signs


async def test_a_certificate_that_ends_soon_does_not_wait_for_the_step() -> None:
    pods = Pods(Clock())
    await as_of_v0_2(pods)
    pods.clock.now += 89 * DAY

    await pods.reconcile()
    pods.mount("partition", "frontend")

    await pods.meet(pods.frontend_files["ca.crt"])


async def test_the_root_of_a_bus_is_replaced_before_it_ends() -> None:
    pods = Pods(Clock())
    await pods.reconcile()
    pods.mount("partition", "frontend")

    for _ in range(140):
        pods.clock.now += 30 * DAY
        await pods.reconcile()
        await pods.meet(pods.frontend_files["ca.crt"])
        pods.mount("partition")
        await pods.meet(pods.frontend_files["ca.crt"])
        pods.mount("frontend")


@pytest.mark.parametrize(
    "change", [{"since": "yesterday"}, {"tls.crt": "x"}, {"former.crt": "x"}, {"tls.key": "x"}]
)
async def test_a_damaged_root_is_reported_and_stops_nothing(
    change: dict[str, str],
) -> None:
    pods = Pods(Clock())
    await pods.reconcile()
    pods.put(names.authority(BUS), pods.files(names.authority(BUS)) | change)

    for reconcile in (KEEP, None):
        with pytest.raises(ApiError, match="does not hold a certificate authority") as raised:
            await pods.ours.of_bus(BUS, reconcile)
        assert raised.value.final


async def test_a_root_that_was_deleted_is_made_again_and_the_bus_goes_over_to_it() -> None:
    pods = Pods(Clock())
    await pods.reconcile()
    pods.mount("partition", "frontend")
    await pods.api.delete("Secret", "shop", names.authority(BUS))

    for _ in range(30):
        await pods.reconcile()
        await pods.meet(pods.frontend_files["ca.crt"])
        pods.mount("frontend")
        await pods.meet(pods.frontend_files["ca.crt"])
        pods.mount("partition")
        pods.clock.now += DAY / 10


def test_an_authority_comes_back_from_its_files() -> None:
    former = operator_issuer.first_authority(START, "").own.bundle
    made = operator_issuer.first_authority(START, former)

    assert not made.rotation.signs
    assert BusAuthority.from_files(made.to_files()) == made


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        ("bus.example.com", False),
        ("a.b", False),
        ("orders-frontend", True),
        ("other-frontend.shop.svc", True),
        ("bendybus-operator.bendybus-system.svc.cluster.local", True),
        ("x.svc.my.domain", True),
        ("10-0-0-1.shop.pod.cluster.local", True),
        ("host.local", True),
        ("localhost", True),
    ],
)
def test_names_inside_a_cluster_are_known(name: str, inside: bool) -> None:
    assert names.is_of_a_cluster(name) is inside


def test_host_names_get_no_name_inside_the_cluster_into_a_certificate() -> None:
    asked: Any = {"hostNames": ["bus.example.com", "other-frontend.rival.svc", "kubernetes"]}

    (_, frontend) = wanted(context(frontend=asked))

    assert "bus.example.com" in frontend.dns_names
    assert not {"other-frontend.rival.svc", "kubernetes"} & set(frontend.dns_names)


def test_openssl_takes_the_chain_of_a_bus(tmp_path: Path) -> None:
    made = operator_issuer.first_authority(START, "")
    pair = certificate_authority.issue(
        made.own, name="a", dns_names=["a.b"], uris=["x:y"], days=9, now=START
    )
    (tmp_path / "tls.crt").write_text(pair.certificate)
    (tmp_path / "tls.key").write_text(pair.key)

    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    server.load_verify_locations(cadata=made.trust)
