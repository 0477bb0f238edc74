"""All objects of a bus, in the order in which they are made."""

from bendybus.operator.builders import frontend, network_policies, partitions
from bendybus.operator.builders.context import Context, Manifest


def all_of(context: Context) -> list[Manifest]:
    """Return what runs a bus. Secrets come before: pods wait for them.

    Services first, so that names resolve when pods start; partitions before front ends, which
    wait for them; budgets and policies last, since nothing waits for those.
    """
    made = [
        partitions.service(context),
        frontend.service(context),
        partitions.stateful_set(context),
        frontend.deployment(context),
        partitions.disruption_budget(context),
        frontend.disruption_budget(context),
        frontend.autoscaler(context),
        network_policies.partition_policy(context),
        network_policies.frontend_policy(context),
    ]
    return [each for each in made if each is not None]
