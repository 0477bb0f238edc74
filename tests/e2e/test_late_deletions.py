"""Deletions that are carried out late: nothing goes that its manifest did not allow."""

import json

from tests.e2e.cluster import Body, eventually
from tests.e2e.conftest import Installation, Space, fresh_space

PAUSED = "bendybus.io/paused"


def orphans(space: Space) -> list[str]:
    """Return the orphaned entities of the bus."""
    status = space.cluster.get("busnamespace", "bus", space.name)["status"]
    found: list[str] = status.get("orphaned") or []
    return found


def test_what_is_sent_while_a_bus_is_paused_survives_the_deletion_of_its_queue(
    space: Space,
) -> None:
    cluster = space.cluster
    space.start(
        space.bus("bus", 2),
        space.queue("orders", "bus", deletionPolicy="Delete"),
        space.queue("empty", "bus", deletionPolicy="Delete"),
    )
    cluster.kubectl("annotate", "busnamespace", "bus", "-n", space.name, f"{PAUSED}=true")
    cluster.await_reason("BusNamespace", "bus", space.name, "Paused")

    # Both are empty: the webhook lets them go.
    cluster.kubectl("delete", "queue", "orders", "empty", "-n", space.name)
    assert "1 sent" in space.say("echo orchid | bendybus send orders")
    cluster.kubectl("annotate", "busnamespace", "bus", "-n", space.name, f"{PAUSED}-")

    eventually(lambda: orphans(space) == ["orders"], within_s=60, what="one is orphaned")
    assert "orchid" in space.say("bendybus receive orders")
    assert "empty" not in space.say("bendybus get queues --all")


def test_a_namespace_that_may_not_use_the_bus_any_more_or_was_recreated_deletes_nothing(
    installation: Installation, space: Space
) -> None:
    cluster = space.cluster
    with fresh_space(installation, "guests") as guests:
        space.start(space.bus("bus", 1, allowedNamespaces=[guests.name]))
        for name in ("narrowed", "recreated"):
            guests.start(of_guest(guests, space, name))
            assert "1 sent" in space.say(f"echo orchid | bendybus send {name}")

        # The webhook asks nothing when a Kubernetes namespace ends.
        pause(space, "true")
        cluster.apply(space.bus("bus", 1, allowedNamespaces=[]))
        cluster.kubectl("delete", "namespace", guests.name, "--timeout=60s")
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": guests.name}})
        cluster.apply(space.bus("bus", 1, allowedNamespaces=[guests.name]))
        pause(space, "false")

        eventually(
            lambda: orphans(space) == ["narrowed", "recreated"],
            within_s=60,
            what="both are orphaned",
        )
        for name in ("narrowed", "recreated"):
            assert "orchid" in space.say(f"bendybus receive {name}")


def of_guest(guests: Space, space: Space, name: str) -> Body:
    """Return a queue of another Kubernetes namespace, with its data deleted when it goes."""
    made = guests.queue(name, "bus", deletionPolicy="Delete")
    made["spec"]["namespaceRef"]["namespace"] = space.name
    return made


def pause(space: Space, value: str) -> None:
    patch = json.dumps({"metadata": {"annotations": {PAUSED: value}}})
    space.cluster.kubectl(
        *("patch", "busnamespace", "bus", "-n", space.name, "--type=merge", "-p", patch)
    )
    if value == "true":
        space.cluster.await_reason("BusNamespace", "bus", space.name, "Paused")
