"""Brings the objects of one bus to what its manifest says: Secrets, volumes, pods, Services."""

import logging
import os
from dataclasses import dataclass, replace
from typing import Any, Final

from bendybus.operator import access_keys, data_identity, names
from bendybus.operator.authority import OwnAuthority, files_of
from bendybus.operator.builders import (
    certificates,
    children,
    frontend,
    partitions,
    secret_files,
)
from bendybus.operator.builders.context import Context
from bendybus.operator.data_identity import ADOPTED_BY_ANNOTATION, Footing
from bendybus.operator.kubernetes_api import ApiError, KubernetesApi
from bendybus.operator.names import ObjectKey
from bendybus.operator.settings import Settings
from bendybus.operator.storage import Growth, grown
from bendybus.operator.world import BusView

logger = logging.getLogger(__name__)
Body = dict[str, Any]
# What may be there without being wanted any more.
PRUNED: Final = ("PodDisruptionBudget", "HorizontalPodAutoscaler")


@dataclass(frozen=True, slots=True)
class Kept:
    """What came of it."""

    footing: Footing
    frontends_ready: int


class BusKeeping:
    """Keeps the objects of buses; holds nothing between calls but what it is made of."""

    def __init__(self, api: KubernetesApi, settings: Settings, authority: OwnAuthority) -> None:
        self._api = api
        self._settings = settings
        self._authority = authority

    async def keep(self, view: BusView) -> Kept:
        """Apply all objects of a bus. Raises ApiError; safe to repeat."""
        assert view.manifest is not None
        claims = await self._claims(view.key)
        current = await self._api.get(
            "StatefulSet", view.key.namespace, names.partition_set(view.key)
        )
        footing = data_identity.footing(view, data_identity.known(view, claims, current))
        if footing.identity is None:
            return Kept(footing, 0)
        for name in footing.purge:
            logger.warning(
                "bus %s: deleting volume claim %s, as its manifest asks",
                view.key,
                name,
                extra={"action": "purge"},
            )
            await self._api.delete("PersistentVolumeClaim", view.key.namespace, name)
        for name in footing.adopt:
            patch = {"metadata": {"annotations": {ADOPTED_BY_ANNOTATION: view.uid}}}
            await self._api.merge("PersistentVolumeClaim", view.key.namespace, name, patch)
        context = self._context(view, footing)
        await self._certificates(context)
        await self._access(context)
        growth = grown(context.spec.storage.size, claims)
        why = await self._grow(context, growth)
        footing = growth.judged(footing, why)
        context = replace(context, storage_size=growth.template_size(current, why))
        if current is not None and growth.differs(current, context.storage_size):
            # The pods stay, and the new StatefulSet takes them over.
            name = current["metadata"]["name"]
            await self._api.delete("StatefulSet", view.key.namespace, name, orphan=True)
        made = [await self._api.apply(body) for body in children.all_of(context)]
        await self._prune(context, made)
        return Kept(footing, _frontends_ready(made))

    async def forget(self, view: BusView) -> None:
        """Delete the volumes of a bus whose manifest was seen to be deleted with policy Delete."""
        for body in await self._claims(view.key):
            claim = data_identity.claim_of(body)
            if claim is not None and view.uid in (claim.identity.uid, claim.adopted_by):
                await self._api.delete("PersistentVolumeClaim", view.key.namespace, claim.name)

    def _context(self, view: BusView, footing: Footing) -> Context:
        assert view.manifest is not None
        assert footing.identity is not None
        settings = self._settings
        return Context(
            bus=view.key,
            uid=view.uid,
            spec=view.manifest.spec,
            identity=footing.identity,
            storage_size=view.manifest.spec.storage.size,
            image=view.manifest.spec.image or settings.image,
            image_pull_policy=settings.image_pull_policy,
            operator_namespace=settings.namespace,
            issuer_kind=settings.issuer_kind,
            issuer_name=settings.issuer_name,
        )

    async def _claims(self, bus: ObjectKey) -> list[Body]:
        selector = f"{names.BUS_LABEL}={bus.name},{names.ROLE_LABEL}={partitions.ROLE}"
        return await self._api.list("PersistentVolumeClaim", bus.namespace, labels=selector)

    async def _certificates(self, context: Context) -> None:
        for wanted in certificates.wanted(context):
            if self._settings.issuer_name:
                await self._api.apply(certificates.cert_manager(context, wanted))
                continue
            secret = await self._api.get("Secret", context.bus.namespace, wanted.secret)
            files = files_of(secret)
            renewed = await self._authority.certificate(wanted, files)
            if renewed != {name: files.get(name) for name in renewed}:
                await self._api.apply(secret_files.tls(context, wanted.role, renewed))

    async def _access(self, context: Context) -> None:
        namespace = context.bus.namespace
        found = {}
        for name, _, _ in access_keys.rules(context.spec):
            wanted = names.access_secret(context.bus, name)
            secret = await self._api.get("Secret", namespace, wanted)
            if secret is not None:
                found[name] = secret
        known = access_keys.policies(context.spec, found, os.urandom)
        trust = files_of(
            await self._api.get("Secret", namespace, names.frontend_tls(context.bus))
        ).get("ca.crt", "")
        for policy in known:
            await self._api.apply(secret_files.access(context, policy, trust))
        await self._api.apply(secret_files.policies(context, known))
        kept = {names.access_secret(context.bus, policy.name) for policy in known}
        selector = f"{names.BUS_LABEL}={context.bus.name},{names.ROLE_LABEL}=access"
        for secret in await self._api.list("Secret", namespace, labels=selector):
            if secret["metadata"]["name"] not in kept:
                await self._api.delete("Secret", namespace, secret["metadata"]["name"])

    async def _grow(self, context: Context, growth: Growth) -> str:
        """Ask for larger volumes; return why the cluster does not give them, or ""."""
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
        selector = f"{names.BUS_LABEL}={context.bus.name}"
        for kind in PRUNED:
            for body in await self._api.list(kind, context.bus.namespace, labels=selector):
                name = body["metadata"]["name"]
                if (kind, name) not in wanted:
                    await self._api.delete(kind, context.bus.namespace, name)


def _frontends_ready(made: list[Body]) -> int:
    for body in made:
        if (
            body["kind"] == "Deployment"
            and body["metadata"]["labels"].get(names.ROLE_LABEL) == frontend.ROLE
        ):
            return int((body.get("status") or {}).get("readyReplicas") or 0)
    return 0
