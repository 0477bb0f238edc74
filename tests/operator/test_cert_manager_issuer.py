"""Certificates by cert-manager: a root per bus, who trusts whom, and how a bus goes over to it."""

import base64
import datetime as dt
import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bendybus.operator.builders import children
from bendybus.operator.builders.certificates import cert_manager, wanted
from bendybus.operator.builders.context import Context
from bendybus.operator.certificates import certificate_authority, trusted_roots
from bendybus.operator.certificates.cert_manager_issuer import CertManagerIssuer
from bendybus.operator.certificates.certificate_authority import Authority
from bendybus.operator.certificates.operator_issuer import files_of
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.api import ApiError
from bendybus.operator.settings import Settings
from tests.certificates import mount
from tests.operator.manifests import BUS, context
from tests.operator.memory_api import MemoryKubernetesApi
from tests.operator.test_bus_authority import verify
from tests.operator.test_operator_issuer import DAY, START, Clock

ROLES = ("partition", "frontend")
OWN = replace(context(), cert_manager=True, issuer_kind="", issuer_name="")
SHARED = replace(context(), cert_manager=True, issuer_kind="ClusterIssuer", issuer_name="all")


class Cluster:
    """An API server, cert-manager, the operator's certificate, and the pods of one bus.

    cert-manager works when `issue` is called; files arrive in pods when `mount` is.
    """

    def __init__(self, folder: Path) -> None:
        self.api = MemoryKubernetesApi()
        for name in ("bendybus-system", "shop"):
            self.api.put({"kind": "Namespace", "metadata": {"name": name}})
        self.clock = Clock()
        self.operators = certificate_authority.new_authority(START)
        pair = certificate_authority.issue(
            self.operators, name="operator", dns_names=(), uris=[names.OPERATOR_IDENTITY],
            days=90, now=START,
        )  # fmt: skip
        self.operator_certificate = pair.certificate
        mount(folder, pair.certificate.encode(), pair.key.encode(), self.operators.bundle.encode())
        self.settings = Settings(cert_manager=True, client_tls_directory=folder)
        self.controller = CertManagerIssuer(self.api, self.settings, self.clock)
        self.issuers = {"all": certificate_authority.new_authority(START)}
        self.clients_trust = ""
        self.files: dict[str, dict[str, str]] = {}

    async def reconcile(self, of: Context = OWN) -> None:
        """Do what a look of the operator does."""
        found = await self.api.get("StatefulSet", "shop", names.partition_set(BUS))
        self.clients_trust = await self.controller.reconcile(of, found)

    def put(self, name: str, files: Mapping[str, str]) -> None:
        data = {key: base64.b64encode(text.encode()).decode() for key, text in files.items()}
        metadata = {"name": name, "namespace": "shop"}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        self.api.put({**body, "type": "Opaque"})

    def secret(self, name: str) -> dict[str, str]:
        return files_of(self.api.objects.get(("Secret", "shop", name)))

    def issue(self) -> None:
        """Fill the Secret of each Certificate, anew where another issuer is asked for now."""
        for (kind, _, name), body in list(self.api.objects.items()):
            if kind != "Certificate":
                continue
            spec, issuer = body["spec"], body["spec"]["issuerRef"]["name"]
            if spec.get("isCA"):
                if not self.secret(spec["secretName"]):
                    made = self.issuers[name] = certificate_authority.new_authority(self.clock.now)
                    self.put(spec["secretName"], made.to_files())
                continue
            authority = self.issuers.get(issuer)
            if authority is None or self.secret(spec["secretName"]).get("by") == issuer:
                continue
            self.put(spec["secretName"], leaf(authority, body, self.clock.now) | {"by": issuer})

    def run(self, of: Context = OWN) -> None:
        """Have the pods run by the present templates, with the files that there are."""
        for body in children.all_of(of):
            if body["kind"] in ("StatefulSet", "Deployment"):
                done = {"observedGeneration": 9, "replicas": 2, "updatedReplicas": 2}
                self.api.put({**body, "status": done})
        self.mount(*ROLES)

    def mount(self, *roles: str) -> None:
        """Let files arrive in pods."""
        for role in roles:
            issued = self.secret(f"orders-{role}-tls")
            trust = self.secret(names.trust(BUS)).get(f"{role}.crt") or issued["ca.crt"]
            self.files[role] = {"tls.crt": issued["tls.crt"], "ca.crt": trust}

    def meet(self, application: str = "") -> None:
        """Have everybody of the bus connect to whom they do; `application`: a client's trust."""
        partition, frontend = (self.files[role] for role in ROLES)
        now = self.clock.now
        verify(partition["tls.crt"], frontend["ca.crt"], now)
        verify(frontend["tls.crt"], partition["ca.crt"], now)
        verify(frontend["tls.crt"], application or self.clients_trust, now)

    async def meet_operator(self) -> None:
        """Have the operator and a partition connect."""
        material = await self.controller.operator_material(BUS)
        verify(self.files["partition"]["tls.crt"], material.authorities.decode(), self.clock.now)
        verify(material.certificate.decode(), self.files["partition"]["ca.crt"], self.clock.now)

    def step(self) -> tuple[bool, bool]:
        """Return whether the bus's own root signs, and whether a former is trusted."""
        found = self.secret(names.trust(BUS))
        return found["signs"] == "yes", bool(found["former.crt"])


def leaf(authority: Authority, body: dict[str, Any], now: dt.datetime) -> dict[str, str]:
    spec = body["spec"]
    pair = certificate_authority.issue(
        authority, name=spec["secretName"], dns_names=spec["dnsNames"], uris=spec["uris"],
        ip_addresses=spec["ipAddresses"], days=90, now=now,
    )  # fmt: skip
    return {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.bundle}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


async def started(cluster: Cluster) -> None:
    """Have a new bus run."""
    await cluster.reconcile()
    cluster.issue()
    await cluster.reconcile()
    cluster.issue()
    await cluster.reconcile()
    cluster.run()


async def as_before(cluster: Cluster) -> str:
    """Have a bus run as up to v0.2: by an issuer of all, with what cert-manager says to trust."""
    for each in wanted(SHARED):
        await cluster.api.apply(cert_manager(SHARED, each))
    cluster.issue()
    cluster.run(replace(SHARED, cert_manager=False))
    return cluster.issuers["all"].bundle


async def test_a_new_bus_has_a_root_of_its_own_at_once(cluster: Cluster) -> None:
    await started(cluster)

    assert cluster.step() == (True, False)
    cluster.meet()
    await cluster.meet_operator()
    assert cluster.clients_trust == cluster.issuers["orders.root"].bundle


async def test_nobody_but_the_operators_own_root_signs_for_it(cluster: Cluster) -> None:
    await started(cluster)
    operators, trust = cluster.operators.bundle, cluster.files["partition"]["ca.crt"]

    for issuer in (cluster.issuers["all"], certificate_authority.new_authority(START)):
        minted = certificate_authority.issue(
            issuer, name="x", dns_names=(), uris=[names.OPERATOR_IDENTITY], days=9, now=START
        )
        with pytest.raises(AssertionError, match="not trusted"):
            verify(minted.certificate, trust, START)
    # And what proves the operator proves nothing to front ends and clients.
    assert operators not in cluster.files["frontend"]["ca.crt"] + cluster.clients_trust
    with pytest.raises(AssertionError, match="not trusted"):
        verify(cluster.files["frontend"]["tls.crt"], operators, START)


async def test_until_cert_manager_has_made_the_root_pods_and_operator_wait(
    cluster: Cluster,
) -> None:
    await cluster.reconcile()

    assert not cluster.secret(names.trust(BUS))
    assert cluster.clients_trust == ""
    with pytest.raises(ApiError, match="cert-manager") as raised:
        await cluster.controller.operator_material(BUS)
    assert not raised.value.final


@pytest.mark.parametrize("order", list(itertools.permutations(ROLES)))
async def test_a_bus_goes_over_from_the_issuer_of_all_without_a_moment_of_distrust(
    cluster: Cluster, order: tuple[str, ...]
) -> None:
    shared = await as_before(cluster)

    async def look() -> None:
        """Files arrive in this order, and everybody meets after each."""
        await cluster.reconcile()
        cluster.issue()
        await cluster.reconcile()
        for role in order:
            cluster.mount(role)
            cluster.meet()

    await look()
    assert cluster.step() == (False, True)
    cluster.meet(shared)
    cluster.run()
    cluster.meet()
    await cluster.meet_operator()
    first_trust = cluster.clients_trust

    cluster.clock.now += DAY
    await look()
    assert cluster.step() == (True, True)
    cluster.meet(first_trust)
    await cluster.meet_operator()

    cluster.clock.now += DAY
    await look()
    assert cluster.step() == (True, False)
    cluster.meet(first_trust)
    await cluster.meet_operator()
    assert shared not in "".join(files["ca.crt"] for files in cluster.files.values())


async def test_before_the_new_root_is_made_a_running_bus_is_left_as_it_is(cluster: Cluster) -> None:
    shared = await as_before(cluster)

    await cluster.reconcile()
    cluster.mount(*ROLES)

    cluster.meet(shared)
    asked = cluster.api.one("Certificate", names.partition_tls(BUS))["spec"]["issuerRef"]["name"]
    assert asked == "all"


async def test_certificates_change_hands_only_when_all_pods_know_both_roots(
    cluster: Cluster,
) -> None:
    await as_before(cluster)
    await cluster.reconcile()
    cluster.issue()
    await cluster.reconcile()

    cluster.clock.now += 5 * DAY
    await cluster.reconcile()

    # Pods run by the former templates still: a new image that does not start, say.
    assert cluster.step() == (False, True)
    cluster.run()
    await cluster.reconcile()
    assert cluster.step() == (True, True)


async def test_a_former_root_is_trusted_until_cert_manager_has_issued_anew(
    cluster: Cluster,
) -> None:
    await as_before(cluster)
    await cluster.reconcile()
    cluster.issue()
    await cluster.reconcile()
    cluster.run()
    for _ in range(4):
        # cert-manager stands still.
        cluster.clock.now += DAY
        await cluster.reconcile()

    assert cluster.step() == (True, True)
    cluster.meet()


async def test_a_certificate_that_ends_does_not_wait_for_the_days_to_pass(
    cluster: Cluster,
) -> None:
    await as_before(cluster)
    cluster.clock.now += 89 * DAY
    await cluster.reconcile()
    cluster.issue()
    await cluster.reconcile()

    assert cluster.step() == (True, True)


async def test_a_root_that_was_made_anew_is_trusted_beside_the_one_before(
    cluster: Cluster,
) -> None:
    await started(cluster)
    before = cluster.clients_trust

    cluster.api.remove("Secret", "shop", names.root(BUS))
    cluster.issue()
    await cluster.reconcile()
    cluster.clock.now += 3 * DAY
    await cluster.reconcile()
    cluster.mount(*ROLES)

    cluster.meet()
    cluster.meet(before)
    assert cluster.issuers["orders.root"].bundle in cluster.clients_trust


async def test_a_bus_that_comes_back_is_trusted_by_who_trusted_it(cluster: Cluster) -> None:
    await started(cluster)
    before = cluster.clients_trust
    for kind, name in [
        *(("Certificate", each.secret) for each in wanted(OWN)),
        ("StatefulSet", names.partition_set(BUS)),
        ("Secret", names.trust(BUS)),
    ]:
        cluster.api.remove(kind, "shop", name)

    await started(cluster)

    assert cluster.step() == (True, False)
    cluster.meet(before)


async def test_with_a_named_issuer_pods_trust_what_it_says_and_the_operators_root(
    cluster: Cluster,
) -> None:
    for _ in range(2):
        await cluster.reconcile(SHARED)
        cluster.issue()
    await cluster.reconcile(SHARED)
    cluster.run(SHARED)

    cluster.meet(cluster.issuers["all"].bundle)
    await cluster.meet_operator()
    assert "Issuer" not in {kind for kind, _, _ in cluster.api.objects}


@pytest.mark.parametrize("spoilt", [{}, {"since": "soon"}, {"roots.crt": "x"}, {"issuer": "x"}])
async def test_a_spoilt_secret_is_made_anew(cluster: Cluster, spoilt: dict[str, str]) -> None:
    await started(cluster)
    files = cluster.secret(names.trust(BUS))
    cluster.put(names.trust(BUS), {**files, **spoilt} if spoilt else {})

    await cluster.reconcile()

    assert cluster.secret(names.trust(BUS)) == files


def test_certificates_that_cannot_be_read_are_not_trusted() -> None:
    assert trusted_roots.readable("-----BEGIN nonsense") == ""
    assert trusted_roots.without("nonsense", "") == ""
