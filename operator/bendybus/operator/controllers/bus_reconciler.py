"""Reconciles the Kubernetes objects of one bus: Secrets, volumes, pods, Services."""

import contextlib
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bendybus.operator.builders import certificates, children, frontend, partitions, secret_files
from bendybus.operator.builders.context import Context, metadata
from bendybus.operator.certificates.cert_manager_issuer import CertManagerIssuer
from bendybus.operator.certificates.certificate_authority import end_of, names_of
from bendybus.operator.certificates.operator_issuer import OperatorIssuer, files_of
from bendybus.operator.decisions import conditions, storage
from bendybus.operator.decisions.conditions import PodTrouble
from bendybus.operator.decisions.manifests import BusView
from bendybus.operator.decisions.reasons import Reason
from bendybus.operator.decisions.storage import ADOPTED_BY_ANNOTATION, DataDecision, Growth, grown
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.api import ApiError, KubernetesApi
from bendybus.operator.kubernetes.names import ObjectKey
from bendybus.operator.settings import Settings

logger = logging.getLogger(__name__)
Body = dict[str, Any]
HANDOVER_MANAGER: Final = "bendybus-operator-replicas"
# More than any bus has; further pods with its labels are ignored.
PODS_MAX: Final = 250
# Kinds of optional objects, which are deleted when the manifest no longer requests them.
PRUNED: Final = ("PodDisruptionBudget", "HorizontalPodAutoscaler")


@dataclass(frozen=True, slots=True)
class CertificateExpiry:
    """When the certificates of a bus expire.

    `overdue`: Secrets whose certificates are overdue for renewal; `ends`: role → when its
    certificate expires, seconds since 1970, if it can be read.
    """

    overdue: tuple[str, ...] = ()
    ends: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """The result of reconciling a bus."""

    decision: DataDecision
    frontends_ready: int
    certificates: CertificateExpiry = CertificateExpiry()


class BusReconciler:
    """Reconciles the objects of buses; keeps no state between calls."""

    def __init__(
        self,
        api: KubernetesApi,
        settings: Settings,
        authority: OperatorIssuer,
        issued: CertManagerIssuer,
    ) -> None:
        self._api = api
        self._settings = settings
        self._authority = authority
        self._issued = issued

    async def reconcile(self, view: BusView) -> ReconcileResult:
        """Apply all objects of a bus. Raises ApiError; safe to repeat."""
        assert view.manifest is not None
        claims = await self._claims(view.key)
        current = await self._api.get(
            "StatefulSet", view.key.namespace, names.partition_set(view.key)
        )
        decision = storage.decision(view, storage.known(view, claims, current))
        if decision.identity is None:
            return ReconcileResult(decision, 0)
        for name in decision.purge:
            logger.warning(
                "bus %s: deleting volume claim %s, as its manifest requests",
                view.key,
                name,
                extra={"action": "purge"},
            )
            await self._api.delete("PersistentVolumeClaim", view.key.namespace, name)
        for name in decision.adopt:
            patch = {"metadata": {"annotations": {ADOPTED_BY_ANNOTATION: view.uid}}}
            await self._api.merge("PersistentVolumeClaim", view.key.namespace, name, patch)
        try:
            return await self._make(self._context(view, decision), decision, claims, current)
        except ApiError as error:
            if not error.final:
                raise
            # A quota, a policy of the cluster, a name in use: what runs continues to run.
            message = f"cannot create the objects of the bus: {error.message}"
            refused = replace(decision, reason=Reason.REFUSED, message=message)
            return ReconcileResult(refused, 0, await self.certificates_of(view.key))

    async def _make(
        self, context: Context, decision: DataDecision, claims: list[Body], current: Body | None
    ) -> ReconcileResult:
        _check_ours(context, current)
        if current is None:
            await self._check_names(context)
        trust = await self._certificates(context, current)
        if trust:
            # Until cert-manager has issued the root, applications and front ends wait for their
            # Secrets, instead of starting without a CA certificate.
            await self._access(context, trust)
        staying = [
            claim
            for claim in storage.staying(claims)
            if claim["metadata"]["name"] not in decision.purge
        ]
        growth = grown(context.spec.storage.size, staying)
        why = await self._grow(context, growth)
        decision = growth.judged(decision, why)
        context = replace(context, storage_size=growth.template_size(current, why))
        if current is not None and growth.differs(current, context.storage_size):
            await self._release_pods(current)
        await self._hand_over_replicas(context)
        made = [await self._api.apply(body) for body in children.all_of(context)]
        await self._prune(context, made)
        return ReconcileResult(
            decision, _frontends_ready(made), await self.certificates_of(context.bus)
        )

    async def renew(self, bus: ObjectKey) -> None:
        """Renew the certificates of a bus that is not reconciled otherwise. Raises ApiError.

        Their names are read from the certificates: the manifest may be invalid.
        """
        if self._settings.cert_manager:
            return
        found = await self._api.get("Secret", bus.namespace, names.partition_tls(bus))
        if found is None:
            return
        of_found = found["metadata"]
        kept = {"name": names.authority(bus), "namespace": bus.namespace} | {
            field: of_found[field] for field in ("labels", "ownerReferences") if field in of_found
        }
        of_bus = await self._authority.of_bus(bus, kept)
        for role, name in certificates.secrets(bus):
            files = files_of(await self._api.get("Secret", bus.namespace, name))
            try:
                dns_names, uris, addresses = names_of(files["tls.crt"])
                wanted = certificates.Wanted(role, name, dns_names, uris[0], addresses)
            except (LookupError, ValueError):
                # Damaged, or not issued by the operator: its names are unknown.
                continue
            renewed = await self._authority.bus_certificate(wanted, files, of_bus)
            if renewed != {each: files.get(each) for each in renewed}:
                logger.warning(
                    "bus %s: certificate %s renewed; the bus is not reconciled otherwise",
                    bus,
                    name,
                    extra={"action": "renewed"},
                )
                patch = {"data": secret_files.encoded(renewed)}
                await self._api.merge("Secret", bus.namespace, name, patch)

    async def pod_troubles(self, bus: ObjectKey) -> list[PodTrouble]:
        """Return what keeps the pods of a bus from running. Raises ApiError."""
        labels = names.bus_labels(bus)
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        found = await self._api.statuses("Pod", bus.namespace, labels=selector, most=PODS_MAX)
        return conditions.troubles_of(found)

    async def certificates_of(self, bus: ObjectKey) -> CertificateExpiry:
        """Return when the certificates of a bus expire, of any issuer. Raises ApiError."""
        late: list[str] = []
        ends: dict[str, float] = {}
        for role, name in certificates.secrets(bus):
            secret = await self._api.get("Secret", bus.namespace, name)
            if secret is None:
                continue
            files = files_of(secret)
            if self._authority.overdue(files):
                late.append(name)
            with contextlib.suppress(KeyError, ValueError):
                ends[role] = end_of(files["tls.crt"]).timestamp()
        return CertificateExpiry(tuple(late), ends)

    async def _hand_over_replicas(self, context: Context) -> None:
        """Preserve the number of front ends when an autoscaler takes over.

        If the only manager that has applied the field stops applying it, it is reset to 1.
        """
        autoscaler, name = frontend.autoscaler(context), names.frontend(context.bus)
        place = context.bus.namespace
        if autoscaler is None or await self._api.get(autoscaler["kind"], place, name) is not None:
            return
        current = await self._api.get("Deployment", place, name)
        if current is not None:
            body = frontend.replicas_only(context, current["spec"].get("replicas", 1))
            await self._api.apply(body, manager=HANDOVER_MANAGER)

    async def _check_names(self, context: Context) -> None:
        """Raise ApiError if a new bus would take over an object that does not belong to it."""
        wanted = [(body["kind"], body["metadata"]["name"]) for body in children.all_of(context)]
        wanted.append(("Secret", names.policies(context.bus)))
        if context.cert_manager:
            wanted.append(("Secret", names.trust(context.bus)))
        else:
            # Secrets of cert-manager carry no labels of the bus, and outlive their Certificate.
            wanted += [("Secret", each.secret) for each in certificates.wanted(context)]
            wanted.append(("Secret", names.authority(context.bus)))
        for kind, name in wanted:
            _check_ours(context, await self._api.get(kind, context.bus.namespace, name))

    async def _release_pods(self, stateful_set: Body) -> None:
        """Delete a StatefulSet without its pods; the next one adopts them. Raises ApiError."""
        metadata = stateful_set["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        await self._api.delete("StatefulSet", namespace, name, orphan=True)
        if await self._api.get("StatefulSet", namespace, name) is not None:
            # Deletion is asynchronous; until it is done the StatefulSet is unchanged.
            raise ApiError(409, f"StatefulSet {name} is being recreated")

    async def forget(self, view: BusView) -> None:
        """Delete the volumes of a bus whose manifest was deleted with deletionPolicy Delete."""
        for body in await self._claims(view.key):
            claim = storage.claim_of(body)
            # Another manifest may have adopted them meanwhile.
            if claim is not None and view.uid == (claim.adopted_by or claim.identity.uid):
                await self._api.delete("PersistentVolumeClaim", view.key.namespace, claim.name)

    def _context(self, view: BusView, decision: DataDecision) -> Context:
        assert view.manifest is not None
        assert decision.identity is not None
        settings = self._settings
        return Context(
            bus=view.key,
            uid=view.uid,
            spec=view.manifest.spec,
            identity=decision.identity,
            storage_size=view.manifest.spec.storage.size,
            image=view.manifest.spec.image or settings.image,
            image_pull_policy=settings.image_pull_policy,
            operator_namespace=settings.namespace,
            image_pull_secrets=settings.image_pull_secrets,
            run_as_user=settings.run_as_user,
            metrics_from=tuple(json.loads(settings.metrics_from)),
            cert_manager=settings.cert_manager,
            issuer_kind=settings.issuer_kind,
            issuer_name=settings.issuer_name,
            created_at=view.created_at,
        )

    async def _claims(self, bus: ObjectKey) -> list[Body]:
        selector = f"{names.BUS_LABEL}={bus.name},{names.ROLE_LABEL}={partitions.ROLE}"
        return await self._api.list("PersistentVolumeClaim", bus.namespace, labels=selector)

    async def _certificates(self, context: Context, current: Body | None) -> str:
        """Reconcile the certificates; return what clients are to trust."""
        if context.cert_manager:
            return await self._issued.reconcile(context, current)
        await self._check_not_issued(context.bus)
        kept = metadata(context, names.authority(context.bus), owned=not context.keeps_data)
        of_bus = await self._authority.of_bus(context.bus, kept)
        for wanted in certificates.wanted(context):
            secret = await self._api.get("Secret", context.bus.namespace, wanted.secret)
            files = files_of(secret)
            renewed = await self._authority.bus_certificate(wanted, files, of_bus)
            if renewed != {name: files.get(name) for name in renewed}:
                await self._api.apply(secret_files.tls(context, wanted.role, renewed))
        return of_bus.trust

    async def _check_not_issued(self, bus: ObjectKey) -> None:
        """Raise ApiError if cert-manager issued the certificates: pods trust no other root."""
        if await self._api.get("Secret", bus.namespace, names.trust(bus)) is None:
            return
        raise ApiError(
            403,
            f"its certificates were issued by cert-manager (Secret {names.trust(bus)!r}), but "
            "certManager.enabled is false now. Set certManager.enabled=true again; or delete that "
            "Secret and the Certificates of the bus, which interrupts the bus for some minutes.",
        )

    async def _access(self, context: Context, trust: str) -> None:
        namespace = context.bus.namespace
        found = {}
        for name, _, _ in secret_files.rules(context.spec):
            wanted = names.access_secret(context.bus, name)
            secret = await self._api.get("Secret", namespace, wanted)
            if secret is not None:
                _check_ours(context, secret)
                found[name] = secret
        known = secret_files.policies_of(context.spec, found, os.urandom)
        for policy in known:
            await self._api.apply(secret_files.access(context, policy, trust))
        await self._api.apply(secret_files.policies(context, known))
        kept = {names.access_secret(context.bus, policy.name) for policy in known}
        selector = f"{names.BUS_LABEL}={context.bus.name},{names.ROLE_LABEL}=access"
        for secret in await self._api.list("Secret", namespace, labels=selector):
            if secret["metadata"]["name"] not in kept:
                await self._api.delete("Secret", namespace, secret["metadata"]["name"])

    async def _grow(self, context: Context, growth: Growth) -> str:
        """Request larger volumes; return why the cluster rejects that, or ""."""
        patch = {"spec": {"resources": {"requests": {"storage": growth.wanted}}}}
        try:
            for name in growth.claims:
                await self._api.merge("PersistentVolumeClaim", context.bus.namespace, name, patch)
        except ApiError as error:
            if error.status not in (403, 422):
                raise
            return error.message
        return ""

    async def _prune(self, context: Context, made: list[Body]) -> None:
        wanted = {(body["kind"], body["metadata"]["name"]) for body in made}
        labels = names.bus_labels(context.bus)
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        for kind in PRUNED:
            for body in await self._api.list(kind, context.bus.namespace, labels=selector):
                name = body["metadata"]["name"]
                if (kind, name) not in wanted:
                    await self._api.delete(kind, context.bus.namespace, name)


def _check_ours(context: Context, body: Body | None) -> None:
    """Raise ApiError for an object that does not belong to this bus."""
    if body is None:
        return
    owner = (body["metadata"].get("labels") or {}).get(names.BUS_LABEL)
    is_access = body["kind"] == "Secret" and "primaryKey" in (body.get("data") or {})
    # A Secret with keys may exist before the bus, written by hand or kept from an earlier one.
    if owner != context.bus.name and not (owner is None and is_access):
        what = f"{body['kind']} {body['metadata']['name']!r}"
        raise ApiError(
            403,
            f"{what} already exists and does not belong to this bus. Delete it, or choose another "
            "name for the BusNamespace or its policy.",
        )


def _frontends_ready(made: list[Body]) -> int:
    for body in made:
        if (
            body["kind"] == "Deployment"
            and body["metadata"]["labels"].get(names.ROLE_LABEL) == frontend.ROLE
        ):
            return int((body.get("status") or {}).get("readyReplicas") or 0)
    return 0
