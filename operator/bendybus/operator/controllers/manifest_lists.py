"""Reads all manifests that the API server has."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from bendybus.crds import loading
from bendybus.domain.entity_kind import EntityKind
from bendybus.operator.decisions import manifests
from bendybus.operator.decisions.manifests import BusView, EntityView
from bendybus.operator.kubernetes.api import ApiError, Body, KubernetesApi

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ManifestLists:
    """All manifests. `kinds`: the kinds of entities that could be listed."""

    buses: list[BusView]
    entities: list[EntityView]
    kinds: frozenset[EntityKind]


async def read(api: KubernetesApi, namespaces: Iterable[str]) -> ManifestLists:
    """Return the manifests of these namespaces; "" is all of them. Raises ApiError."""
    buses: list[Body] = []
    entities: list[Body] = []
    kinds = set(EntityKind)
    for namespace in namespaces:
        buses += await api.list("BusNamespace", namespace)
        for kind in EntityKind:
            found = await _of_kind(api, kind, namespace)
            if found is None:
                kinds.discard(kind)
            else:
                entities += found
    return ManifestLists(
        [manifests.bus_view(body) for body in buses],
        [manifests.entity_view(body) for body in entities],
        frozenset(kinds),
    )


async def _of_kind(api: KubernetesApi, kind: EntityKind, namespace: str) -> list[Body] | None:
    """Return the manifests of a kind; None if they cannot be listed. Raises ApiError.

    An upgrade may have left out the CustomResourceDefinitions, or the rights, of kinds that came
    later: queues are served without them.
    """
    object_kind = loading.ENTITIES[kind].KIND
    try:
        return await api.list(object_kind, namespace)
    except ApiError as error:
        if kind is EntityKind.QUEUE or error.status not in (403, 404):
            raise
        logger.warning(
            "operator: %s manifests are not served: %s. Apply the CustomResourceDefinitions and "
            "the ClusterRole of this version",
            object_kind,
            error.message,
            extra={"action": "not-served"},
        )
        return None
