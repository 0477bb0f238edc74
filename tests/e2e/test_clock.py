"""A node's wall clock that jumps: libfaketime skews one bus's processes."""

import pytest

from tests.e2e import images
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.conftest import Space


def warnings(space: Space) -> set[str]:
    """Return the types of all conditions of the bus."""
    status = space.cluster.get("BusNamespace", "bus", space.name)["status"]
    return {condition["type"] for condition in status["conditions"]}


@pytest.fixture(scope="session")
def skewed(cluster: Cluster) -> str:
    if cluster.nodes is None:
        pytest.skip("an image with libfaketime can be loaded only on nodes of shared/cluster")
    return images.skewed(cluster)


def set_clock(space: Space, offset: str) -> None:
    """Set the clock of the partition's process, by libfaketime's file."""
    command = f"echo '{offset}' > /var/lib/bendybus/clock"
    space.cluster.kubectl("exec", "bus-partition-0", "-n", space.name, "--", "sh", "-c", command)


def test_a_clock_that_jumps_a_day_ahead_expires_nothing_and_is_reported(
    space: Space, skewed: str
) -> None:
    space.start(
        space.bus("bus", 1, image=skewed),
        space.queue("orders", "bus", defaultMessageTimeToLive="PT1H"),
    )
    space.say("echo precious | bendybus send orders")

    set_clock(space, "+1d")
    said = space.say("echo next | bendybus send orders")
    eventually(lambda: "ClockJump" in warnings(space), within_s=30, what="the jump is reported")
    set_clock(space, "+0")

    assert "1 sent" in said
    received = space.say("bendybus receive orders --max 2")
    assert "precious" in received
    assert "next" in received
