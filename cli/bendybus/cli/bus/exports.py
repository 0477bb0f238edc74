"""A bus that runs, as manifests: what `convert` writes without a file."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bendybus.cli.bus import bus_choice, cluster
from bendybus.cli.bus.bus_choice import Choice
from bendybus.cli.bus.cluster import ClusterChoice
from bendybus.cli.bus.kubectl import Kubectl
from bendybus.cli.bus.management import Management
from bendybus.crds.bundle import NamespaceSettings
from bendybus.domain.entity_settings import Description
from bendybus.domain.errors import EntityNotFound
from bendybus.domain.limits import Tier
from bendybus.wire import entities

if TYPE_CHECKING:
    from bendybus.crds.conversion import Conversion


def running(choice: Choice) -> "Conversion":
    """Return the manifests of the bus that a command addresses. Raises CliError, BusError.

    Keys of policies are not in manifests. Entities that nobody owns any more are left out.
    """
    from bendybus.crds.conversion import Conversion, Finding, Outcome
    from bendybus.crds.exports import manifests
    from bendybus.crds.imports import reading
    from bendybus.crds.policy_names import PolicyNames

    policies = [] if choice.cluster is None else list(_on_cluster(choice.cluster))
    left_out: list[str] = []
    left: list[Finding] = []
    names = PolicyNames()
    with (
        bus_choice.target(choice) as target,
        Management(target.connection_string, ca_file=target.ca_file) as bus,
    ):
        settings = bus.namespace_settings()
        found = list(_entities(bus, left_out))
    policies += [
        (each.name, sorted(right.value for right in each.rights), path)
        for path, description in found
        for each in getattr(description, "authorization_rules", ())
    ]
    if choice.cluster is None and bus_choice.named_connection_string(choice):
        # A bus on this machine has none.
        what = "are in the manifest of the bus, if it is on a cluster: use bendybus --kube convert."
        left.append(
            Finding(f"BusNamespace {settings.name}.authorizationRules", Outcome.NOT_SUPPORTED, what)
        )
    documents = [
        manifests.namespace(settings, manifests.policies(policies, names, left)),
        *manifests.entities(settings, found, left),
    ]
    made = reading.of_manifests(f"bus {settings.name}", [("", each) for each in documents])
    left += [
        Finding(each, Outcome.NOT_SUPPORTED, "is left out: no manifest owns it any more.")
        for each in left_out
    ]
    return Conversion(made.source, made.documents, made.bundle, tuple(left), names.own)


def _entities(bus: Management, left_out: list[str]) -> Iterator[tuple[str, Description]]:
    for each in bus.everything(runtime=False, orphaned=True):
        kind, name = entities.kind_of(each), entities.name_of(each)
        if each.orphaned:
            left_out.append(f"{kind} {name}")
            continue
        try:
            # Lists have neither rules nor policies.
            whole = bus.entity(kind, name, runtime=False)
        except EntityNotFound:
            # It was deleted since.
            continue
        yield name, entities.description_from_proto(whole.description)


def _on_cluster(choice: ClusterChoice) -> Iterator[tuple[str, list[str], str]]:
    """Yield the policies of a bus, which are in its manifest."""
    spec = spec_on_cluster(choice)
    for each in spec.get("authorizationRules") or ():
        yield each["name"], list(each["rights"]), each.get("entity") or ""


def spec_on_cluster(choice: ClusterChoice) -> Mapping[str, Any]:
    """Return the spec of the BusNamespace that is meant. Raises CliError."""
    key = cluster.find(choice.kubectl, choice.bus)
    body = Kubectl(choice.context, key.namespace).json("get", cluster.BUSES, key.name)
    found: Mapping[str, Any] = body.get("spec") or {}
    return found


def settings_on_cluster(choice: ClusterChoice) -> NamespaceSettings:
    """Return the bus that is meant as manifests are checked against it. Raises CliError."""
    from bendybus.domain import partitioning

    key = cluster.find(choice.kubectl, choice.bus)
    spec = spec_on_cluster(choice)
    tier = Tier((spec.get("sku") or {}).get("tier", Tier.STANDARD))
    count = partitioning.namespace_partition_count(tier, spec.get("premiumMessagingPartitions"))
    return NamespaceSettings(key.name, tier, count)
